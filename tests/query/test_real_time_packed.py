"""Functions in real-time mode whose messages are packed: rows, keys, values and results."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import KeyedProcessFunction, ReducingStateDescriptor, ValueStateDescriptor
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.real_time import Source, lines, needs_real_time, start, wait_for

pytestmark = [needs_real_time, pytest.mark.usefixtures("short_batches")]

TYPES = "boolean, tinyint, smallint, int, bigint, float, double, string, binary, timestamp"
COLUMNS = [(f"c{i}", kind) for i, kind in enumerate(TYPES.split(", "))]
SCHEMA = ", ".join(f"{name} {kind}" for name, kind in COLUMNS)
STRUCT = ", ".join(f"{name}: {kind}" for name, kind in COLUMNS)


class Before(KeyedProcessFunction):
    """Emits the row before, which it keeps as a struct, field by field and counted."""

    def open(self, ctx: Any) -> None:
        self.row = ctx.get_state(ValueStateDescriptor("row", f"struct<{STRUCT}>"))
        for_each = (ValueStateDescriptor(name, kind) for name, kind in COLUMNS)
        self.fields = [ctx.get_state(descriptor) for descriptor in for_each]
        self.sum = ctx.get_reducing_state(
            ReducingStateDescriptor("sum", lambda a, b: a + b, "bigint")
        )

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.sum.add(1)
        before = self.row.value()
        if before is not None:
            fields = tuple(field.value() for field in self.fields)
            assert fields == tuple(before), (fields, before)
            yield (ctx.get_current_key()[0], self.sum.get(), *before)
        values = tuple(row[1 + i] for i in range(len(COLUMNS)))
        self.row.update(values)
        for field, value in zip(self.fields, values):
            field.update(value)
            if value is None:
                field.clear()


def test_all_types_with_nulls_over_batches(
    spark: SparkSession, running: list[Any], tmp_path: Path
) -> None:
    """The state comes from the worker, from an earlier generation and from earlier batches."""
    source = Source(spark)
    # The source has the text "null" for a null.
    texts = source.rows(", ".join(f"{name} string" for name in "kbnit"))
    nullable = texts.select(*(F.expr(f"nullif({name}, 'null')").alias(name) for name in "kbnit"))
    wide = nullable.selectExpr(
        "k",
        "b = 'true'",
        "cast(n % 100 as tinyint)",
        "cast(n as smallint)",
        "cast(i as int)",
        "cast(n as bigint)",
        "cast(n as float)",
        "cast(n as double)",
        "t",
        "cast(t as binary)",
        "timestamp_micros(cast(n as bigint))",
        "cast(i as int) % 2",
    )
    names = ["key", *(name for name, _ in COLUMNS), "half"]
    rows = wide.toDF(*names)
    out = keystate.keyed(rows, "key", "half").process(Before(), f"k string, n long, {SCHEMA}")
    printed = out.withColumn("c8", F.hex("c8")).withColumn("c9", F.unix_micros("c9"))
    query = start(printed, tmp_path, "1 second")
    running.append(query)
    given: list[tuple[Any, ...]] = []
    expected: list[list[Any]] = []
    last: dict[Any, list[Any]] = {}
    counts: dict[Any, int] = {}
    words = ["", "a", "ärger 𝄞", "x" * 5000, None]
    for i in range(400):
        null = i % 11 == 5
        text = None if null else words[i % len(words)]
        number = None if null else i * 37 - 3000
        key = None if i % 6 == 0 else f"k{i % 6}"
        given.append((key, "true" if i % 3 else None, number, i, text))
        hexed = None if text is None else text.encode().hex().upper()
        tiny = None if number is None else abs(number) % 100 * (1 if number >= 0 else -1)
        real = None if number is None else float(number)
        true = True if i % 3 else None
        row = [true, tiny, number, i, number, real, real, text, hexed, number]
        at = (key, i % 2)
        counts[at] = counts.get(at, 0) + 1
        if at in last:
            expected.append([key, counts[at], *last[at]])
        last[at] = row
    # One by one, few at a time, and more at once than a packed message has.
    for begin, stop in [(0, 1), (1, 2), (2, 12), (12, 250), (250, 251), (251, 400)]:
        source.add(given[begin:stop])
        time.sleep(1.3)
    wait_for(query, lambda: len(lines(tmp_path / "out")) >= len(expected))
    assert sorted(map(repr, lines(tmp_path / "out"))) == sorted(map(repr, expected))


class Odd(KeyedProcessFunction):
    """Emits what does not fit, as the row says."""

    def open(self, ctx: Any) -> None:
        self.seen = ctx.get_state(ValueStateDescriptor("seen", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.seen.update(self.seen.value() + 1)
        if row.x == 1:
            return [(row.key, 2**70)]
        if row.x == 2:
            return [(row.key, "text")]
        if row.x == 3:
            raise ValueError("a bad row")
        return [(row.key, self.seen.value())] * (row.x or 1)


@pytest.mark.parametrize(
    ("x", "message"),
    [(1, "1180591620717411303424"), (2, "expected bigint"), (3, "a bad row")],
)
def test_what_does_not_fit_is_said_as_ever(
    spark: SparkSession, running: list[Any], tmp_path: Path, x: int, message: str
) -> None:
    source = Source(spark)
    out = keystate.keyed(source.rows(), "key").process(Odd(), "key long, n long")
    query = start(out, tmp_path, "2 seconds")
    running.append(query)
    source.add([(5, 0)])
    wait_for(query, lambda: lines(tmp_path / "out") == [[5, 1]])
    source.add([(5, x)])
    deadline = time.monotonic() + 60
    while query.exception() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert message in str(query.exception())


def test_many_results_of_one_row(spark: SparkSession, running: list[Any], tmp_path: Path) -> None:
    source = Source(spark)
    out = keystate.keyed(source.rows(), "key").process(Odd(), "key long, n long")
    query = start(out, tmp_path, "2 seconds")
    running.append(query)
    source.add([(5, 63), (5, 64), (5, 65), (5, 3000)])
    wait_for(query, lambda: len(lines(tmp_path / "out")) == 63 + 64 + 65 + 3000)
    counted = [n for _, n in lines(tmp_path / "out")]
    assert counted == [1] * 63 + [2] * 64 + [3] * 65 + [4] * 3000
