"""Writes the tables of pages that are made of facts: python -m docs.site.tables.

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
NONE = "\N{EN DASH}"
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


def settings(facts: dict[str, Any]) -> list[list[str]]:
    """The head of the table of settings, and its rows."""
    head = ["Key", "Values", "Default", "May change at a restart", "Meaning"]
    rows = [
        [
            f"`{key}`",
            _values(setting),
            _default(setting),
            NONE if setting.get("internal") else "yes" if setting["mayChange"] else "no",
            setting["meaning"],
        ]
        for key, setting in facts.items()
    ]
    return [head, *rows]


def _values(setting: dict[str, Any]) -> str:
    kind = setting["type"]
    if kind == "integer":
        return (
            f"{setting['least']} {'to ' + str(setting['most']) if 'most' in setting else 'or more'}"
        )
    if kind == "number":
        return f"between {setting['above']} and {setting['below']}"
    if kind == "text":
        return str(setting["allowed"])
    values = [False, True] if kind == "boolean" else setting["values"]
    return ", ".join(map(_literal, values))


def _default(setting: dict[str, Any]) -> str:
    if "default" not in setting:
        return str(setting.get("defaultInWords", NONE))
    return _literal(setting["default"])


def _literal(value: Any) -> str:
    return f"`{json.dumps(value)}`" if not isinstance(value, str) else f"`{value}`"


def as_text(head: list[str], *rows: list[str]) -> str:
    """A table as pages have it."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


Made = Callable[[dict[str, Any]], list[list[str]]]
MADE: dict[str, Made] = {"errors": errors, "settings": settings}
PAGES = [ROOT / "docs" / "errors.md", ROOT / "docs" / "configuration.md"]


def with_tables(page: str) -> str:
    """A page with its tables as the facts are now."""

    def table(found: re.Match[str]) -> str:
        made = MADE[found[2]](json.loads((FACTS / f"{found[2]}.json").read_text()))
        return f"{found[1]}\n{as_text(*made)}\n{found[3]}"

    return TABLE.sub(table, page)


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(with_tables(page.read_text()))
