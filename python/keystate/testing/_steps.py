"""An operator in memory whose micro-batches run row by row, for replays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql import types as T

from keystate._spec.protocol import Control
from keystate._types.canonical import same
from keystate._types.codec import codec, hashable
from keystate._worker.calls.function_spec import Style
from keystate.state.kinds import StateKind
from keystate.testing._job import Clock, Job
from keystate.testing._rows import Rows
from keystate.testing._setup import Setup
from keystate.testing._stores import Store, Timer

#: A key's states by name, and its timers by domain and time.
Content = tuple[dict[str, Any], list[tuple[int, ...]]]


class RunStep(NamedTuple):
    """A row of a micro-batch that has run, or a timer that has fired.

    Attributes:
        rows: the places of the rows; none of a timer, and of broadcast elements that changed what
            the key has. Several where the function takes many.
        timer: the timer; ``None`` of rows.
        results: what was emitted, as an operator with side outputs has it.
        before: what the key had.
        after: what it has then.
    """

    rows: Sequence[int]
    timer: Timer | None
    results: list[Row]
    before: Content
    after: Content


class SteppingJob(Job):
    """An operator of which one key is looked at."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.setup = setup
        #: Whether the function is called with all rows at once.
        self.takes_many = setup.operator.function_spec.style is Style.BATCHES

    def content(self, key: Any) -> Content:
        """A key's content without expired values, in the form of a lookup: Rows for dataclasses."""
        present = [store for store in self.stores if store.living(key) is not None]
        found = {store.spec.name: _plain(store, key) for store in present}
        timers = sorted(
            (timer.domain, timer.time, *timer.window) for timer in self.timers if timer.key == key
        )
        return found, timers

    def steps(
        self,
        key: Any,
        rows: Rows,
        count: int,
        clock: Clock,
        before: Clock,
        elements: pa.Array | None = None,
    ) -> Iterator[RunStep]:
        """Runs a micro-batch of the rows of one key, as :meth:`Job.run` does.

        Args:
            key: the key.
            rows: its rows.
            count: how many they are.
            clock: the micro-batch's times.
            before: those of the one before.
            elements: broadcast elements, if there are any. What is emitted for them is no key's.
        """
        for store in self.stores:
            store.begin(clock.watermark, clock.processing_time)
        self.timers.begin()
        index = self.keys.subtask_of(key)
        if elements is not None and len(elements):
            was = self.content(key)
            self._run_broadcast(index, elements, clock)
            if not same(self.content(key), was):
                yield RunStep((), None, [], was, self.content(key))
        late = {Control.LATE_WATERMARK: before.watermark}
        subtask = self._subtasks[index]
        # Each step says which timers it has set: so all that are due are sent.
        sent = {Control.TIMERS_SENT: True}
        subtask.begin({**clock.told(), **late, **sent, **self._told(index)})

        def step(mine: Sequence[int], timer: Timer | None) -> RunStep:
            was = self.content(key)
            keys = [key] * (len(mine) if timer is None else 1)
            timers = () if timer is None else (timer,)
            if timer is not None:
                self.timers.change(timer, False)
            outcome = subtask.step(keys, rows.take(mine), timers, self.stores)
            return RunStep(mine, timer, self._take_in(outcome), was, self.content(key))

        if self.takes_many and count:
            yield step(range(count), None)
        else:
            for place in range(count):
                yield step([place], None)
        while due := [
            timer
            for timer in self.timers.due(clock.watermark, clock.processing_time)
            if timer.key == key
        ]:
            yield step((), due[0])
        subtask.end()


def _plain(store: Store, key: Any) -> Any:
    spec = store.spec
    columns = list(store.columns([key]).values())
    if spec.key_type is None:
        kind = T.ArrayType(spec.value_type) if spec.kind == StateKind.LIST else spec.value_type
        return codec(kind).decode(columns[0])[0]
    keys, values = (
        codec(T.ArrayType(kind)).decode(column)[0]
        for kind, column in zip((spec.key_type, spec.value_type), columns)
    )
    return dict(zip(map(hashable, keys), values))


def one_list(values: pa.Array) -> pa.Array:
    """A column of one list, of these values."""
    return pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values)
