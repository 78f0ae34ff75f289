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
from keystate._jvm.session import FORMAT_KEY
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
            # Before its own time: waits for the next batch, not in a loop now.
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


class Chains(KeyedProcessFunction):
    """Timers that set and delete others; a key does it so many times."""

    def open(self, ctx: Any) -> None:
        self.left = ctx.get_state(ValueStateDescriptor("left", "long", default=30))

    def process_element(self, row: Any, ctx: Any) -> None:
        for second in row.set or []:
            ctx.timer_service().register_event_time_timer(EPOCH + second * 1000)
        for second in row.deleted or []:
            ctx.timer_service().delete_event_time_timer(EPOCH + second * 1000)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        second = (timestamp - EPOCH) // 1000
        left = self.left.value()
        for is_set, other in following(second) if left else ():
            change = "register" if is_set else "delete"
            getattr(ctx.timer_service(), f"{change}_event_time_timer")(EPOCH + other * 1000)
        self.left.update(max(left - 1, 0))
        yield ctx.get_current_key(), second


def following(second: int) -> list[tuple[bool, int]]:
    """What a timer sets and deletes: later ones, earlier ones, itself."""
    return {
        0: [(True, second + 3)],
        1: [(True, second + 1), (True, second - 2)],
        2: [(True, second)],
        3: [(False, second + 1), (True, second + 9)],
        4: [(True, second + 1), (False, second + 1), (True, second + 2)],
    }.get(second * 7 % 11, [])


class ModelOfChains:
    """The same of one key, told from the docs."""

    def __init__(self) -> None:
        self.timers: set[int] = set()
        self.left = 30

    def passed(self, until: float) -> list[int]:
        """What fires in a micro-batch, after its rows."""
        fired, waiting = [], set[int]()
        while due := {t for t in self.timers - waiting if t <= until}:
            second = min(due)
            fired.append(second)
            self.timers.remove(second)
            for is_set, other in following(second) if self.left else ():
                if is_set and other not in self.timers:
                    self.timers.add(other)
                    waiting |= {other} if other <= second else set()
                elif not is_set:
                    self.timers.discard(other)
                    waiting.discard(other)
            self.left = max(self.left - 1, 0)
        return fired


def drawn_chains(rng: random.Random) -> list[tuple[list[Any], int]]:
    """Micro-batches: rows, and the time of a clock's row."""
    now, batches = 20, []
    for _ in range(6):
        rows = []
        for _ in range(25):
            around = [max(1, now + rng.randint(-20, 15)) for _ in "abc"]
            rows.append((f"k{rng.randrange(15)}", at(now + 1), around[:2], around[2:]))
        now += rng.choice([5, 10, 30])
        batches.append((rows, now))
    return batches


def chains(df: Any, **options: Any) -> Any:
    return keystate.keyed(df, "key").process(Chains(), "key string, second long", **options)


@pytest.mark.parametrize("cached", ["200000", "2"])
@pytest.mark.parametrize("seed", [1, 2])
def test_chains_run_to_the_watermark(
    seed: int, cached: str, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """In one micro-batch, each key's in order of time; also where keys are let go."""
    settings(
        **{
            "spark.keystate.worker.maxCachedKeys": cached,
            "spark.sql.execution.arrow.maxRecordsPerBatch": "7",
            "spark.sql.shuffle.partitions": "2",
        }
    )
    batches = drawn_chains(random.Random(seed))
    fed = stream(SCHEMA)
    fed.feed(*([*rows, ("clock", at(now), None, None)] for rows, now in batches))
    df = fed.source().withWatermark("time", "0 seconds")
    found = [[tuple(row) for row in batch] for batch in fed.micro_batches(chains(df))]
    models: dict[str, ModelOfChains] = {}
    watermark = 0
    for (rows, now), emitted in zip([*batches, ([], 0)], found):
        for key, _, set_, deleted in rows:
            mine = models.setdefault(key, ModelOfChains())
            mine.timers.update(set_)
            mine.timers.difference_update(deleted)
        for key, model in models.items():
            wanted = model.passed(watermark)
            assert [second for k, second in emitted if k == key] == wanted, (key, watermark)
        watermark = now


@pytest.mark.parametrize("cached", ["200000", "2"])
def test_chains_in_a_batch(spark: Any, cached: str, settings: Callable[..., None]) -> None:
    """In order of time too. Those that wait fire when all others have."""
    settings(
        **{
            "spark.keystate.worker.maxCachedKeys": cached,
            "spark.sql.execution.arrow.maxRecordsPerBatch": "7",
        }
    )
    rows = [row for rows, _ in drawn_chains(random.Random(3)) for row in rows]
    made = chains(spark.createDataFrame(rows, SCHEMA).coalesce(1), event_time="time")
    found = [tuple(row) for row in made.collect()]
    models: dict[str, ModelOfChains] = {}
    for key, _, set_, deleted in rows:
        mine = models.setdefault(key, ModelOfChains())
        mine.timers.update(set_)
        mine.timers.difference_update(deleted)
    for key, model in models.items():
        wanted = []
        while model.timers:
            wanted += model.passed(10**9)
        assert [second for k, second in found if k == key] == wanted, key


def test_processing_time_timers_that_set_themselves_end_no_trigger(
    stream: Callable[..., Any],
) -> None:
    """With availableNow the query ends; they fire once in each micro-batch."""

    class Again(KeyedProcessFunction):
        def process_element(self, row: Any, ctx: Any) -> None:
            ctx.timer_service().register_processing_time_timer(5)

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            ctx.timer_service().register_processing_time_timer(timestamp)
            yield ctx.get_current_key(), timestamp

    fed = stream("key string")
    fed.feed([("a",)], [("b",)])
    fired = fed.run(lambda df: keystate.keyed(df, "key").process(Again(), "key string, at long"))
    assert sorted(map(tuple, fired)) == [("a", 5), ("a", 5), ("b", 5)]
