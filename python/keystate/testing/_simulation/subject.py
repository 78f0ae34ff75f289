"""The operator whose life is simulated, in a harness."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, Row

from keystate._kinds import TIMERS
from keystate._operators.declared import InputRole
from keystate.errors import FunctionError, KeystateError
from keystate.functions import OutputTag, TimeDomain
from keystate.testing._base import OperatorHarness
from keystate.testing._harness import KeyedProcessHarness
from keystate.testing._rows import Encoder, InputEncoder
from keystate.testing._setup import Setup
from keystate.testing._simulation.story import Batch, Happening, Outcome, Story
from keystate.testing._snapshot import Snapshot
from keystate.testing._two_inputs import KeyedTwoInputHarness

#: After how many micro-batches without rows no more timers are waited for.
_LAST = 10
#: Timers after this time, in ms, are for the end of all: they are not waited for. It is year 8307.
FAR = 200_000_000_000_000


class Item(NamedTuple):
    """A row on its way into an operator.

    Attributes:
        input: the index of its input.
        row: the row.
        key: its key, in a form that compares; ``None`` of a broadcast element.
        time: its event time in microseconds; ``None`` if it has none.
    """

    input: int
    row: Row
    key: str | None
    time: int | None


class Subject:
    """An operator, of which harnesses are made.

    Args:
        operator: what a stream made of a function, or a function that builds it.
        side_outputs: the side outputs that are looked at.
    """

    def __init__(
        self, operator: DataFrame | Callable[[], DataFrame], side_outputs: Sequence[OutputTag]
    ) -> None:
        self.build = None if isinstance(operator, DataFrame) else operator
        self._made: Any = operator if isinstance(operator, DataFrame) else operator()
        self.side_outputs = tuple(side_outputs)
        setup = Setup(self._made, 1, 128, side_outputs, ())
        second = setup.operator.second_input
        self.by_event_time = setup.by_event_time
        role = None if second is None else second.role
        self.two_inputs = role in (InputRole.CONNECTED, InputRole.MERGED)
        self.harness: type[KeyedProcessHarness | KeyedTwoInputHarness] = (
            KeyedTwoInputHarness if self.two_inputs else KeyedProcessHarness
        )
        streamed = setup.inputs if self.two_inputs else setup.inputs[:1]
        self._encoders: list[Encoder] = [
            InputEncoder(each, "a row of the simulation does not fit the input schema")
            for each in streamed
        ]
        self._key_columns = setup.key_columns[: len(streamed)]
        self._time_columns = [each.time_column for each in streamed]
        if second is not None and second.role is InputRole.BROADCAST:
            misfit = "an element of the simulation does not fit the broadcast schema"
            self._encoders.append(Encoder(second.rows.row_type, misfit))
        #: How long states live, in ms.
        self.lives = [
            state.ttl.to_milliseconds()
            for state in setup.task.declared.spec.states
            if state.ttl is not None
        ]

    @property
    def inputs(self) -> int:
        """How many inputs there are, with that of broadcast elements."""
        return len(self._encoders)

    # -- rows ------------------------------------------------------------------------------------

    def items(self, inputs: Any) -> list[Item]:
        """Rows as a user gives them: of several inputs a list or tuple of the rows of each."""
        given: Sequence[Iterable[Any]] = [inputs] if self.inputs == 1 else inputs
        if len(given) != self.inputs:
            raise ValueError(f"the operator has {self.inputs} inputs: give the rows of each")
        by_input = [self._of_input(i, rows) for i, rows in enumerate(given)]
        together = [item for items in by_input for item in items]
        if self.inputs > 1 and all(item.time is not None for item in together):
            return sorted(together, key=lambda item: item.time or 0)
        longest = max(map(len, by_input), default=0)
        places = [
            (at * longest // max(len(items), 1), items[at])
            for items in by_input
            for at in range(len(items))
        ]
        return [item for _, item in sorted(places, key=lambda place: place[0])]

    def _of_input(self, index: int, rows: Iterable[Any]) -> list[Item]:
        encoder = self._encoders[index]
        array = encoder.encode(rows)
        return [
            Item(index, row, self._key(index, row), time)
            for row, time in zip(encoder.decode(array), self._times(index, array))
        ]

    def _key(self, index: int, row: Row) -> str | None:
        if index >= len(self._key_columns):
            return None
        return repr([row[column] for column in self._key_columns[index]])

    def _times(self, index: int, rows: pa.Array) -> list[int | None]:
        column = self._time_columns[index] if index < len(self._time_columns) else None
        if column is None or not self.by_event_time:
            return [None] * len(rows)
        times = rows.field(column)
        if pa.types.is_struct(times.type):
            times = times.field(1)  # a window's end
        found: list[int | None] = times.cast(pa.int64()).to_pylist()
        return found

    def later(self, items: Sequence[Item], millis: int) -> list[Item]:
        """The rows at later event times."""
        made = []
        for item in items:
            if item.time is None:
                made.append(item)
                continue
            encoder = self._encoders[item.input]
            array = encoder.encode([item.row])
            columns = array.flatten()
            at = self._time_columns[item.input]
            assert at is not None
            columns[at] = _later(columns[at], millis * 1000)
            (row,) = encoder.decode(pa.StructArray.from_arrays(columns, fields=list(array.type)))
            made.append(item._replace(row=row, time=item.time + millis * 1000))
        return made

    def batch(self, items: Iterable[Item], **told: Any) -> Batch:
        """A micro-batch of these rows."""
        rows: list[list[Any]] = [[] for _ in range(self.inputs)]
        for item in items:
            rows[item.input].append(item.row)
        return Batch(tuple(map(tuple, rows)), **told)

    # -- running it ------------------------------------------------------------------------------

    def start(self) -> OperatorHarness:
        """A harness of a new query."""
        return self.harness.of(self._made, side_outputs=self.side_outputs)

    def restore(self, snapshot: Snapshot, parallelism: int = 1) -> OperatorHarness:
        """A harness of a query that starts again."""
        return self.harness.restore(
            snapshot, self._made, parallelism=parallelism, side_outputs=self.side_outputs
        )

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

    def run(self, story: Story, start: Snapshot | None = None) -> Outcome:
        """What comes of a story.

        Args:
            story: the story.
            start: the state that it begins with.
        """
        harness = self.start() if start is None else self.restore(start)
        results: list[list[Any]] = []
        older: list[Snapshot] = []
        try:
            for i, batch in enumerate(story):
                for event in batch.events:
                    harness = self._befallen(harness, story, i, event, older, results)
                older.append(harness.snapshot())
                results.append(self.step(harness, batch))
        except KeystateError as e:
            return Outcome(results, {}, told(e))
        finally:
            harness.close()
        return Outcome(results, content(harness))

    def _befallen(
        self,
        harness: OperatorHarness,
        story: Story,
        at: int,
        event: tuple[Happening, int],
        older: list[Snapshot],
        results: list[list[Any]],
    ) -> OperatorHarness:
        """The harness that a micro-batch finds after something has befallen it."""
        what, number = event
        parallelism = harness._setup.parallelism
        if what is Happening.NEW_WORKER:
            harness.close()
        elif what is Happening.LOST:
            attempt = self.restore(harness.snapshot(), parallelism)
            try:
                self.step(attempt, story[at])
            except FunctionError:
                pass  # the next attempt tells
            finally:
                attempt.close()
        elif what is Happening.RESCALE:
            harness.close()
            return self.restore(harness.snapshot(), number)
        elif at > 0:
            harness.close()
            back = max(at - number, 0)
            harness = self.restore(older[back], parallelism)
            for i in range(back, at):
                results[i] = self.step(harness, story[i])
        return harness

    def run_to_end(self, story: Story) -> tuple[Story, Outcome]:
        """What comes of a story without events when its timers have fired; and the whole story."""
        harness = self.start()
        results: list[list[Any]] = []
        whole: list[Batch] = []
        try:
            for batch in story:
                whole.append(batch)
                results.append(self.step(harness, batch))
            for _ in range(_LAST):
                clocks = furthest(harness)
                if not clocks:
                    break
                whole.append(self.batch([], **clocks))
                results.append(self.step(harness, whole[-1]))
        except KeystateError as e:
            return tuple(whole), Outcome(results, {}, told(e))
        finally:
            harness.close()
        return tuple(whole), Outcome(results, content(harness))


def told(error: KeystateError) -> str:
    """What an error says, in a line."""
    cause = error.__cause__ or error.__context__
    if isinstance(error, FunctionError) and cause is not None:
        return f"{type(cause).__name__}: {cause}"
    return str(error).strip().splitlines()[0]


def furthest(harness: OperatorHarness) -> dict[str, int]:
    """The clocks at which all timers that are set have fired."""
    clocks: dict[str, int] = {}
    for timer in (each for each in harness._job.timers if each.time < FAR):
        by_event_time = timer.domain == TimeDomain.EVENT_TIME.value
        name = "watermark" if by_event_time else "processing_time"
        clocks[name] = max(clocks.get(name, timer.time), timer.time)
    now = harness.processing_time
    if "processing_time" in clocks:
        clocks["processing_time"] = max(clocks["processing_time"], now)
    return clocks


def content(harness: OperatorHarness) -> dict[tuple[str, Any], Any]:
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


def _later(column: pa.Array, micros: int) -> pa.Array:
    if pa.types.is_struct(column.type):
        parts = [_later(part, micros) for part in column.flatten()]
        return pa.StructArray.from_arrays(parts, fields=list(column.type))
    moved = [
        None if time is None else time + micros for time in column.cast(pa.int64()).to_pylist()
    ]
    return pa.array(moved, pa.int64()).cast(column.type)
