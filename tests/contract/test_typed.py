"""Dataclasses as rows in and out, in the harness; and what type checkers are told."""

from __future__ import annotations

import datetime
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from keystate import DeclarationError, FunctionError, KeyedProcessFunction
from keystate._operators.typed import output_schema_of, typed_rows
from keystate._types.ddl import parse_ddl
from keystate.testing import KeyedProcessHarness

from tests.typed_functions import TRADES, Alert, Place, Rises, Trade

UTC = datetime.timezone.utc
ROOT = Path(__file__).parents[2]


def at(millis: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(millis / 1000, UTC).astimezone().replace(tzinfo=None)


def test_rows_are_objects() -> None:
    with KeyedProcessHarness(Rises(), Trade, "symbol", row_type=Trade, event_time="at") as harness:
        assert harness.process(Trade("a", 1.0, at(1000), Place(1, 2.0))) == []
        assert harness.process(("a", 3.5, at(1001), (3, 4.0))) == [("a", 2.5, 1001)]
        assert harness.state("a", "last") == Trade("a", 3.5, at(1001), Place(3, 4.0))
        assert harness.advance_watermark(1010) == [("a", -3.5, 1010)]


def test_an_error_shows_the_object() -> None:
    class Fails(KeyedProcessFunction[str, Trade, Alert]):
        def process_element(self, value: Trade, ctx: Any) -> None:
            raise ValueError(value.symbol)

    harness = KeyedProcessHarness(Fails(), TRADES, "symbol", row_type=Trade)
    with pytest.raises(FunctionError, match=r"processing key 'a', row Trade\(symbol='a', price="):
        harness.process(("a", 1.0, at(0), None))


def test_a_class_without_parameters_needs_a_schema() -> None:
    class Plain(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: Any) -> Any:
            return value.symbol, 0.0, 0

    with pytest.raises(DeclarationError, match="Plain does not tell what it emits"):
        KeyedProcessHarness(Plain(), Trade, "symbol")
    harness = KeyedProcessHarness(Plain(), Trade, "symbol", Alert)
    assert harness.process(("a", 1.0, at(0), None)) == [("a", 0.0, 0)]


class Derived(Rises):
    """Inherits what it emits."""


class Numbers(KeyedProcessFunction[str, Trade, int]):
    def process_element(self, value: Trade, ctx: Any) -> int:
        return 1


def test_the_output_schema_of_a_class() -> None:
    assert output_schema_of(Derived(), None) is Alert
    assert output_schema_of(Numbers(), None) is int
    assert output_schema_of(Rises(), "n long") == "n long"


@dataclass
class Small:
    price: float
    symbol: str


SCHEMA = parse_ddl("symbol string, n int, price float, tags array<string>")


def test_columns_are_found_by_name() -> None:
    assert typed_rows(SCHEMA, Small)[0] == ["price", "symbol"]


@dataclass
class Missing:
    symbol: str
    volume: int


@dataclass
class Wrong:
    symbol: int


@dataclass
class WrongTags:
    tags: list[int]


@pytest.mark.parametrize(
    "row_type, message",
    [
        (Missing, "row_type Missing has a field 'volume', and the input no such column"),
        (Wrong, "row_type Wrong: the field 'symbol' is bigint, and the column string"),
        (WrongTags, "the field 'tags' is array<bigint>, and the column array<string>"),
        (int, "row_type is a dataclass, got <class 'int'>"),
    ],
)
def test_classes_that_do_not_fit(row_type: Any, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        typed_rows(SCHEMA, row_type)


@pytest.mark.turns
@pytest.mark.long
def test_what_type_checkers_are_told() -> None:
    """Each line of the file that has a comment is told just that by mypy, the others nothing."""
    path = ROOT / "tests" / "contract" / "revealed.py"
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", str(path), "--cache-dir", "out/mypy-revealed"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    told: dict[int, str] = {}
    for line in run.stdout.splitlines():
        found = re.match(
            rf"{re.escape(str(path.relative_to(ROOT)))}:(\d+): (note|error): (.*)", line
        )
        if found:
            told[int(found[1])] = re.sub(r"^Revealed type is \"(.*)\"$", r"\1", found[3])
    expected = {
        i: line.partition("  # ")[2]
        for i, line in enumerate(path.read_text().splitlines(), 1)
        if "  # " in line
    }
    assert expected
    assert told.keys() == expected.keys(), run.stdout + run.stderr
    assert [i for i in told if not told[i].startswith(expected[i])] == [], run.stdout
