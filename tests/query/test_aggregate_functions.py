"""Spark's aggregate functions, by a key's state, are those of a batch query of the same rows."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import keystate
import pyspark.sql.functions as F
import pytest
from keystate import OutputTag, Time
from keystate.windows import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import types as T

from tests.aggregate_functions import (
    COLUMNS,
    PLAIN,
    REFUSED,
    SKETCHES,
    USES,
    WITHOUT_FILTER,
    Use,
    groups,
)
from tests.drawn import DRAW, drawn

GROUPS = groups()
BATCHES, ROWS = 4, 16
#: Its rows bring the watermark to where all windows of the others are over.
FLUSH = 99


def plain_rows(chance: random.Random) -> list[tuple[Any, ...]]:
    """Rows of the columns that are given, in the micro-batches in which they come."""

    def some(value: Any) -> Any:
        return None if chance.random() < 0.1 else value

    def row(batch: int, i: int) -> tuple[Any, ...]:
        ms = batch * 60_000 + chance.randrange(-8_000, 60_000)
        at = datetime(2024, 3, 30, 23, 59) + timedelta(milliseconds=ms - ms % 100 + i)
        x = round(chance.uniform(0.1, 100), 3)
        special = chance.choice([float("nan"), float("inf"), -float("inf"), 0.0, -0.0])
        return (
            chance.choice([0, 1, 2, None]),
            batch,
            batch * ROWS + i,
            at,
            some(chance.randint(-5, 12)),
            chance.randint(0, 3),
            some(x),
            some(x * 2 + chance.random()),
            some(special if chance.random() < 0.15 else x),
            some(chance.choice(["", "a", "A", "b", "éz", "ÉZ", "長い", "x" * 40])),
            some(chance.random() < 0.6),
        )

    return [row(batch, i) for batch in range(BATCHES) for i in range(ROWS)]


@pytest.fixture(scope="module")
def fed(spark: SparkSession) -> list[list[Any]]:
    """The micro-batches, with sketches, and the last one that makes all windows be over."""
    plain = plain_rows(random.Random(f"{DRAW} rows"))
    at = plain[-1][3] + timedelta(hours=1)
    plain.append((FLUSH, BATCHES, BATCHES * ROWS, at, 1, 1, 1.0, 1.0, 1.0, "", True))
    frame = spark.createDataFrame(plain, PLAIN)
    made = [F.expr(sketch).alias(name) for name, sketch in SKETCHES.items()]
    told = {row["id"]: tuple(row)[1:] for row in frame.groupBy("id").agg(*made).collect()}
    batches: list[list[Any]] = [[] for _ in range(BATCHES + 1)]
    for row in plain:
        batches[row[1]].append((*row, *told[row[2]]))
    return batches


@pytest.fixture(scope="module")
def schema(spark: SparkSession) -> str:
    made = [F.expr(sketch).alias(name) for name, sketch in SKETCHES.items()]
    frame = spark.createDataFrame([], PLAIN).groupBy("id").agg(*made).drop("id")
    return f"{PLAIN}, " + ", ".join(
        f"{field.name} {field.dataType.simpleString()}" for field in frame.schema
    )


def wide(rows: DataFrame) -> DataFrame:
    """With the columns of all types."""
    return rows.select("*", *(F.expr(sql).alias(name) for name, sql in COLUMNS.items()))


@dataclass(frozen=True)
class Shape:
    """What is aggregated, by Keystate and by Spark.

    Attributes:
        build: Keystate's, of rows and aggregates.
        window: Spark's window, in SQL.
        order: by what rows have an order.
        streaming: whether it is a stream.
    """

    build: Callable[[DataFrame, list[Column]], DataFrame]
    window: str | None = None
    order: str | None = None
    streaming: bool = True


def windowed(assigner: Any, late: bool = False) -> Callable[[DataFrame, list[Column]], DataFrame]:
    def build(rows: DataFrame, aggregates: list[Column]) -> DataFrame:
        timed = rows.withWatermark("t", "30 seconds") if rows.isStreaming else rows
        windows = keystate.keyed(timed, "k").window(assigner, event_time="t")
        if not late:
            return windows.aggregate(*aggregates)
        tag = OutputTag("late", timed.schema)
        both = windows.side_output_late_data(tag).aggregate(*aggregates).with_side_outputs(tag)
        return both.where("main IS NOT NULL").select("main.*")

    return build


def by_key(rows: DataFrame, aggregates: list[Column]) -> DataFrame:
    return keystate.keyed(rows, "k").aggregate(*aggregates)


def in_order(rows: DataFrame, aggregates: list[Column]) -> DataFrame:
    return keystate.keyed(rows, "k", order_by="id").aggregate(*aggregates)


def by_clock(rows: DataFrame, aggregates: list[Column]) -> DataFrame:
    """Each micro-batch is a window."""
    windows = TumblingProcessingTimeWindows.of(Time.milliseconds(5))
    return keystate.keyed(rows, "k").window(windows).aggregate(*aggregates)


TUMBLING = windowed(TumblingEventTimeWindows.of(Time.seconds(40)))
LATE = windowed(TumblingEventTimeWindows.of(Time.seconds(40)), late=True)
SLIDING = windowed(SlidingEventTimeWindows.of(Time.seconds(60), Time.seconds(30)))
SESSIONS = windowed(EventTimeSessionWindows.with_gap(Time.seconds(15)))
SHAPES = {
    "keys": Shape(by_key),
    "ordered": Shape(in_order, order="id"),
    "tumbling": Shape(TUMBLING, "window(t, '40 seconds')", "t"),
    "late": Shape(LATE, "window(t, '40 seconds')", "t"),
    "sliding": Shape(SLIDING, "window(t, '60 seconds', '30 seconds')", "t"),
    "sessions": Shape(SESSIONS, "session_window(t, '15 seconds')", "t"),
    "clock": Shape(by_clock),
    "batch keys": Shape(by_key, streaming=False),
    "batch windows": Shape(SLIDING, "window(t, '60 seconds', '30 seconds')", "t", streaming=False),
}
CASES = list(itertools.product(GROUPS, SHAPES, ("true", "false")))


@dataclass(frozen=True)
class Run:
    """A run of a query: of how many micro-batches, and how."""

    batches: int
    partitions: int
    backend: str


WAYS = {
    "at once": [Run(1, 2, "auto")],
    "many": [Run(4, 3, "hashmap")],
    "on disk": [Run(3, 2, "rocksdb")],
    "restarts": [Run(1, 3, "hashmap"), Run(2, 1, "rocksdb"), Run(1, 2, "auto")],
}
CONDITIONS = ["b", "id < 0", "n > 3", "f64 > 20 AND b", "b IS NULL"]


@dataclass(frozen=True)
class Call:
    """A call as a column of a query: of all rows, or of those that meet a condition."""

    use: Use
    condition: str = ""

    def __str__(self) -> str:
        return f"{self.use.text()} {self.condition}".strip()

    def column(self) -> Column:
        return F.expr(str(self)) if self.condition else self.use.column()

    def evidence(self, order: str | None) -> Column:
        told = self.use.alike.evidence.format(
            *map(str, self.use.arguments), where=self.condition, order=order or 0
        )
        return F.expr(told)

    def differs(self, found: Any, told: Any, evidence: Any, order: str | None) -> bool:
        alike = self.use.alike
        one = alike.in_order if order in alike.orders else None
        return not (one or alike.check)(found, told, evidence)


def calls_of(uses: list[Use], chance: random.Random) -> list[Call]:
    """Each function, and half of them with a filter too."""
    calls = [Call(use) for use in uses]
    for use in uses:
        if use.name not in WITHOUT_FILTER and chance.random() < 0.5:
            calls.append(Call(use, f"FILTER (WHERE {chance.choice(CONDITIONS)})"))
    chance.shuffle(calls)
    return calls


def readable(of: T.DataType) -> T.DataType:
    """A type whose values Python can have: texts in place of others."""
    if isinstance(of, T.ArrayType):
        return T.ArrayType(readable(of.elementType))
    if isinstance(of, T.StructType):
        return T.StructType([T.StructField(f.name, readable(f.dataType)) for f in of])
    others = (T.YearMonthIntervalType, T.CalendarIntervalType, T.VariantType, T.NullType)
    return T.StringType() if isinstance(of, others) else of


def in_python(frame: DataFrame, calls: list[Call]) -> DataFrame:
    """What is compared."""
    then = {f"c{i}": call.use.then for i, call in enumerate(calls)}
    shown = frame.select(*(F.expr(then.get(n, "{0}").format(n)).alias(n) for n in frame.columns))
    casts = [(f.name, f.dataType, readable(f.dataType)) for f in shown.schema]
    return shown.select(
        *(F.col(n) if now == to else F.col(n).cast(to).alias(n) for n, now, to in casts)
    )


def by_spark(rows: DataFrame, calls: list[Call], shape: Shape, groups: list[str]) -> dict[Any, Row]:
    """Spark's own results and the evidence, by the group and the key."""
    aggregates = [call.column().alias(f"c{i}") for i, call in enumerate(calls)]
    evidence = [call.evidence(shape.order).alias(f"e{i}") for i, call in enumerate(calls)]
    by = [F.expr(shape.window).alias("w")] if shape.window else []
    told = rows.groupBy(*by, *groups, "k").agg(*aggregates, *evidence)
    if shape.window:
        told = told.selectExpr("w.start AS window_start", "w.end AS window_end", "* EXCEPT (w)")
        groups = ["window_start", "window_end"]
    return {
        tuple(row[name] for name in (*groups, "k")): row for row in in_python(told, calls).collect()
    }


def check(found: dict[Any, Row], told: dict[Any, Row], calls: list[Call], shape: Shape) -> None:
    assert found.keys() == told.keys()
    wrong = [
        f"{call} of {key}: {row[f'c{i}']!r}, but {told[key][f'c{i}']!r} in a batch query"
        for i, call in enumerate(calls)
        for key, row in found.items()
        if call.differs(row[f"c{i}"], told[key][f"c{i}"], told[key][f"e{i}"], shape.order)
    ]
    if wrong:
        pytest.fail("\n".join(wrong), pytrace=False)


def types(frame: DataFrame) -> dict[str, str]:
    """The types of columns, whatever may be null: beside an output of late rows all may."""
    return {field.name: field.dataType.simpleString() for field in frame.schema}


def test_all_functions(spark: SparkSession) -> None:
    """What pyspark and SQL call aggregate functions is tested here, or refused by name."""
    source = Path(str(F.__file__)).read_text()
    listed = source.partition("# Aggregate Functions")[2].partition("#")[0]
    infos = spark._jvm.org.apache.spark.sql.api.python.PythonSQLUtils.listBuiltinFunctionInfos()
    there = {info.getName() for info in infos if info.getGroup() == "agg_funcs"}
    there |= set(re.findall(r'"(\w+)"', listed))
    assert {"max_by", "listagg", "bool_and", "percentile_cont"} <= there
    assert there - {use.name for use in USES} == REFUSED.keys() & there


@pytest.mark.parametrize(("group", "shape", "ansi"), drawn("aggregate functions", CASES, 18))
def test_functions(
    group: str,
    shape: str,
    ansi: str,
    spark: SparkSession,
    fed: list[list[Any]],
    schema: str,
    stream: Callable[[str], Any],
    settings: Callable[..., None],
) -> None:
    chance = random.Random(f"{DRAW} {group} {shape} {ansi}")
    zone = chance.choice(["Europe/Berlin", "Asia/Kathmandu", "America/St_Johns"])
    settings(**{"spark.sql.ansi.enabled": ansi, "spark.sql.session.timeZone": zone})
    kind = SHAPES[shape]
    calls = calls_of([use for use in GROUPS[group] if use.ansi or ansi == "false"], chance)
    aggregates = [call.column().alias(f"c{i}") for i, call in enumerate(calls)]

    def query(rows: DataFrame) -> DataFrame:
        made = kind.build(wide(rows), aggregates)
        told = types(wide(rows).groupBy("k").agg(*aggregates))
        assert {name: of for name, of in types(made).items() if name in told} == told
        return in_python(made, calls)

    runs = WAYS[chance.choice(list(WAYS))]
    count = sum(run.batches for run in runs)
    batches: list[list[Any]] = [[] for _ in range(count)]
    for row in itertools.chain(*fed[:BATCHES]):
        batch = row[1] * count // BATCHES
        batches[batch].append((row[0], batch, *row[2:]))
    rows = wide(spark.createDataFrame(list(itertools.chain(*batches)), schema))
    if not kind.streaming:
        bounds = ["window_start", "window_end"] if kind.window else []
        plain = spark.createDataFrame(list(itertools.chain(*batches)), schema)
        found = {tuple(row[n] for n in (*bounds, "k")): row for row in query(plain).collect()}
        check(found, by_spark(rows, calls, kind, []), calls, kind)
        return

    source, emitted = stream(schema), []
    for i, run in enumerate(runs):
        settings(**{
            "spark.sql.shuffle.partitions": str(run.partitions),
            "spark.keystate.backend": run.backend,
        })  # fmt: skip
        source.feed(*(batches.pop(0) for _ in range(run.batches)))
        if i == len(runs) - 1 and (kind.window or shape == "clock"):
            source.feed(fed[BATCHES])
        emitted += source.micro_batches(query(source.source()))
    if shape in ("keys", "ordered"):
        found = {(i, row["k"]): row for i, batch in enumerate(emitted) for row in batch}
        so_far = rows.withColumn("upto", F.expr(f"explode(sequence(batch, {count - 1}))"))
        now = {(row["batch"], row["k"]) for row in rows.select("batch", "k").collect()}
        told = by_spark(so_far, calls, kind, ["upto"])
        told = {key: row for key, row in told.items() if key in now}
    else:
        results = [row for batch in emitted for row in batch if row["k"] != FLUSH]
        if shape == "clock":
            starts = sorted({row["window_start"] for row in results})
            found = {(starts.index(row["window_start"]), row["k"]): row for row in results}
            told = by_spark(rows, calls, kind, ["batch"])
        else:
            names = ("window_start", "window_end", "k")
            found = {tuple(row[name] for name in names): row for row in results}
            told = by_spark(rows, calls, kind, [])
        assert len(found) == len(results)
    check(found, told, calls, kind)
