"""The figures that pages show are those of bench/results.json."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench import results

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
PAGES = [README, *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
#: A link to the benchmarks of a workload, or of all of them.
MEASURED = re.compile(r"bench/README\.md(?:#([\w-]+))?\)")
#: A number with a unit of speed needs no link to be seen as a figure.
SPEED = re.compile(r"(?<![\w.-])(\d[\d.,]*)(?= (?:µs|rows/s|rows a second|times as fast))")
#: What is left out: versions, code, and what a link leads to.
NO_FIGURE = re.compile(r"(?:Spark|Flink|JDK|Python) [\d.]+|`[^`\n]*`|\]\([^)]*\)")
#: Where the picture's figures come from; its description stands in pages.
PICTURE = "overview.svg"
IN_PICTURE = ["figures", "restarts-and-rescaling"]


def test_the_tables_are_those_of_the_file() -> None:
    page = results.PAGE.read_text()
    assert len(results.TABLES.findall(page)) > 20
    assert results.with_tables(page) == page, "run python -m bench.results"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_shows_no_figure_of_another_place(page: Path) -> None:
    wrong = [
        f"{number}: {block[:80]}"
        for block in _blocks(page)
        for number in _figures(block)
        if not _is_known(number, _workloads(block))
    ]
    assert not wrong, "\n".join(wrong)


def test_the_picture_shows_figures_of_the_file() -> None:
    picture = (ROOT / "docs" / "img" / PICTURE).read_text()
    texts = re.findall(r"<text[^>]*>([^<]*)", picture)
    numbers = [number for text in texts for number in results.NUMBER.findall(text)]
    assert {"119", "0.40"} <= set(numbers)
    assert [n for n in numbers if not _is_known(n, IN_PICTURE)] == []


def test_a_figure_of_another_place_is_seen() -> None:
    block = "It takes 3.33 s ([figures](../bench/README.md#small-batches))."
    assert _figures(block) == ["3.33"]
    assert not _is_known("3.33", _workloads(block))
    assert _is_known("62", _workloads(block))
    assert _figures("In a closure 9,999 rows/s.") == ["9,999"]


def test_the_benchmarks_are_short() -> None:
    assert len(results.PAGE.read_text().split()) <= 3000


def _blocks(page: Path) -> Iterator[str]:
    """Paragraphs, items of lists and rows of tables; a table with what leads to it by a colon.

    The section on speed of the README is one.
    """
    text = FENCE.sub("", page.read_text())
    if page == README:
        before, speed = text.split("\n## Speed\n")
        speed, after = speed.split("\n## ", 1)
        yield speed.replace("#small-batches", "")
        text = before + after
    text = re.sub(r":\n\s*\n(?=\|)", ":\t", text)
    for block in re.split(r"\n(?:\s*\n|(?=\s*- |\d\. ))", text):
        yield from [block] if ":\t" in block else re.split(r"\n(?=\|)", block)


def _workloads(block: str) -> list[str]:
    if PICTURE in block:
        return IN_PICTURE
    named, workloads = MEASURED.findall(block), results.load()
    if not named or not all(named):
        return list(workloads)
    return [name for name, workload in workloads.items() if workload.get("section", name) in named]


def _figures(block: str) -> list[str]:
    if MEASURED.search(block) or PICTURE in block:
        return results.NUMBER.findall(NO_FIGURE.sub("", block))
    return [number.rstrip(".,") for number in SPEED.findall(block)]


def _is_known(shown: str, names: list[str]) -> bool:
    """Whether a workload has the number, or one that is rounded to it. Small counts may stand."""
    if re.fullmatch(r"\d", shown):
        return True
    digits = len(shown.partition(".")[2])
    workloads = results.load()
    known = set().union(*(results.numbers(workloads[name]) for name in names))
    values = [float(one.replace(",", "")) for one in known if one.count(".") < 2]
    shown_value = float(shown.replace(",", ""))
    return any(abs(one - shown_value) <= 0.5 * 10**-digits + 1e-9 for one in values)
