"""Writes the tables of bench/README.md from bench/results.json: python -m bench.results.

The file has a workload for each heading of the page that has figures, or more with the same
`section`: what was measured, where, when and with which build, and the figures as printed.
README.md and docs/ show figures of no other place; tests/test_figures.py compares them. To show
new figures, change the file, run this module, and mend the pages that the test names.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("results.json")
PAGE = Path(__file__).with_name("README.md")
TABLES = re.compile(r"(<!--results:([\w-]+)-->\n).*?(<!--end-->)", re.S)
NUMBER = re.compile(r"(?<![\w.])\d(?:[\d,.]*\d)?(?!\w)")

Workload = dict[str, Any]


def load() -> dict[str, Workload]:
    """The workloads by the anchors of bench/README.md."""
    found: dict[str, Workload] = json.loads(FILE.read_text())
    return found


def as_text(workload: Workload) -> str:
    """What the page shows of a workload: its tables, and where they were measured."""
    parts = [f"*{table['unit']}*\n\n{_table(table)}" for table in workload["tables"]]
    more = [f"|{what}|{value}|\n" for what, value in workload.get("figures", {}).items()]
    if more:
        parts.append("".join(["|||\n", "|---|---|\n", *more]))
    build = f"{workload['date']} ({workload['commit']})"
    where = f"{build}, {workload['machine']}; {workload['setup']}.\n"
    return "\n".join([*parts, where])


def numbers(workload: Workload) -> set[str]:
    """All numbers that a page may show of a workload."""
    described = [workload[key] for key in ("title", "setup", "machine")]
    return set(NUMBER.findall(" ".join([as_text(workload), *described])))


def _table(table: dict[str, Any]) -> str:
    lines = [table["head"]]
    for row in table["rows"]:
        cells = [_cell(table, row, column) for column in range(1, len(row))]
        lines.append([row[0], *cells])
    head, *rows = (f"|{'|'.join(cells)}|\n" for cells in lines)
    return "".join([head, "|" + "---|" * len(table["head"]) + "\n", *rows])


def _cell(table: dict[str, Any], row: list[str], column: int) -> str:
    """A figure, and in parentheses how it compares with the one that the table names."""
    figure, times = row[column], table.get("times")
    if times is None or not figure:
        return figure
    if times["along"] == "rows":
        base = row[table["head"].index(times["of"])]
    else:
        base = next(line for line in table["rows"] if line[0] == times["of"])[column]
    if not base or base is figure:
        return figure
    ratio = _value(figure) / _value(base)
    return f"{figure} ({_ratio(1 / ratio if times.get('inverse') else ratio)})"


def _value(text: str) -> float:
    return float(text.replace(",", ""))


def _ratio(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def with_tables(page: str) -> str:
    """The page with its tables as the file has them now."""
    workloads = load()
    return TABLES.sub(lambda found: f"{found[1]}\n{as_text(workloads[found[2]])}\n{found[3]}", page)


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text()))
