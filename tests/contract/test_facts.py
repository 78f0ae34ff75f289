"""The tables of pages are what they are made of: python/keystate/*.json."""

from __future__ import annotations

import json
from pathlib import Path

import keystate
import pytest
from keystate import ConfigurationError, PredefinedOptions
from pyspark.sql import SparkSession

from docs.site import tables

MADE = [page for page in tables.ROOT.glob("docs/**/*.md") if tables.TABLE.search(page.read_text())]


@pytest.mark.parametrize("page", MADE, ids=lambda page: page.name)
def test_the_tables_of_a_page_are_made_of_the_facts(page: Path) -> None:
    assert page in tables.PAGES
    text = page.read_text()
    assert text == tables.with_tables(text), "run make docs-tables"


def test_each_file_of_facts_is_on_a_page() -> None:
    text = "".join(page.read_text() for page in MADE)
    files = {path.stem for path in tables.FACTS.glob("*.json")}
    assert files == {found[1] for found in tables.TABLE.findall(text)} == set(tables.MADE)


def test_bounds_of_settings_that_python_has_too() -> None:
    settings = json.loads((tables.FACTS / "settings.json").read_text())
    options = settings["spark.keystate.rocksdb.predefinedOptions"]
    assert [option.value for option in PredefinedOptions] == options["values"]
    assert PredefinedOptions.DEFAULT.value == options["default"]
    most = settings["spark.keystate.maxParallelism"]["most"]
    with pytest.raises(ConfigurationError, match=f"must be 1 to {most}, got"):
        keystate.configure(SparkSession.builder, max_parallelism=most + 1)


def test_another_fact_makes_another_table(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    error = {"sqlState": "00000", "meaning": "m", "action": "a", "raisedBy": ["scala", "python"]}
    (tmp_path / "errors.json").write_text(tables.json.dumps({"KEYSTATE_A": error}))
    monkeypatch.setattr(tables, "FACTS", tmp_path)
    page = tables.with_tables("before\n<!-- errors.json -->\nold\n<!-- end -->\nafter\n")
    assert "\n| `KEYSTATE_A` | 00000 | m | a | Scala, Python |\n" in page
    assert page.startswith("before\n") and page.endswith("after\n") and "old" not in page
