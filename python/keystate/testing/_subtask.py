"""A subtask: an opened function, and the JVM's side of its conversation with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from keystate._spec.protocol import Control, Message
from keystate._types.codec import codec
from keystate._worker.messages.columns import Columns
from keystate._worker.operators.keyed import KeyedOperator
from keystate._worker.task import TaskFunction
from keystate.testing._rows import Rows
from keystate.testing._stores import Store, Timer

#: The control part of a message, besides its data.
Told = dict[str, Any]


@dataclass
class Work:
    """A subtask's work in a micro-batch: rows with their keys, and timers that are due."""

    rows: list[int] = field(default_factory=list)
    keys: list[Any] = field(default_factory=list)
    timers: list[Timer] = field(default_factory=list)


class Outcome(NamedTuple):
    """The outcome of a subtask's work: results, and changes that are not yet applied.

    Attributes:
        keys: the keys of the slots in the messages.
    """

    keys: list[Any]
    messages: list[Columns]


class Subtask:
    """One subtask of an operator."""

    def __init__(self, task: TaskFunction, control: Told) -> None:
        self._task = task
        self._keys = codec(task.declared.keys)
        self._control = control
        self._operator: KeyedOperator | None = None
        self._stepping: Told = {}

    def open(self, now: Told) -> None:
        """Opens a function for the subtask, unless it has one that can continue.

        Args:
            now: the task's control values, besides those that each task of the subtask gets.
        """
        control = self._told(now)
        if self._operator is not None and not self._operator.goes_on(control):
            self.close()
        if self._operator is None:
            opened = self._task.open(control)
            assert isinstance(opened, KeyedOperator), "the harness steps through functions"
            self._operator = opened

    def close(self) -> None:
        """Closes the function."""
        if self._operator is not None:
            operator, self._operator = self._operator, None
            operator.close()

    def run(self, work: Work, rows: Rows, stores: Sequence[Store], now: Told) -> Outcome:
        """Runs one micro-batch's task. When the function fails it is closed; the next is new."""
        self.open(now)
        assert self._operator is not None
        control = self._told(now)
        slots: dict[Any, int] = {}
        answers: list[pa.RecordBatch] = []
        try:
            self._operator.begin_task(control)
            if work.keys or not work.timers:
                message = self._message(slots, work.keys, rows, (), stores)
                answers += self._operator.answer(message, control)
            if work.timers:
                keys = [timer.key for timer in work.timers]
                message = self._message(slots, keys, rows.take([]), work.timers, stores)
                answers += self._operator.answer(message, control)
            answers += self._operator.end_task()
        except BaseException:
            self.close()
            raise
        return Outcome(list(slots), [Columns(answer) for answer in answers])

    # -- one by one, for replays -----------------------------------------------------------------

    def begin(self, now: Told) -> None:
        """Begins a micro-batch's task of which each step is a message of its own."""
        self.open(now)
        assert self._operator is not None
        self._stepping = self._told(now)
        self._operator.begin_task(self._stepping)

    def step(
        self, keys: Sequence[Any], rows: Rows, timers: Sequence[Timer], stores: Sequence[Store]
    ) -> Outcome:
        """Runs rows of these keys, or their timers, and returns what they changed at once.

        A worker returns changes when a new generation of keys begins, so each step is one.
        """
        assert self._operator is not None
        slots: dict[Any, int] = {}
        answers: list[pa.RecordBatch] = []
        try:
            for message in (
                self._message(slots, keys, rows, timers, stores),
                self._message({}, (), rows.take([]), (), stores),
            ):
                self._stepping[Control.CACHE_EPOCH] += 1
                answers += self._operator.answer(message, self._stepping)
        except BaseException:
            self.close()
            raise
        return Outcome(list(slots), [Columns(answer) for answer in answers])

    def end(self) -> None:
        """Ends the task."""
        assert self._operator is not None
        for _ in self._operator.end_task():
            pass  # only metrics: each step has returned its changes

    def run_broadcast(self, elements: pa.Array, now: Told) -> list[Columns]:
        """Runs the pass of a micro-batch's broadcast elements; the last answer has its changes."""
        self.open(now)
        assert self._operator is not None
        control = self._told(now)
        try:
            self._operator.begin_task(control)
            answers = [
                *self._operator.answer(_Message({Message.BROADCAST: elements}), control),
                *self._operator.end_task(),
            ]
        except BaseException:
            self.close()
            raise
        return [Columns(answer) for answer in answers]

    def _told(self, now: Told) -> Told:
        return {**self._control, **now, Control.CACHE_EPOCH: 0}

    def new_keys(self, keys: Sequence[Any], stores: Sequence[Store]) -> dict[str, pa.Array]:
        """The columns of a message that say of keys which they are and what their states have."""
        columns = {
            Message.KEYS: self._keys.encode(keys),
            Message.CARRIED: pa.array([-1] * len(keys), pa.int32()),
        }
        for store in stores:
            columns.update(store.columns(keys))
        return columns

    def _message(
        self,
        slots: dict[Any, int],
        keys: Sequence[Any],
        rows: Rows,
        timers: Sequence[Timer],
        stores: Sequence[Store],
    ) -> Columns:
        """Rows of these keys or their timers; a key gets a slot when it first appears."""
        known = len(slots)
        of_keys = pa.array([slots.setdefault(key, len(slots)) for key in keys], pa.int32())
        new = list(slots)[known:]
        no_slots = of_keys[:0]
        columns = {
            **rows.columns(),
            Message.KEY_INDEXES: no_slots if timers else of_keys,
            **self.new_keys(new, stores),
        }
        if self._task.declared.spec.timers:
            columns[Message.TIMER_KEY_INDEXES] = of_keys if timers else no_slots
            columns[Message.TIMER_DOMAINS] = pa.array([timer.domain for timer in timers], pa.int8())
            columns[Message.TIMER_TIMES] = pa.array([timer.time for timer in timers], pa.int64())
            columns.update(self.window_columns(timers))
        return _Message(columns)

    def window_columns(self, timers: Sequence[Timer]) -> dict[str, pa.Array]:
        """The columns of a message that say to which windows timers belong."""
        if self._task.declared.spec.windows is None:
            return {}
        return {
            name: pa.array([timer.window[i] for timer in timers], pa.int64())
            for i, name in enumerate((Message.TIMER_WINDOW_ENDS, Message.TIMER_WINDOW_STARTS))
        }


class _Message(Columns):
    """A message that need not travel."""

    def __init__(self, columns: dict[str, pa.Array]) -> None:
        self._columns = columns

    def elements(self, name: str) -> pa.Array:
        return self._columns[name]

    def has(self, name: str) -> bool:
        return name in self._columns
