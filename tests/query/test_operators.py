"""What can be done with a keyed stream, and what a function is told."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    FilterFunction,
    FlatMapFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from pyspark.sql import Row
from pyspark.sql import functions as F

from tests.timed import run_at

ROWS = [("a", 1), ("b", 2), ("a", 3), ("a", 4), ("b", 5)]


class Numbering:
    """Numbers the rows of a key."""

    def open(self, ctx: Any) -> None:
        self.last = ctx.get_state(ValueStateDescriptor("last", "long", default=0))

    def number(self) -> int:
        number: int = self.last.value() + 1
        self.last.update(number)
        return number


class NumberMap(Numbering, MapFunction):
    def map(self, value: Any) -> Any:
        return value.key, self.number()


class NumberFlatMap(Numbering, FlatMapFunction):
    def flat_map(self, value: Any) -> Any:
        for _ in range(self.number() - 1):
            yield value.key, value.x


class EverySecond(Numbering, FilterFunction):
    def filter(self, value: Any) -> bool:
        return self.number() % 2 == 0


def results(fed: Any, build: Callable[[Any], Any], mode: str = "append") -> list[tuple[Any, ...]]:
    return sorted(tuple(r) for r in fed.run(build, mode=mode))


@pytest.mark.parametrize("mode", ["append", "update"])
def test_map_flat_map_filter(stream: Callable[..., Any], mode: str) -> None:
    cases = [
        (lambda k: k.map(NumberMap(), "key string, n long"),
         [("a", 1), ("a", 2), ("a", 3), ("b", 1), ("b", 2)]),
        (lambda k: k.flat_map(NumberFlatMap(), "key string, x long"),
         [("a", 3), ("a", 4), ("a", 4), ("b", 5)]),
        (lambda k: k.filter(EverySecond()), [("a", 3), ("b", 5)]),
        (lambda k: k.map(lambda row: row.x * 10, "long"), [(10,), (20,), (30,), (40,), (50,)]),
        (lambda k: k.flat_map(lambda row: [row.x] * 2 if row.key == "b" else None, "long"),
         [(2,), (2,), (5,), (5,)]),
        (lambda k: k.filter(lambda row: row.x > 3), [("a", 4), ("b", 5)]),
    ]  # fmt: skip
    for apply, expected in cases:
        fed = stream("key string, x long")
        fed.feed(ROWS[:2], ROWS[2:])
        build = functools.partial(lambda apply, df: apply(keystate.keyed(df, "key")), apply)
        assert results(fed, build, mode) == expected


def test_reduce(spark: Any, stream: Callable[..., Any], settings: Callable[..., None]) -> None:
    def add(a: Any, b: Any) -> Any:
        return a.key, a.x + b.x

    fed = stream("key string, x long")
    fed.feed(ROWS[:3], ROWS[3:])
    rolling = results(fed, lambda df: keystate.keyed(df, "key").reduce(add))
    assert rolling == [("a", 1), ("a", 4), ("a", 8), ("b", 2), ("b", 7)]
    settings(
        **{
            "spark.sql.execution.arrow.maxRecordsPerBatch": "3",
            "spark.keystate.worker.maxCachedKeys": "2",
        }
    )
    df = spark.range(100).selectExpr("id % 7 AS key", "id AS x").coalesce(1)
    last = keystate.keyed(df, "key").reduce(lambda a, b: (a.key, a.x + b.x)).collect()
    assert sorted(map(tuple, last)) == [(k, sum(range(k, 100, 7))) for k in range(7)]


@dataclasses.dataclass
class Result:
    key: str
    x: int


def test_results_of_every_form(spark: Any) -> None:
    forms = [
        lambda r: (r.key, r.x),
        lambda r: Row(key=r.key, x=r.x),
        lambda r: {"x": r.x, "key": r.key},
        lambda r: Result(r.key, r.x),
        lambda r: [(r.key, r.x)],
        lambda r: iter([(r.key, r.x)]),
        lambda r: ((r.key, x) for x in [r.x]),
    ]
    df = spark.createDataFrame(ROWS, "key string, x long").coalesce(1)
    for form in forms:
        out = keystate.keyed(df, "key").process(lambda row, ctx, f=form: f(row), Result)
        assert sorted(map(tuple, out.collect())) == sorted(ROWS)
    nothing = keystate.keyed(df, "key").process(lambda row, ctx: None, "x long")
    assert nothing.collect() == []


class Counter(KeyedProcessFunction):
    """Counts the rows of a key and says what its key is."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        yield repr(ctx.get_current_key()), self.count.value()


@dataclasses.dataclass
class Total:
    count: int
    total: int


class Totals(KeyedProcessFunction):
    """Puts tuples in and reads rows or objects back, in the same batch too."""

    def __init__(self, type_: Any) -> None:
        self.type = type_

    def open(self, ctx: Any) -> None:
        self.state = ctx.get_state(ValueStateDescriptor("total", self.type, default=(0, 0)))

    def process_element(self, row: Any, ctx: Any) -> Any:
        state = self.state.value()
        self.state.update((state.count + 1, state.total + row.x))
        yield row.key, self.state.value().count, self.state.value().total


@pytest.mark.parametrize("type_", ["count long, total long", Total])
def test_structs_have_field_names(stream: Callable[..., Any], type_: Any) -> None:
    fed = stream("key string, x long")
    fed.feed(ROWS[:3], ROWS[3:])
    out = results(
        fed, lambda df: keystate.keyed(df, "key").process(Totals(type_), "k string, n long, t long")
    )
    assert out == [("a", 1, 1), ("a", 2, 4), ("a", 3, 8), ("b", 1, 2), ("b", 2, 7)]


def test_keys(stream: Callable[..., Any]) -> None:
    """Nulls are keys as in groupBy, zeros are one key, NaNs are one key."""

    def keys(schema: str, rows: list[Any], *cols: Any) -> set[tuple[Any, ...]]:
        fed = stream(schema)
        fed.feed(rows, rows)
        out = fed.run(lambda df: keystate.keyed(df, *cols).process(Counter(), "k string, n long"))
        most: dict[str, int] = {}
        for r in out:
            most[r.k] = max(most.get(r.k, 0), r.n)
        return set(most.items())

    assert keys("k string", [("a",), (None,), (None,)], "k") == {("'a'", 2), ("None", 4)}
    assert keys("a string, b long", [("x", None), ("x", 1)], "a", "b") == {
        ("Row(a='x', b=None)", 2),
        ("Row(a='x', b=1)", 2),
    }
    assert keys("x long", [(1,), (2,), (3,)], (F.col("x") % 2).alias("odd")) == {("1", 4), ("0", 2)}
    nan = float("nan")
    assert keys("x double", [(0.0,), (-0.0,), (nan,), (-nan,)], "x") == {("0.0", 4), ("nan", 4)}


class Later(KeyedProcessFunction):
    """Passes rows on an hour later than they are, and says what it knows of time."""

    def open(self, ctx: Any) -> None:
        pass

    def process_element(self, row: Any, ctx: Any) -> Any:
        assert ctx.timestamp() == int(row.time.timestamp()) * 1000
        assert ctx.timer_service().current_processing_time() > 1.7e12
        yield row.key, row.time, ctx.timer_service().current_watermark()


def at(minute: int) -> datetime.datetime:
    return datetime.datetime(2024, 1, 1) + datetime.timedelta(minutes=minute)


def test_event_time_and_chaining(stream: Callable[..., Any]) -> None:
    """Late rows are dropped; a second operator and Spark's own aggregation get the watermark."""
    fed = stream("key string, time timestamp")
    # Rows are late by the watermark of the batch before: 40 from the third batch on.
    fed.feed([("a", at(0)), ("b", at(5))], [("a", at(50))], [("a", at(50))])
    fed.feed([("late", at(10)), ("a", at(51))])

    def build(df: Any) -> Any:
        df = df.withWatermark("time", "10 minutes")
        first = keystate.keyed(df, "key").process(
            Later(), "key string, time timestamp, watermark long"
        )
        second = keystate.keyed(first, "key").process(
            Later(), "key string, time timestamp, watermark long"
        )
        return second.groupBy(F.window("time", "10 minutes"), "key").count()

    windows = [(r.window.start, r.key, r["count"]) for r in fed.run(build)]
    # The watermark is 41 at the end: only the first window is complete.
    assert sorted(windows) == [(at(0), "a", 1), (at(0), "b", 1)]
    dropped = [op.numRowsDroppedByWatermark for p in fed.progress for op in p.stateOperators]
    assert sum(dropped) == 1


#: In ms since the epoch. A timer by processing time is due once the real clock has passed it too.
TO_COME = 4_000_000_000_000


class Rings(KeyedProcessFunction):
    """Emits for each row, 5 minutes later by event time, when it was."""

    def process_element(self, row: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 300_000)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), timestamp // 60_000 - 5


@pytest.mark.parametrize("mode", ["none", "processing_time", "event_time", "auto"])
def test_the_watermark_goes_on_whatever_the_time_mode(
    stream: Callable[..., Any], mode: str
) -> None:
    fed = stream("key string, time timestamp")
    fed.feed([("a", at(0))], [("b", at(100))], [("c", at(200))], [("late", at(50))])

    def build(df: Any) -> Any:
        df = df.withWatermark("time", "0 seconds")
        first = keystate.keyed(df, "key").process(
            lambda row, ctx: [(row.key, row.time)], "key string, time timestamp", time_mode=mode
        )
        return keystate.keyed(first, "key").process(Rings(), "key string, minute long")

    start = int(at(0).timestamp()) // 60
    assert sorted((key, minute - start) for key, minute in fed.run(build)) == [("a", 0), ("b", 100)]
    dropped = [op.numRowsDroppedByWatermark for p in fed.progress for op in p.stateOperators]
    assert sum(dropped) == 1


class Newest(keystate.windows.ProcessWindowFunction):
    def process(self, key: str, context: Any, elements: Any) -> Any:
        yield key, max(row.time for row in elements)


def test_the_watermark_goes_on_after_windows_by_processing_time(stream: Callable[..., Any]) -> None:
    fed = stream("key string, time timestamp")

    def build(df: Any) -> Any:
        # The delay is more than what comes while a window waits, or its result would be late.
        windows = keystate.keyed(df.withWatermark("time", "150 minutes"), "key").window(
            keystate.windows.TumblingProcessingTimeWindows.of(keystate.Time.minutes(1))
        )
        newest = windows.process(Newest(), "key string, time timestamp")
        return keystate.keyed(newest, "key").process(Rings(), "key string, minute long")

    emitted = run_at(
        fed,
        build,
        [
            (TO_COME, [("a", at(0))]),
            (TO_COME + 70_000, [("b", at(100))]),
            (TO_COME + 140_000, [("c", at(200))]),
            (TO_COME + 210_000, [("d", at(300))]),
            (TO_COME + 280_000, [("e", at(300))]),
        ],
    )
    start = int(at(0).timestamp()) // 60
    assert sorted((key, minute - start) for key, minute in emitted) == [("a", 0), ("b", 100)]


class Lifecycle(KeyedProcessFunction):
    """Leaves a line in a file when it is opened."""

    def __init__(self, file: str) -> None:
        self.file = file

    def open(self, ctx: Any) -> None:
        with open(self.file, "a") as file:
            file.write(f"{ctx.get_task_name_with_subtasks()}\n")
        assert ctx.get_attempt_number() == 0

    def process_element(self, row: Any, ctx: Any) -> None:
        pass


def test_opened_once_over_many_batches(stream: Callable[..., Any], tmp_path: Path) -> None:
    fed = stream("key long")
    fed.feed(*[[(i,) for i in range(10)]] * 6)
    file = tmp_path / "opened"
    fed.run(
        lambda df: keystate.keyed(df, "key").process(
            Lifecycle(str(file)), "x long", name="lifecycle"
        )
    )
    opened = file.read_text().splitlines()
    assert opened.count("declaration (1/1)") == 1
    # A subtask may meet a second worker process, but not a new one for every batch.
    for subtask in (1, 2):
        assert 1 <= opened.count(f"lifecycle ({subtask}/2)") <= 3


class FrozenObjects(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        yield (gc.get_freeze_count(),)


def test_garbage_collections_leave_modules_out(spark: Any) -> None:
    """PySpark's worker makes one after each task."""
    frozen = keystate.keyed(spark.createDataFrame(ROWS, "k string, n int"), "k").process(
        FrozenObjects(), "objects long"
    )
    assert min(row.objects for row in frozen.collect()) > 50_000


class AllStates(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.value = ctx.get_state(ValueStateDescriptor("value", "n long, s string"))
        self.list = ctx.get_list_state(ListStateDescriptor("list", "long"))
        self.map = ctx.get_map_state(MapStateDescriptor("map", "string", "long"))
        self.unused = ctx.get_state(ValueStateDescriptor("unused", "long"))

    def process_element(self, row: Any, ctx: Any) -> None:
        self.value.update((row.x, f"s{row.x}"))
        self.list.add_all([row.x, row.x + 1])
        self.map.put_all({"a": row.x, "b": -row.x})


def test_sparks_state_reader(spark: Any, stream: Callable[..., Any]) -> None:
    fed = stream("key string, x long")
    fed.feed(ROWS)
    fed.run(lambda df: keystate.keyed(df, "key").process(AllStates(), "x long"))

    def read(state: str) -> list[Any]:
        reader = spark.read.format("statestore").option("stateVarName", state)
        return sorted(reader.load(str(fed.checkpoint)).drop("partition_id").collect())

    assert [(r.key.key, tuple(r.value)) for r in read("value")] == [
        ("a", (4, "s4")),
        ("b", (5, "s5")),
    ]
    assert sorted((r.key.key, r.list_element.value) for r in read("list")) == [
        ("a", 1), ("a", 2), ("a", 3), ("a", 4), ("a", 4), ("a", 5),
        ("b", 2), ("b", 3), ("b", 5), ("b", 6),
    ]  # fmt: skip
    entries = sorted((r.key.key, r.user_map_key.key, r.user_map_value.value) for r in read("map"))
    assert entries == [("a", "a", 4), ("a", "b", -4), ("b", "a", 5), ("b", "b", -5)]
    assert read("unused") == []
