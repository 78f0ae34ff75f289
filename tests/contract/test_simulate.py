"""Simulations find the bug of each kind, name it, and pass what has none."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import keystate
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keystate import DeclarationError, KeyedProcessFunction, ValueStateDescriptor
from keystate.testing import KeyedProcessHarness, SimulationFailure, rows_of, simulate
from keystate.testing._simulation import generate
from keystate.testing._simulation.as_pytest import as_test
from keystate.testing._simulation.invariants import Finding
from keystate.testing._simulation.schedule import Event, EventKind, without_events
from keystate.testing._simulation.system_under_test import SystemUnderTest
from pyspark.sql import DataFrame

from tests.contract import simulated
from tests.contract.test_harness import at


def rows(rng: random.Random, count: int = 30, most: int = 10**9) -> list[Any]:
    return [
        (rng.choice("abc"), rng.randrange(most), at((i * 7 + rng.randrange(20)) * 1000))
        for i in range(100, 100 + count)
    ]


def pair(rng: random.Random) -> tuple[list[Any], list[Any]]:
    return rows(rng, 12, 20), rows(rng, 12, 20)


ROWS = rows(random.Random(0))
LARGE = {"side_outputs": [simulated.LARGE]}
SECOND = {**LARGE, "ignore": ["order"], "results": simulated.only_large}


def run(test: str, **instead: Any) -> None:
    """Runs a test that was written."""
    names: dict[str, Any] = {}
    exec(test, names)
    names.update(instead)
    next(value for name, value in names.items() if name.startswith("test_"))()


@pytest.mark.parametrize(
    ("build", "inputs", "invariant", "told", "options"),
    [
        (simulated.last_wins, ROWS, "order", "and then", {}),
        # In a micro-batch the rows of the second input come after those of the first.
        (simulated.joins_first, pair, "batches", "('large', Row", SECOND),
        (simulated.first_of_batch, ROWS, "batches", "and then", {}),
        (simulated.grows, rows, "growth", "state 'seen' of key", {}),
        (simulated.timers_left, ROWS, "growth", "timers of key", {}),
        (simulated.counts, ROWS, "attributes", "value=2", {}),
        (simulated.of_class, ROWS, "outside", "and then", {}),
        (simulated.reads_clock, ROWS, "clock", "time.time_ns() in", {}),
        (simulated.draws, ROWS, "random", "random.randint() in", {}),
        (simulated.by_subtask, ROWS, "subtasks", "and then", {}),
        (simulated.expired, ROWS, "error", "'NoneType' and 'int'", {}),
    ],
)
def test_finds_and_names_a_bug(
    build: Callable[[], DataFrame], inputs: Any, invariant: str, told: str, options: Any
) -> None:
    with pytest.raises(SimulationFailure) as found:
        simulate(build, inputs, seeds=60, **options)
    assert found.value.invariant == invariant, found.value
    assert told in found.value.difference and str(found.value).startswith(f"[{invariant}] ")
    # The test fails, by itself, by the same.
    with pytest.raises(keystate.FunctionError if invariant == "error" else AssertionError):
        run(found.value.test)
    with pytest.raises(SimulationFailure) as again:
        simulate(build, inputs, seeds=[found.value.seed], **options)
    assert again.value.invariant == invariant
    if invariant not in ("clock", "random", "outside"):
        assert again.value.test == found.value.test


def test_a_clock_that_changes_nothing_yet() -> None:
    with pytest.raises(SimulationFailure) as found:
        simulate(simulated.looks_at_hour, ROWS, seeds=5)
    assert found.value.invariant == "clock" and found.value.test == ""
    assert "datetime.now() in simulated.py, line " in str(found.value)


def test_the_schedule_is_the_smallest_and_the_mended_function_passes_its_test() -> None:
    with pytest.raises(SimulationFailure) as found:
        simulate(simulated.last_wins, ROWS, seeds=20)
    test = found.value.test
    assert "from tests.contract.simulated import last_wins" in test
    assert test.count("Row(") == 4, "two rows, in two orders"
    run(test, last_wins=simulated.latest_wins)


@pytest.mark.parametrize(
    ("build", "inputs", "options"),
    [
        (lambda: simulated.built(simulated.Sums()), ROWS, {}),
        (simulated.latest_wins, ROWS, {}),
        (lambda: simulated.built(simulated.Sorted()), ROWS, {}),
        (simulated.windows, ROWS, {}),
        (simulated.joins, pair, LARGE),
        # Ids are forgotten after a while; the first of equal ids is as good as the second.
        (lambda: simulated.built(simulated.Grows(60_000)), rows, {}),
        # The rows of a key come from one partition.
        (simulated.last_wins, ROWS, {"partition": "key"}),
        (
            simulated.first_of_batch,
            ROWS,
            {"results": lambda found: {row.key for row in found}},
        ),
    ],
)
def test_what_has_no_bug_holds(build: Any, inputs: Any, options: Any) -> None:
    made = simulate(build, inputs, seeds=8, **options)
    assert made.seeds == 8 and made.batches > 50 and made.rows > 30
    assert set(made.events) == {"worker_restart", "lost_attempt", "restore", "rescale"}, made
    assert str(made).startswith("8 seeds: ")


def test_what_happens_really_happens() -> None:
    system = SystemUnderTest(simulated.of_class, ())
    records = system.inputs.records(ROWS[:3])
    schedule = [system.batch([record]) for record in records]

    def calls(*events: Event) -> int:
        before = simulated.OfClass.total
        system.run((*schedule[:2], replace(schedule[2], events=events)))
        return simulated.OfClass.total - before

    assert calls() == calls(Event(EventKind.WORKER_RESTART)) == 3
    assert calls(Event(EventKind.RESCALE, 3)) == 3
    assert calls(Event(EventKind.LOST_ATTEMPT)) == 4
    assert calls(Event(EventKind.RESTORE, 2)) == 5


def test_rows_are_late_and_clocks_stand_at_borders() -> None:
    """Just before, at and just after what a timer of each minute, or a time to live, waits for."""
    late, unsorted = 0, 0
    at_timers: set[int] = set()
    at_ends: set[int] = set()
    for seed in range(60):
        rng = random.Random(seed)
        expires = seed % 2 == 0
        function = simulated.Grows(60_000) if expires else simulated.Sums()
        system = SystemUnderTest(simulated.built(function), ())
        records = generate.sample(system.inputs.records(ROWS), rng)
        order = generate.arrival_order(records, id, rng)
        unsorted += order != sorted(order)
        schedule = generate.with_events(system, records, generate.split(order, rng), rng)
        watermark = 0
        for batch in schedule:
            times = [int(row.at.timestamp() * 1000) for rows in batch.rows for row in rows]
            late += sum(time < watermark for time in times)
            if batch.watermark is not None:
                moved = batch.watermark - watermark - 60_000
                (at_ends if expires else at_timers).add(
                    moved if expires else (batch.watermark + 1) % 60_000 - 1
                )
                watermark = batch.watermark
    assert late > 20 and unsorted > 20
    assert at_timers >= {-1, 0, 1} and at_ends >= {-1, 0, 1}


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 9)), min_size=1, max_size=6))
@settings(max_examples=10, deadline=None)
def test_rows_that_hypothesis_makes(made: list[tuple[str, int]]) -> None:
    inputs = [(key, value, at(i * 1000)) for i, (key, value) in enumerate(made)]
    simulate(simulated.latest_wins, inputs, seeds=2)


def test_each_event_as_a_test() -> None:
    system = SystemUnderTest(simulated.latest_wins, ())
    first, second, third = (system.batch([record]) for record in system.inputs.records(ROWS[:3]))
    events = (
        Event(EventKind.LOST_ATTEMPT),
        Event(EventKind.RESCALE, 2),
        Event(EventKind.RESTORE),
        Event(EventKind.WORKER_RESTART),
    )
    schedule = (first, second, type(third)(third.rows, 1, 2, events))
    key = ROWS[2][0]
    found = Finding("subtasks", "none", (without_events(schedule), schedule), ("last", key))
    test = as_test(system, found, None)
    for line in (
        "lost = KeyedProcessHarness.restore(harness.snapshot(), latest_wins())",
        "harness = KeyedProcessHarness.restore(older_1, latest_wins())  # from an older state",
        f"other['state'] = [harness.state('{key}', 'last')]",
    ):
        assert line in test, test
    run(test)  # nothing differs
    begin = test.index("other = {}")
    with pytest.raises(AssertionError):  # another row in one of the two
        run(test[:begin] + test[begin:].replace("value=", "value=1 + "))


def test_old_states() -> None:
    with KeyedProcessHarness.of(simulated.latest_wins()) as harness:
        harness.process_batch(ROWS)
        snapshot = harness.snapshot()
    simulate(simulated.latest_wins, ROWS, seeds=0, snapshots=[snapshot])

    class Changed(KeyedProcessFunction):
        def open(self, ctx: Any) -> None:
            self.last = ctx.get_state(ValueStateDescriptor("last", "string"))

        def process_element(self, row: Any, ctx: Any) -> Any:
            self.last.update("x")

    with pytest.raises(SimulationFailure, match="'last' has another value type") as found:
        simulate(simulated.built(Changed()), ROWS, seeds=0, snapshots=[snapshot])
    assert found.value.invariant == "old state"


class Rates(keystate.KeyedBroadcastProcessFunction):
    """Order: rows use the rate that came last."""

    STATE = keystate.MapStateDescriptor("rates", "string", "long")

    def process_broadcast_element(self, row: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(self.STATE)["rate"] = row.rate

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.key, row.value * (ctx.get_broadcast_state(self.STATE).get("rate") or 0)


def test_broadcast_elements() -> None:
    rates = keystate.broadcast(rows_of("rate long"), Rates.STATE)
    payments = keystate.keyed(rows_of("key string, value long"), "key")
    made = payments.connect(rates).process(Rates(), "key string, value long")
    inputs = [(key, value) for key, value, _ in ROWS], [(2,), (3,)]
    simulate(made, inputs, seeds=10, ignore=["order", "batches"])
    with pytest.raises(SimulationFailure) as found:
        simulate(made, inputs, seeds=20)
    assert found.value.invariant in ("order", "batches") and "broadcast=[" in found.value.test
    # Who gives an operator, and no function of a module that builds it, has to import one.
    assert "# operator: what simulate() was given; import it here" in found.value.test
    with pytest.raises(AssertionError):
        run(found.value.test, operator=lambda: made)


def test_what_is_asked_for_wrongly() -> None:
    with pytest.raises(ValueError, match="no invariants \\['speed'\\]; there are \\['attributes'"):
        simulate(simulated.counts, ROWS, ignore=["speed"])
    with pytest.raises(ValueError, match="needs rows"):
        simulate(simulated.counts, [])
    with pytest.raises(ValueError, match="has 2 inputs"):
        simulate(simulated.joins, [ROWS])
    with pytest.raises(TypeError, match="a row of the simulation does not fit"):
        simulate(simulated.counts, [("a", "b", "c")])


def test_a_partition_is_a_column_of_all_inputs() -> None:
    message = r"partition='card'\): the input has no such column, but key, value, at\."
    with pytest.raises(DeclarationError, match=message):
        simulate(simulated.last_wins, ROWS, seeds=1, partition="card")
    with pytest.raises(DeclarationError, match=r"'card'\): input 1 has .* partition=lambda row"):
        simulate(simulated.joins_first, pair, seeds=1, partition="card")
