"""A Python value means the same wherever a user hands it over, to a row's function or a batch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import keystate
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from keystate import (
    DeclarationError,
    KeyedBatchFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ValueStateDescriptor,
)
from keystate._spec.specs import resolve_state, resolve_type
from keystate._types.codec import codec
from keystate._worker.operators.batch_columns import NoColumnError, as_array
from keystate.testing import KeyedProcessHarness, rows_of
from pyspark.sql import Row

from tests.zones import in_zone

NOON, float_nan = datetime(2024, 7, 1, 12), float("nan")
VALUES: list[Any] = [
    *(True, 1, 1.0, 1.5, "1", "x", b"x", Decimal("1.50"), 2**31, 2**63, 1e300, float_nan),
    *(NOON, NOON.replace(tzinfo=timezone.utc), NOON.replace(fold=1), date(2024, 1, 1), time(1, 2)),
    *(datetime(2024, 3, 10, 2, 30), datetime(2024, 11, 3, 1, 30), timedelta(seconds=1)),
    *(np.int64(1), np.float32(0.5), np.bool_(True), np.str_("n"), np.datetime64(NOON)),
    *(pd.Timestamp(NOON), pd.Timestamp(NOON, tz="UTC"), pd.Timestamp(1, unit="ns"), pd.NaT, pd.NA),
    *([1, None], (1, 2), [], [NOON], np.array([1, 2]), ["a"], {"a": 1}, {}, {"a": NOON}, {1: 1}),
    *((1, "x"), Row(a=1, b="x"), Row(b="x", a=1), Row(a=1, c="x"), Row(1, "x"), {"a": 1, "b": "x"}),
    *([("a", 1)], [("a", 1), ("a", 2)], {"a": 1, "c": 2}, [(1, "x")], [{"a": 1, "b": "x"}]),
]
NAN = next(number for number, value in enumerate(VALUES) if value is float_nan)
TYPES = [
    *("boolean", "int", "long", "float", "double", "decimal(10,2)", "string", "binary", "date"),
    *("timestamp", "timestamp_ntz", "time(6)", "interval day to second", "array<long>"),
    *("array<timestamp>", "map<string,long>", "map<string,timestamp>", "struct<a:long,b:string>"),
    "array<struct<a:long,b:string>>",
]


ROWS, DEAD = "k int", OutputTag("dead", keystate.dead_letter_schema("k int"))
LETTERS = keystate.dead_letters(DEAD)


class OfRows(KeyedProcessFunction):
    """Hands the value of a row's number over in one place, and emits what came of it."""

    def __init__(self, kind: str, place: str) -> None:
        self.kind, self.place = kind, place
        self.tag = OutputTag("side", f"v {kind}, more int")

    def open(self, ctx: Any) -> None:
        self.state = ctx.get_state(ValueStateDescriptor("v", self.kind))
        self.list = ctx.get_list_state(ListStateDescriptor("l", f"struct<v: {self.kind}>"))
        self.map = ctx.get_map_state(MapStateDescriptor("m", "int", self.kind))

    def process_element(self, row: Any, ctx: Any) -> Any:
        value = VALUES[row.k]
        if self.place == "side output":
            yield self.tag, (value, 1)
            return
        if self.place == "value state":
            self.state.update(value)
            value = self.state.value()
        elif self.place == "list state":
            self.list.add((value,))
            value = next(iter(self.list)).v
        elif self.place == "map state":
            self.map[1] = value
            value = self.map[1]
        yield value, 1


class Defaults(KeyedProcessFunction):
    """Emits the default of the state of a row's number."""

    def __init__(self, kind: str, numbers: list[int]) -> None:
        self.kind, self.numbers = kind, numbers

    def open(self, ctx: Any) -> None:
        self.states = {
            number: ctx.get_state(ValueStateDescriptor(f"s{number}", self.kind, VALUES[number]))
            for number in self.numbers
        }

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield self.states[row.k].value(), 1


def object_array(value: Any) -> Any:
    array = np.empty(1, object)
    array[0] = value
    return array


#: Forms of a column of Python values.
FORMS: dict[str, Callable[[Any], Any]] = {
    "list": lambda value: [value],
    "tuple": lambda value: (value,),
    "iterator": lambda value: iter([value]),
    "Series": lambda value: pd.Series(object_array(value), dtype=object),
    "array": object_array,
}


class OfBatches(KeyedBatchFunction):
    def __init__(self, kind: str, place: str) -> None:
        self.kind = kind
        self.form, self.place = place.split()

    def open(self, ctx: Any) -> None:
        self.state = ctx.get_state(ValueStateDescriptor("v", self.kind))

    def process_batch(self, batch: Any, ctx: Any) -> Any:
        column = FORMS[self.form](VALUES[batch.rows["k"][0].as_py()])
        if self.place == "frame":
            return pd.DataFrame({"v": column, "more": [1]})
        if self.place == "state":
            self.state.update(column)
            column = self.state.value()
        return {"v": column, "more": [1]}


PLACES = ["result", "side output", "value state", "list state", "map state"]
OF_BATCHES = [*(f"{form} result" for form in FORMS), "list state", "Series state", "Series frame"]


def outcomes(kind: str, place: str) -> list[str]:
    """For each value what was emitted, or that there was an error."""
    rows, output = keystate.keyed(rows_of(ROWS), "k"), f"v {kind}, more int"
    tags = [DEAD]
    if place in PLACES:
        fn = OfRows(kind, place)
        stream = rows.process(fn, output, on_error=LETTERS)
        tags.append(fn.tag)
    else:
        stream = rows.process_batches(OfBatches(kind, place), output, on_error=LETTERS)
    found = []
    with KeyedProcessHarness.of(stream, side_outputs=tags) as harness:
        for number in range(len(VALUES)):
            aside = harness.side_output(fn.tag) if place == "side output" else []
            emitted = harness.process((number,))
            if place == "side output":
                emitted = harness.side_output(fn.tag)[len(aside) :]
            found.append(described(emitted))
    return found


def described(emitted: list[Any]) -> str:
    values = [row.v for row in emitted]
    return repr([(type(v).__name__, v, getattr(v, "fold", 0)) for v in values]) or "an error"


@pytest.fixture(autouse=True)
def new_york() -> Iterator[None]:
    with in_zone("America/New_York"):
        yield


@pytest.mark.long
@pytest.mark.parametrize("kind", TYPES)
def test_a_value_means_the_same_everywhere(kind: str) -> None:
    expected = outcomes(kind, "result")
    fitting = [number for number, found in enumerate(expected) if found != "[]"]
    assert fitting
    differ = [
        (place, VALUES[number], right, found)
        for place in [*PLACES[1:], *OF_BATCHES]
        for number, (right, found) in enumerate(zip(expected, outcomes(kind, place)))
        # In a Series NaN is a value that is missing.
        if right != found and not (place.startswith("Series") and number == NAN)
    ]
    assert differ == []
    rows = keystate.keyed(rows_of(ROWS), "k")
    stream = rows.process(Defaults(kind, fitting), f"v {kind}, more int")
    with KeyedProcessHarness.of(stream) as harness:
        for number in fitting:
            assert described(harness.process((number,))) == expected[number], VALUES[number]
    for number in set(range(len(VALUES))).difference(fitting):
        with pytest.raises(DeclarationError, match="the default of state"):
            resolve_state(ValueStateDescriptor("s", kind, VALUES[number]))
    given = keystate.keyed(rows_of(f"k int, v {kind}"), "k")
    passed = KeyedProcessHarness.of(given.map(lambda row: (row.v, 1), f"v {kind}, more int"))
    for number in range(len(VALUES)):
        try:
            found = described(passed.process((1, VALUES[number])))
        except TypeError:
            found = "[]"
        assert found == expected[number], VALUES[number]


#: Columns of a type of their own, and what Arrow's cast gives; None where it refuses them.
OWN: list[tuple[str, Any, Any]] = [
    ("float", np.array([1.5, np.inf]), [1.5, float("inf")]),
    ("float", np.array([1e39, 1.0]), None),
    ("array<float>", pa.array([[1e39], []]), None),
    ("struct<a: float>", pa.array([{"a": -1e39}, None]), None),
    ("map<string,float>", pa.array([[("k", 1e39)], []], pa.map_(pa.string(), pa.float64())), None),
    ("float", pd.Series([1.5, np.nan]), [1.5, None]),
    ("long", np.array([1.0, 2.0]), [1, 2]),
    ("long", pd.Series([1, None], dtype="Int64"), [1, None]),
    ("long", pa.chunked_array([[1], [2]]), [1, 2]),
    ("string", pd.Series(["a", "b"], dtype="category"), ["a", "b"]),
    ("timestamp", pd.Series([1_000, 2_000], dtype="datetime64[ns]"), [1, 2]),
    ("timestamp", pd.Series([1, 2], dtype="datetime64[ns]"), None),
    ("timestamp_ntz", np.array([1, 2], "datetime64[us]"), [1, 2]),
    ("interval day to second", np.array([1, 2], "timedelta64[ns]"), None),
    ("string", [pa.scalar("a"), pa.scalar(None, pa.string())], ["a", None]),
    ("map<string,long>", list(pa.array([[("k", 1)], []], pa.map_("string", "int64"))), None),
]


@pytest.mark.parametrize("kind, column, expected", OWN)
def test_columns_of_a_type_of_their_own(kind: str, column: Any, expected: Any) -> None:
    of = codec(resolve_type(kind, "a column")[0])
    if kind.startswith("map<string,long"):
        expected = [[("k", 1)], []]
    if expected is None:
        with pytest.raises((TypeError, ValueError, pa.ArrowException)):
            as_array(column, of, of.arrow)
        return
    found = as_array(column, of, of.arrow)
    assert found.type == of.arrow
    numbers = pa.types.is_timestamp(found.type)
    assert (found.cast("int64") if numbers else found).to_pylist() == expected


@pytest.mark.parametrize("column", ["ab", b"ab", {"a": 1}, 1, None, np.array(1)])
def test_what_is_no_column(column: Any) -> None:
    with pytest.raises(NoColumnError, match="a column is an array, a Series or a list of values"):
        as_array(column, codec(resolve_type("string", "a column")[0]), pa.string())
