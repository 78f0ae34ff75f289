"""Simulates what may happen to an operator in a query, in seconds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, Row

from keystate.errors import DeclarationError, KeystateError
from keystate.functions import OutputTag
from keystate.testing._simulation import generate, growth, invariants
from keystate.testing._simulation.as_pytest import as_test
from keystate.testing._simulation.records import Record, beginning
from keystate.testing._simulation.schedule import Schedule
from keystate.testing._simulation.system_under_test import SystemUnderTest, error_line
from keystate.testing._snapshot import Snapshot

#: One in so many seeds checks the growth of state, which takes longest.
_GROWTH = 100
#: The schedules of so many first seeds check whether the function reads clocks.
_WATCHED = 5


class SimulationFailure(AssertionError):
    """An invariant that does not hold, with the smallest schedule that shows it, as a test.

    Attributes:
        invariant: the invariant's name, from the list of :func:`simulate`.
        difference: what is different, grows, or is called.
        test: the code of a pytest that fails for it; empty if no schedule shows it.
        seed: the seed that found it.
    """

    def __init__(self, invariant: str, difference: str, test: str, seed: int) -> None:
        self.invariant = invariant
        self.difference = difference
        self.test = test
        self.seed = seed
        shown = f"\n\nThe smallest schedule, as a test:\n\n{test}" if test else ""
        super().__init__(
            f"[{invariant}] {invariants.INVARIANTS[invariant]}.\n{difference}\n"
            f"(found by seed {seed}){shown}"
        )


@dataclass
class Simulation:
    """The extent of a simulation in which all invariants held.

    Attributes:
        seeds: the number of seeds.
        batches: the number of micro-batches.
        rows: the number of their rows.
        events: the number of each event: ``worker_restart``, ``lost_attempt``, ``restore`` and
            ``rescale``.
    """

    seeds: int = 0
    batches: int = 0
    rows: int = 0
    events: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        happened = ", ".join(f"{name} {count:,}" for name, count in sorted(self.events.items()))
        return (
            f"{self.seeds:,} seeds: {self.batches:,} micro-batches with {self.rows:,} rows; "
            f"{happened or 'nothing happened to them'}"
        )

    def _count(self, schedule: Schedule) -> None:
        self.batches += len(schedule)
        self.rows += sum(len(rows) for batch in schedule for rows in batch.rows)
        self.events.update(e.kind.name.lower() for batch in schedule for e in batch.events)


def simulate(
    operator: DataFrame | Callable[[], DataFrame],
    inputs: Any,
    *,
    seeds: int | Iterable[int] = 1000,
    partition: str | Callable[[Row], Any] | None = None,
    results: Callable[[list[Any]], Any] | None = None,
    side_outputs: Sequence[OutputTag] = (),
    snapshots: Sequence[Snapshot] = (),
    ignore: Collection[str] = (),
) -> Simulation:
    """Simulates random runs of a function with state, and checks invariants.

    It needs no Spark: it runs in the harness. Each seed makes random schedules. They spread some of
    the rows over micro-batches, at times near those of timers and of times to live, with late rows
    too; workers end, attempts are lost, the query starts again with another number of subtasks or
    from an older state. These invariants must hold in all schedules:

    - ``clock``, ``random``: the function reads no clock, and draws no random numbers.
    - ``attributes``: nothing depends on the function's attributes.
    - ``outside``: a micro-batch that runs again gives the same results and states.
    - ``subtasks``: nothing depends on the number of subtasks.
    - ``batches``: results don't depend on how rows are spread over micro-batches.
    - ``order``: results don't depend on the order of the rows of different input partitions.
    - ``growth``: no state of a key grows without end when similar rows come again and again.
    - ``error``: the function does not fail.
    - ``old state``: the operator can continue from ``snapshots``.

    For ``batches`` and ``order`` no row is late, the processing time stands still until the last
    row, and then all timers fire.

    Args:
        operator: an operator's output, made from a stream of :func:`rows_of`; or better a module's
            function that builds it, which a test can import.
        inputs: rows as for :meth:`KeyedProcessHarness.process_batch`; a pair for two inputs, or for
            rows and broadcast elements. Or a function that makes them from a ``random.Random``:
            ``growth`` needs it if rows have ids of their own, since the rows of a list come again
            unchanged except for later times.
        seeds: the number of seeds, or the seeds.
        partition: a column of all inputs, or a function of a row of any input, that gives a row's
            input partition: rows of one partition of an input keep their order. Without it rows
            may come in any order.
        results: takes the emitted rows, in their order, and returns the value that must be the same
            for ``batches`` and ``order``. By default it is all rows, in any order. A row of a side
            output is a pair of the tag's id and the row.
        side_outputs: the side outputs to check.
        snapshots: snapshots of a harness with an earlier function; the operator must continue from
            each.
        ignore: the names of invariants that need not hold.

    Returns:
        The extent of the simulation, which a test can check.

    Raises:
        SimulationFailure: an invariant does not hold. The error names it, and has the smallest
            schedule that shows it, as a test.
        DeclarationError: as for a query.
    """
    unknown = set(ignore) - set(invariants.INVARIANTS)
    if unknown:
        raise ValueError(
            f"no invariants {sorted(unknown)}; there are {sorted(invariants.INVARIANTS)}"
        )
    system = SystemUnderTest(operator, side_outputs)
    simulator = _Simulator(system, inputs, partition, results, frozenset(ignore))
    for snapshot in snapshots:
        simulator.restore(snapshot)
    for seed in range(seeds) if isinstance(seeds, int) else seeds:
        simulator.run(seed)
    return simulator.done


def _check_partition(system: SystemUnderTest, column: str) -> None:
    """Raises DeclarationError unless every input has this column."""
    for number, names in enumerate(system.inputs.columns, 1):
        if column not in names:
            of = f"input {number}" if len(system.inputs.columns) > 1 else "the input"
            raise DeclarationError(
                f"simulate(partition={column!r}): {of} has no such column, but {', '.join(names)}. "
                "A function of a row can tell the partitions of all inputs: "
                "partition=lambda row: ..."
            )


class _Simulator:
    """Runs the schedules of one operator."""

    def __init__(
        self,
        system: SystemUnderTest,
        inputs: Any,
        partition: str | Callable[[Row], Any] | None,
        results: Callable[[list[Any]], Any] | None,
        ignored: frozenset[str],
    ) -> None:
        self._system = system
        self._inputs = inputs
        self._given = None if callable(inputs) else system.inputs.records(inputs)
        if self._given is not None and not self._given:
            raise ValueError("simulate() needs rows")
        if isinstance(partition, str):
            _check_partition(system, partition)
        self._partition = partition
        self._results = results
        self._ignored = ignored
        self.done = Simulation()

    def run(self, seed: int) -> None:
        """Runs the schedules of a seed.

        Raises:
            SimulationFailure: something does not hold in one.
        """
        rng = random.Random(seed)
        records = generate.sample(self._records(rng), rng)
        order = generate.arrival_order(records, self._partition_of, rng)
        split = generate.split(order, rng)
        schedule = generate.with_events(self._system, records, split, rng)
        self.done.seeds += 1
        self.done._count(schedule)
        if seed < _WATCHED:
            self._check(invariants.reads_nothing_else(self._system, schedule), seed)
        self._check(invariants.hold_with_events(self._system, schedule), seed)
        if names := {"batches", "order"} - self._ignored:
            self.done._count(self._system.on_time(records, split))
            results = self._results or invariants.all_results
            found = invariants.hold_in_any_order(self._system, records, split, names, results)
            self._check(found, seed)
        if seed % _GROWTH == 0 and "growth" not in self._ignored:
            found = growth.bounded(self._system, lambda number: self._round(seed, number))
            self._check(found, seed)

    def _records(self, rng: random.Random) -> list[Record]:
        return self._given or self._system.inputs.records(self._inputs(rng))

    def _round(self, seed: int, number: int) -> list[Record]:
        """The rows of a round of those that look at growth: the same, or others each time."""
        if self._given is not None:
            return generate.sample(self._given, random.Random(seed))
        return self._records(random.Random(f"{seed} {number}"))[: generate.MOST]

    def _partition_of(self, record: Record) -> Any:
        if self._partition is None:
            return id(record)
        if callable(self._partition):
            return record.input, repr(self._partition(record.row))
        return record.input, repr(record.row[self._partition])

    def restore(self, snapshot: Snapshot) -> None:
        """Restores a snapshot, and runs a micro-batch.

        Raises:
            SimulationFailure: the operator can't continue from it.
        """
        records = self._records(random.Random(0))[: generate.MOST]
        try:
            with closing(self._system.restore(snapshot)) as harness:
                now = max(harness.processing_time, beginning(records))
            batch = self._system.batch(records, processing_time=now)
            error = self._system.run((batch,), snapshot).error
        except KeystateError as e:
            error = error_line(e)
        if error is not None:
            self._check(invariants.Finding("old state", error, ()), 0)

    def _check(self, found: invariants.Finding | None, seed: int) -> None:
        if found is not None and found.invariant not in self._ignored:
            test = as_test(self._system, found, self._results)
            raise SimulationFailure(found.invariant, found.difference, test, seed)
