"""Timers: set, deleted, fired in order, kept, replayed and rescaled."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import numpy as np
import pytest
from keystate import KeyedProcessFunction, TimeDomain, ValueStateDescriptor
from keystate.session import FORMAT_KEY
from keystate.testing import KeyedProcessHarness
from pyspark.errors import StreamingQueryException

from tests.contract.test_state_model import WAYS

START = datetime.datetime(2024, 1, 1)
EPOCH = 1704067200000  # of START, in ms


def at(seconds: int) -> datetime.datetime:
    return START + datetime.timedelta(seconds=seconds)


class Alarms(KeyedProcessFunction):
    """Sets and deletes timers as the rows say; reports the ones that fire."""

    def open(self, ctx: Any) -> None:
        self.fired = ctx.get_state(ValueStateDescriptor("fired", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> None:
        timers = ctx.timer_service()
        for second in row.set or []:
            timers.register_event_time_timer(EPOCH + second * 1000)
        for second in row.deleted or []:
            timers.delete_event_time_timer(EPOCH + second * 1000)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        assert ctx.time_domain() is TimeDomain.EVENT_TIME
        assert ctx.timestamp() == timestamp
        self.fired.update(self.fired.value() + 1)
        second = (timestamp - EPOCH) // 1000
        if second % 10 == 7:
            # For a time that has passed: fires with the next batch, not in a loop now.
            ctx.timer_service().register_event_time_timer(timestamp - 1000)
        if second % 10 == 5:
            ctx.timer_service().delete_event_time_timer(timestamp + 1000)
        yield ctx.get_current_key(), second, self.fired.value()


SCHEMA = "key string, time timestamp, set array<int>, deleted array<int>"


def alarms(df: Any) -> Any:
    df = df.withWatermark("time", "0 seconds")
    return keystate.keyed(df, "key").process(Alarms(), "key string, second long, fired long")


def test_fire_once_in_order_and_by_batch(spark: Any, stream: Callable[..., Any]) -> None:
    fed = stream(SCHEMA)
    fed.feed(
        [("a", at(0), [3, 1, 2, 2], None), ("b", at(0), [9], None)],
        [("a", at(2), [20], [3])],  # deletes before the watermark comes to it
    )
    # The watermark follows a batch: 2 when both are done, in a batch without rows.
    assert [tuple(r) for r in fed.run(alarms)] == [("a", 1, 1), ("a", 2, 2)]
    fed.feed([("c", at(30), None, None)])
    emitted = [tuple(r) for r in fed.run(alarms)]
    assert sorted(emitted) == [("a", 20, 3), ("b", 9, 1)]
    fed.feed([("c", at(99), None, None)])
    assert fed.run(alarms) == []


class Mended(Alarms):
    """Fails as its first timer fires, until there is a file; tells the watermark."""

    def __init__(self, mended: Path) -> None:
        self.mended = mended

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        if not self.mended.exists():
            raise ValueError("not yet")
        watermark = ctx.timer_service().current_watermark()
        yield ctx.get_current_key(), (timestamp - EPOCH) // 1000, (watermark - EPOCH) // 1000


def test_a_replayed_batch_fires_the_same(stream: Callable[..., Any], tmp_path: Path) -> None:
    mended = tmp_path / "mended"

    def build(df: Any) -> Any:
        keyed = keystate.keyed(df.withWatermark("time", "0 seconds"), "key")
        return keyed.process(Mended(mended), "key string, second long, watermark long")

    emitted = []
    for fails in (True, False):
        fed = stream(SCHEMA)
        fed.feed([("a", at(0), [5, 10, 15], None)], [("b", at(10), [12], None)])
        before = []
        if fails:
            with pytest.raises(StreamingQueryException, match="not yet"):
                fed.run(build)
            mended.touch()
        else:
            before = fed.run(build)
        # What has come meanwhile moves the watermark on, but not that of the batch that failed.
        fed.feed([("b", at(20), None, None)])
        emitted.append([tuple(row) for row in before + fed.run(build)])
    assert sorted(emitted[0]) == sorted(emitted[1])
    assert sorted(emitted[0]) == [("a", 5, 10), ("a", 10, 10), ("a", 15, 20), ("b", 12, 20)]


def test_set_and_deleted_while_firing(stream: Callable[..., Any]) -> None:
    fed = stream(SCHEMA)
    # 15 deletes 16 as it fires; 17 sets 16 again, which waits for the next batch.
    fed.feed([("a", at(0), [15, 16, 17, 18], None)], [("a", at(50), None, None)])
    assert [r.second for r in fed.run(alarms)] == [15, 17, 18]
    fed.feed([("b", at(60), None, None)])
    assert [r.second for r in fed.run(alarms)] == [16]


@pytest.mark.parametrize("way", ["ahead", "evicted"])
@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
def test_agree_with_model_and_rescale(
    way: str, checkpoint_format: str, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings(
        **WAYS[way],
        **{FORMAT_KEY: checkpoint_format},
    )
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    fed = stream(SCHEMA)
    pending: dict[str, set[int]] = {}
    emitted: list[Any] = []
    expected: list[tuple[str, int]] = []
    now = 0
    for partitions in (2, 3, 1, 4):
        settings(**{"spark.sql.shuffle.partitions": str(partitions)})
        rows = []
        for _ in range(60):
            key = f"k{rng.randrange(12)}"
            # Ends in neither 5 nor 7: those act when they fire.
            later = [
                10 * (now // 10 + rng.randrange(1, 9)) + rng.choice([0, 1, 2, 9]) for _ in "ab"
            ]
            mine = pending.setdefault(key, set())
            gone = rng.sample(sorted(mine), min(len(mine), rng.randrange(2)))
            # At the watermark itself they would be late.
            rows.append((key, at(now + 1), later, gone))
            mine.update(later)
            mine.difference_update(gone)
        now += 25
        fed.feed(rows, [("clock", at(now), None, None)])
        for key, mine in pending.items():
            due = {second for second in mine if second <= now}
            expected += [(key, second) for second in due]
            mine -= due
        emitted += fed.run(alarms)
    assert sorted((r.key, r.second) for r in emitted) == sorted(expected)
    for key in pending:
        mine = [r for r in emitted if r.key == key]
        assert [r.fired for r in mine] == list(range(1, len(mine) + 1))
        assert [r.second for r in mine] == sorted(r.second for r in mine)


class Later(KeyedProcessFunction):
    """Sets a timer by processing time and reports how long after its time it fired."""

    def open(self, ctx: Any) -> None:
        pass

    def process_element(self, row: Any, ctx: Any) -> None:
        timers = ctx.timer_service()
        now = timers.current_processing_time()
        timers.register_processing_time_timer(now + 1)
        timers.register_processing_time_timer(now + 3_600_000)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        assert ctx.time_domain() is TimeDomain.PROCESSING_TIME
        yield ctx.get_current_key(), ctx.timer_service().current_processing_time() - timestamp


@pytest.mark.parametrize("time_mode", ["auto", "processing_time"])
def test_processing_time(time_mode: str, stream: Callable[..., Any]) -> None:
    """The timers that are due fire without further rows; the others don't keep the query going."""
    fed = stream("key string")

    def later(df: Any) -> Any:
        return keystate.keyed(df, "key").process(
            Later(), "key string, late long", time_mode=time_mode
        )

    fed.feed([("a",)], [("b",)])
    emitted = fed.run(later)
    fed.feed([("c",)])
    emitted += fed.run(later)
    assert {"a", "b"} <= {r.key for r in emitted}
    assert len(emitted) == len({r.key for r in emitted})
    assert all(0 <= r.late < 600_000 for r in emitted)


@pytest.mark.parametrize("way", ["ahead", "evicted"])
def test_batch_fires_all_at_the_end(spark: Any, way: str, settings: Callable[..., None]) -> None:
    settings(**WAYS[way])
    rows = [(f"k{i % 9}", at(0), [i, 1000 - i], [i - 9]) for i in range(90)]
    df = spark.createDataFrame(rows, SCHEMA).coalesce(1)
    emitted = keystate.keyed(df, "key").process(Alarms(), "key string, second long, fired long")
    expected = set()
    for key, _, later, gone in rows:
        expected -= {(key, second) for second in gone}
        expected |= {(key, second) for second in later}
    # 5 deletes the next one, 7 sets the one before again.
    expected -= {(k, s + 1) for k, s in expected if s % 10 == 5}
    expected |= {(k, s - 1) for k, s in expected if s % 10 == 7}
    assert sorted((r.key, r.second) for r in emitted.collect()) == sorted(expected)


class Echoes(KeyedProcessFunction):
    """Sets timers, and keeps nothing else."""

    def process_element(self, row: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(EPOCH + 5000)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield (str(ctx.get_current_key()),)


def test_another_key_is_refused_without_keyed_state(stream: Callable[..., Any]) -> None:
    """Else a timer of the other key would fire for bytes that mean something else."""

    def keyed(column: str) -> Callable[[Any], Any]:
        def build(df: Any) -> Any:
            rows = keystate.keyed(df.withWatermark("time", "0 seconds"), column)
            return rows.process(Echoes(), "key string", time_mode="event_time")

        return build

    fed = stream("key long, name string, time timestamp")
    fed.feed([(1, "a", at(0))])
    fed.run(keyed("key"))
    fed.feed([(1, "a", at(60))])
    with pytest.raises(StreamingQueryException, match=r"KEYSTATE_KEY_CHANGED.*keyed by \(key"):
        fed.run(keyed("name"))
    assert fed.run(keyed("key")) == [("1",)]


class AtNumbers(KeyedProcessFunction):
    """Sets and deletes timers at times of other classes than int."""

    def process_element(self, row: Any, ctx: Any) -> None:
        ctx.register_event_time_timer(np.int64(row.x))
        ctx.register_event_time_timer(np.int32(row.x + 1))
        ctx.delete_event_time_timer(np.int64(row.x + 1))
        for wrong in (True, np.bool_(True), 1.0, "1", None):
            with pytest.raises(TypeError, match="a timer's time must be an int"):
                ctx.register_event_time_timer(wrong)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield timestamp, type(timestamp).__name__


def test_times_of_numpy() -> None:
    schema = "key string, x long, t timestamp"
    output = "at long, cls string"
    with KeyedProcessHarness(AtNumbers(), schema, "key", output, event_time="t") as harness:
        harness.process(("a", 5, None))
        assert harness.advance_watermark(100) == [(5, "int")]


def test_refusals(spark: Any, stream: Callable[..., Any]) -> None:
    fed = stream(SCHEMA)
    fed.feed([("a", at(0), [1], None)])
    with pytest.raises(Exception, match="need a watermark"):
        fed.run(lambda df: keystate.keyed(df, "key").process(Alarms(), "k string, s long, n long"))

    def no_on_timer(row: Any, ctx: Any) -> None:
        ctx.timer_service().register_event_time_timer(1)

    df = spark.createDataFrame([(1,)], "key long")
    with pytest.raises(Exception, match="need an on_timer"):
        keystate.keyed(df, "key").process(no_on_timer, "key long").collect()
