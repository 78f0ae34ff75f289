"""States with a time to live, in queries whose clock is set by hand."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from itertools import groupby
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    SortedMapStateDescriptor,
    StateTtlConfig,
    Time,
    ValueStateDescriptor,
    admin,
)
from keystate.testing import KeyedProcessHarness, rows_of
from pyspark.errors import StreamingQueryException

from tests.contract.ttl_cases import CASES, CONFIGS, TtlStates
from tests.timed import run_at
from tests.zones import in_zone, marked

ROWS = "key long, number int, kind string, config string, operation string, argument string"
RESULTS = "key long, number int, result string"
T0 = 1_700_000_000_000


Expected = dict[tuple[int, int], tuple[str, str]]


def table(configs: tuple[str, ...] = CONFIGS) -> tuple[list[tuple[int, list[Any]]], Expected]:
    """The cases as batches by time, and the expected results by key and number of the step."""
    timed, expected = [], {}
    for key, case in enumerate(case for case in CASES if case.config in configs):
        for number, (time, operation, argument, result) in enumerate(case.steps):
            row = (key, number, case.kind, case.config, operation, json.dumps(argument))
            timed.append((time, row))
            expected[key, number] = (f"{case.name}: {operation} at {time}", json.dumps(result))
    timed.sort(key=lambda step: step[0])
    batches = [
        (T0 + time, [row for _, row in steps])
        for time, steps in groupby(timed, key=lambda step: step[0])
    ]
    return batches, expected


def check(emitted: list[Any], expected: Expected) -> None:
    found = {(r.key, r.number): (expected[r.key, r.number][0], r.result) for r in emitted}
    assert found == expected


def interpret(df: Any) -> Any:
    return keystate.keyed(df, "key").process(TtlStates(), RESULTS)


WAYS = {
    "ahead": {},
    "asked": {"spark.keystate.worker.inlineEntries": "0"},
    "rocksdb, evicted": {
        "spark.keystate.backend": "rocksdb",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "5",
        "spark.keystate.worker.maxCachedKeys": "2",
    },
}


@pytest.mark.parametrize("way", WAYS)
def test_cases(way: str, stream: Callable[..., Any], settings: Callable[..., None]) -> None:
    settings(**WAYS[way])
    # Counting the entries of a large list or map is a look at them too.
    batches, expected = table(("write", "read") if way == "asked" else CONFIGS)
    check(run_at(stream(ROWS), interpret, batches), expected)


@pytest.mark.parametrize("restart", [False, True])
def test_cases_in_the_harness(restart: bool) -> None:
    """Without Spark; with `restart` every batch goes on from a snapshot, in other subtasks."""
    batches, expected = table()
    harness = KeyedProcessHarness(TtlStates(), ROWS, "key", RESULTS)
    emitted = []
    for i, (time, rows) in enumerate(batches):
        emitted += harness.process_batch(rows, processing_time=time)
        if restart:
            harness.close()
            kept = pickle.loads(pickle.dumps(harness.snapshot()))
            harness = KeyedProcessHarness.restore(kept, TtlStates(), parallelism=1 + i % 3)
    harness.close()
    check(emitted, expected)


def test_arguments_by_name() -> None:
    class Noted(KeyedProcessFunction):
        def open(self, ctx: Any) -> None:
            declared = ValueStateDescriptor("value", "long")
            ttl = StateTtlConfig.new_builder(Time.seconds(1))
            declared.enable_time_to_live(ttl.update_ttl_on_read_and_write().build())
            self.value = ctx.get_state(declared)

        def process_element(self, row: Any, ctx: Any) -> Any:
            self.value.update(value=row.number)
            yield row.key, row.number, str(self.value.value())

    with KeyedProcessHarness(Noted(), ROWS, "key", RESULTS) as harness:
        assert harness.process((1, 2, "", "", "", "")) == [(1, 2, "2")]


@pytest.mark.turns
def test_cases_over_restarts(stream: Callable[..., Any], settings: Callable[..., None]) -> None:
    """Every batch is a run of its own, and the number of partitions changes each time."""
    batches, expected = table()
    fed = stream(ROWS)
    emitted = []
    for i, batch in enumerate(batches):
        settings(**{"spark.sql.shuffle.partitions": str(1 + i % 3)})
        emitted += run_at(fed, interpret, [batch])
    check(emitted, expected)


class Last(KeyedProcessFunction):
    """The numbers that a key had, by time: all of one state or another, as it is made."""

    def __init__(self, ttl: StateTtlConfig | None) -> None:
        self.ttl = ttl

    def open(self, ctx: Any) -> None:
        value = ValueStateDescriptor("value", "long", default=-1)
        seen = ListStateDescriptor("seen", "long")
        by_number = MapStateDescriptor("by_number", "long", "long")
        for declared in (value, seen, by_number):
            if self.ttl is not None:
                declared.enable_time_to_live(self.ttl)
        self.value = ctx.get_state(value)
        self.seen = ctx.get_list_state(seen)
        self.by_number = ctx.get_map_state(by_number)

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.key, self.value.value(), list(self.seen), sorted(self.by_number.items())
        if row.number is not None:
            self.value.update(row.number)
            self.seen.add(row.number)
            self.by_number[row.number] = row.number


LAST = "key long, value long, seen array<long>, by_number array<struct<k: long, v: long>>"


def last(ttl: StateTtlConfig | None) -> Callable[[Any], Any]:
    return lambda df: keystate.keyed(df, "key").process(Last(ttl), LAST)


def after(milliseconds: int) -> StateTtlConfig:
    return StateTtlConfig.new_builder(timedelta(milliseconds=milliseconds)).build()


def shown(rows: list[Any]) -> list[tuple[Any, ...]]:
    return [(r.key, r.value, r.seen, [tuple(e) for e in r.by_number]) for r in rows]


def nothing(key: int) -> tuple[Any, ...]:
    return key, -1, [], []


def all_of(key: int, *numbers: int) -> tuple[Any, ...]:
    return key, numbers[-1], list(numbers), [(n, n) for n in numbers]


def test_switched_on_changed_and_off(stream: Callable[..., Any]) -> None:
    fed = stream("key long, number long")
    run_at(fed, last(None), [(T0, [(1, 7)])])
    # Switched on: what is there counts as written now.
    assert shown(run_at(fed, last(after(100)), [(T0 + 5000, [(1, 8)])])) == [all_of(1, 7)]
    # Longer, by the same timestamps.
    assert shown(run_at(fed, last(after(300)), [(T0 + 5299, [(1, None)])])) == [all_of(1, 7, 8)]
    # Off: nothing expires; what is written has no timestamp.
    later = [(T0 + 9000, [(1, 9)]), (T0 + 9001, [(1, None)])]
    assert shown(run_at(fed, last(None), later)) == [all_of(1, 7, 8), all_of(1, 7, 8, 9)]
    # On again: the value, and the list's newest chunk, begin anew; entries of before are gone.
    emitted = run_at(fed, last(after(100)), [(T0 + 10_000, [(1, None)])])
    assert shown(emitted)[0][1] == 9
    assert shown(emitted)[0][3] == [(9, 9)]


def test_a_clock_that_is_set_back(stream: Callable[..., Any]) -> None:
    fed = stream("key long, number long")
    batches = [(T0, [(1, 7)]), (T0 + 100, [(2, 1)]), (T0 + 50, [(1, None)])]
    emitted = run_at(fed, last(after(100)), batches)
    offsets = [(fed.checkpoint / "offsets" / str(i)).read_text().splitlines()[1] for i in range(3)]
    assert [json.loads(line)["batchTimestampMs"] for line in offsets] == [b[0] for b in batches]
    assert shown(emitted) == [nothing(1), nothing(2), nothing(1)]


class Failing(Last):
    """Fails at a number until a file is there."""

    def __init__(self, ttl: StateTtlConfig, number: int, repaired: Path) -> None:
        super().__init__(ttl)
        self.number = number
        self.repaired = repaired

    def process_element(self, row: Any, ctx: Any) -> Any:
        if row.number == self.number and not self.repaired.exists():
            raise ValueError("not yet")
        yield from super().process_element(row, ctx)


def test_a_replayed_batch_expires_the_same(stream: Callable[..., Any], tmp_path: Path) -> None:
    fed = stream("key long, number long")
    repaired = tmp_path / "repaired"

    def build(df: Any) -> Any:
        function = Failing(after(100), 99, repaired)
        return keystate.keyed(df, "key").process(function, LAST)

    with pytest.raises(StreamingQueryException, match="not yet"):
        run_at(fed, build, [(T0, [(1, 7), (2, 8)]), (T0 + 99, [(1, 99), (2, None)])])
    repaired.touch()
    # The query starts a year later; the batch that failed has the time it was given.
    emitted = run_at(fed, build, [(T0 + 31_536_000_000, [(2, None)])])
    assert sorted(shown(emitted)[:2]) == [all_of(1, 7), all_of(2, 8)]
    assert shown(emitted)[2] == nothing(2)


def test_event_time(spark: Any, stream: Callable[..., Any]) -> None:
    ttl = StateTtlConfig.new_builder(Time.seconds(10)).use_event_time().build()
    fed = stream("key long, number long, at timestamp")

    def build(df: Any) -> Any:
        return keystate.keyed(df.withWatermark("at", "0 seconds"), "key").process(Last(ttl), LAST)

    def at(second: int) -> datetime:
        return datetime(2024, 1, 1, 0, 0, second)

    # A row is late at the watermark, which is the latest time of the batches before.
    fed.feed([(1, 7, at(5)), (2, 3, at(9)), (1, 6, at(2))])
    fed.feed([(3, 1, at(14))])
    fed.feed([(1, None, at(15)), (2, None, at(15)), (2, 4, at(17)), (2, 5, at(16))])
    fed.feed([(4, 1, at(26))])
    fed.feed([(2, None, at(27)), (3, None, at(27))])
    fed.feed([(2, None, at(28))])
    emitted = shown(fed.run(build))
    # By row time: of key 1 the value lives until 15, its entry 6 until 12. Of key 2 entry 5 lives
    # until 26 and entry 4 until 27; so do both elements of the list, which came in one batch.
    by_key = {key: [row for row in emitted if row[0] == key] for key in (1, 2, 3, 4)}
    assert by_key[1][-1] == (1, 6, [7, 6], [(7, 7)])
    assert by_key[2][1:4] == [all_of(2, 3), all_of(2, 3), (2, 4, [3, 4], [(3, 3), (4, 4)])]
    assert by_key[2][4] == (2, 5, [4, 5], [(4, 4)])
    assert by_key[2][5] == nothing(2)
    assert by_key[3][-1] == nothing(3)


def test_from_processing_time_to_event_time_and_back(stream: Callable[..., Any]) -> None:
    """The clock of before does not count: it is years ahead of the watermark."""
    fed = stream("key long, number long, at timestamp")
    by_event_time = StateTtlConfig.new_builder(Time.seconds(10)).use_event_time().build()

    def build(ttl: StateTtlConfig) -> Callable[[Any], Any]:
        return lambda df: keystate.keyed(df.withWatermark("at", "0 seconds"), "key").process(
            Last(ttl), LAST
        )

    def at(second: int) -> datetime:
        return datetime(2020, 1, 1, 0, 0, second)

    run_at(fed, build(after(100)), [(T0, [(1, 7, at(1))])])
    rows = [[(2, 3, at(5))], [(3, 1, at(14))], [(2, None, at(15))], [(1, None, at(20))]]
    batches = [(T0 + 50 + i, row) for i, row in enumerate(rows)]
    emitted = shown(run_at(fed, build(by_event_time), batches))
    assert emitted[2] == all_of(2, 3)  # the watermark of this batch is 14
    # The timestamps stay: that of key 1 is of the year of T0.
    assert emitted[3] == all_of(1, 7)
    emitted = shown(run_at(fed, build(by_event_time), [(T0 + 60, [(2, None, at(21))])]))
    assert emitted == [nothing(2)]
    # Back again: key 3 has a time of 2020, and key 1 that of its row at T0.
    rows = [[(3, None, at(22))], [(1, None, at(23))], [(1, None, at(24))]]
    times = [T0 + 98, T0 + 99, T0 + 100]
    emitted = shown(run_at(fed, build(after(100)), list(zip(times, rows, strict=True))))
    assert emitted == [nothing(3), all_of(1, 7), nothing(1)]


class Opened(KeyedProcessFunction):
    """Emits what was there before the first row."""

    def open(self, ctx: Any) -> None:
        ttl = StateTtlConfig.new_builder(Time.days(30)).use_event_time().build()
        value, elements = (
            ValueStateDescriptor("value", "long", -1),
            ListStateDescriptor("list", "long"),
        )
        entries = MapStateDescriptor("map", "long", "long")
        for declared in (value, elements, entries):
            declared.enable_time_to_live(ttl)
        self.value, self.list = ctx.get_state(value), ctx.get_list_state(elements)
        self.map = ctx.get_map_state(entries)

    def process_initial_state(self, row: Any, ctx: Any) -> None:
        self.value.update(row.number)
        self.list.add(row.number)
        self.map[row.number] = row.number

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.key, self.value.value(), list(self.list), sorted(self.map.items())


def opened(df: Any, initial: Any = None) -> Any:
    return keystate.keyed(df, "key").process(Opened(), LAST, initial_state=initial)


def test_what_was_there_before_the_watermark(
    spark: Any, stream: Callable[..., Any], tmp_path: Path
) -> None:
    """It lives from the first watermark that it meets on, not from 1970."""
    days = [(1, datetime(2024, 1, 1)), (2, datetime(2024, 1, 2)), (1, datetime(2024, 2, 9)),
            (2, datetime(2024, 2, 10))]  # fmt: skip
    expected = [all_of(1, 7), all_of(2, 8), all_of(1, 7), nothing(2)]
    numbers = [(1, 7), (2, 8)]
    rows = "key long, at timestamp"
    begun, created = stream(rows), stream(rows)
    for fed in (begun, created):
        fed.feed(*([row] for row in days))

    def build(df: Any, initial: Any = None) -> Any:
        return opened(df.withWatermark("at", "0 seconds"), initial)

    initial = spark.createDataFrame(numbers, "key long, number long")
    assert shown(begun.run(lambda df: build(df, initial))) == expected
    states = {
        "value": initial.selectExpr("key", "number as value"),
        "list": initial.selectExpr("key", "number as list_element"),
        "map": initial.selectExpr("key", "number as user_map_key", "number as user_map_value"),
    }
    made = tmp_path / "made"
    admin.create(str(made), Opened(), key="key long", states=states, time_mode="event_time")
    created.checkpoint = made
    assert shown(created.run(build)) == expected

    operator = opened(rows_of(rows, event_time="at"), rows_of("key long, number long", numbers))
    with KeyedProcessHarness.of(operator) as harness:
        emitted, watermark = [], 0
        for row in days:
            emitted += harness.process_batch([row], watermark=watermark)
            watermark = int(row[1].timestamp() * 1000)
    assert shown(emitted) == expected


def test_elements_of_different_batches_live_apart(spark: Any, stream: Callable[..., Any]) -> None:
    ttl = StateTtlConfig.new_builder(Time.seconds(10)).use_event_time().build()
    fed = stream("key long, number long, at timestamp")

    def build(df: Any) -> Any:
        return keystate.keyed(df.withWatermark("at", "0 seconds"), "key").process(Last(ttl), LAST)

    def at(second: int) -> datetime:
        return datetime(2024, 1, 1, 0, 0, second)

    # The watermark is 10 while both elements come, and the first one lives until 20.
    fed.feed([(9, 1, at(10))])
    fed.feed([(1, 5, at(4))])
    fed.feed([(1, 6, at(25))])
    fed.feed([(1, None, at(26))])
    emitted = [row for row in shown(fed.run(build)) if row[0] == 1]
    assert emitted[-1] == (1, 6, [6], [(6, 6)])


class Seen(keystate.Function):
    """Whether the key was there in the last ten seconds."""

    def open(self, ctx: Any) -> None:
        seen = ValueStateDescriptor("seen", "boolean", default=False)
        ttl = StateTtlConfig.new_builder(Time.seconds(10)).use_event_time()
        seen.enable_time_to_live(ttl.build())
        self.seen = ctx.get_state(seen)

    def look(self, row: Any) -> bool:
        seen = self.seen.value()
        self.seen.update(True)
        return seen


class SeenByProcess(Seen, KeyedProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Any:
        return self.look(row)


class SeenByMap(Seen, keystate.MapFunction):
    map = Seen.look


class SeenByFlatMap(Seen, keystate.FlatMapFunction):
    flat_map = Seen.look


class SeenByFilter(Seen, keystate.FilterFunction):
    filter = Seen.look


@pytest.mark.parametrize("fn", [SeenByProcess(), SeenByMap(), SeenByFlatMap(), SeenByFilter()])
def test_event_time_is_that_of_the_row(fn: Any) -> None:
    """In every kind of function."""
    out = "key long, at timestamp" if isinstance(fn, SeenByFilter) else "seen boolean"
    harness = KeyedProcessHarness(fn, "key long, at timestamp", "key", out, event_time="at")
    with harness:

        def seen(second: int) -> bool:
            emitted = harness.process((1, None), timestamp=second * 1000)
            return bool(emitted) if isinstance(fn, SeenByFilter) else emitted[0].seen

        assert not seen(100)
        harness.advance_watermark(105_000)
        assert seen(106)
        harness.advance_watermark(115_000)
        assert seen(116)
        harness.advance_watermark(126_000)
        assert not seen(127)


@pytest.mark.parametrize("zone", ["America/New_York", "Europe/Berlin"])
def test_event_time_without_a_zone(zone: str) -> None:
    """It is that of the watermark, wherever the process is."""
    schema = marked("key long, at timestamp_ntz", "at")
    with (
        in_zone(zone),
        KeyedProcessHarness(SeenByProcess(), schema, "key", "seen boolean") as harness,
    ):

        def seen(second: int) -> bool:
            return bool(harness.process((1, datetime(2024, 1, 1, 0, 0, second)))[0].seen)

        start = 1_704_067_200_000
        assert not seen(10)
        harness.advance_watermark(start + 15_000)
        assert seen(19)
        harness.advance_watermark(start + 30_000)
        assert not seen(31)


def test_event_time_needs_a_watermark(stream: Callable[..., Any]) -> None:
    ttl = StateTtlConfig.new_builder(Time.seconds(1)).use_event_time().build()
    fed = stream("key long, number long")
    fed.feed([(1, 1)])
    with pytest.raises(StreamingQueryException, match="State 'value' has a time to live by event"):
        fed.run(last(ttl))


def test_spark_reads_states_that_expire(spark: Any, stream: Callable[..., Any]) -> None:
    fed = stream("key long, number long")
    batches = [(T0, [(1, 7)]), (T0 + 60, [(1, 8)]), (T0 + 120, [(1, 9)])]
    run_at(fed, last(after(100)), batches)

    def read(name: str, **options: str) -> Any:
        reader = spark.read.format("statestore").option("stateVarName", name)
        return reader.options(**options).load(str(fed.checkpoint))

    assert [r.value.value for r in read("value").collect()] == [9]
    # The first chunk of the list has expired.
    assert [[e.value for e in r.list_value] for r in read("seen", flattenCollectionTypes="false")
            .collect()] == [[8, 9]]  # fmt: skip
    assert sorted(r.user_map_value.value for r in read("by_number").collect()) == [8, 9]


def test_in_a_batch_query_nothing_expires(spark: Any) -> None:
    rows = spark.createDataFrame([(1, 7), (1, 8)], "key long, number long").coalesce(1)
    for ttl in (
        after(1),
        StateTtlConfig.new_builder(Time(1)).update_ttl_on_read_and_write().build(),
        StateTtlConfig.new_builder(Time(1)).use_event_time().build(),
    ):
        assert shown(last(ttl)(rows).collect()) == [nothing(1), all_of(1, 7)]


def test_keys_that_never_come_again_are_swept(
    stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings(**{"spark.sql.shuffle.partitions": "1"})
    ttl = StateTtlConfig.new_builder(Time(100)).cleanup_incrementally(5, True).build()
    fed = stream("key long, number long")
    batches = [(T0, [(key, 1) for key in range(100)])]
    batches += [(T0 + 200 + i, [(1000, i)] * 5) for i in range(8)]
    counted: list[int] = []
    emitted = run_at(
        fed, last(ttl), batches, lambda p: counted.append(p.stateOperators[0].numRowsTotal)
    )
    assert len(emitted) == 140
    # 3 states of 100 keys; at the end the last key's are left: a value, 8 entries, 8 chunks.
    assert counted[0] == 300
    assert counted[-1] <= 17


def test_configuration() -> None:
    config = (
        StateTtlConfig.new_builder(Time.minutes(2))
        .set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
        .set_state_visibility(StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp)
        .cleanup_full_snapshot()
        .cleanup_incrementally(3, True)
        .cleanup_in_rocksdb_compact_filter(500)
        .disable_cleanup_in_background()
        .build()
    )
    assert config.get_ttl() == Time(120_000)
    assert config.to_milliseconds() == 120_000
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
    cleanup = StateTtlConfig.CleanupStrategies
    assert config.get_cleanup_strategies() == cleanup(3, True, True)

    defaults = StateTtlConfig.new_builder(timedelta(days=1)).build()
    assert defaults.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert defaults.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    assert defaults.get_cleanup_strategies() == cleanup(5, False, True)
    own = StateTtlConfig.new_builder(Time(1)).cleanup_incrementally(7, False).build()
    assert own.get_cleanup_strategies() == cleanup(7, False, True)
    bare = StateTtlConfig.new_builder(Time(1)).disable_cleanup_in_background()
    assert bare.build().get_cleanup_strategies() == cleanup(0, False, False)
    assert bare.cleanup_in_rocksdb_compact_filter(500).build().get_cleanup_strategies() == cleanup(
        0, False, True
    )

    state = ValueStateDescriptor("x", "long")
    off = StateTtlConfig.new_builder(Time(1)).set_update_type(StateTtlConfig.UpdateType.Disabled)
    state.enable_time_to_live(off.build())
    assert state.ttl is None
    with pytest.raises(TypeError, match="expected a StateTtlConfig"):
        state.enable_time_to_live(timedelta(1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least a millisecond"):
        StateTtlConfig.new_builder(timedelta(0)).build()
    with pytest.raises(TypeError, match="timedelta or a Time"):
        StateTtlConfig.new_builder(10).build()  # type: ignore[arg-type]


class ReadsThenWritesEarlier(KeyedProcessFunction):
    """A row looks for a value, and a timer at an earlier time writes one."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def open(self, ctx: Any) -> None:
        ttl = (
            StateTtlConfig.new_builder(Time.milliseconds(100))
            .set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
            .set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.EventTime)
            .build()
        )
        described: Any
        if self.kind == "value":
            described = ValueStateDescriptor("s", "long")
            described.enable_time_to_live(ttl)
            self.s = ctx.get_state(described)
        elif self.kind == "list":
            described = ListStateDescriptor("s", "long")
            described.enable_time_to_live(ttl)
            self.s = ctx.get_list_state(described)
        else:
            described = MapStateDescriptor("s", "long", "long")
            described.enable_time_to_live(ttl)
            self.s = ctx.get_map_state(described)

    def held(self) -> Any:
        if self.kind == "value":
            return self.s.value() is not None
        return bool(list(self.s.get())) if self.kind == "list" else self.s.contains(1)

    def write(self) -> None:
        if self.kind == "value":
            self.s.update(1)
        elif self.kind == "list":
            self.s.add(1)
        else:
            self.s.put(1, 1)

    def process_element(self, row: Any, ctx: Any) -> Any:
        if row.what == "timer":
            ctx.timer_service().register_event_time_timer(110)
        if row.what in ("cleared", "replaced"):
            self.write()
            self.held()
            entries = self.s.items() if self.kind == "map" else ()
            self.s.clear()
            list(entries)  # has them as they were
        if row.what in ("written", "replaced"):
            self.write()
        if row.what == "removed":
            self.s.remove(1) if self.kind == "map" else self.s.clear()
        yield (self.held(),)

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        self.write()


@pytest.mark.parametrize("kind", ["value", "list", "map"])
@pytest.mark.parametrize("before", ["looked for", "cleared"])
def test_what_was_not_there_was_not_used(kind: str, before: str) -> None:
    """A value lives from when it was written, not from when its key had none, or another one."""

    def at(time: int) -> datetime:
        return datetime.fromtimestamp(time / 1000, timezone.utc)

    schema = "key string, what string, time timestamp"
    with KeyedProcessHarness(
        ReadsThenWritesEarlier(kind), schema, "key", "held boolean", event_time="time"
    ) as harness:
        harness.process_batch([("a", "timer", at(100))], watermark=50)
        harness.process_batch([("a", before, at(200))], watermark=150)  # the timer writes last
        assert harness.process_batch([("a", "", at(240))], watermark=240) == [(True,)]
    with KeyedProcessHarness(
        ReadsThenWritesEarlier(kind), schema, "key", "held boolean", event_time="time"
    ) as harness:
        harness.process_batch([("a", "timer", at(100))], watermark=50)
        harness.process_batch([("a", before, at(200))], watermark=150)
        harness.process_batch([("b", "", at(260))], watermark=260)
        assert harness.process_batch([("a", "", at(270))], watermark=260) == [(False,)]


@pytest.mark.parametrize("kind", ["value", "list", "map"])
def test_what_goes_takes_its_timestamp_with_it(kind: str) -> None:
    """A value that was stored, went and came again in one micro-batch lives from then on only."""

    def at(time: int) -> datetime:
        return datetime.fromtimestamp(time / 1000, timezone.utc)

    schema = "key string, what string, time timestamp"
    for gone in ("removed", "replaced then removed"):
        with KeyedProcessHarness(
            ReadsThenWritesEarlier(kind), schema, "key", "held boolean", event_time="time"
        ) as harness:
            harness.process_batch([("a", "timer", at(100))], watermark=50)
            harness.process_batch([("a", "written", at(200))], watermark=100)
            rows = [("a", what, at(160)) for what in gone.split(" then ")]
            harness.process_batch(rows, watermark=150)  # the timer writes last
            harness.process_batch([("b", "", at(260))], watermark=260)
            assert harness.process_batch([("a", "", at(270))], watermark=260) == [(False,)]


class PutsTimes(KeyedProcessFunction):
    """Changes an entry whose key is a time, in a time zone or in none."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def open(self, ctx: Any) -> None:
        ttl = (
            StateTtlConfig.new_builder(Time.milliseconds(100))
            .set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.EventTime)
            .build()
        )
        described = {"map": MapStateDescriptor, "sorted map": SortedMapStateDescriptor}[self.kind](
            "s", "timestamp", "long"
        )
        described.enable_time_to_live(ttl)
        get = {"map": ctx.get_map_state, "sorted map": ctx.get_sorted_map_state}[self.kind]
        self.s = get(described)

    def process_element(self, row: Any, ctx: Any) -> Any:
        time = datetime(2020, 1, 1, tzinfo=timezone.utc)
        if row.zone == "none":
            time = time.astimezone().replace(tzinfo=None)
        if row.what == "put":
            self.s.put(time, 1)
        if row.what == "clear":
            self.s.clear()
        if row.what == "remove":
            self.s.remove(time)
        yield (self.s.contains(time),)


@pytest.mark.parametrize("kind", ["map", "sorted map"])
@pytest.mark.parametrize("gone", ["clear", "remove"])
@pytest.mark.parametrize("zones", [("utc", "utc", "utc"), ("utc", "none", "utc"), ("none",) * 3])
def test_a_time_of_any_zone_takes_its_timestamp_with_it(
    kind: str, gone: str, zones: tuple[str, ...]
) -> None:
    def at(time: int) -> datetime:
        return datetime.fromtimestamp(time / 1000, timezone.utc)

    schema = "key string, what string, zone string, time timestamp"
    changes = zip(("put", gone, "put"), zones, (700, 700, 50))
    rows = [("a", what, zone, at(time)) for what, zone, time in changes]
    for batches in ([rows], [rows[:1], rows[1:]]):
        with KeyedProcessHarness(
            PutsTimes(kind), schema, "key", "held boolean", event_time="time"
        ) as harness:
            for batch in batches:
                harness.process_batch(batch)
            harness.advance_watermark(149)
            assert len(harness.state("a", "s")) == 1
            harness.advance_watermark(150)
            assert harness.state("a", "s") == {}
