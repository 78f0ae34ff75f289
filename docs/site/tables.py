"""Writes the tables of pages that are made of facts: python docs/site/tables.py.

The facts are what python/keystate/*.json has, which Scala and Python read. A table stands between
comments that name its file. tests/contract/test_facts.py compares pages and facts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
FACTS = ROOT / "python" / "keystate"
TABLE = re.compile(r"(<!-- (\w+)\.json -->\n).*?(<!-- end -->)", re.S)
LANGUAGES = {"python": "Python", "scala": "Scala"}


def errors(facts: dict[str, Any]) -> list[list[str]]:
    """The head of the table of errors, and its rows."""
    head = ["Code", "SQLSTATE", "What happened", "What to do", "Raised by"]
    rows = [
        [
            f"`{code}`",
            error["sqlState"],
            error["meaning"],
            error["action"],
            ", ".join(LANGUAGES[by] for by in error["raisedBy"]),
        ]
        for code, error in facts.items()
    ]
    return [head, *rows]


MADE: dict[str, Callable[[dict[str, Any]], list[list[str]]]] = {"errors": errors}
PAGES = [ROOT / "docs" / "errors.md"]


def with_tables(page: str) -> str:
    """A page with its tables as the facts are now."""

    def table(found: re.Match[str]) -> str:
        head, *rows = MADE[found[2]](json.loads((FACTS / f"{found[2]}.json").read_text()))
        lines = [head, ["---"] * len(head), *rows]
        text = "".join(f"| {' | '.join(cells)} |\n" for cells in lines)
        return f"{found[1]}\n{text}\n{found[3]}"

    return TABLE.sub(table, page)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_tables(page.read_text()))
