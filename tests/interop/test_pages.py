"""The snippets in Scala of README.md and docs/ print what they show."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interop.pages import PAGES, ROOT, SNIPPET


@pytest.mark.turns
@pytest.mark.parametrize("number", range(len(PAGES)), ids=[page.name for page in PAGES])
def test_snippets_print_what_they_show(spark: Any, jvm: Any, number: int) -> None:
    expected = "".join(printed for _, printed in SNIPPET.findall(PAGES[number].read_text()))
    assert expected
    assert getattr(jvm, f"Page{number}").run(spark._jsparkSession) == expected


def test_every_page_with_scala_is_run() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    assert [page for page in pages if SNIPPET.search(page.read_text())] == PAGES
