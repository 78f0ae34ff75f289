"""Micro-batches of the harness in several messages and generations of keys, as in a query."""

from __future__ import annotations

import json
import random
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from keystate._spec.protocol import Answer, Bound, Control, Message
from keystate._worker.messages.columns import GONE, Columns, list_column
from keystate._worker.messages.state_client import OWN_CLIENT
from keystate.testing._stores import MapStore
from keystate.testing._subtask import _Message


class Turns:
    """One subtask's task: what the JVM sends, and what it has read of the answers.

    Args:
        job: the harness's.
        index: of the subtask.
        told: what a message tells of the task.
        clock: of the micro-batch.
        no_rows: no rows of the inputs.
        chance: decides when answers are read, and when a generation of keys begins.
    """

    def __init__(
        self, job: Any, index: int, told: Any, clock: Any, no_rows: Any, chance: random.Random
    ) -> None:
        self.job, self.index, self.clock, self.chance = job, index, clock, chance
        self.no_rows = no_rows
        self.subtask = job._subtasks[index]
        self.subtask.open(told)
        self.operator = self.subtask._operator
        self.control = self.subtask._told(told)
        self.slots: dict[Any, int] = {}
        self.before: dict[Any, int] | None = None
        self.keys_of = {0: self.slots}
        self.unread: deque[Columns] = deque()
        self.emitted: list[Any] = []
        #: Maps with more entries stay here.
        self.inline = chance.choice([0, 3, 1000])
        self.operator.begin_task(self.control)
        self.control[OWN_CLIENT] = _Client(self)

    def read(self, most: int) -> None:
        """Reads so many answers, if there are."""
        for _ in range(min(most, len(self.unread))):
            self.take(self.unread.popleft())

    def take(self, message: _Answer) -> None:
        """Takes in an answer."""
        self.emitted += self.job._results.decode(message.elements(Answer.OUT))
        generation = message.generation()
        keys = list(self.keys_of.get(generation, ()))
        self.job._apply(keys, message)
        current = self.control[Control.CACHE_EPOCH]
        until = message.until()
        if generation >= 0 and generation != current and until == len(keys):
            self.before = None

    def send(self, *parts: Any) -> None:
        """Sends a message; see `message`."""
        for answer in self.operator.answer(self.message(*parts), self.control):
            self.unread.append(_Answer(answer))

    def next_timers(self, timers: list[Any], no_rows: Any) -> tuple[Any, ...] | None:
        """Takes the first of some timers that are due; what `message` takes, if any may fire."""
        sent, gone = [], []
        for timer in timers[: self.chance.choice([1, 2, 5, 30])]:
            is_gone = timer not in list(self.job.timers)
            self.job.timers.change(timer, False)
            timers.remove(timer)
            known = timer.key in self.slots or (
                self.before is not None and timer.key in self.before
            )
            if not is_gone or known:
                sent.append(timer)
                gone.append(is_gone)
        return ([timer.key for timer in sent], no_rows, sent, gone) if sent else None

    def message(self, keys: list[Any], rows: Any, timers: list[Any], gone: list[bool]) -> Columns:
        """A message of rows, or of timers.

        Args:
            keys: of the rows or timers.
            rows: none, if there are timers.
            timers: those that are due.
            gone: which of them have been deleted since.
        """
        known = len(self.slots)
        of_keys = pa.array(
            [self.slots.setdefault(key, len(self.slots)) for key in keys], pa.int32()
        )
        new = list(self.slots)[known:]
        old = [-1 if self.before is None else self.before.get(key, -1) for key in new]
        columns = self.subtask.new_keys(new, self.job.stores)
        nobody = [key if o < 0 else object() for key, o in zip(new, old)]
        for store in self.job.stores:
            columns.update(self._sent(store, nobody))
        columns[Message.CARRIED] = pa.array(old, pa.int32())
        none = of_keys[:0]
        columns.update(rows.columns())
        columns[Message.KEY_INDEXES] = none if timers else of_keys
        domains = [timer.domain + GONE * is_gone for timer, is_gone in zip(timers, gone)]
        columns[Message.TIMER_KEY_INDEXES] = of_keys if timers else none
        columns[Message.TIMER_DOMAINS] = pa.array(domains, pa.int8())
        columns[Message.TIMER_TIMES] = pa.array([timer.time for timer in timers], pa.int64())
        columns.update(self.subtask.window_columns(timers))
        return _Message(columns)

    def _sent(self, store: Any, keys: list[Any]) -> dict[str, pa.Array]:
        """What a message has of these keys: null where a map stays here."""
        columns: dict[str, pa.Array] = store.columns(keys)
        if isinstance(store, MapStore):
            far = pa.array([len(store.cell(key) or ()) > self.inline for key in keys], pa.bool_())
            columns = {
                name: pc.if_else(far, pa.scalar(None, column.type), column)
                for name, column in columns.items()
            }
        return columns

    def step(self) -> None:
        """Before a message: maybe reads answers, and maybe opens a generation."""
        if self.chance.random() < 0.5:
            self.read(self.chance.choice([1, 2, 100]))
        self.open()

    def due(self) -> list[Any]:
        """The timers of the subtask that are due and stored."""
        of_subtask = self.job.keys.subtask_of_group
        due = self.job.timers.due(self.clock.watermark, self.clock.processing_time)
        return [timer for timer in due if of_subtask(timer.group) == self.index]

    def open(self) -> None:
        """Maybe opens a generation."""
        if self.before is None and self.slots and self.chance.random() < 0.5:
            self.before = self.slots
            self.slots = {}
            self.control = dict(self.control)
            self.control[Control.CACHE_EPOCH] += 1
            self.keys_of[self.control[Control.CACHE_EPOCH]] = self.slots


class _Client:
    """Answers what a worker asks of maps that have stayed here, and for timers."""

    generation: int

    def __init__(self, turns: Turns) -> None:
        self._turns = turns

    def changes(self, changes: pa.RecordBatch) -> None:
        self._turns.take(_Answer(changes))

    def timers(self) -> pa.RecordBatch | None:
        turns = self._turns
        due = turns.due()
        if not due:
            return None
        turns.open()
        given = turns.next_timers(due, turns.no_rows)
        assert given is not None  # all changes are known
        columns = dict(turns.message(*given)._columns)  # type: ignore[attr-defined]
        told = {**turns.control, Control.TIMERS_LEFT: bool(due)}
        del told[OWN_CLIENT]
        made = {name: list_column(column) for name, column in columns.items()}
        made[Message.CONTROL] = pa.array([json.dumps(told).encode()])
        return pa.RecordBatch.from_arrays(list(made.values()), list(made))

    def close(self) -> None:
        pass

    def _entries(self, state: int, slot: int) -> tuple[list[pa.Array], list[Any]]:
        """The keys and values of a map, in order; and the keys once more, to compare."""
        key = list(self._turns.slots)[slot]
        lists = self._turns.job.stores[state].columns([key]).values()
        columns = [each.flatten() for each in lists]
        return columns, _comparable(columns[0])

    def get(self, state: int, slot: int, keys: pa.Array) -> pa.Array:
        (_, values), order = self._entries(state, slot)
        found = [order.index(key) for key in _comparable(keys) if key in order]
        return values.take(pa.array(found, pa.int64()))

    def scan(
        self, state: int, slot: int, bounds: list[str], keys: Any, reverse: bool, limit: int
    ) -> Iterator[tuple[list[pa.Array], bool, int]]:
        columns, order = self._entries(state, slot)
        by = dict(zip(bounds, _comparable(keys) if bounds else []))
        low = bisect_left(order, by[Bound.START]) if Bound.START in by else 0
        high = bisect_left(order, by[Bound.END]) if Bound.END in by else len(order)
        places = list(range(low, high))[:: -1 if reverse else 1]
        while True:
            page, places = places[:limit], places[limit:]
            yield [each.take(pa.array(page, pa.int64())) for each in columns], bool(places), 0
            if not places:
                return


def _comparable(keys: pa.Array) -> list[Any]:
    return [tuple(key.values()) if isinstance(key, dict) else key for key in keys.to_pylist()]


class _Answer(Columns):
    def generation(self) -> int:
        return self._batch.column(Answer.CACHE_EPOCH)[0].as_py()

    def until(self) -> int:
        return self._batch.column(Answer.UNTIL)[0].as_py()


def run(job: Any, chance: random.Random, rows: Any, clock: Any, before: Any) -> list[Any]:
    """Runs a micro-batch of a job of the harness; returns what it emits.

    Args:
        job: the harness's.
        chance: cuts it into messages and generations.
        rows: its rows.
        clock: its watermark and processing time.
        before: those of the micro-batch before.
    """
    for store in job.stores:
        store.begin(clock.watermark, clock.processing_time)
    job.timers.begin()
    work = job._assign(rows, job.timers.due(clock.watermark, clock.processing_time))
    emitted = []
    for index, each in sorted(work.items()):
        late = {Control.LATE_WATERMARK: before.watermark}
        told = {**clock.told(), **late, **job._told(index)}
        mine = rows.take(each.rows)
        turns = Turns(job, index, told, clock, mine.take([]), chance)
        start = 0
        while start < len(each.keys):
            size = chance.choice([1, 2, 5, 30])
            turns.step()
            places = list(range(start, min(start + size, len(each.keys))))
            turns.send([each.keys[p] for p in places], mine.take(places), [], [])
            start += size
        # As a query does: what has been read by then counts.
        timers = turns.due()
        while timers:
            turns.step()
            given = turns.next_timers(timers, turns.no_rows)
            if given is not None:
                turns.send(*given)
        for answer in turns.operator.end_task():
            turns.unread.append(_Answer(answer))
        turns.read(10**9)
        emitted += turns.emitted
    return emitted
