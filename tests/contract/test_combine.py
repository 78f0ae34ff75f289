"""Rows that become one for each key in a batch of Arrow, before the shuffle."""

from __future__ import annotations

import datetime
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import keystate
import pyarrow as pa
import pytest
from keystate import DeclarationError, FunctionError, OutputTag, ReduceFunction, agg
from keystate._operators.combined import CombiningTask
from keystate._operators.function_specs import make_function_spec
from keystate._operators.pickling import pickled
from keystate._operators.typed import typed_rows
from keystate._spec.specs import resolve_schema
from keystate._types.codec import struct_codec
from keystate._worker.aggregates.computing import Aggregation
from keystate._worker.aggregates.declared import accumulator_type, resolve
from keystate._worker.aggregates.key_groups import groups_of, key_numbers
from keystate._worker.calls.function_spec import Style
from keystate.errors import OutputTypeError
from keystate.testing import KeyedProcessHarness, rows_of

from tests.contract.aggregated import AGGREGATES, at, results

NAN = math.nan

#: Types of keys, each with values of which some look alike.
KINDS: list[tuple[pa.DataType, list[Any]]] = [
    (pa.int64(), [0, 1, -1, 2**63 - 1]),
    (pa.int8(), [0, 1]),
    (pa.bool_(), [True, False]),
    (pa.float64(), [0.0, -0.0, NAN, -NAN, 1.5, math.inf]),
    (pa.float32(), [0.0, -0.0, NAN, 1.5]),
    (pa.string(), ["", "a", "A", "a\0", "é", "e\u0301"]),
    (pa.large_string(), ["", "a"]),
    (pa.binary(), [b"", b"\0", b"\0\0"]),
    (pa.decimal128(9, 2), [Decimal("1.00"), Decimal("-1.00"), Decimal("0.01")]),
    (pa.date32(), [datetime.date(1970, 1, 1), datetime.date(1969, 12, 31)]),
    (pa.timestamp("us", "Europe/Paris"), [at(0), at(1)]),
    (pa.timestamp("us"), [datetime.datetime(2020, 1, 1), datetime.datetime(1, 1, 1)]),
    (pa.duration("us"), [datetime.timedelta(0), datetime.timedelta(1)]),
    (pa.null(), [None]),
]


def kind_of(chance: random.Random, depth: int) -> tuple[pa.DataType, Any]:
    """A type, and what gives a value of it."""
    shape = chance.choice(["flat", "struct", "list"]) if depth else "flat"
    if shape == "flat":
        kind, values = chance.choice(KINDS)
        return kind, lambda: chance.choice([None, *values])
    if shape == "list":
        kind, value = kind_of(chance, depth - 1)
        return pa.list_(
            kind
        ), lambda: None if chance.random() < 0.2 else [value() for _ in range(chance.randrange(3))]
    fields = [kind_of(chance, depth - 1) for _ in range(chance.randint(1, 2))]
    return (
        pa.struct([(f"f{i}", kind) for i, (kind, _) in enumerate(fields)]),
        lambda: (
            None
            if chance.random() < 0.2
            else {f"f{i}": value() for i, (_, value) in enumerate(fields)}
        ),
    )


def grouped(key: Any) -> str:
    """A key as Spark groups by it: zeros are one, and so are NaNs."""
    if isinstance(key, float):
        return repr(abs(key) if key == 0 or math.isnan(key) else key)
    if isinstance(key, (list, tuple)):
        return repr([grouped(part) for part in key])
    return grouped(list(key.values())) if isinstance(key, dict) else repr(key)


@pytest.mark.parametrize("seed", range(60))
def test_rows_have_one_number_if_they_have_one_key(seed: int) -> None:
    """For keys of any types, also of a slice of columns; numbers are in the order of the rows."""
    chance = random.Random(seed)
    size, start = chance.choice([0, 1, 80]), chance.randrange(5)
    columns = []
    for _ in range(chance.randint(1, 3)):
        kind, value = kind_of(chance, 2)
        columns.append(pa.array([value() for _ in range(size + 7)], kind).slice(start, size))
    shown = [grouped(key) for key in zip(*(column.to_pylist() for column in columns))]
    known: dict[str, int] = {}
    expected = [known.setdefault(key, len(known)) for key in shown]
    numbers = key_numbers(columns)
    assert numbers.tolist() == expected
    groups = groups_of(numbers)
    assert len(groups) == len(known)
    places = pa.array(range(size), pa.int64())
    assert groups.end(places, last=False, ignore_nulls=False).to_pylist() == [
        expected.index(i) for i in known.values()
    ]


def batches_of(schema: str, rows: list[Any], size: int) -> Iterator[pa.RecordBatch]:
    codec = struct_codec(resolve_schema(schema, "rows"))
    whole = pa.RecordBatch.from_arrays(codec.encode_columns(rows), schema=pa.schema(codec.arrow))
    # As Spark gives them: the times in the session's zone.
    fields = [
        f.with_type(pa.timestamp("us", "Asia/Tokyo")) if pa.types.is_timestamp(f.type) else f
        for f in whole.schema
    ]
    whole = whole.cast(pa.schema(fields))
    return (whole.slice(i, size) for i in range(0, len(rows), size))


def reducing(fn: Any, schema: str, keys: list[int], row_type: Any = None) -> CombiningTask:
    function_spec = make_function_spec(fn, ReduceFunction, "reduce", Style.MAP)
    struct = resolve_schema(schema, "rows")
    shape = None if row_type is None else typed_rows(struct, row_type)[1]
    return CombiningTask("CombineRows", (pickled(function_spec, fn), struct, shape, tuple(keys)))


ROWS = "key string, sub double, n long, last timestamp, all array<long>"


def row(chance: random.Random) -> tuple[Any, ...]:
    n = chance.randrange(100)
    sub = chance.choice([None, 0.0, -0.0, NAN, -NAN, 1.5])
    return chance.choice(["a", "b", None]), sub, n, at(chance.randrange(10**6)), [n, None]


def merged(a: Any, b: Any) -> dict[str, Any]:
    """The key is not that of the rows."""
    return {"key": "?", "n": a.n + b.n, "last": max(a.last, b.last), "all": [*a.all, *b.all]}


@pytest.mark.parametrize("seed", range(8))
def test_each_batch_gives_one_row_for_each_key(seed: int) -> None:
    """With the key of its rows; they come in their order. What is alone stays as it is."""
    chance = random.Random(seed)
    rows = [row(chance) for _ in range(200)]
    size = chance.choice([1, 7, 50, 1000])
    task = reducing(merged, ROWS, [0, 1])
    made = list(task(batches_of(ROWS, rows, size)))
    assert all(batch.schema == next(batches_of(ROWS, rows, size)).schema for batch in made)
    found = sorted(map(repr, (tuple(each.values()) for b in made for each in b.to_pylist())))
    expected = []
    for start in range(0, len(rows), size):
        whole: dict[str, Any] = {}
        for key, sub, n, last, every in rows[start : start + size]:
            one = whole.setdefault(grouped((key, sub)), [key, sub, 0, last, []])
            one[2:] = one[2] + n, max(one[3], last), one[4] + every
        expected += whole.values()
    plain = list(batches_of(ROWS, [tuple(each) for each in expected], 10**6))
    assert found == sorted(repr(tuple(each.values())) for each in plain[0].to_pylist())


@dataclass
class Sum:
    key: str
    n: int

    def plus(self, other: Sum) -> Sum:
        self.n += other.n
        return self


class Plus(ReduceFunction):
    def reduce(self, value1: Sum, value2: Sum) -> Sum:
        return value1.plus(value2)


def test_rows_are_objects_of_the_dataclass() -> None:
    rows = [("a", 1), ("b", 5), ("a", 2), ("a", 4)]
    schema = "key string, n long"
    made = list(reducing(Plus(), schema, [0], Sum)(batches_of(schema, rows, 10)))
    assert [each for batch in made for each in batch.to_pylist()] == [
        {"key": "b", "n": 5},
        {"key": "a", "n": 7},
    ]


def test_a_function_that_fails_is_told_with_key_and_row() -> None:
    def fails(a: Any, b: Any) -> Any:
        return a.key / b.n

    schema = "key string, n long"
    rows = [("a", 1), ("b", 2), ("b", 3)]
    with pytest.raises(FunctionError, match=r"TypeError[\s\S]*key \('b',\), row Row.*n=3"):
        list(reducing(fails, schema, [0])(batches_of(schema, rows, 10)))
    with pytest.raises(OutputTypeError, match=r"the result of reduce.*bigint.*'n', got str 'x'"):
        list(reducing(lambda a, b: (a.key, "x"), schema, [0])(batches_of(schema, rows, 10)))
    with pytest.raises(OutputTypeError, match="returned None"):
        list(reducing(lambda a, b: None, schema, [0])(batches_of(schema, rows, 10)))


@pytest.mark.parametrize("seed", range(4))
def test_accumulators_of_batches_are_merged_to_those_of_all_rows(seed: int) -> None:
    chance = random.Random(seed)
    values = [(chance.choice("ab"), chance.choice([None, 1, 2, 50])) for _ in range(100)]
    schema = resolve_schema("key string, value long", "rows")
    aggregates = resolve(AGGREGATES, schema)
    task = CombiningTask("CombineColumns", (aggregates, 1))
    size = chance.choice([1, 9, 100])
    made = list(task(batches_of("key string, value long", values, size)))
    assert sum(batch.num_rows for batch in made) <= 2 * math.ceil(100 / size)
    kind = struct_codec(accumulator_type(aggregates)).arrow
    whole = pa.Table.from_batches(made).combine_chunks()
    keys, *columns = (column.chunk(0) for column in whole.columns)
    parts = pa.StructArray.from_arrays(columns, fields=list(kind))  # as they are in the state
    aggregation, numbers = Aggregation(aggregates), key_numbers([keys])
    found = aggregation.results(aggregation.merge(groups_of(numbers), aggregation.unpack(parts)))
    every = {key: [value for k, value in values if k == key] for key in keys.to_pylist()}
    shown = zip(*(column.to_pylist() for column in found))
    assert list(shown) == [results(each) for each in every.values()]


INPUT = "key string, n long, time timestamp"
LATE = OutputTag("late", INPUT)
LETTERS = keystate.dead_letters(OutputTag("letters", "error string"))


class Opened(Plus):
    def open(self, runtime_context: Any) -> None:
        self.opened = True


class Closed(Plus):
    def close(self) -> None:
        """Something."""


def keyed(**told: Any) -> Any:
    return keystate.keyed(rows_of(INPUT), "key", **told)


def timed() -> Any:
    return keystate.keyed(rows_of(INPUT).withWatermark("time", "1 minute"), "key")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: keyed(order_by="n").reduce(Plus(), combine=True), "order_by"),
        (lambda: keyed().reduce(Plus(), combine=True, late_output=LATE), "late_output"),
        (lambda: keyed().reduce(Plus(), combine=True, on_error=LETTERS), "on_error"),
        (lambda: timed().reduce(Plus(), combine=True), "watermark by the column 'time'.*'none'"),
        (lambda: timed().reduce(Plus(), combine=True, time_mode="event_time"), "watermark"),
        (lambda: keyed().reduce(Opened(), combine=True), r"Opened has a method open\(\)"),
        (lambda: keyed().reduce(Closed(), combine=True), r"Closed has a method close\(\)"),
        (lambda: keyed(order_by="n").aggregate(agg.count(), combine=True), "order_by"),
        (lambda: keyed().aggregate(agg.count(), combine=True, late_output=LATE), "late_output"),
        (lambda: keyed().aggregate(agg.count(), combine=True, on_error=LETTERS), "on_error"),
        (lambda: timed().aggregate(agg.count(), combine=True), "watermark"),
    ],
)
def test_what_needs_rows_one_by_one_is_refused(build: Any, message: str) -> None:
    with pytest.raises(DeclarationError, match=rf"combine=True.*{message}"):
        build()


def test_the_harness_gives_rows_one_by_one() -> None:
    rows = [("a", 1, at(0)), ("a", 2, at(1)), ("a", 4, at(2))]
    stream = timed()
    reduced = stream.reduce(lambda a, b: (a.key, a.n + b.n, b.time), combine=True, time_mode="none")
    harness = KeyedProcessHarness.of(reduced)
    assert [harness.process(row)[0].n for row in rows] == [1, 3, 7]
    summed = stream.aggregate(agg.sum("n").alias("n"), combine=True, time_mode="processing_time")
    harness = KeyedProcessHarness.of(summed)
    assert [harness.process(row)[0].n for row in rows] == [1, 3, 7]
