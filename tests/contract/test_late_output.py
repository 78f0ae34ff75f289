"""Late rows in the harness: to a side output, or dropped; windows have their own."""

from __future__ import annotations

import datetime
import pickle
from collections.abc import Callable
from typing import Any

import keystate
import pytest
from keystate import DeclarationError, KeyedCoProcessFunction, KeyedProcessFunction, OutputTag
from keystate.testing import KeyedProcessHarness, KeyedTwoInputHarness, rows_of
from keystate.windows import TumblingEventTimeWindows, window

from tests.contract.window_cases import OUTPUT, by_aggregate

SCHEMA = "key string, value long, time timestamp"
LATE = OutputTag("late", SCHEMA)
LATE_TOO = OutputTag("late too", SCHEMA)
ODD = OutputTag("odd", "value long")


class Odd(KeyedProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.value
        if row.value % 2:
            yield ODD, row.value
        if row.value == 99:
            raise ValueError("of the test")


class Values(KeyedCoProcessFunction):
    def process_element1(self, row: Any, ctx: Any) -> Any:
        yield row.value

    def process_element2(self, row: Any, ctx: Any) -> Any:
        yield ODD, row.value


def at(millis: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(millis / 1000, datetime.timezone.utc)


def values(rows: Any) -> list[tuple[Any, ...]]:
    return [tuple(row)[:2] for row in rows]


def harness_of(**options: Any) -> KeyedProcessHarness:
    return KeyedProcessHarness(Odd(), SCHEMA, "key", "value long", event_time="time", **options)


def test_late_rows_go_to_their_output() -> None:
    harness = harness_of(side_outputs=[LATE, ODD], late_output=LATE)
    rows = [("a", 1, at(10)), ("b", 2, at(11))]
    assert values(harness.process_batch(rows, watermark=100)) == [(1,), (2,)]
    rows = [("a", 3, at(100)), ("b", 5, at(101)), ("c", 7, at(5)), ("c", 8, None)]
    assert sorted(harness.process_batch(rows)) == [(5,), (8,)]
    assert values(harness.side_output(LATE)) == [("a", 3), ("c", 7)]
    assert harness.side_output(LATE)[0].time == harness_time(100)
    assert values(harness.side_output(ODD)) == [(1,), (5,)]
    assert harness.num_late_rows == 0
    with pytest.raises(Exception, match="of the test"):
        harness.process_batch([("a", 9, at(5)), ("a", 99, at(500))])
    assert len(harness.side_output(LATE)) == 2, "a micro-batch that failed counts for nothing"
    snapshot = pickle.loads(pickle.dumps(harness.snapshot()))
    harness = KeyedProcessHarness.restore(snapshot, Odd(), parallelism=2)
    harness.process(("d", 4, None), 50)
    assert values(harness.side_output(LATE)) == [("d", 4)]


def harness_time(millis: int) -> datetime.datetime:
    """A time as rows have it: that of the session's zone, without one."""
    return at(millis).astimezone().replace(tzinfo=None)


def test_late_rows_are_dropped_if_their_output_is_not_read() -> None:
    harness = harness_of(side_outputs=[ODD], late_output=LATE)
    harness.advance_watermark(100)
    assert harness.process(("a", 1, None), 50) == []
    assert harness.num_late_rows == 1


def test_two_inputs() -> None:
    def harness_of(late: Any) -> KeyedTwoInputHarness:
        harness = KeyedTwoInputHarness(
            Values(), SCHEMA, "key", SCHEMA, "key", "value long", event_time1="time",
            event_time2="time", side_outputs=[LATE, LATE_TOO, ODD], late_output=late,
        )  # fmt: skip
        harness.advance_watermark(100)
        first, second = [("a", 1, at(50)), ("a", 2, at(200))], [("a", 3, at(60)), ("b", 4, at(300))]
        assert values(harness.process_batch(first, second)) == [(2,)]
        assert values(harness.side_output(ODD)) == [(4,)]
        return harness

    both = harness_of((LATE, LATE_TOO))
    assert values(both.side_output(LATE)) == [("a", 1)]
    assert values(both.side_output(LATE_TOO)) == [("a", 3)]
    assert both.num_late_rows == 0
    second = harness_of((None, LATE_TOO))
    assert values(second.side_output(LATE_TOO)) == [("a", 3)]
    assert second.num_late_rows == 1
    one = harness_of(LATE)
    assert values(one.side_output(LATE)) == [("a", 1), ("a", 3)]
    snapshot = pickle.loads(pickle.dumps(one.snapshot()))
    restored = KeyedTwoInputHarness.restore(snapshot, Values())
    restored.process2(("c", 5, None), 50)
    assert values(restored.side_output(LATE)) == [("c", 5)]


#: What every method of a stream makes of rows whose number it emits.
METHODS: dict[str, Callable[..., Any]] = {
    "map": lambda stream, **told: stream.map(lambda row: row.value, "value long", **told),
    "flat_map": lambda stream, **told: stream.flat_map(
        lambda row: [row.value], "value long", **told
    ),
    "filter": lambda stream, **told: stream.filter(lambda row: True, **told),
    "reduce": lambda stream, **told: stream.reduce(lambda one, two: two, **told),
    "process": lambda stream, **told: stream.process(
        lambda row, ctx: row.value, "value long", **told
    ),
}
WITHOUT_KEYS = [(False, name) for name in METHODS if name != "reduce"]


@pytest.mark.parametrize(("keyed", "method"), [(True, name) for name in METHODS] + WITHOUT_KEYS)
def test_every_method_can_tell_the_time_mode_and_the_late_output(keyed: bool, method: str) -> None:
    df = rows_of(SCHEMA, event_time="time")
    stream: Any = keystate.keyed(df, "key") if keyed else keystate.stream(df)
    batch = [("a", 1, at(50)), ("a", 2, at(200))]

    def ran(**told: Any) -> KeyedProcessHarness:
        result = METHODS[method](stream, name="here", **told)
        harness = KeyedProcessHarness.of(result, side_outputs=[LATE])
        if told["time_mode"] != "none":
            harness.advance_watermark(100)
        harness.process_batch(batch)
        return harness

    late = ran(time_mode="event_time", late_output=LATE)
    assert [row.value for row in late.output()] == [2]
    assert values(late.side_output(LATE)) == [("a", 1)]
    assert late.num_late_rows == 0
    assert ran(time_mode="event_time").num_late_rows == 1
    assert [row.value for row in ran(time_mode="none").output()] == [1, 2]
    with pytest.raises(DeclarationError, match="time_mode must be one of"):
        METHODS[method](stream, time_mode="")


def test_what_is_refused() -> None:
    with pytest.raises(DeclarationError, match="late rows are struct<key:string"):
        harness_of(side_outputs=[ODD], late_output=ODD)
    with pytest.raises(DeclarationError, match="late_output is an OutputTag, got 'late'"):
        harness_of(late_output="late")
    windows = by_aggregate(window(TumblingEventTimeWindows.of(10)))

    def windowed(**options: Any) -> KeyedProcessHarness:
        return KeyedProcessHarness(windows, SCHEMA, "key", OUTPUT, event_time="time", **options)

    with pytest.raises(DeclarationError, match=r"use side_output_late_data\(tag\) instead"):
        windowed(side_outputs=[LATE], late_output=LATE)
