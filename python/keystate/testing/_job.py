"""An operator in memory: its state, and its subtasks at work on it."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Row

from keystate._spec.protocol import VERSION, Answer, Control
from keystate._types.codec import struct_codec
from keystate._worker.messages.columns import Columns
from keystate._worker.messages.state_client import OWN_CLIENT
from keystate.errors import DeclarationError
from keystate.testing._broadcast import BroadcastClient, BroadcastStates, Copy
from keystate.testing._expiring import ExpiringStore, make_store
from keystate.testing._keys import Keys
from keystate.testing._operator_state import OperatorStates
from keystate.testing._rows import Rows
from keystate.testing._setup import Setup
from keystate.testing._snapshot import StoredStates, StoredTimers, check_windows, readable
from keystate.testing._stores import Store, Timer, Timers
from keystate.testing._subtask import Outcome, Subtask, Told, Work


class Clock(NamedTuple):
    """The times of a micro-batch."""

    batch_id: int
    watermark: int | None
    processing_time: int

    def told(self) -> Told:
        """The clock in the form that tasks get."""
        return {
            Control.BATCH_ID: self.batch_id,
            Control.WATERMARK: self.watermark,
            Control.PROCESSING_TIME: self.processing_time,
        }


class Held(NamedTuple):
    """The state of all subtasks, as a snapshot has it."""

    states: StoredStates
    timers: StoredTimers
    operator: dict[str, Any]
    broadcast: list[Copy]
    windows: str | None = None


class Job:
    """The subtasks of an operator and the state that they share.

    A micro-batch counts as a whole or not at all, as in a query.
    """

    def __init__(self, setup: Setup) -> None:
        task, parallelism = setup.task, setup.parallelism
        self._spec = task.declared.spec
        self.keys = Keys(setup)
        self._results = struct_codec(task.declared.output)
        self.stores: list[Store] = [
            make_store(state, i) for i, state in enumerate(task.declared.spec.states)
        ]
        _check_watermark(self.stores, setup)
        self.timers = Timers()
        #: Whether rows behind the watermark are not dropped.
        self.takes_late_rows = task.declared.spec.takes.late_rows
        most = setup.max_parallelism
        self._operator_states = OperatorStates(task.declared.spec, parallelism, most)
        self.broadcast = [BroadcastStates(task.declared.spec.broadcast) for _ in range(parallelism)]
        self._undeclared: StoredStates = {}
        of_all = {
            Control.PROTOCOL: VERSION,
            Control.PARALLELISM: parallelism,
            Control.MAX_PARALLELISM: most,
            Control.ATTEMPT: 0,
            Control.STREAMING: True,
            Control.QUERY_RUN: str(uuid.uuid4()),
            **setup.event_time_columns(),
        }
        self._subtasks = [
            Subtask(task, {**of_all, Control.SUBTASK: index}) for index in range(parallelism)
        ]

    # -- life cycle ------------------------------------------------------------------------------

    def open(self) -> None:
        """Opens the function in every subtask; otherwise a subtask does when it has work."""
        for index, subtask in enumerate(self._subtasks):
            subtask.open(self._told(index))

    def close(self) -> None:
        """Closes the functions."""
        for subtask in self._subtasks:
            subtask.close()

    def snapshot(self) -> Held:
        """All state as it is now."""
        states = dict(self._undeclared)
        for store in self.stores:
            keys = [key for key in store.cells if store.cell(key) is not None]
            columns, times = store.columns(keys), store.times(keys)
            states[store.spec.name] = (store.spec, self.keys.encode(keys), columns, times)
        timers = list(self.timers)
        timer_keys = self.keys.encode([timer.key for timer in timers])
        set_timers = [(timer.domain, timer.time, *timer.window) for timer in timers]
        broadcast = [copy.copy() for copy in self.broadcast]
        operator, windows = self._operator_states.snapshot(), self._spec.windows
        return Held(states, (set_timers, timer_keys), operator, broadcast, windows)

    def restore(self, held: Held, clock: Clock) -> None:
        """Takes in a snapshot, where there is no state yet.

        Raises:
            CheckpointError: a state has another kind or type in it, or another key; or windows are
                open that the function can't go on with.
        """
        # All states count: those that are not declared now are kept.
        keys_of = {name: self.keys.restored(kept[1]) for name, kept in held.states.items()}
        self._undeclared = dict(held.states)
        for store in self.stores:
            kept = self._undeclared.pop(store.spec.name, None)
            if kept is not None:
                spec, _, columns, times = kept
                keys = keys_of[store.spec.name]
                store.restore(keys, readable(spec, store.spec, columns))
                store.restore_times(keys, times)
            store.begin(clock.watermark, clock.processing_time)
        self._operator_states.restore(held.operator)
        for index, copy in enumerate(self.broadcast):
            copy.restore(held.broadcast[index % len(held.broadcast)], readable)
        timers, timer_keys = held.timers
        restored = self.keys.restored(timer_keys) if timers else ()
        check_windows(held.windows, self._spec, timers, held.states)
        for (domain, time, *window), key in zip(timers, restored):
            timer = Timer(time, self.keys.group(key), domain, key, tuple(window))
            self.timers.change(timer, True)

    def _go_back(self, held: Held, clock: Clock) -> None:
        self.stores[:] = [make_store(state, i) for i, state in enumerate(self._spec.states)]
        self.timers = Timers()
        self.restore(held, clock)

    # -- micro-batches ---------------------------------------------------------------------------

    def run(self, rows: Rows, elements: pa.Array | None, clock: Clock, before: Clock) -> list[Row]:
        """Runs a micro-batch; returns what it emits, subtask by subtask.

        Args:
            rows: of the input.
            elements: broadcast elements, if there are any.
            clock: the micro-batch's times.
            before: those of the one before.
        """
        for store in self.stores:
            store.begin(clock.watermark, clock.processing_time)
        self.timers.begin()
        # Subtasks themselves fire the timers that the micro-batch sets.
        work = self._assign(rows, self.timers.due(clock.watermark, clock.processing_time))
        if self._spec.subtask_state is not None:
            # Every subtask takes part in a checkpoint, one without rows too.
            for index in range(len(self._subtasks)):
                work.setdefault(index, Work())
        emitted: dict[int, list[Row]] = {i: [] for i in range(len(self._subtasks))}
        outcomes = {}
        held = self.snapshot() if elements is not None else None
        try:
            if elements is not None:
                for index in emitted:
                    emitted[index] += self._run_broadcast(index, elements, clock)
            for index, each in sorted(work.items()):
                mine = rows.take(each.rows)
                late = {Control.LATE_WATERMARK: before.watermark}
                now = {**clock.told(), **late, **self._told(index)}
                outcomes[index] = self._subtasks[index].run(each, mine, self.stores, now)
        except BaseException:
            if held is not None:
                self._go_back(held, before)
            raise
        # All have done their part: as a query, which commits a micro-batch whole or not at all.
        for index, outcome in outcomes.items():
            for timer in work[index].timers:  # as the JVM does when it sends them
                self.timers.change(timer, False)
            emitted[index] += self._take_in(outcome)
            if self._spec.subtask_state is not None:
                self._operator_states.apply(index, outcome.messages[-1])
        return [row for part in emitted.values() for row in part]

    def _assign(self, rows: Rows, due: list[Timer]) -> dict[int, Work]:
        """By subtask its rows and timers."""
        work: dict[int, Work] = {}
        for i, (subtask, key) in enumerate(self.keys.of_rows(rows)):
            mine = work.setdefault(subtask, Work())
            mine.rows.append(i)
            mine.keys.append(key)
        for timer in due:
            work.setdefault(self.keys.subtask_of_group(timer.group), Work()).timers.append(timer)
        return work

    def _run_broadcast(self, index: int, elements: pa.Array, clock: Clock) -> list[Row]:
        """A subtask's pass of the broadcast elements. The rows that follow see what it changes."""
        tag = str(uuid.uuid4())
        now = {**clock.told(), **self._told(index), Control.NEW_TAG: tag}
        messages = self._subtasks[index].run_broadcast(elements, now)
        self.broadcast[index].apply(messages[-1], tag)
        return [row for m in messages for row in self._results.decode(m.elements(Answer.OUT))]

    def _told(self, index: int) -> Told:
        """The description of a subtask's state that its task gets."""
        if not self._spec.broadcast:
            return self._operator_states.control(index)
        states, subtask = self.broadcast[index], self._subtasks[index]

        def keys_with(state: int) -> list[Any]:
            store = self.stores[state]
            present = [key for key in store.cells if store.living(key) is not None]
            return [key for key in present if self.keys.subtask_of(key) == index]

        def message(keys: Sequence[Any]) -> dict[str, pa.Array]:
            return subtask.new_keys(keys, self.stores)

        client = BroadcastClient(states, keys_with, message, self._apply)
        return {Control.BROADCAST_TAG: states.tag, OWN_CLIENT: client}

    def _take_in(self, outcome: Outcome) -> list[Row]:
        """Applies a subtask's changes; returns its results."""
        results: list[Row] = []
        for message in outcome.messages:
            results += self._results.decode(message.elements(Answer.OUT))
            self._apply(outcome.keys, message)
        return results

    def _apply(self, keys: Sequence[Any], changes: Columns) -> None:
        """Takes in what was changed of these keys."""
        for store in self.stores:
            store.apply(keys, changes)
        if self._spec.timers:
            self.timers.apply(keys, [self.keys.group(key) for key in keys], changes)


def _check_watermark(stores: Sequence[Store], setup: Setup) -> None:
    for store in stores:
        by_event_time = isinstance(store, ExpiringStore) and store.by_event_time
        if by_event_time and not setup.by_event_time:
            raise DeclarationError(
                f"state '{store.spec.name}' has a time to live by event time, but there is no "
                "watermark: give the harness the event_time column",
                code="KEYSTATE_NO_WATERMARK",
            )
