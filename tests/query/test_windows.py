"""Windows in queries: late rows, restarts with other partitions, both backends, batches."""

from __future__ import annotations

import datetime
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import keystate
import pytest
from keystate import DeclarationError, OutputTag, Time
from keystate.windows import (
    CountEvictor,
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessWindowFunction,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    WindowedStream,
    WindowFunction,
)
from pyspark.errors import StreamingQueryException

from tests.contract.window_cases import Sum
from tests.timed import run_at

SCHEMA = "key string, value long, time timestamp"
LATE = OutputTag("late", SCHEMA)
BIG = OutputTag("big", "key string, total long")
OUTPUT = "key string, start long, total long"
BACKENDS = ["hashmap", "rocksdb"]

TUMBLING = TumblingEventTimeWindows.of(Time.seconds(10))


class Total(ProcessWindowFunction):
    """The total of rows, or of the one sum that there is."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        total = sum(each if isinstance(each, int) else each.value for each in elements)
        window = context.window()
        yield key, getattr(window, "start", -1) // 1000, total
        if total > 100:
            yield BIG, (key, total)


def at(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)


def windows(df: Any, assigner: Any, delay: str = "0 seconds") -> WindowedStream:
    return keystate.keyed(df.withWatermark("time", delay), "key").window(assigner)


def totals(stream: WindowedStream, kind: str) -> Any:
    """The same by an aggregate, by a reduce, and from the list of rows."""
    if kind == "aggregate":
        return stream.aggregate(Sum(), "long", OUTPUT, Total())
    if kind == "reduce":
        return stream.reduce(lambda a, b: (a.key, a.value + b.value, b.time), Total(), OUTPUT)
    return stream.process(Total(), OUTPUT)


def tuples(rows: Any) -> list[Any]:
    return sorted(tuple(row) for row in rows)


@pytest.mark.turns
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["aggregate", "reduce", "process"])
def test_late_rows_fire_again_and_then_are_late_output(
    kind: str, backend: str, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """With a restart on other partitions before each of the last micro-batches."""
    settings(**{"spark.keystate.backend": backend})
    fed = stream(SCHEMA)

    def build(df: Any) -> Any:
        late = windows(df, TUMBLING).allowed_lateness(Time.seconds(20))
        return totals(late.side_output_late_data(LATE), kind).with_side_outputs(LATE, BIG)

    def outputs(rows: Any) -> Any:
        main = tuples(row.main for row in rows if row.main)
        late = tuples((row.late.key, row.late.value) for row in rows if row.late)
        big = tuples(row.big for row in rows if row.big)
        return main, late, big

    fed.feed([("a", 1, at(3)), ("a", 2, at(7)), ("b", 5, at(4))], [("b", 6, at(12))])
    assert outputs(fed.run(build)) == ([("a", 0, 3), ("b", 0, 5)], [], [])
    settings(**{"spark.sql.shuffle.partitions": "3"})
    # The watermark is 12 s: the first two are late, but not too late.
    fed.feed([("a", 4, at(5)), ("b", 100, at(9)), ("a", 1, at(35))])
    late_firings = [("a", 0, 7), ("b", 0, 105)]
    assert outputs(fed.run(build)) == ([*late_firings, ("b", 10, 6)], [], [("b", 105)])
    settings(**{"spark.sql.shuffle.partitions": "1"})
    # The watermark is 35 s.
    fed.feed([("a", 8, at(6)), ("b", 1, at(12)), ("c", 1, at(34))], [("a", 1, at(60))])
    found = outputs(fed.run(build))
    assert found == ([("a", 30, 1), ("b", 10, 7), ("c", 30, 1)], [("a", 8)], [])


@pytest.mark.turns
@pytest.mark.parametrize("kind", ["aggregate", "process"])
@pytest.mark.parametrize(("before", "after"), [(2, 5), (5, 2), (0, 5), (5, 0)])
def test_another_lateness_at_a_restart(
    before: int, after: int, kind: str, stream: Callable[..., Any]
) -> None:
    """Each window fires once, and a session that is gone takes in no rows."""
    fed, sessions = stream(SCHEMA), stream(SCHEMA)

    def build(assigner: Any, lateness: int) -> Callable[[Any], Any]:
        return lambda df: totals(windows(df, assigner).allowed_lateness(lateness * 1000), kind)

    gap = EventTimeSessionWindows.with_gap(Time.seconds(9))
    # Of key a the end is to come; that of b is 10, and has passed.
    first = [("a", 7, at(15)), ("b", 1, at(1))], [("c", 0, at(11))]
    for each, assigner, fired in ((fed, TUMBLING, ("b", 0, 1)), (sessions, gap, ("b", 1, 1))):
        each.feed(*first)
        assert tuples(each.run(build(assigner, before))) == [fired]
        each.feed([("c", 0, at(60))], [("c", 0, at(61))])
    found = tuples(fed.run(build(TUMBLING, after)))
    assert found == [("a", 10, 7), ("c", 10, 0)]
    found = tuples(sessions.run(build(gap, after)))
    assert found == [("a", 15, 7), ("c", 11, 0)]
    for each, assigner in ((fed, TUMBLING), (sessions, gap)):
        each.feed([("a", 1, at(16)), ("b", 1, at(2))], [("c", 0, at(62))])
        assert tuples(each.run(build(assigner, after))) == []


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("kind", ["aggregate", "process"])
def test_sessions_over_restarts(
    kind: str, backend: str, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings(**{"spark.keystate.backend": backend})
    fed = stream(SCHEMA)

    def build(df: Any) -> Any:
        sessions = EventTimeSessionWindows.with_gap(Time.seconds(10))
        return totals(windows(df, sessions, "20 seconds"), kind)

    fed.feed([("a", 1, at(100)), ("a", 2, at(115)), ("b", 1, at(100))])
    assert fed.run(build) == []
    settings(**{"spark.sql.shuffle.partitions": "5"})
    fed.feed([("a", 4, at(107)), ("b", 2, at(118))])
    assert fed.run(build) == []
    settings(**{"spark.sql.shuffle.partitions": "2"})
    fed.feed([("c", 1, at(160))])
    assert tuples(fed.run(build)) == [("a", 100, 7), ("b", 100, 1), ("b", 118, 2)]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_window_of_more_rows_than_are_sent_ahead(
    backend: str, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings(**{"spark.keystate.backend": backend, "spark.keystate.worker.inlineEntries": "10"})
    fed = stream(SCHEMA)
    fed.feed(*[[("a", i, at(100 + j / 10)) for i in range(20)] for j in range(3)])
    fed.feed([("a", 1, at(130))])

    def build(df: Any) -> Any:
        sliding = SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(5))
        return totals(windows(df, sliding), "process")

    assert tuples(fed.run(build)) == [("a", 95, 570), ("a", 100, 570)]


@pytest.mark.parametrize("kind", ["aggregate", "process"])
def test_more_windows_than_are_sent_ahead(
    kind: str, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """Of a key that has many, an aggregate's windows are asked for one by one, and in pages."""
    settings(**{"spark.keystate.worker.inlineEntries": "10"})
    fed = stream(SCHEMA)
    fed.feed(*[[("a", value, at(time))] for value, time in ((1, 100), (2, 105), (4, 200))])
    sliding = SlidingEventTimeWindows.of(Time.seconds(10), Time.milliseconds(250))
    found = fed.run(lambda df: totals(windows(df, sliding), kind))
    assert Counter(row.total for row in found) == {1: 20, 3: 20, 2: 20}


@pytest.mark.parametrize("inline", ["0", "3"])
@pytest.mark.parametrize("kind", ["aggregate", "process"])
def test_more_sessions_than_are_sent_ahead(
    kind: str, inline: str, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """Of a key that has many, those that a row may meet are asked for."""
    settings(**{"spark.keystate.worker.inlineEntries": inline})
    chance = random.Random(f"{kind} {inline}")
    times = [100 + chance.randrange(600) for _ in range(60)]
    fed = stream(SCHEMA)
    fed.feed(*[[("a", 1, at(time)) for time in times[i : i + 15]] for i in range(0, 60, 15)])
    fed.feed([("b", 1, at(5000))])
    expected: list[list[Any]] = []
    for time in sorted(times):
        if expected and time <= expected[-1][3] + 5:
            expected[-1][2:] = [expected[-1][2] + 1, time]
        else:
            expected.append(["a", time, 1, time])
    gap = EventTimeSessionWindows.with_gap(Time.seconds(5))
    found = fed.run(lambda df: totals(windows(df, gap, "1000 seconds"), kind))
    assert tuples(found) == [tuple(each[:3]) for each in expected]


def test_rows_that_are_dropped_are_counted(stream: Callable[..., Any]) -> None:
    fed = stream(SCHEMA)
    fed.feed([("a", 1, at(100))], [("a", 1, at(101))], [("a", 1, at(5)), ("b", 1, at(6))])
    assert fed.run(lambda df: totals(windows(df, TUMBLING), "aggregate")) == []
    operators = [each.stateOperators[0] for each in fed.progress]
    assert sum(each.customMetrics["numLateRecordsDropped"] for each in operators) == 2
    assert sum(each.numRowsDroppedByWatermark for each in operators) == 0


def test_processing_time(stream: Callable[..., Any]) -> None:
    fed = stream("key string, value long")

    def build(df: Any) -> Any:
        by_clock = TumblingProcessingTimeWindows.of(Time.seconds(10))
        return keystate.keyed(df, "key").window(by_clock).aggregate(Sum(), "long", OUTPUT, Total())

    rows = [("a", 1), ("b", 2)]
    # After the real time, by which a query looks whether timers are due.
    start = 5_000_000_000_000
    clocks = [(1000, rows), (9999, rows), (10_000, rows), (25_000, [])]
    emitted = run_at(fed, build, [(start + time, fed) for time, fed in clocks])
    first = start // 1000
    assert tuples(emitted) == [
        ("a", first, 2), ("a", first + 10, 1), ("b", first, 4), ("b", first + 10, 2),
    ]  # fmt: skip


class Ordered(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        return key, len(list(inputs)), sum(row.value for row in inputs)


def test_count_windows(stream: Callable[..., Any]) -> None:
    fed = stream(SCHEMA)
    rows = [("a", i, None) for i in range(7)]
    fed.feed(rows[:2], rows[2:4], rows[4:])
    tumbling = fed.run(
        lambda df: keystate.keyed(df, "key").count_window(3).apply(Ordered(), OUTPUT)
    )
    assert tuples(tumbling) == [("a", 3, 3), ("a", 3, 12)]
    other = stream(SCHEMA)
    other.feed(rows[:2], rows[2:4], rows[4:])
    sliding = other.run(
        lambda df: keystate.keyed(df, "key").count_window(3, 2).apply(Ordered(), OUTPUT)
    )
    assert tuples(sliding) == [("a", 2, 1), ("a", 3, 6), ("a", 3, 12)]


def test_a_batch(spark: Any) -> None:
    rows = [("a", 1, at(3)), ("a", 2, at(7)), ("a", 4, at(12)), ("b", 200, at(12))]
    keyed = keystate.keyed(spark.createDataFrame(rows, SCHEMA), "key")
    expected = [("a", 0, 3), ("a", 10, 4), ("b", 10, 200)]
    for kind in ("aggregate", "reduce", "process"):
        windowed = keyed.window(TUMBLING, event_time="time")
        assert tuples(totals(windowed, kind).collect()) == expected
        assert tuples(totals(windowed.allowed_lateness(5), kind).collect()) == expected
    side = totals(keyed.window(TUMBLING, event_time="time"), "process").side_output(BIG)
    assert tuples(side.collect()) == [("b", 200)]
    sessions = keyed.window(EventTimeSessionWindows.with_gap(Time.seconds(5)), event_time="time")
    assert tuples(totals(sessions, "aggregate").collect()) == [("a", 3, 7), ("b", 12, 200)]
    fewer = keyed.window(GlobalWindows.create()).trigger(CountTrigger.of(3))
    assert tuples(totals(fewer.evictor(CountEvictor.of(2)), "aggregate").collect()) == [
        ("a", -1, 6)
    ]
    purged = keyed.window(GlobalWindows.create()).trigger(PurgingTrigger.of(CountTrigger.of(2)))
    assert tuples(purged.reduce(lambda a, b: b).collect()) == [
        ("a", 2, at(7).astimezone().replace(tzinfo=None))
    ]


def test_what_can_not_be_declared(spark: Any, stream: Callable[..., Any]) -> None:
    df = spark.createDataFrame([], SCHEMA)
    keyed = keystate.keyed(df, "key")
    with pytest.raises(DeclarationError, match=r"name the column: window\(assigner, ev") as error:
        keyed.window(TUMBLING).process(Total(), OUTPUT)
    assert error.value.code == "KEYSTATE_NO_WATERMARK"
    with pytest.raises(DeclarationError, match="'when' is not in the input"):
        keyed.window(TUMBLING, event_time="when")
    with pytest.raises(DeclarationError, match="'value' is not a timestamp"):
        keyed.window(TUMBLING, event_time="value")
    with pytest.raises(DeclarationError, match="late rows are struct<key:string"):
        keyed.window(TUMBLING).side_output_late_data(OutputTag("late", "key long"))
    with pytest.raises(DeclarationError, match="needs an output schema"):
        keyed.window(TUMBLING, event_time="time").reduce(max, Total())
    streaming = spark.readStream.schema(SCHEMA).parquet(str(stream(SCHEMA)._input))
    with pytest.raises(DeclarationError, match="the watermark is not defined on"):
        keystate.keyed(streaming, "key").window(TUMBLING, event_time="time")


def test_a_row_without_event_time(stream: Callable[..., Any]) -> None:
    fed = stream(SCHEMA)
    fed.feed([("a", 1, None)])
    with pytest.raises(StreamingQueryException, match=r"the row has no event time[\s\S]*key 'a'"):
        fed.run(lambda df: totals(windows(df, TUMBLING), "aggregate"))
