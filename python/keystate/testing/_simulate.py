"""Simulates the life of an operator: what may happen to it in a query, in seconds."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from pyspark.sql import DataFrame, Row

from keystate.errors import KeystateError
from keystate.functions import OutputTag
from keystate.testing._simulation import checks, growth, lives
from keystate.testing._simulation.as_pytest import as_test
from keystate.testing._simulation.story import Batch, Story
from keystate.testing._simulation.subject import Item, Subject, told
from keystate.testing._snapshot import Snapshot

#: Of so many seeds one looks at the growth of state, which takes longest.
_GROWTH = 100
#: In the lives of the first seeds it is watched whether clocks are read.
_WATCHED = 5


class SimulationFailure(AssertionError):
    """What :func:`simulate` found, with the smallest story that shows it, as a test.

    Attributes:
        invariant: the name of what does not hold, as :func:`simulate` lists them.
        difference: what is different, grows, or is called.
        test: the code of a pytest that fails by it; empty if no story shows it.
        seed: the seed that found it.
    """

    def __init__(self, invariant: str, difference: str, test: str, seed: int) -> None:
        self.invariant = invariant
        self.difference = difference
        self.test = test
        self.seed = seed
        shown = f"\n\nThe smallest story, as a test:\n\n{test}" if test else ""
        super().__init__(
            f"[{invariant}] {checks.INVARIANTS[invariant]}.\n{difference}\n"
            f"(found by seed {seed}){shown}"
        )


@dataclass
class Simulation:
    """What was simulated, and held.

    Attributes:
        seeds: how many seeds.
        batches: how many micro-batches.
        rows: how many rows they had.
        events: how often what happened: ``new_worker``, ``lost``, ``back`` and ``rescale``.
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

    def _count(self, story: Story) -> None:
        self.batches += len(story)
        self.rows += sum(len(rows) for batch in story for rows in batch.rows)
        self.events.update(e.what.name.lower() for batch in story for e in batch.events)


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
    """Simulates what may happen to a function with state, and checks what must hold.

    No Spark is needed: it runs in the harness. Of each seed it makes lives of the operator: some
    of the rows come in some micro-batches, at times that are the borders of timers and of times to
    live, late rows too; workers end, attempts are lost, the query starts again with another number
    of subtasks or from an older state. It holds them to invariants, by name:

    - ``clock``, ``random``: the function reads no clock, and draws no random numbers.
    - ``attributes``: nothing depends on what it holds in its attributes.
    - ``outside``: a micro-batch that runs again gives the same results and states.
    - ``subtasks``: nothing depends on the number of subtasks.
    - ``batches``: results don't depend on how rows are spread over micro-batches.
    - ``order``: results don't depend on the order of the rows of different input partitions.
    - ``growth``: no state of a key grows on and on when like rows come again and again.
    - ``error``: the function does not fail.
    - ``old state``: it goes on from ``snapshots``.

    For ``batches`` and ``order`` no row is late, the processing time stands still until the last
    row, and then all timers fire.

    Args:
        operator: what a stream of :func:`rows_of` makes of a function; or better a function of a
            module that builds it, which a test can import.
        inputs: rows as for :meth:`KeyedProcessHarness.process_batch`; of two inputs, or of rows and
            broadcast elements, a pair. Or a function that makes them of a ``random.Random``: for
            ``growth``, if rows have ids of their own, as those of a list come again as they are,
            only later.
        seeds: how many seeds; or which.
        partition: what tells the input partition of a row: rows of the same one keep their order. A
            column, or a function of a row. Without it rows may come in any order.
        results: what must be the same for ``batches`` and ``order``: takes the rows that were
            emitted, in their order, and returns what is compared. By default that is all of them,
            in any order. A row of a side output is a pair of the tag's id and the row.
        side_outputs: the side outputs that are looked at.
        snapshots: of a harness with an earlier function: the operator goes on from each.
        ignore: the names of invariants that need not hold.

    Returns:
        How much was simulated, for a test to look at.

    Raises:
        SimulationFailure: something does not hold. It says what, and has the smallest story that
            shows it, as a test.
        DeclarationError: as for a query.
    """
    unknown = set(ignore) - set(checks.INVARIANTS)
    if unknown:
        raise ValueError(f"no invariants {sorted(unknown)}; there are {sorted(checks.INVARIANTS)}")
    subject = Subject(operator, side_outputs)
    made = _Lives(subject, inputs, partition, results, frozenset(ignore))
    for snapshot in snapshots:
        made.goes_on_from(snapshot)
    for seed in range(seeds) if isinstance(seeds, int) else seeds:
        made.live(seed)
    return made.simulation


class _Lives:
    """The lives of one operator."""

    def __init__(
        self,
        subject: Subject,
        inputs: Any,
        partition: str | Callable[[Row], Any] | None,
        results: Callable[[list[Any]], Any] | None,
        ignored: frozenset[str],
    ) -> None:
        self._subject = subject
        self._inputs = inputs
        self._given = None if callable(inputs) else subject.items(inputs)
        if self._given is not None and not self._given:
            raise ValueError("simulate() needs rows")
        self._partition = partition
        self._results = results
        self._ignored = ignored
        self.simulation = Simulation()

    def live(self, seed: int) -> None:
        """The lives of a seed.

        Raises:
            SimulationFailure: something does not hold in one.
        """
        rng = random.Random(seed)
        items = self._items(rng)
        some = lives.some(items, rng)
        order = lives.arrival(some, self._of_partition, rng)
        story = lives.disturbed(self._subject, some, lives.batches(order, rng), rng)
        self.simulation.seeds += 1
        self.simulation._count(story)
        if seed < _WATCHED:
            self._told(checks.watched(self._subject, story), seed)
        self._told(checks.hold_when_disturbed(self._subject, story), seed)
        if not {"batches", "order"} <= self._ignored:
            self._in_orders(some, rng, seed)
        if seed % _GROWTH == 0 and "growth" not in self._ignored:
            found = growth.bounded(self._subject, lambda number: self._round(seed, number))
            self._told(found, seed)

    def _in_orders(self, items: list[Item], rng: random.Random, seed: int) -> None:
        comes: list[Sequence[int]] = []
        if "batches" not in self._ignored:
            comes.append(range(len(items)))
        if "order" not in self._ignored:
            comes.append(lives.arrival(items, self._of_partition, rng))
        ways = []
        for order in comes:
            other = tuple(lives.batches(order, rng))
            # Where micro-batches may matter, both ways have the same.
            sizes = map(len, other) if "batches" in self._ignored else [1] * len(items)
            places = iter(range(len(items)))
            one = tuple(tuple(islice(places, size)) for size in sizes)
            ways.append(checks.Orders(one, other))
            self.simulation._count(lives.on_time(self._subject, items, other))
        self._told(checks.hold_in_any_order(self._subject, items, ways, self._compared), seed)

    def _compared(self, rows: list[Any]) -> Any:
        return (self._results or checks.all_results)(rows)

    def _items(self, rng: random.Random) -> list[Item]:
        return self._given or self._subject.items(self._inputs(rng))

    def _round(self, seed: int, number: int) -> list[Item]:
        """The rows of a round of those that look at growth: the same, or others each time."""
        rng = random.Random(seed)
        if self._given is not None:
            return lives.some(self._given, rng)
        return self._items(random.Random(f"{seed} {number}"))[: lives.MOST]

    def _of_partition(self, item: Item) -> Any:
        if self._partition is None:
            return id(item)
        if callable(self._partition):
            return item.input, repr(self._partition(item.row))
        return item.input, repr(item.row[self._partition])

    def goes_on_from(self, snapshot: Snapshot) -> None:
        """Whether the operator goes on from an older state.

        Raises:
            SimulationFailure: it does not.
        """
        items = self._items(random.Random(0))[: lives.MOST]
        story: list[Batch] = []
        try:
            harness = self._subject.restore(snapshot)
            now = harness.processing_time
            harness.close()
            story = [self._subject.batch(items, processing_time=max(now, lives.beginning(items)))]
            error = self._subject.run(tuple(story), snapshot).error
        except KeystateError as e:
            error = told(e)
        if error is not None:
            self._told(checks.Finding("old state", error, ()), 0)

    def _told(self, found: checks.Finding | None, seed: int) -> None:
        if found is not None and found.invariant not in self._ignored:
            test = as_test(self._subject, found, self._results)
            raise SimulationFailure(found.invariant, found.difference, test, seed)
