"""The operator that is simulated, and a run of it in a harness."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from typing import Any

from pyspark.sql import DataFrame

from keystate._operators.definition import InputRole
from keystate.errors import FunctionError, KeystateError
from keystate.functions import OutputTag, TimeDomain
from keystate.state.kinds import TIMERS
from keystate.testing._base import OperatorHarness
from keystate.testing._harness import KeyedProcessHarness
from keystate.testing._setup import Setup
from keystate.testing._simulation.records import Inputs, Record, beginning
from keystate.testing._simulation.schedule import Batch, Event, EventKind, Outcome, Schedule
from keystate.testing._snapshot import Snapshot
from keystate.testing._two_inputs import KeyedTwoInputHarness

#: After how many micro-batches without rows no more timers are waited for.
_LAST = 10
#: Timers after this time, in ms, are for the end of all: they are not waited for. It is year 8307.
FAR = 200_000_000_000_000


class SystemUnderTest:
    """An operator, of which harnesses are made.

    Args:
        operator: what a stream made of a function, or a function that builds it.
        side_outputs: the side outputs that are looked at.
    """

    def __init__(
        self, operator: DataFrame | Callable[[], DataFrame], side_outputs: Sequence[OutputTag]
    ) -> None:
        self.build = None if isinstance(operator, DataFrame) else operator
        self._operator: Any = operator if isinstance(operator, DataFrame) else operator()
        self.side_outputs = tuple(side_outputs)
        setup = Setup(self._operator, 1, 128, side_outputs, ())
        second = setup.operator.second_input
        self.by_event_time = setup.by_event_time
        role = None if second is None else second.role
        self.two_inputs = role in (InputRole.CONNECTED, InputRole.MERGED)
        self.harness: type[KeyedProcessHarness | KeyedTwoInputHarness] = (
            KeyedTwoInputHarness if self.two_inputs else KeyedProcessHarness
        )
        self.inputs = Inputs(setup, self.two_inputs)
        #: The times to live of its states, in ms.
        self.ttls = [
            state.ttl.to_milliseconds()
            for state in setup.task.declared.spec.states
            if state.ttl is not None
        ]

    def batch(self, records: Iterable[Record], **more: Any) -> Batch:
        """A micro-batch of these rows."""
        rows: list[list[Any]] = [[] for _ in range(len(self.inputs))]
        for record in records:
            rows[record.input].append(record.row)
        return Batch(tuple(map(tuple, rows)), **more)

    def on_time(self, records: Sequence[Record], split: Sequence[Sequence[int]]) -> Schedule:
        """Micro-batches of rows that are never late: the watermark waits for those to come."""
        schedule: list[Batch] = []
        seen: int | None = None
        watermark = 0
        for i, places in enumerate(split):
            clocks: dict[str, int] = {} if i else {"processing_time": beginning(records)}
            if self.by_event_time and seen is not None:
                waiting = [records[at].time for each in split[i:] for at in each]
                first = min((time for time in waiting if time is not None), default=seen)
                watermark = max(watermark, min(seen // 1000, (first - 1) // 1000))
                clocks["watermark"] = watermark
            schedule.append(self.batch((records[at] for at in places), **clocks))
            times = [records[at].time for at in places]
            seen = max((time for time in [seen, *times] if time is not None), default=None)
        return tuple(schedule)

    def restore(self, snapshot: Snapshot, parallelism: int = 1) -> OperatorHarness:
        """A harness of a query that starts again."""
        return self.harness.restore(
            snapshot, self._operator, parallelism=parallelism, side_outputs=self.side_outputs
        )

    def start(self, snapshot: Snapshot | None = None) -> Run:
        """A run of a new query, or of one that begins with a state."""
        if snapshot is not None:
            return Run(self, self.restore(snapshot))
        return Run(self, self.harness.of(self._operator, side_outputs=self.side_outputs))

    def run(self, schedule: Schedule, snapshot: Snapshot | None = None) -> Outcome:
        """The outcome of a schedule."""
        kinds = {event.kind for batch in schedule for event in batch.events}
        return self.start(snapshot).outcome(schedule, restores=EventKind.RESTORE in kinds)

    def run_to_end(self, schedule: Schedule) -> tuple[Schedule, Outcome]:
        """Runs a schedule until its timers have fired; returns it whole, with its outcome."""
        run = self.start()

        def batches() -> Iterator[Batch]:
            yield from schedule
            yield from run.until_timers_have_fired(_LAST)

        outcome = run.outcome(batches())
        return tuple(run.batches), outcome

    def step(self, harness: OperatorHarness, batch: Batch) -> list[Any]:
        """Runs a micro-batch; returns what it emits."""
        before = [len(harness.side_output(tag)) for tag in self.side_outputs]
        clocks: dict[str, Any] = {
            "watermark": batch.watermark,
            "processing_time": batch.processing_time,
        }
        results: list[Any]
        if isinstance(harness, KeyedTwoInputHarness):
            results = list(harness.process_batch(*batch.rows, **clocks))
        else:
            assert isinstance(harness, KeyedProcessHarness)
            rows, *elements = batch.rows
            broadcast = elements[0] if elements else ()
            results = list(harness.process_batch(rows, broadcast=broadcast, **clocks))
        for tag, count in zip(self.side_outputs, before):
            results += [(tag.tag_id, row) for row in harness.side_output(tag)[count:]]
        return results


class Run:
    """A run of micro-batches, each of which may depend on what those before it left.

    Attributes:
        harness: the harness; after an event it may be another one.
        batches: the micro-batches that have run, with the one that failed.
    """

    def __init__(self, system: SystemUnderTest, harness: OperatorHarness) -> None:
        self._system = system
        self.harness = harness
        self.batches: list[Batch] = []
        self._results: list[list[Any]] = []
        self._snapshots: list[Snapshot] = []

    def outcome(self, batches: Iterable[Batch], restores: bool = False) -> Outcome:
        """Runs micro-batches, and closes the harness.

        Args:
            batches: the micro-batches.
            restores: whether one of them may come after a restart from an older state.
        """
        try:
            for batch in batches:
                for event in batch.events:
                    self._happens(event, batch)
                if restores:
                    self._snapshots.append(self.harness.snapshot())
                self.batches.append(batch)
                self._results.append(self._system.step(self.harness, batch))
        except KeystateError as e:
            return Outcome(self._results, {}, error_line(e))
        finally:
            self.harness.close()
        return Outcome(self._results, _content(self.harness))

    def _happens(self, event: Event, batch: Batch) -> None:
        """Applies an event before a micro-batch."""
        parallelism = self.harness._setup.parallelism
        if event.kind is EventKind.LOST_ATTEMPT:
            attempt = self._system.restore(self.harness.snapshot(), parallelism)
            # The next attempt fails too.
            with closing(attempt), suppress(FunctionError):
                self._system.step(attempt, batch)
            return
        if event.kind is EventKind.RESTORE and not self.batches:
            return
        self.harness.close()
        if event.kind is EventKind.RESCALE:
            self.harness = self._system.restore(self.harness.snapshot(), event.number)
        elif event.kind is EventKind.RESTORE:
            first = max(len(self.batches) - event.number, 0)
            self.harness = self._system.restore(self._snapshots[first], parallelism)
            again = [self._system.step(self.harness, each) for each in self.batches[first:]]
            self._results[first:] = again

    def until_timers_have_fired(self, most: int) -> Iterator[Batch]:
        """Micro-batches without rows, at the times of the last timers that are set."""
        for _ in range(most):
            clocks = self._last_timers()
            if not clocks:
                return
            yield self._system.batch([], **clocks)

    def _last_timers(self) -> dict[str, int]:
        clocks: dict[str, int] = {}
        for timer in (each for each in self.harness._job.timers if each.time < FAR):
            by_event_time = timer.domain == TimeDomain.EVENT_TIME.value
            name = "watermark" if by_event_time else "processing_time"
            clocks[name] = max(clocks.get(name, timer.time), timer.time)
        if "processing_time" in clocks:
            now = self.harness.processing_time
            clocks["processing_time"] = max(clocks["processing_time"], now)
        return clocks


def error_line(error: KeystateError) -> str:
    """The message of an error, in one line."""
    cause = error.__cause__ or error.__context__
    if isinstance(error, FunctionError) and cause is not None:
        return f"{type(cause).__name__}: {cause}"
    return str(error).strip().splitlines()[0]


def _content(harness: OperatorHarness) -> dict[tuple[str, Any], Any]:
    """By the state's name and the key what is stored, with the timers."""
    found: dict[tuple[str, Any], Any] = {}
    for store in harness._job.stores:
        for key in store.cells:
            if store.cell(key) is not None:
                found[store.spec.name, bare(key)] = store.peek(key)
    for key in {timer.key for timer in harness._job.timers}:
        found[TIMERS, bare(key)] = harness.timers(bare(key))
    return found


def bare(key: Any) -> Any:
    """A key as a user has it."""
    return key[0] if len(key) == 1 else tuple(key)
