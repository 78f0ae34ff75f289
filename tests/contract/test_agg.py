"""Aggregates of columns: as functions of rows in windows, of all types, and what is refused."""

from __future__ import annotations

import datetime
import math
import random
from decimal import Decimal
from typing import Any

import keystate
import pytest
from keystate import AggregateFunction, DeclarationError, OutputTag, StateTypeError, Time, agg
from keystate.testing import KeyedProcessHarness, rows_of
from keystate.windows import (
    CountEvictor,
    CountTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

from tests.contract.aggregated import AGGREGATES, LATE, SCHEMA, at, batch, by_columns, by_rows

TUMBLING = TumblingEventTimeWindows.of(1000)
ASSIGNERS = {
    "tumbling": TUMBLING,
    "tumbling from an offset": TumblingEventTimeWindows.of(1000, 300),
    "sliding": SlidingEventTimeWindows.of(1000, 300),
    "with gaps": SlidingEventTimeWindows.of(300, 1000),
    "by the clock": TumblingProcessingTimeWindows.of(1000),
}


def windows(assigner: Any, schema: str = SCHEMA) -> Any:
    return keystate.keyed(rows_of(schema, event_time="time"), "key").window(assigner)


def harness_of(made: Any, parallelism: int = 1) -> KeyedProcessHarness:
    return KeyedProcessHarness.of(made, parallelism=parallelism, side_outputs=[LATE])


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("assigner", ASSIGNERS.values(), ids=ASSIGNERS)
def test_as_a_function_of_rows(assigner: Any, seed: int) -> None:
    """Late rows, nulls, and restarts with other numbers of subtasks."""
    chance = random.Random(seed)
    made = [by(windows(assigner).side_output_late_data(LATE)) for by in (by_columns, by_rows)]
    harnesses = [harness_of(each) for each in made]
    seen, late, watermark = 0, 0, 2000
    for i in range(30):
        rows = batch(chance, watermark)
        watermark += chance.randint(0, 900)
        restarts, parallelism = chance.random() < 0.2, chance.randint(1, 4)
        found = []
        for j, harness in enumerate(harnesses):
            emitted = harness.process_batch(rows, watermark=watermark, processing_time=watermark)
            found.append(sorted(map(repr, emitted)))
            found.append(sorted(map(repr, harness.side_output(LATE))))
            found.append(harness.num_keys)
            if restarts:
                harnesses[j] = KeyedProcessHarness.restore(
                    harness.snapshot(), made[j], parallelism=parallelism, side_outputs=[LATE]
                )
        assert found[:3] == found[3:], i
        seen, late = seen + len(found[0]), late + len(found[1])
    by_clock = assigner is ASSIGNERS["by the clock"]
    assert seen > 20 and (late > 20) != by_clock


# -- types -----------------------------------------------------------------------------------------

NAN = math.nan
NOW = datetime.datetime(2024, 5, 1, 12)

#: A type, values of it in the order in which they come, and their least and greatest.
VALUES: list[tuple[str, list[Any], Any, Any]] = [
    ("tinyint", [3, None, -128, 127], -128, 127),
    ("long", [3, None, -(2**63), 2**63 - 1], -(2**63), 2**63 - 1),
    ("double", [1.5, None, -0.5, NAN], -0.5, NAN),
    ("float", [NAN, None, NAN], NAN, NAN),
    ("double", [-math.inf, math.inf, 0.0], -math.inf, math.inf),
    ("decimal(10,2)", [Decimal("1.50"), None, Decimal("-7.25")], Decimal("-7.25"), Decimal("1.50")),
    ("string", ["b", None, "é", "", "ab"], "", "é"),
    ("binary", [b"\x01", None, b"\xff", b""], b"", b"\xff"),
    ("boolean", [True, None, False], False, True),
    ("date", [NOW.date(), None, datetime.date(1960, 1, 1)], datetime.date(1960, 1, 1), NOW.date()),
    ("timestamp", [NOW, None, at(-1)], at(-1), NOW),
    ("timestamp_ntz", [NOW, None, at(-1)], at(-1), NOW),
]


def emitted(schema: str, values: list[Any], *aggregates: agg.Aggregate) -> list[Any]:
    """What aggregates make of a column `x` in one window, with a restart after each value."""
    made = windows(TUMBLING, f"key string, x {schema}, time timestamp").aggregate(*aggregates)
    harness = harness_of(made)
    for value in values:
        harness.process_batch([("a", value, at(1)), ("b", None, at(1))])
        harness = KeyedProcessHarness.restore(harness.snapshot(), made)
    rows = {row.key: list(row[3:]) for row in harness.advance_watermark(1000)}
    nothing = [0 if "count" in a.kind else [] if a.n else None for a in aggregates]
    assert rows["b"] == nothing
    return rows["a"]


@pytest.mark.parametrize(("schema", "values", "least", "greatest"), VALUES)
def test_values_of_a_type(schema: str, values: list[Any], least: Any, greatest: Any) -> None:
    of_x = [agg.min("x"), agg.max("x"), agg.count("x"), agg.first("x", ignore_nulls=True)]
    found = emitted(schema, values, *of_x, agg.last("x", ignore_nulls=True), agg.top_n("x", 2))
    known = [value for value in values if value is not None]
    expected = [least, greatest, len(known), known[0], known[-1]]
    assert repr(found[:-1]) == repr(expected)
    assert repr(found[-1][0]) == repr(greatest) and len(found[-1]) == min(2, len(known))


def test_the_first_and_last_value_of_any_type() -> None:
    found = emitted("struct<a: array<int>>", [None, ([1],), ([2],)], agg.first("x"), agg.last("x"))
    assert found == [None, ([2],)]


def test_sums_and_means() -> None:
    both = agg.sum("x"), agg.mean("x")
    assert emitted("short", [32767, None, 32767], *both) == [65534, 32767.0]
    assert emitted("float", [0.5, 0.25], *both) == [0.75, 0.375]
    assert repr(emitted("double", [0.5, NAN], *both)) == "[nan, nan]"
    most, least, seven = (Decimal(each) for each in ("9" * 38, "-" + "9" * 38, "7"))
    assert emitted("decimal(38,0)", [most, least, seven], agg.sum("x")) == [seven]
    assert emitted("long", [2**63 - 1, -5], agg.sum("x")) == [2**63 - 6]


@pytest.mark.parametrize(
    ("schema", "value"), [("long", 2**62), ("decimal(38,0)", Decimal("9" * 38))]
)
def test_a_sum_that_does_not_fit_is_an_error(schema: str, value: Any) -> None:
    with pytest.raises(StateTypeError, match=r"agg\.sum of column 'x' does not fit"):
        emitted(schema, [value, value], agg.sum("x"))


def test_an_aggregate_that_is_added_at_a_restart_begins_then() -> None:
    before = windows(TUMBLING).aggregate(agg.count())
    after = windows(TUMBLING).aggregate(agg.count(), *AGGREGATES)
    harness = harness_of(before)
    harness.process(("a", 1, None), 500)
    harness = KeyedProcessHarness.restore(harness.snapshot(), after)
    harness.process(("a", 4, None), 600)
    harness.process(("b", None, None), 700)
    rows = {row.key: tuple(row[3:]) for row in harness.advance_watermark(1000)}
    assert rows["a"][:7] == (2, 1, 1, 4, 4, 4, 4.0)
    assert rows["b"] == (1, 1, 0, None, None, None, None, None, None, [])


class Count(AggregateFunction[Any, Any, Any]):
    def create_accumulator(self) -> Any:
        return (0,)

    def add(self, value: Any, accumulator: Any) -> Any:
        return (accumulator[0] + 1,)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0]


def test_a_function_of_rows_goes_on_with_open_windows_and_the_other_way_round() -> None:
    columns = windows(TUMBLING).aggregate(agg.count().alias("n"))
    rows = windows(TUMBLING).aggregate(Count(), "n long", "n long")
    for before, after in ((columns, rows), (rows, columns)):
        harness = harness_of(before)
        harness.process(("a", 1, None), 500)
        harness = KeyedProcessHarness.restore(harness.snapshot(), after)
        harness.process(("a", 4, None), 600)
        assert [row.n for row in harness.advance_watermark(1000)] == [2]
        assert harness.num_keys == 0


# -- declarations ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("aggregates", "message"),
    [
        ([agg.sum("nope")], "there is no column 'nope'"),
        ([agg.sum("key")], "takes a number, and the column 'key' is string: cast it"),
        ([agg.mean("key")], "takes an integer, a float or a double"),
        ([agg.sum("value"), agg.sum("value")], r"2 columns named 'sum\(value\)'"),
        ([agg.sum("value").alias("Key")], "two columns of the output are named 'key'"),
        ([agg.sum("value"), "long"], "expected aggregates such as"),
    ],
)
def test_what_is_not_well_declared(aggregates: list[Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        windows(TUMBLING).aggregate(*aggregates)


def test_arguments_that_are_none() -> None:
    for declare, message in (
        (lambda: agg.top_n("x", 0), "at least 1, got 0"),
        (lambda: agg.sum(3), "the name of a column, got 3"),  # type: ignore[arg-type]
        (lambda: agg.count().alias(""), "is a string, got ''"),
    ):
        with pytest.raises(DeclarationError, match=message):
            declare()


@pytest.mark.parametrize(
    ("stream", "what"),
    [
        (windows(TUMBLING).trigger(CountTrigger.of(2)), "a CountTrigger"),
        (windows(TUMBLING).evictor(CountEvictor.of(2)), "an evictor"),
        (windows(TUMBLING).allowed_lateness(Time.seconds(1)), "allowed_lateness"),
    ],
)
def test_what_is_computed_by_rows_only(stream: Any, what: str) -> None:
    with pytest.raises(DeclarationError, match=f"{what}: give aggregate.. an AggregateFunction"):
        stream.aggregate(agg.count())


def test_there_are_no_dead_letters_of_rows_that_are_computed_together() -> None:
    policy = keystate.dead_letters(OutputTag("dead", keystate.dead_letter_schema(SCHEMA)))
    with pytest.raises(DeclarationError, match="does not support aggregates of columns"):
        harness_of(windows(TUMBLING).aggregate(agg.count(), on_error=policy))
