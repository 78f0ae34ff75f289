"""Sessions of aggregates of columns: as functions of rows, in each micro-batch."""

from __future__ import annotations

import random
from typing import Any

import keystate
import pytest
from keystate import DeclarationError, agg
from keystate.testing import KeyedProcessHarness, rows_of
from keystate.windows import (
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    ProcessingTimeSessionWindows,
    PurgingTrigger,
)

from tests.contract.aggregated import (
    AGGREGATES,
    LATE,
    SCHEMA,
    Count,
    OpenedCount,
    at,
    batch,
    by_rows,
)

#: Those whose results do not depend on the order in which sessions meet.
CHOSEN = [each for each in AGGREGATES if each.kind not in ("first", "last")]
NAMES = ["key", "window_start", "window_end", *(each.name for each in CHOSEN)]
GAP = EventTimeSessionWindows.with_gap(200)


def sessions(assigner: Any = GAP) -> Any:
    return keystate.keyed(rows_of(SCHEMA, event_time="time"), "key").window(assigner)


def by_columns(windows: Any) -> Any:
    return windows.aggregate(*CHOSEN)


def harness_of(made: Any, parallelism: int = 1) -> KeyedProcessHarness:
    return KeyedProcessHarness.of(made, parallelism=parallelism, side_outputs=[LATE])


def shown(rows: Any) -> list[str]:
    return sorted(repr([row[name] for name in NAMES]) for row in rows)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("lateness", [0, 700])
@pytest.mark.parametrize(
    "assigner", [GAP, ProcessingTimeSessionWindows.with_gap(700)], ids=["by event time", "by clock"]
)
def test_as_a_function_of_rows(assigner: Any, lateness: int, seed: int) -> None:
    """Late rows, nulls, and restarts with other numbers of subtasks."""
    chance = random.Random(f"{seed} {lateness}")
    kinds = by_columns, by_rows
    made = [
        by(sessions(assigner).allowed_lateness(lateness).side_output_late_data(LATE))
        for by in kinds
    ]
    harnesses = [harness_of(each) for each in made]
    fired, late, watermark = 0, 0, 2000
    for i in range(20):
        rows = batch(chance, watermark)
        watermark += chance.choice([0, *(chance.randint(0, 900),) * 2])
        parallelism = chance.randint(1, 4) if chance.random() < 0.2 else 0
        emitted, dropped = [], []
        for j, harness in enumerate(harnesses):
            found = harness.process_batch(rows, watermark=watermark, processing_time=watermark)
            emitted.append(shown(found))
            dropped.append(sorted(map(repr, harness.side_output(LATE))))
            if parallelism:
                harnesses[j] = KeyedProcessHarness.restore(
                    harness.snapshot(), made[j], parallelism=parallelism, side_outputs=[LATE]
                )
        assert dropped[0] == dropped[1], i
        assert emitted[0] == emitted[1], i
        fired, late = fired + len(found), late + len(dropped[0])
    emitted = [
        shown(each.process_batch([], watermark=10**6, processing_time=10**6)) for each in harnesses
    ]
    assert emitted[0] == emitted[1]
    assert [each.num_keys for each in harnesses] == [0, 0]
    assert fired > 10 and (late > 0) == assigner.is_event_time()


def test_a_late_row_brings_a_session_back_that_has_fired() -> None:
    harness = harness_of(sessions().allowed_lateness(1000).aggregate(agg.count().alias("n")))

    def fired(times: list[int], watermark: int) -> list[tuple[Any, Any, int]]:
        emitted = harness.process_batch([("a", 1, at(time)) for time in times], watermark=watermark)
        return [(row.window_start, row.window_end, row.n) for row in emitted]

    assert fired([1000, 1100, 1900], 0) == []
    assert fired([], 1500) == [(at(1000), at(1300), 2)]
    # Late, and then one that is not late and meets it.
    assert fired([1250, 1400], 1500) == [(at(1000), at(1450), 3)]
    assert fired([1600, 1750], 1600) == []
    assert fired([], 2200) == [(at(1000), at(2100), 7)]


@pytest.mark.parametrize(
    ("before", "expected"), [(agg.top_n("value", 3), [7, 5]), (agg.count(), [])]
)
def test_a_session_that_meets_no_other_has_as_many_values_as_are_wanted(
    before: agg.Aggregate, expected: list[int]
) -> None:
    """Where more of them are stored by an earlier `n`, and where none are, for it was added."""
    harness = harness_of(sessions().aggregate(before.alias("top")))
    harness.process_batch([("a", value, at(1000)) for value in (3, 7, None, 5)])
    of = agg.top_n("value", 2).alias("top" if expected else "added")
    harness = KeyedProcessHarness.restore(harness.snapshot(), sessions().aggregate(of))
    assert [row[3] for row in harness.advance_watermark(5000)] == [expected]


WAYS: list[tuple[Any, ...]] = [
    (agg.count().alias("n"),),
    (Count(), "n long", "n long"),
    (OpenedCount(), "n long", "n long"),
]


@pytest.mark.parametrize("restart", [1050, 1300, 1450])
@pytest.mark.parametrize("lateness", [(500, 2000), (2000, 500), (0, 500), (500, 0)])
@pytest.mark.parametrize("before", WAYS, ids=["columns", "many rows", "one by one"])
def test_another_lateness_at_a_restart(
    before: tuple[Any, ...], lateness: tuple[int, int], restart: int
) -> None:
    """A session fires once and is removed, though no row comes any more."""
    for after in WAYS:
        first, second = (
            sessions().allowed_lateness(late).aggregate(*way)
            for late, way in zip(lateness, (before, after))
        )
        harness = harness_of(first)
        fired = harness.process_batch([("a", 1, at(1000))], watermark=restart)
        harness = KeyedProcessHarness.restore(harness.snapshot(), second)
        for watermark in (1600, 1710, 1800, 3000, 3300, 5000):
            fired += harness.advance_watermark(watermark)
        assert [row.n for row in fired] == [1]
        assert harness.num_keys == 0


@pytest.mark.parametrize("lateness", [0, 1000])
@pytest.mark.parametrize("after", WAYS, ids=["columns", "many rows", "one by one"])
def test_a_session_that_a_trigger_has_emptied(after: tuple[Any, ...], lateness: int) -> None:
    """It is there for rows to meet, but does not fire without one."""
    windows = sessions().allowed_lateness(lateness)
    purged = windows.trigger(PurgingTrigger.of(CountTrigger.of(2)))
    for time, found in ((None, []), (1150, [(1000, 1)]), (1290, [(1000, 1)])):
        harness = harness_of(purged.aggregate(Count(), "n long", "n long"))
        assert [row.n for row in harness.process_batch([("a", 1, at(1000)), ("a", 2, at(1100))])]
        harness = KeyedProcessHarness.restore(
            harness.snapshot(), windows.aggregate(*after), side_outputs=[LATE]
        )
        harness.process_batch([] if time is None else [("a", 5, at(time))])
        fired = harness.advance_watermark(1800)
        assert [row.n for row in fired] == [n for _, n in found]
        if lateness and time is None:
            assert [row.n for row in harness.process(("a", 7, None), 1250)] == [1]
        harness = KeyedProcessHarness.restore(
            harness.snapshot(), windows.aggregate(*WAYS[1]), side_outputs=[LATE]
        )
        harness.advance_watermark(5000)
        assert harness.num_keys == 0


class Apart(EventTimeSessionWindows):
    """Sessions that only meet stay apart."""

    def merge_windows(self, windows: Any, callback: Any) -> None:
        pass


@pytest.mark.parametrize("way", WAYS, ids=["columns", "many rows", "one by one"])
def test_sessions_that_another_assigner_kept_apart(way: tuple[Any, ...]) -> None:
    """No row is lost: they fire together or by themselves."""
    made = sessions(Apart.with_gap(200)).aggregate(Count(), "n long", "n long")
    harness = harness_of(made)
    harness.process_batch([("a", 1, at(time)) for time in (1000, 1200, 1300)])
    harness = KeyedProcessHarness.restore(harness.snapshot(), sessions().aggregate(*way))
    harness.process_batch([("a", 1, at(1310))])
    assert sum(row.n for row in harness.advance_watermark(5000)) == 4
    assert harness.num_keys == 0


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("lateness", [0, 700])
def test_columns_and_functions_go_on_with_sessions_of_each_other(lateness: int, seed: int) -> None:
    """At each restart another way: each late row is counted, and nothing is left in the end."""
    chance = random.Random(f"{seed} {lateness}")
    ways = [
        sessions().allowed_lateness(lateness).side_output_late_data(LATE).aggregate(*way)
        for way in WAYS
    ]
    one, other = harness_of(ways[2]), harness_of(chance.choice(ways))
    fired, watermark, late = 0, 2000, []
    for i in range(40):
        rows = batch(chance, watermark)
        watermark += chance.choice([0, chance.randint(0, 900)])
        found = [
            sorted(row.n for row in harness.process_batch(rows, watermark=watermark))
            for harness in (one, other)
        ]
        assert found[0] == found[1], i
        fired += len(found[0])
        if chance.random() < 0.4:
            way = chance.choice(ways)
            late += other.side_output(LATE)
            other = KeyedProcessHarness.restore(other.snapshot(), way, side_outputs=[LATE])
    left = [sorted(row.n for row in each.advance_watermark(10**6)) for each in (one, other)]
    assert left[0] == left[1]
    assert [each.num_keys for each in (one, other)] == [0, 0]
    late += other.side_output(LATE)
    assert sorted(map(repr, late)) == sorted(map(repr, one.side_output(LATE)))
    assert fired > 20 and late


@pytest.mark.parametrize(
    ("stream", "aggregate", "what"),
    [
        (sessions(), agg.first("value"), "agg.first in sessions"),
        (sessions(), agg.last("value", ignore_nulls=True), "agg.last in sessions"),
        (
            sessions(EventTimeSessionWindows.with_dynamic_gap(lambda row: 5)),
            agg.count(),
            "sessions whose gap each row tells",
        ),
        (
            sessions().trigger(PurgingTrigger.of(EventTimeTrigger.create())),
            agg.count(),
            "a PurgingTrigger",
        ),
    ],
)
def test_what_is_computed_by_rows_only(stream: Any, aggregate: Any, what: str) -> None:
    with pytest.raises(DeclarationError, match=f"{what}.*: give aggregate.. an AggregateFunction"):
        stream.aggregate(aggregate)
