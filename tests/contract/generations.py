"""Micro-batches of the harness in several messages and generations of keys, as in a query."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import pyarrow as pa
from keystate._protocol import Answer, Control, Message
from keystate._worker.messages.columns import GONE, Columns
from keystate.testing._subtask import _Message


class Turns:
    """One subtask's task: what the JVM sends, and what it has read of the answers.

    Args:
        job: the harness's.
        index: of the subtask.
        told: what a message tells of the task.
        chance: decides when answers are read, and when a generation of keys begins.
    """

    def __init__(self, job: Any, index: int, told: Any, chance: random.Random) -> None:
        self.job, self.chance = job, chance
        self.subtask = job._subtasks[index]
        self.subtask.open(told)
        self.operator = self.subtask._operator
        self.control = self.subtask._told(told)
        self.slots: dict[Any, int] = {}
        self.before: dict[Any, int] | None = None
        self.keys_of = {0: self.slots}
        self.unread: deque[Columns] = deque()
        self.emitted: list[Any] = []
        self.operator.begin_task(self.control)

    def read(self, most: int) -> None:
        """Reads so many answers, if there are."""
        for _ in range(min(most, len(self.unread))):
            message = self.unread.popleft()
            self.emitted += self.job._results.decode(message.elements(Answer.OUT))
            generation = message.generation()
            keys = list(self.keys_of.get(generation, ()))
            self.job._apply(keys, message)
            current = self.control[Control.GENERATION]
            until = message.until()
            if generation >= 0 and generation != current and until == len(keys):
                self.before = None

    def send(self, keys: list[Any], rows: Any, timers: list[Any], gone: list[bool]) -> None:
        """Sends a message of rows, or of timers.

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
            columns.update(store.columns(nobody))
        columns[Message.CARRIED] = pa.array(old, pa.int32())
        none = of_keys[:0]
        columns.update(rows.columns())
        columns[Message.SLOTS] = none if timers else of_keys
        domains = [timer.domain + GONE * is_gone for timer, is_gone in zip(timers, gone)]
        columns[Message.TIMER_SLOTS] = of_keys if timers else none
        columns[Message.TIMER_DOMAINS] = pa.array(domains, pa.int8())
        columns[Message.TIMER_TIMES] = pa.array([timer.time for timer in timers], pa.int64())
        for answer in self.operator.answer(_Message(columns), self.control):
            self.unread.append(_Answer(answer))

    def step(self) -> None:
        """Before a message: maybe reads answers, and maybe opens a generation."""
        if self.chance.random() < 0.5:
            self.read(self.chance.choice([1, 2, 100]))
        if self.before is None and self.slots and self.chance.random() < 0.5:
            self.before = self.slots
            self.slots = {}
            self.control = dict(self.control)
            self.control[Control.GENERATION] += 1
            self.keys_of[self.control[Control.GENERATION]] = self.slots


class _Answer(Columns):
    def generation(self) -> int:
        return self._batch.column(Answer.GENERATION)[0].as_py()

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
    work = job._assign(rows, job.timers.due(clock.watermark, clock.processing_time))
    emitted = []
    for index, each in sorted(work.items()):
        late = {Control.LATE_WATERMARK: before.watermark}
        turns = Turns(job, index, {**clock.told(), **late, **job._told(index)}, chance)
        mine = rows.take(each.rows)
        start = 0
        while start < len(each.keys):
            size = chance.choice([1, 2, 5, 30])
            turns.step()
            places = list(range(start, min(start + size, len(each.keys))))
            turns.send([each.keys[p] for p in places], mine.take(places), [], [])
            start += size
        timers = list(each.timers)
        while timers:
            size = chance.choice([1, 2, 5, 30])
            turns.step()
            sent, gone = [], []
            for timer in timers[:size]:
                is_gone = timer not in list(job.timers)
                job.timers.change(timer, False)
                known = timer.key in turns.slots or (
                    turns.before is not None and timer.key in turns.before
                )
                if not is_gone or known:
                    sent.append(timer)
                    gone.append(is_gone)
            del timers[:size]
            if sent:
                turns.send([timer.key for timer in sent], mine.take([]), sent, gone)
        for answer in turns.operator.end_task():
            turns.unread.append(_Answer(answer))
        turns.read(10**9)
        emitted += turns.emitted
    return emitted
