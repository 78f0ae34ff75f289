"""Aggregates of columns: as functions of rows in windows, of all types, and what is refused."""

from __future__ import annotations

import datetime
import math
import random
import statistics
from decimal import Decimal
from typing import Any

import keystate
import pyarrow as pa
import pytest
from keystate import (
    CheckpointError,
    DeclarationError,
    OutputTag,
    StateTypeError,
    agg,
)
from keystate._spec.protocol import Control
from keystate._worker.aggregates import distinct_values
from keystate.testing import KeyedProcessHarness, rows_of
from keystate.windows import (
    CountEvictor,
    CountTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

from tests.contract.aggregated import (
    AGGREGATES,
    LATE,
    SCHEMA,
    Count,
    NumberAndFirst,
    OpenedCount,
    at,
    batch,
    by_columns,
    by_rows,
    results,
)

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


@pytest.mark.parametrize("lateness", [0, 700])
@pytest.mark.parametrize("assigner", ASSIGNERS.values(), ids=ASSIGNERS)
def test_as_a_function_of_rows(assigner: Any, lateness: int) -> None:
    """Late rows, nulls, and restarts with other numbers of subtasks and another lateness."""
    chance = random.Random(lateness)

    def build(by: Any, lateness: int) -> Any:
        late = windows(assigner).allowed_lateness(lateness)
        return by(late.side_output_late_data(LATE))

    kinds = by_columns, by_rows
    harnesses = [harness_of(build(by, lateness)) for by in kinds]
    seen: list[list[str]] = [[], []]
    late, watermark = 0, 2000
    for i in range(30):
        rows = batch(chance, watermark)
        watermark += chance.choice([0, chance.randint(0, 900), chance.randint(0, 900)])
        parallelism = chance.randint(1, 4) if chance.random() < 0.2 else 0
        changed = chance.choice([lateness, lateness, 2 * lateness // 3])
        found: list[list[str]] = []
        for j, harness in enumerate(harnesses):
            emitted = harness.process_batch(rows, watermark=watermark, processing_time=watermark)
            seen[j] += sorted(map(repr, emitted))
            found.append(sorted(map(repr, harness.side_output(LATE))))
            if parallelism:
                harnesses[j] = KeyedProcessHarness.restore(
                    harness.snapshot(),
                    build(kinds[j], changed),
                    parallelism=parallelism,
                    side_outputs=[LATE],
                )
        assert found[0] == found[1], i
        late += len(found[0])
        assert seen[0] == seen[1], i
    for j, harness in enumerate(harnesses):
        emitted = harness.process_batch([], watermark=10**6, processing_time=10**6)
        seen[j] += map(repr, emitted)
        assert harness.num_keys == 0
    assert sorted(seen[0]) == sorted(seen[1])
    assert len(seen[0]) > 20 and (late > 0) != (assigner is ASSIGNERS["by the clock"])


@pytest.mark.parametrize("by", [by_columns, by_rows])
@pytest.mark.parametrize("is_late", [True, False])
def test_a_window_that_begins_in_the_micro_batch_that_ends_it(by: Any, is_late: bool) -> None:
    """It fires in it, with late rows and without."""
    harness = harness_of(by(windows(TUMBLING).allowed_lateness(700)))

    def fired(rows: list[Any], watermark: int) -> list[tuple[int, int]]:
        emitted = harness.process_batch(rows, watermark=watermark)
        return [
            (row.window_start.microsecond // 1000 + 1000 * row.window_start.second, row.n)
            for row in emitted
        ]

    assert fired([("a", 1, at(500))], 1200) == [(0, 1)]
    late = [("a", 1, at(600))] if is_late else []
    begun = ("a", 1, at(1300))
    assert fired([begun, *late], 2100) == ([(0, 2)] if is_late else []) + [(1000, 1)]
    assert fired([], 2200) == []


@pytest.mark.parametrize("by", [by_columns, by_rows])
def test_a_window_that_ends_early_leaves_no_timer(by: Any) -> None:
    """One that begins in the micro-batch that ends it, and fires with another window of its key."""
    harness = harness_of(by(windows(TUMBLING)))

    def fired(time: int, watermark: int) -> list[Any]:
        emitted = harness.process_batch([("a", 1, at(time))], watermark=watermark)
        return [row.window_start for row in emitted]

    assert fired(100, 0) == []
    assert fired(1100, 2500) == [at(0), at(1000)]
    assert fired(2600, 3100) == [at(2000)]
    assert fired(4000, 3200) == []


# -- without windows -------------------------------------------------------------------------------


def test_each_key_of_a_micro_batch_is_emitted_once() -> None:
    """With restarts on other numbers of subtasks, and nulls as keys and values."""
    chance = random.Random(3)
    made = by_columns(keystate.keyed(rows_of(SCHEMA), "key"))
    harness = harness_of(made)
    seen: dict[Any, list[Any]] = {}
    for _ in range(20):
        rows = batch(chance, 10_000)
        for key, value, _ in rows:
            seen.setdefault(key, []).append(value)
        emitted = sorted(map(tuple, harness.process_batch(rows)), key=repr)
        touched = {key for key, _, _ in rows}
        assert emitted == sorted(((key, *results(seen[key])) for key in touched), key=repr)
        harness = KeyedProcessHarness.restore(
            harness.snapshot(), made, parallelism=chance.randint(1, 4)
        )
    assert harness.process_batch([]) == []


def test_late_rows_of_keys_are_left_out() -> None:
    late = OutputTag("late", SCHEMA)
    stream = keystate.keyed(rows_of(SCHEMA, event_time="time"), "key")
    harness = harness_of(stream.aggregate(agg.count().alias("n"), late_output=late))
    harness.advance_watermark(1000)
    assert harness.process_batch([("a", 1, at(900)), ("a", 1, at(1100))]) == [("a", 1)]
    assert [row.time for row in harness.side_output(late)] == [at(900)]


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


@pytest.mark.parametrize(("schema", "values"), [each[:2] for each in VALUES])
def test_few_different_values_are_counted_exactly(schema: str, values: list[Any]) -> None:
    known = {repr(value) for value in values if value is not None}
    assert emitted(schema, [*values, *values], agg.approx_count_distinct("x")) == [len(known)]
    if schema == "double":
        assert emitted(schema, [0.0, -0.0, NAN, -NAN], agg.approx_count_distinct("x")) == [2]


@pytest.mark.parametrize("schema", ["long", "string"])
def test_many_different_values_are_counted_with_the_error_that_was_asked_for(schema: str) -> None:
    """In any order, and after restarts, the same comes of them; repeated values do nothing."""
    chance = random.Random(1)
    rsd = 0.1
    errors = []
    for n in range(150, 1050, 30):
        values = [
            x if schema == "long" else f"value {x}" for x in range(n * 10**6, n * (10**6 + 1))
        ]
        found = set()
        for _ in range(2):
            chance.shuffle(values)
            counted = windows(TUMBLING, f"key string, x {schema}, time timestamp").aggregate(
                agg.approx_count_distinct("x", rsd)
            )
            harness = harness_of(counted)
            for part in (values[: n // 3], values[n // 4 :]):
                harness.process_batch([("a", value, at(1)) for value in part])
                harness = KeyedProcessHarness.restore(harness.snapshot(), counted)
            found.add(harness.advance_watermark(1000)[0][3])
        assert len(found) == 1
        errors.append(found.pop() / n - 1)
    assert 0.5 * rsd < statistics.pstdev(errors) < 1.5 * rsd
    assert abs(statistics.mean(errors)) < rsd / 2


def test_a_hash_stays_what_it_is() -> None:
    """It is part of the state. The numbers are those of published splitmix64, and of `b2sum`."""

    def hashes(values: list[Any], kind: Any = None) -> list[int]:
        lists = distinct_values.lists_of(pa.array(values, kind), pa.list_(pa.int64()))
        return lists.flatten().to_pylist()

    assert hashes([0, None, 1234567]) == [-2152535657050944081, 6457827717110365317]
    assert (
        hashes(["", "ä"])
        == hashes([b"", "ä".encode()])
        == [-5426141060434712860, 4152366542966443504]
    )
    assert hashes([7], pa.int8()) == hashes([7])
    assert hashes([1.5], pa.float32()) == hashes([1.5])
    assert hashes([Decimal("-1.50")]) == hashes([b"-3/2"])
    assert hashes([True]) == hashes([1])
    assert hashes([NOW.date()]) == hashes([datetime.datetime.combine(NOW, datetime.time())])


def test_a_column_whose_values_would_have_other_hashes_is_refused() -> None:
    def build(schema: str) -> Any:
        rows = windows(TUMBLING, f"key string, x {schema}, time timestamp")
        return rows.aggregate(agg.approx_count_distinct("x"))

    def changed(before: str, after: str, old: Any, new: Any) -> int:
        harness = harness_of(build(before))
        harness.process_batch([("a", old, at(1))])
        harness = KeyedProcessHarness.restore(harness.snapshot(), build(after))
        harness.process_batch([("a", new, at(1))])
        count: int = harness.advance_watermark(1000)[0][3]
        return count

    assert changed("int", "long", 7, 7) == 1
    assert changed("float", "double", 1.5, 1.5) == 1
    assert changed("decimal(10,2)", "decimal(38,18)", Decimal("1.50"), Decimal("1.5")) == 1
    for before, after, old, new in [
        ("long", "string", 7, "7"),
        ("date", "string", NOW.date(), "x"),
    ]:
        with pytest.raises(CheckpointError, match="can't become"):
            changed(before, after, old, new)


def test_the_larger_error_counts_if_it_is_changed() -> None:
    def build(rsd: float) -> Any:
        schema = "key string, x long, time timestamp"
        return windows(TUMBLING, schema).aggregate(agg.approx_count_distinct("x", rsd))

    counts = []
    for first, second in [(0.25, 0.25), (0.25, 0.05), (0.05, 0.25), (0.05, 0.05)]:
        harness = harness_of(build(first))
        harness.process_batch([("a", x, at(1)) for x in range(200)])
        harness = KeyedProcessHarness.restore(harness.snapshot(), build(second))
        harness.process_batch([("a", x, at(1)) for x in range(100, 300)])
        counts.append(harness.advance_watermark(1000)[0][3])
    assert counts[0] == counts[1] == counts[2] != 300
    assert counts[3] == 300


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
    assert rows["a"] == (2, 1, 1, 4, 4, 4, 4.0, 4, 4, [4], 1)
    assert rows["b"] == (1, 1, 0, None, None, None, None, None, None, [], 0)


@pytest.mark.parametrize("is_window", [True, False])
def test_a_first_value_begins_where_it_is_added_or_renamed(is_window: bool) -> None:
    """A null counts as one. What is left out at a restart begins anew when it is there again."""
    of = windows(TUMBLING) if is_window else keystate.keyed(rows_of(SCHEMA), "key")
    n, kept = agg.count().alias("n"), agg.first("value").alias("kept")
    renamed = agg.first("value").alias("renamed")
    runs: list[tuple[list[Any], str]] = [
        ([n], "a1 b1 c1"),
        ([n, kept], "a2 b- a3"),
        ([n, kept, renamed], "a- b4 c5 d6"),
        ([n, kept], "b7"),
        ([n, kept, renamed], "a8 b9 c- d-"),
    ]
    harness = harness_of(of.aggregate(*runs[0][0]))
    for aggregates, rows in runs:
        harness = KeyedProcessHarness.restore(harness.snapshot(), of.aggregate(*aggregates))
        values = [(key, None if value == "-" else int(value)) for key, value in rows.split()]
        emitted = harness.process_batch([(key, value, at(1)) for key, value in values])
    if is_window:
        emitted = harness.advance_watermark(1000)
    found = {row.key: (row.n, row.kept, row.renamed) for row in emitted}
    assert found == {"a": (5, 2, 8), "b": (5, None, 9), "c": (3, 5, None), "d": (2, 6, None)}


def test_a_first_value_that_was_stored_alone_stays_the_first() -> None:
    """As functions of rows store it; also if it is null."""
    kinds = "n long, first long"
    by_rows = windows(TUMBLING).aggregate(NumberAndFirst(), kinds, kinds)
    columns = agg.count().alias("n"), agg.first("value").alias("first")
    by_columns = windows(TUMBLING).aggregate(*columns)
    harness = harness_of(by_rows)
    for made, value in ((by_rows, 1), (by_columns, 2), (by_rows, 3), (by_columns, 4)):
        harness = KeyedProcessHarness.restore(harness.snapshot(), made)
        harness.process_batch([("a", value, at(1)), ("b", None if value == 1 else value, at(1))])
    rows = {row.key: (row.n, row.first) for row in harness.advance_watermark(1000)}
    assert rows == {"a": (4, 1), "b": (4, None)}


@pytest.mark.parametrize("count", [Count(), OpenedCount()], ids=["many rows", "one by one"])
@pytest.mark.parametrize("is_late", [True, False])
@pytest.mark.parametrize("lateness", [(0, 0), (700, 700), (0, 700), (700, 0)])
def test_a_function_of_rows_goes_on_with_windows_and_the_other_way_round(
    lateness: tuple[int, int], is_late: bool, count: Count
) -> None:
    def columns(lateness: int) -> Any:
        return windows(TUMBLING).allowed_lateness(lateness).aggregate(agg.count().alias("n"))

    def rows(lateness: int) -> Any:
        return windows(TUMBLING).allowed_lateness(lateness).aggregate(count, "n long", "n long")

    for before, after in ((columns, rows), (rows, columns)):
        harness = harness_of(before(lateness[0]))
        harness.process_batch([("a", 1, at(500)), ("a", 1, at(1500))])
        assert [row.n for row in harness.advance_watermark(1200)] == [1]
        harness = KeyedProcessHarness.restore(harness.snapshot(), after(lateness[1]))
        if is_late:
            # The window was kept only with a lateness before.
            n = {(700, 700): [2], (0, 700): [1]}.get(lateness, [])
            assert [row.n for row in harness.process(("a", 4, None), 600)] == n
        harness.process(("a", 1, None), 1600)
        assert [row.n for row in harness.advance_watermark(10_000)] == [2]
        assert harness.num_keys == 0


@pytest.mark.parametrize("count", [Count(), OpenedCount()], ids=["many rows", "one by one"])
def test_what_columns_have_fired_does_not_fire_again_where_a_function_goes_on(count: Count) -> None:
    """The function's own timer of the window is from before the columns' run."""
    late = windows(TUMBLING).allowed_lateness(700)
    rows = late.aggregate(count, "n long", "n long")
    columns = late.aggregate(agg.count().alias("n"))
    harness = harness_of(rows)
    harness.process_batch([("a", 1, at(500)), ("a", 1, at(1500))])
    harness = KeyedProcessHarness.restore(harness.snapshot(), columns)
    assert [row.n for row in harness.advance_watermark(1200)] == [1]
    harness = KeyedProcessHarness.restore(harness.snapshot(), rows)
    harness.process_batch([("a", 1, at(1600))])
    assert [row.n for row in harness.advance_watermark(2100)] == [2]
    harness.advance_watermark(10_000)
    assert harness.num_keys == 0


# -- declarations ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("aggregates", "message"),
    [
        ([agg.sum("nope")], "there is no column 'nope'"),
        ([agg.sum("key")], "takes a number, and the column 'key' is string: cast it"),
        ([agg.mean("key")], "takes an integer, a float or a double"),
        ([agg.approx_count_distinct("x")], "takes a number, a string.* is array<int>"),
        ([agg.sum("value"), agg.sum("value")], r"2 columns named 'sum\(value\)'"),
        ([agg.sum("value").alias("Key")], "two columns of the output are named 'key'"),
        ([agg.sum("value"), "long"], "expected aggregates such as"),
    ],
)
def test_what_is_not_well_declared(aggregates: list[Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        windows(TUMBLING, f"{SCHEMA}, x array<int>").aggregate(*aggregates)


def test_keys_and_aggregates_have_names_of_their_own() -> None:
    stream = keystate.keyed(rows_of(SCHEMA), "key")
    with pytest.raises(DeclarationError, match="2 columns named 'key'"):
        stream.aggregate(agg.count().alias("key"))
    with pytest.raises(DeclarationError, match="needs an aggregate"):
        stream.aggregate()


def test_arguments_that_are_none() -> None:
    for declare, message in (
        (lambda: agg.top_n("x", 0), "at least 1, got 0"),
        (lambda: agg.approx_count_distinct("x", 0.001), "from 0.01 to 0.3, got 0.001"),
        (lambda: agg.sum(3), "the name of a column, got 3"),  # type: ignore[arg-type]
        (lambda: agg.count().alias(""), "is a string, got ''"),
        (lambda: agg.count().alias("first(x) seen"), "can't be named 'first.x. seen'"),
    ):
        with pytest.raises(DeclarationError, match=message):
            declare()


@pytest.mark.parametrize(
    ("stream", "what"),
    [
        (windows(TUMBLING).trigger(CountTrigger.of(2)), "a CountTrigger"),
        (windows(TUMBLING).evictor(CountEvictor.of(2)), "an evictor"),
    ],
)
def test_what_is_computed_by_rows_only(stream: Any, what: str) -> None:
    with pytest.raises(DeclarationError, match=f"{what}: give aggregate.. an AggregateFunction"):
        stream.aggregate(agg.count())


@pytest.mark.parametrize("stream", [windows(TUMBLING), keystate.keyed(rows_of(SCHEMA), "key")])
def test_real_time_mode_is_refused(stream: Any) -> None:
    harness = harness_of(stream.aggregate(agg.count()))
    harness.process_batch([("a", 1, at(1))])
    told = {**harness._job._subtasks[0]._told({}), Control.REAL_TIME: True}
    with pytest.raises(DeclarationError, match="aggregates of columns need micro-batches"):
        harness._job._subtasks[0]._operator.begin_task(told)


def test_there_are_no_dead_letters_of_rows_that_are_computed_together() -> None:
    policy = keystate.dead_letters(OutputTag("dead", keystate.dead_letter_schema(SCHEMA)))
    for rows in (windows(TUMBLING), keystate.keyed(rows_of(SCHEMA), "key")):
        with pytest.raises(DeclarationError, match="does not support aggregates of columns") as e:
            harness_of(rows.aggregate(agg.count(), on_error=policy))
        assert e.value.code == "KEYSTATE_DECLARATION"
