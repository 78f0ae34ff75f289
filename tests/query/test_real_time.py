"""Python functions in Spark's real-time mode."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    AsyncKeyedProcessFunction,
    CheckpointedFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    Pattern,
    StateTtlConfig,
    Time,
    ValueStateDescriptor,
    admin,
)
from keystate._jvm.session import FORMAT_KEY
from keystate._types.waiting import wait_until
from keystate.errors import CheckpointError
from keystate.windows import (
    EventTimeSessionWindows,
    TumblingEventTimeWindows,
    WindowFunction,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.real_time import (
    Source,
    in_micro_batches,
    lines,
    needs_real_time,
    note,
    start,
    wait_for,
)

pytestmark = [needs_real_time, pytest.mark.usefixtures("short_batches")]

BIG = OutputTag("big", "key long")
FACTORS = MapStateDescriptor("factors", "long", "long")


class Count(KeyedProcessFunction):
    """Emits each key's count, and notes it in a file."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = str(path) if path else None

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        n = self.count.value() + 1
        self.count.update(n)
        if self.path:
            note(self.path, row.key, n, row.x)
        yield row.key, n
        if row.x > 900:
            yield BIG, row.key


def batches(query: Any) -> int:
    return len(query.recentProgress)


def state(spark: SparkSession, folder: Path) -> dict[int, int]:
    reader = spark.read.format("statestore").option("stateVarName", "count")
    rows = reader.load(str(folder / "checkpoint")).select("key.key", "value.*").collect()
    return {row[0]: row[1] for row in rows}


def counting(source: Source, fn: Any, folder: Path, trigger: str) -> Any:
    """Starts a query of the source's rows by key, which emits a number for each of them."""
    out = keystate.keyed(source.rows(), "key").process(fn, "key long, n long")
    return start(out, folder, trigger)


def test_results_and_state_over_batches(
    spark: SparkSession, running: list[Any], tmp_path: Path
) -> None:
    source = Source(spark)
    query = counting(source, Count(), tmp_path, "2 seconds")
    running.append(query)
    rows = [(i * 7 % 13, i) for i in range(600)]
    for end in (200, 400, 600):
        for i in range(end - 200, end, 20):
            source.add(rows[i : i + 20])
        # The sink may write its rows as late as at the end of a batch.
        wait_for(query, lambda end=end: len(lines(tmp_path / "out")) == end)
        ended = batches(query)
        wait_for(query, lambda ended=ended: batches(query) > ended)
    query.stop()
    totals = Counter(key for key, _ in rows)
    expected = [(key, n) for key, total in totals.items() for n in range(1, total + 1)]
    assert sorted(map(tuple, lines(tmp_path / "out"))) == sorted(expected)
    assert sum(p.numInputRows > 0 for p in query.recentProgress) > 1, "all came in one batch"
    for progress in query.recentProgress:
        told = progress.stateOperators[0].customMetrics
        if progress.numInputRows:
            assert 0 < told["keystateWorkerUs.p50"] <= told["keystateLatencyUs.p50"]
            assert told["keystateLatencyUs.p50"] <= told["keystateLatencyUs.max"] < 60_000_000
        else:
            assert told["keystateLatencyUs.max"] == 0
    assert state(spark, tmp_path) == totals


def test_a_key_is_forgotten_by_a_later_batch(
    spark: SparkSession, running: list[Any], tmp_path: Path
) -> None:
    source = Source(spark)
    query = counting(source, Count(), tmp_path, "2 seconds")
    running.append(query)
    source.add([(1, 0), (1, 1), (2, 0), (2, 1)])
    # A job would take the slots that a batch needs; a lookup runs none.
    checkpoint = str(tmp_path / "checkpoint")
    wait_for(query, lambda: sum(p.numInputRows for p in query.recentProgress) == 4)
    assert admin.lookup(checkpoint, state="count", key=1) == 2
    admin.forget(query, key=1, spark=spark)
    wait_for(query, lambda: not admin.lookup(checkpoint, state="count", key=1))
    source.add([(1, 2), (2, 2)])
    wait_for(query, lambda: len(lines(tmp_path / "out")) == 6)
    query.stop()
    assert sorted(map(tuple, lines(tmp_path / "out")[-2:])) == [(1, 1), (2, 3)]


def test_rows_are_processed_while_the_batch_lasts(
    spark: SparkSession, running: list[Any], tmp_path: Path
) -> None:
    source = Source(spark)
    noted = tmp_path / "noted"
    query = counting(source, Count(noted), tmp_path, "10 minutes")
    running.append(query)
    for i in range(20):
        source.add([(1, i)])
        wait_for(query, lambda i=i: len(lines(noted)) == i + 1)
    assert [n for _, n, _ in lines(noted)] == list(range(1, 21))
    assert batches(query) == 0
    started = time.monotonic()
    query.stop()
    assert time.monotonic() - started < 60  # the batch lasts ten minutes


class AsyncCount(AsyncKeyedProcessFunction):
    """Emits each key's count after a while, and again by a timer."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    async def process_element(self, row: Any, ctx: Any) -> Any:
        n = self.count.value() + 1
        await asyncio.sleep(0.01)
        self.count.update(n)
        ctx.timer_service().register_processing_time_timer(0)
        return row.key, n

    async def on_timer(self, timestamp: int, ctx: Any) -> Any:
        n = self.count.value()
        await asyncio.sleep(0.01)
        yield -ctx.get_current_key(), n


def test_async_functions(spark: SparkSession, running: list[Any], tmp_path: Path) -> None:
    source = Source(spark)
    query = counting(source, AsyncCount(), tmp_path, "2 seconds")
    running.append(query)
    rows = [(1 + i % 20, i) for i in range(400)]
    for i in range(0, 400, 100):
        source.add(rows[i : i + 100])
    expected = {(key, n) for key in range(1, 21) for n in range(1, 21)}
    last = {(-key, 20) for key in range(1, 21)}
    wait_for(query, lambda: {*map(tuple, lines(tmp_path / "out"))} >= expected | last)
    ended = batches(query)
    wait_for(query, lambda: batches(query) > ended)
    query.stop()
    emitted = [tuple(line) for line in lines(tmp_path / "out")]
    assert sorted(line for line in emitted if line[0] > 0) == sorted(expected)
    assert state(spark, tmp_path) == dict.fromkeys(range(1, 21), 20)


def test_the_mode_changes_at_a_restart(
    spark: SparkSession, settings: Callable[..., None], running: list[Any], tmp_path: Path
) -> None:
    """Real time, stopped within a batch; then micro-batches; then real time again.

    The number of partitions changes too.
    """
    noted = tmp_path / "noted"
    rows = [(i % 5, i) for i in range(300)]

    def build(source: Source) -> DataFrame:
        return keystate.keyed(source.rows(), "key").process(Count(noted), "key long, n long")

    first = Source(spark)
    query = start(build(first), tmp_path, "3 seconds")
    running.append(query)
    first.add(rows[:100])
    wait_for(query, lambda: batches(query) > 0 and len(lines(noted)) >= 100)
    first.add(rows[100:150])
    wait_for(query, lambda: len(lines(noted)) >= 150)
    query.stop()

    settings(**{"spark.sql.shuffle.partitions": "2"})
    second = Source(spark)
    second.add(rows[:200])
    query = in_micro_batches(build(second), tmp_path)
    running.append(query)
    query.processAllAvailable()
    query.stop()
    assert state(spark, tmp_path) == dict.fromkeys(range(5), 40)

    settings(**{"spark.sql.shuffle.partitions": "1"})
    third = Source(spark)
    third.add(rows)
    live = start(build(third), tmp_path, "3 seconds")
    running.append(live)
    wait_for(live, lambda: batches(live) > 0)
    live.stop()
    assert state(spark, tmp_path) == dict.fromkeys(range(5), 60)

    # Only what went by a recorded clock can be replayed; also of versions that were rescaled since.
    def again(batch: int) -> Any:
        return keystate.replay(build(third), str(tmp_path / "checkpoint"), batch=batch, key=3)

    recorded = [p.batchId for p in query.recentProgress if p.numInputRows]
    assert recorded and all(again(batch).same for batch in recorded)
    committed = {int(path.name) for path in (tmp_path / "checkpoint/commits").glob("[0-9]*")}
    in_real_time = committed - {p.batchId for p in query.recentProgress}
    assert {recorded[0] - 1, recorded[-1] + 1} <= in_real_time
    for batch in in_real_time:
        with pytest.raises(CheckpointError, match=f"Batch {batch} ran in real-time mode") as error:
            again(batch)
        assert error.value.code == "KEYSTATE_CANNOT_REPLAY"


class Alarm(KeyedProcessFunction):
    """Sets a timer half a second after each row, and notes when it fires."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def process_element(self, row: Any, ctx: Any) -> None:
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + 500)
        timers.register_processing_time_timer(timers.current_processing_time() + 700)
        timers.delete_processing_time_timer(timers.current_processing_time() + 700)

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        note(self.path, ctx.get_current_key(), timestamp, time.time() * 1000)


def test_processing_time_timers_fire_within_the_batch(
    spark: SparkSession, running: list[Any], tmp_path: Path
) -> None:
    source = Source(spark)
    noted = tmp_path / "noted"
    out = keystate.keyed(source.rows(), "key").process(
        Alarm(noted), "key long", time_mode="processing_time"
    )
    query = start(out, tmp_path, "10 minutes")
    running.append(query)
    source.add([(1, 1), (2, 2)])
    wait_for(query, lambda: len(lines(noted)) == 2)
    source.add([(1, 3)])
    wait_for(query, lambda: len(lines(noted)) == 3)
    assert batches(query) == 0
    # Timers of the same time fire by key group.
    assert sorted(key for key, _, _ in lines(noted)[:2]) == [1, 2]
    assert lines(noted)[2][0] == 1
    late = [fired - timer for _, timer, fired in lines(noted)]
    assert min(late) >= 0, late
    assert late[-1] < 5000, late
    time.sleep(1)
    assert len(lines(noted)) == 3, "a timer that was deleted fired"


class Expiring(KeyedProcessFunction):
    """Counts; a count lives for a second after it was last written."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def open(self, ctx: Any) -> None:
        count = ValueStateDescriptor("count", "long", default=0)
        count.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(1)).build())
        self.count = ctx.get_state(count)

    def process_element(self, row: Any, ctx: Any) -> None:
        self.count.update(self.count.value() + 1)
        note(self.path, self.count.value())


def test_state_expires_within_the_batch(
    spark: SparkSession, running: list[Any], tmp_path: Path
) -> None:
    source = Source(spark)
    noted = tmp_path / "noted"
    out = keystate.keyed(source.rows(), "key").process(
        Expiring(noted), "key long", time_mode="processing_time"
    )
    query = start(out, tmp_path, "10 minutes")
    running.append(query)
    source.add([(1, 1), (1, 2)])
    wait_for(query, lambda: len(lines(noted)) == 2)
    time.sleep(5)
    source.add([(1, 3)])
    wait_for(query, lambda: len(lines(noted)) == 3)
    assert batches(query) == 0
    assert [n for (n,) in lines(noted)] == [1, 2, 1]


class Convert(KeyedBroadcastProcessFunction):
    """Emits rows, each with the factor of its key, and how often the key came."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_broadcast_element(self, row: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(FACTORS).put(row.key, row.x)

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        yield row.x, ctx.get_broadcast_state(FACTORS).get(row.key), self.count.value()


def test_a_static_broadcast(spark: SparkSession, running: list[Any], tmp_path: Path) -> None:
    """It is read with the first batch, and never again."""
    rows = [(1 + i % 2, i) for i in range(40)]
    emitted: list[list[Any]] = []
    for part, factors in enumerate([[(1, 10), (2, 20)], [(1, 11), (2, 21)]]):
        source = Source(spark)
        source.add(rows[: 20 * part])
        keyed = keystate.keyed(source.rows(), "key").connect(
            keystate.broadcast(spark.createDataFrame(factors, "key long, x long"), FACTORS)
        )
        out = keyed.process(Convert(), "x long, factor long, n long")
        query = start(out, tmp_path, "1 second")
        running.append(query)
        for i in (0, 10):
            source.add(rows[20 * part + i : 20 * part + i + 10])
            wait_for(query, lambda n=20 * part + i + 10: len(lines(tmp_path / "out")) >= n)
            ended = batches(query)
            wait_for(query, lambda ended=ended: batches(query) > ended + 1)  # noqa: B023
        query.stop()
        emitted = lines(tmp_path / "out")
    assert emitted == [[x, 10 * key, 1 + x // 2] for key, x in rows]


class Numbers(KeyedProcessFunction, CheckpointedFunction):
    """Numbers the rows of a subtask, over all of its keys."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.kept = store.get_list_state(ListStateDescriptor("n", "long"))
        self.n = sum(self.kept.get())

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.n += 1
        note(self.path, self.n, row.x)
        yield row.key, self.n

    def snapshot_state(self, context: Any) -> None:
        self.kept.update([self.n])


def test_operator_state(spark: SparkSession, running: list[Any], tmp_path: Path) -> None:
    """Over batches, and through a stop within one: its rows are numbered again."""
    noted = tmp_path / "noted"

    def run(rows: list[tuple[int, int]], source: Source, until: int) -> Any:
        query = counting(source, Numbers(noted), tmp_path, "3 seconds")
        running.append(query)
        source.add(rows)
        wait_for(query, lambda: [until - 1] in [line[1:] for line in lines(noted)])
        return query

    rows = [(i % 5, i) for i in range(60)]
    first = Source(spark)
    query = run(rows[:20], first, 20)
    wait_for(query, lambda: batches(query) > 1)
    first.add(rows[20:40])
    wait_for(query, lambda: len(lines(noted)) == 40)
    query.stop()
    assert lines(noted) == [[i + 1, i] for i in range(40)]
    query = run(rows, Source(spark), 60)
    ended = batches(query)
    wait_for(query, lambda: batches(query) > ended)
    query.stop()
    # Each row has its number, however often it was processed.
    assert all(n == x + 1 for n, x in lines(noted))
    assert lines(noted)[-20:] == [[i + 1, i] for i in range(40, 60)]


def test_operations_and_side_outputs(
    spark: SparkSession, running: list[Any], tmp_path: Path
) -> None:
    source = Source(spark)
    keyed = keystate.keyed(source.rows(), "key")
    results = {
        "sums": keyed.reduce(lambda a, b: (a.key, a.x + b.x)),
        "odd": keyed.filter(lambda row: row.x % 2 == 1),
        "double": keyed.map(lambda row: (row.key, 2 * row.x), "key long, x long"),
        "big": keyed.process(Count(), "key long, n long").side_output(BIG),
    }
    for name, out in results.items():
        (tmp_path / name).mkdir()
        query = start(out, tmp_path / name, "1 second")
        running.append(query)
        source.add([])
        rows = [(1, 3), (2, 4), (1, 999)]
        source.add(rows)
        wait_for(query, lambda: batches(query) > 1)  # noqa: B023
        query.stop()
    assert [row for row in lines(tmp_path / "sums" / "out") if row[1] == 1002]
    assert lines(tmp_path / "odd" / "out")[:2] == [[1, 3], [1, 999]]
    assert lines(tmp_path / "double" / "out")[:3] == [[1, 6], [2, 8], [1, 1998]]
    assert lines(tmp_path / "big" / "out")[0] == [1]


@pytest.mark.parametrize("what", ["a function in Python", "a join of streams"])
def test_a_plan_that_waits_for_all_of_its_input_is_refused(
    what: str, spark: SparkSession, running: list[Any], tmp_path: Path
) -> None:
    """Spark's own check, though it does not know Keystate's operator."""
    rows = Source(spark).rows()
    if what == "a join of streams":
        rows = rows.join(Source(spark).rows("key long, y long"), "key")
    elif what == "a function in Python":
        rows = rows.withColumn("y", F.udf(lambda x: x, "long")("x"))
    stream = keystate.keyed(rows, "key")
    query = start(stream.process(Count(), "key long, n long"), tmp_path, "1 second")
    running.append(query)
    with pytest.raises(Exception, match="OPERATOR_OR_SINK_NOT_IN_ALLOWLIST"):
        query.awaitTermination(60)


def test_spark_s_own_check_is_refused_if_it_is_on(
    spark: SparkSession, settings: Callable[..., None], running: list[Any], tmp_path: Path
) -> None:
    """It knows nothing of Keystate's operators."""
    settings(**{"spark.sql.streaming.realTimeMode.allowlistCheck": "true"})
    out = keystate.keyed(Source(spark).rows(), "key").process(Count(), "key long, n long")
    query = start(out, tmp_path, "1 second")
    running.append(query)
    with pytest.raises(Exception, match=r"KEYSTATE_BAD_SETTING.*allowlistCheck is 'true'"):
        query.awaitTermination(60)


def test_stopped_before_its_first_commit(
    spark: SparkSession, running: list[Any], tmp_path: Path
) -> None:
    """It goes on in micro-batches, from the first row."""
    noted = tmp_path / "noted"
    rows = [(i % 5, i) for i in range(50)]

    def build(source: Source) -> DataFrame:
        return keystate.keyed(source.rows(), "key").process(Count(noted), "key long, n long")

    first = Source(spark)
    query = start(build(first), tmp_path, "10 minutes")
    running.append(query)
    first.add(rows)
    wait_for(query, lambda: len(lines(noted)) == 50)
    query.stop()
    assert list((tmp_path / "checkpoint/state").iterdir())
    assert not list((tmp_path / "checkpoint").glob("commits/[0-9]*"))

    second = Source(spark)
    second.add(rows)
    query = in_micro_batches(build(second), tmp_path)
    running.append(query)
    query.processAllAvailable()
    query.stop()
    assert state(spark, tmp_path) == dict.fromkeys(range(5), 10)


def test_checkpoint_format_v1_is_refused(
    spark: SparkSession, settings: Callable[..., None], running: list[Any], tmp_path: Path
) -> None:
    """In the session, and in the checkpoint of a query that was begun in micro-batches."""
    source = Source(spark)
    source.add([(1, 1), (2, 2), (1, 3)])
    out = keystate.keyed(source.rows(), "key").process(Count(), "key long, n long")
    settings(**{FORMAT_KEY: "1"})
    with pytest.raises(Exception, match=f"STREAMING_REAL_TIME_MODE.*{FORMAT_KEY} must be 2"):
        start(out, tmp_path, "1 second")
    query = in_micro_batches(out, tmp_path)
    running.append(query)
    query.processAllAvailable()
    query.stop()
    settings(**{FORMAT_KEY: "2"})
    query = start(out, tmp_path, "1 second")
    running.append(query)
    with pytest.raises(Exception, match="CHECKPOINT_FORMAT_V1_NOT_SUPPORTED"):
        query.awaitTermination(60)
    assert state(spark, tmp_path) == {1: 2, 2: 1}


class Both(KeyedCoProcessFunction):
    def process_element1(self, row: Any, ctx: Any) -> Any:
        yield row.key, row.x

    def process_element2(self, row: Any, ctx: Any) -> Any:
        yield row.key, row.x


@pytest.mark.parametrize(
    "what",
    ["order_by", "two keyed inputs", "join in time", "pattern", "stream that is broadcast"],
)
def test_what_needs_all_rows_of_a_batch_is_refused(
    what: str, spark: SparkSession, running: list[Any], tmp_path: Path
) -> None:
    def keyed(**order: Any) -> Any:
        return keystate.keyed(Source(spark).rows(), "key", **order)

    schema = "key long, n long"
    if what == "order_by":
        out = keyed(order_by="x").process(Count(), schema)
    elif what == "two keyed inputs":
        out = keyed().connect(keyed()).process(Both(), schema)
    elif what in ("join in time", "pattern"):

        def timed() -> Any:
            rows = Source(spark).rows("key long, at long")
            rows = rows.withColumn("time", F.timestamp_seconds("at"))
            return keystate.keyed(rows.withWatermark("time", "0 seconds"), "key")

        if what == "pattern":
            found = timed().pattern(Pattern.begin("a").where(F.col("at") > 0), order_by="time")
            out = found.select(F.count("a.*").alias("n"))
        else:
            out = keystate.join_all([timed(), timed()], within=Time.seconds(1))
    else:
        factors = keystate.broadcast(Source(spark).rows(), FACTORS)
        out = keyed().connect(factors).process(Convert(), schema)
    query = start(out, tmp_path, "10 minutes")
    running.append(query)
    with pytest.raises(Exception, match=f"(?s)KEYSTATE_DECLARATION.*{what}.*real-time mode"):
        query.awaitTermination(60)
    # Nothing goes on behind its back.
    jobs = spark.sparkContext.statusTracker()
    wait_until(lambda: not jobs.getActiveJobsIds(), "the end of all jobs", seconds=10)


def test_an_error_of_the_function_ends_the_query(
    spark: SparkSession, running: list[Any], tmp_path: Path
) -> None:
    source = Source(spark)
    out = keystate.keyed(source.rows(), "key").map(lambda row: 1 // row.x, "y long")
    query = start(out, tmp_path, "10 minutes")
    running.append(query)
    source.add([(1, 1), (1, 0)])
    with pytest.raises(Exception, match="ZeroDivisionError"):
        query.awaitTermination(120)


class FailsOnTens(KeyedProcessFunction):
    """Counts, sets a timer, and then fails on each tenth row; the timers of odd keys fail too."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        ctx.timer_service().register_processing_time_timer(row.x)
        yield row.key, self.count.value()
        if row.x % 10 == 0:
            raise ValueError(row.x)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1000)
        if ctx.get_current_key() % 2:
            raise KeyError(timestamp)


def test_dead_letters(spark: SparkSession, running: list[Any], tmp_path: Path) -> None:
    """Few rows come as Spark holds them, many as columns: letters are of both."""
    dead = OutputTag("dead", keystate.dead_letter_schema())
    source = Source(spark)
    made = keystate.keyed(source.rows(), "key").process(
        FailsOnTens(), "key long, n long", on_error=keystate.dead_letters(dead)
    )
    out = made.with_side_outputs(dead).select("main.*", "dead.key", "dead.row", "dead.timer")
    query = start(out, tmp_path, "2 seconds")
    running.append(query)
    rows = [(1 + i % 2, i) for i in range(1, 331)]
    for part in (rows[:10], rows[10:20], rows[20:]):
        source.add(part)
        fine = [row for row in rows[: part[-1][1]] if row[1] % 10]
        odd = [x for key, x in fine if key % 2]
        done = len(fine) + len(odd) + part[-1][1] // 10
        wait_for(query, lambda done=done: len(lines(tmp_path / "out")) == done)
    query.stop()
    found = lines(tmp_path / "out")
    assert sorted(json.loads(row)["x"] for _, _, _, row, _ in found if row) == [*range(10, 331, 10)]
    assert sorted(timer for *_, timer in found if timer) == sorted(odd)
    assert len([key for key, *_ in found if key]) == len(fine)


class Fired(WindowFunction):
    """Notes at once that a window has fired."""

    def __init__(self, path: Path) -> None:
        self.path = str(path)

    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        note(self.path, window.start)
        yield key, len(inputs)


@pytest.mark.parametrize("lateness", [0, 60_000])
def test_a_window_that_has_ended_is_over_for_rows(
    spark: SparkSession, running: list[Any], tmp_path: Path, lateness: int
) -> None:
    """Windows that the watermark has passed fire before the rows of a batch."""
    source = Source(spark)
    rows = source.rows("key long, x long, at long").withColumn("time", F.timestamp_seconds("at"))
    windows = (
        keystate.keyed(rows.withWatermark("time", "0 seconds"), "key")
        .window(TumblingEventTimeWindows.of(Time.seconds(10)))
        .allowed_lateness(lateness)
    )
    fired = tmp_path / "fired"
    query = start(windows.apply(Fired(fired), "key long, n long"), tmp_path, "3 seconds")
    running.append(query)
    source.add([(1, 0, 1), (1, 0, 25)])
    wait_for(query, lambda: len(lines(fired)) == 1)
    source.add([(1, 0, 2)])  # within the batch at whose beginning the window has fired
    wait_for(query, lambda: sum(p.numInputRows for p in query.recentProgress) == 3)
    ended = batches(query)
    wait_for(query, lambda: batches(query) > ended + 1)
    query.stop()
    assert lines(fired) == [[0]] * (2 if lateness else 1)
    counts = [[1, 1], [1, 2]] if lateness else [[1, 1]]
    assert lines(tmp_path / "out") == counts


def test_aggregates_of_a_key_are_emitted_with_each_row(
    spark: SparkSession, running: list[Any], tmp_path: Path
) -> None:
    """While the batch lasts, and again by the next one and a query in micro-batches."""
    source = Source(spark)

    def totals(rows: DataFrame) -> DataFrame:
        return keystate.keyed(rows, "key").aggregate(
            F.sum("x").alias("total"), F.sort_array(F.collect_set("x")).alias("values")
        )

    query = start(totals(source.rows()), tmp_path, "5 seconds")
    running.append(query)
    out = tmp_path / "out"
    source.add([(1, 3), (2, 4), (1, 5)])
    wait_for(query, lambda: len(lines(out)) == 3)
    assert lines(out) == [[1, 3, [3]], [2, 4, [4]], [1, 8, [3, 5]]]
    done = batches(query)
    wait_for(query, lambda: batches(query) > done)
    source.add([(2, 1)])
    wait_for(query, lambda: len(lines(out)) == 4)
    assert lines(out)[3] == [2, 5, [1, 4]]
    wait_for(query, lambda: batches(query) > done + 1)
    query.stop()
    state = admin.read_state(spark, str(tmp_path / "checkpoint"))
    found = state.select("key.key", "aggregates.*").collect()
    assert sorted(map(tuple, found)) == [(1, 8, [3, 5]), (2, 5, [1, 4])]


@pytest.mark.parametrize("sessions", [False, True])
def test_windows_of_aggregates_fire_at_the_end_of_a_batch(
    spark: SparkSession, running: list[Any], tmp_path: Path, sessions: bool
) -> None:
    source = Source(spark)
    rows = source.rows("key long, x long, at long").withColumn("time", F.timestamp_seconds("at"))
    assigner: Any = EventTimeSessionWindows.with_gap(Time.seconds(5))
    if not sessions:
        assigner = TumblingEventTimeWindows.of(Time.seconds(10))
    keyed = keystate.keyed(rows.withWatermark("time", "0 seconds"), "key")
    totals = keyed.window(assigner).aggregate(F.sum("x").alias("total"), F.max_by("x", "at"))
    query = start(totals.drop("window_start", "window_end"), tmp_path, "2 seconds")
    running.append(query)
    source.add([(1, 3, 1), (1, 4, 2), (2, 5, 4), (1, 6, 25)])
    wait_for(query, lambda: len(lines(tmp_path / "out")) == 2)
    query.stop()
    assert sorted(lines(tmp_path / "out")) == [[1, 7, 4], [2, 5, 5]]
