"""Functions in real-time mode whose messages are packed: rows, keys, values and results."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import KeyedProcessFunction, ReducingStateDescriptor, ValueStateDescriptor
from keystate._types.waiting import wait_until
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.real_time import Source, lines, needs_real_time, start, wait_for

pytestmark = [needs_real_time, pytest.mark.usefixtures("short_batches")]

TYPES = "boolean, tinyint, smallint, int, bigint, float, double, string, binary, timestamp"
KINDS = TYPES.split(", ")
BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def columns(kinds: list[str], prefix: str = "c") -> str:
    return ", ".join(f"{prefix}{i} {kind}" for i, kind in enumerate(kinds))


class Before(KeyedProcessFunction):
    """Emits the row before, which it keeps as a struct, field by field and counted."""

    def __init__(self, keys: int, kinds: list[str]) -> None:
        self.keys = keys
        self.kinds = kinds

    def open(self, ctx: Any) -> None:
        self.row = ctx.get_state(ValueStateDescriptor("row", columns(self.kinds)))
        of_fields = (ValueStateDescriptor(f"f{i}", kind) for i, kind in enumerate(self.kinds))
        self.fields = [ctx.get_state(descriptor) for descriptor in of_fields]
        self.sum = ctx.get_reducing_state(
            ReducingStateDescriptor("sum", lambda a, b: a + b, "bigint")
        )

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.sum.add(1)
        before = self.row.value()
        if before is not None:
            fields = tuple(field.value() for field in self.fields)
            # A NaN is not equal to itself.
            assert repr(fields) == repr(tuple(before)), (fields, before)
            key = ctx.get_current_key()
            yield (*(key if self.keys > 1 else (key,)), self.sum.get(), *before)
        values = tuple(row[self.keys : self.keys + len(self.kinds)])
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
        "cast(i as int) % 2",
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
    )
    rows = wide.toDF("key", "half", *(f"c{i}" for i in range(len(KINDS))))
    schema = f"k string, half int, n long, {columns(KINDS)}"
    out = keystate.keyed(rows, "key", "half").process(Before(2, KINDS), schema)
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
            expected.append([*at, counts[at], *last[at]])
        last[at] = row
    # One by one, few at a time, and more at once than a packed message has.
    for begin, stop in [(0, 1), (1, 2), (2, 12), (12, 250), (250, 251), (251, 400)]:
        source.add(given[begin:stop])
        time.sleep(1.3)
    wait_for(query, lambda: len(lines(tmp_path / "out")) >= len(expected))
    assert sorted(map(repr, lines(tmp_path / "out"))) == sorted(map(repr, expected))


def any_value(rng: random.Random, kind: str) -> str:
    """A value as text, or "null"."""
    if rng.random() < 0.2:
        return "null"
    if kind in BITS:
        bound = 2 ** (BITS[kind] - 1)
        return str(rng.choice([-bound, bound - 1, 0, rng.randrange(-bound, bound)]))
    return rng.choice(
        {
            "boolean": ["true", "false"],
            "float": ["NaN", "-Infinity", "-0.0", "1e-40", "1.1", "3.4e38"],
            "double": ["NaN", "Infinity", "-0.0", "5e-324", "0.1", "-1.7e308"],
            "string": ["", "1234567", "12345678", "ärger 𝄞", "\0", "x" * 5000],
            "binary": ["", "00", "0001020304050607", "FF" * 3000],
            "timestamp": ["-1", "1729992600123456", "-62000000000000001", "253000000000000001"],
        }[kind]
    )


def typed(texts: DataFrame, kinds: list[str]) -> DataFrame:
    """The columns as values of these types."""
    casts = {"binary": "unhex({})", "timestamp": "timestamp_micros(cast({} as bigint))"}
    return texts.selectExpr(
        *(
            casts.get(kind, f"cast({{}} as {kind})").format(f"nullif(c{i}, 'null')") + f" as c{i}"
            for i, kind in enumerate(kinds)
        )
    )


def as_text(row: DataFrame) -> DataFrame:
    """The columns in a form that JSON has, and that tells all values apart."""
    forms = {"binary": F.hex, "timestamp": F.unix_micros}
    return row.select(
        *(forms.get(kind, F.col)(name).cast("string").alias(name) for name, kind in row.dtypes)
    )


@pytest.mark.parametrize("seed", range(20 if os.environ.get("SLOW") else 2))
def test_any_types_give_what_a_batch_gives(
    spark: SparkSession,
    running: list[Any],
    settings: Callable[..., None],
    tmp_path: Path,
    seed: int,
) -> None:
    """A batch's messages are Arrow."""
    settings(**{"spark.keystate.backend": ["rocksdb", "hashmap"][seed % 2]})
    rng = random.Random(seed)
    keys = rng.choices(KINDS, k=rng.choice([1, 1, 2, 3]))
    kinds = rng.choices(KINDS, k=rng.choice([1, 3, 12]))
    some = [tuple(any_value(rng, kind) for kind in keys) for _ in range(rng.choice([1, 5, 40]))]
    rows = [(*rng.choice(some), *(any_value(rng, kind) for kind in kinds)) for _ in range(300)]
    schema = f"{columns(keys, 'k')}, n bigint, {columns(kinds)}"
    names = columns(["string"] * (len(keys) + len(kinds)))

    def results(texts: DataFrame) -> DataFrame:
        by = [f"c{i}" for i in range(len(keys))]
        data = keystate.keyed(typed(texts, keys + kinds), *by)
        return as_text(data.process(Before(len(keys), kinds), schema))

    expected = results(spark.createDataFrame(rows, names).coalesce(1)).collect()
    source = Source(spark)
    query = start(results(source.rows(names)), tmp_path, "1 second")
    running.append(query)
    while rows:
        few = rng.choice([1, 1, 5, 40, 100])
        source.add(rows[:few])
        del rows[:few]
        time.sleep(rng.choice([0.01, 0.1, 0.5]))
    wait_for(query, lambda: len(lines(tmp_path / "out")) >= len(expected))
    assert sorted(map(repr, lines(tmp_path / "out"))) == sorted(repr([*row]) for row in expected)


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
    assert message in str(wait_until(query.exception, "the query's failure"))


def test_many_results_of_one_row(spark: SparkSession, running: list[Any], tmp_path: Path) -> None:
    source = Source(spark)
    out = keystate.keyed(source.rows(), "key").process(Odd(), "key long, n long")
    query = start(out, tmp_path, "2 seconds")
    running.append(query)
    source.add([(5, 63), (5, 64), (5, 65), (5, 3000)])
    wait_for(query, lambda: len(lines(tmp_path / "out")) == 63 + 64 + 65 + 3000)
    counted = [n for _, n in lines(tmp_path / "out")]
    assert counted == [1] * 63 + [2] * 64 + [3] * 65 + [4] * 3000
