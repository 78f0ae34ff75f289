"""Timers: the worker's side.

The JVM keeps the timers and sends those that are due when all rows have come; the worker notes what
its function sets and deletes. A timer that is deleted does not fire, and one that fires is gone.

Those that are set and due fire in the same micro-batch, each in its turn among those that are sent.
One that a timer sets at or before its own time waits for the next micro-batch.
"""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import compress
from typing import Any

import pyarrow as pa

from keystate._spec.protocol import Answer, Control
from keystate._worker.messages.columns import SlotTimer, Timer, empty_column, list_column
from keystate._worker.messages.packed import Change

#: The columns of changes, and those that timers of windows have besides.
TYPES = {
    Answer.TIMER_KEY_INDEX: pa.int32(),
    Answer.TIMER_DOMAIN: pa.int8(),
    Answer.TIMER_TIME: pa.int64(),
    Answer.TIMER_SET: pa.int8(),
}
OF_WINDOWS = {Answer.TIMER_WINDOW_END: pa.int64(), Answer.TIMER_WINDOW_START: pa.int64()}

#: The known state of a timer, which is also sent to the JVM.
DELETED, SET, WAITS = 0, 1, 2

#: Before and after all times.
_NEVER, _END = -(2**63) - 1, 2**63 - 1


class TimerCell(dict[Timer, int]):
    """The known timers of one key."""

    __slots__ = ("changed",)

    def __init__(self) -> None:
        super().__init__()
        self.changed: set[Timer] = set()


#: Time, domain, the key's slot and the timer.
_Due = tuple[int, int, int, Timer]


class WorkerTimers:
    """The timers of all keys; the same life cycle as a state's.

    Args:
        windows: whether each belongs to a window.
    """

    def __init__(self, windows: bool = False) -> None:
        self._types = TYPES | OF_WINDOWS if windows else TYPES
        self._cells: list[TimerCell | None] = []
        self._old_cells: list[TimerCell | None] = []
        self._dirty = bytearray()
        self._recent: list[int] = []  # dirty slots
        self._until = [_NEVER, _NEVER]  # by domain, until when timers that are set are due
        #: The timers that were set and are due, as time, domain, slot and timer; some may be gone.
        self._due: list[_Due] = []
        self._waiting: list[_Due] = []  # in a batch query

    def hear(self, control: dict[str, Any]) -> None:
        """Takes what a message says of clocks."""
        watermark, now = control.get(Control.WATERMARK), control.get(Control.PROCESSING_TIME)
        if control.get(Control.REAL_TIME):
            # By processing time all are sent; by event time they fire when the rows are over.
            now = None
            if Control.TIMERS_LEFT not in control:
                watermark = None
        elif control.get(Control.TIMERS_SENT):
            watermark = now = None
        elif not control[Control.STREAMING]:
            watermark = now = _END
        self._until = [_NEVER if time is None else time for time in (watermark, now)]

    def set(self, slot: int, timer: Timer, wanted: bool, by: Timer | None = None) -> None:
        """Sets a key's timer, or deletes it.

        Args:
            slot: the key.
            timer: the timer.
            wanted: whether it is set.
            by: the timer that does it; ``None`` of a row.
        """
        cell = self._cells[slot]
        if cell is None:
            cell = self._cells[slot] = TimerCell()
        domain, time = timer[0], timer[1]
        if not wanted:
            cell[timer] = DELETED
        elif cell.get(timer) != SET:
            waits = by is not None and (time, domain) <= (by[1], by[0])
            cell[timer] = WAITS if waits else SET
            if time <= self._until[domain]:
                self._note_due((time, domain, slot, timer), waits)
        cell.changed.add(timer)
        if not self._dirty[slot]:
            self._dirty[slot] = 1
            self._recent.append(slot)

    def _note_due(self, due: _Due, waits: bool) -> None:
        if not waits:
            heappush(self._due, due)
        elif self._until[due[1]] == _END:
            self._waiting.append(due)

    def take(self, slot: int, timer: Timer) -> bool:
        """Takes a timer out to fire it; false if it was deleted, and maybe set again to wait."""
        cell = self._cells[slot]
        if cell is not None and cell.get(timer, SET) != SET:
            return False
        self.set(slot, timer, False)
        return True

    def give_back(self, slot: int, timer: Timer) -> None:
        """Leaves a timer that was sent to the JVM again, unless it was deleted."""
        cell = self._cells[slot]
        if cell is None or cell.get(timer) != DELETED:
            self.set(slot, timer, True)

    # -- those that were set and are due ---------------------------------------------------------

    def next_due(self, before: tuple[int, int] | None = None) -> SlotTimer | None:
        """The first one; ``None`` if there is none.

        Args:
            before: only one that comes before this time and domain.
        """
        due = self._due
        while due and (before is None or due[0][:2] < before):
            _, _, slot, timer = heappop(due)
            cell = self._cells[slot]
            if cell is not None and cell.get(timer) == SET:
                return slot, timer
        return None

    def has_due(self) -> bool:
        """Whether there may be some, or in a batch query some that wait."""
        return bool(self._due or self._waiting)

    def forget_due(self) -> None:
        """Leaves the due timers to the JVM, which gets all changes."""
        self._due, self._waiting = [], []

    def next_round(self) -> None:
        """In a batch query, which has no next micro-batch: those that wait are due."""
        waiting, self._waiting = self._waiting, []
        for due in waiting:
            slot, timer = due[2:]
            cell = self._cells[slot]
            if cell is not None and cell.get(timer) == WAITS:
                cell[timer] = SET
                heappush(self._due, due)

    # -- between JVM and worker; see WorkerState -------------------------------------------------

    def new_generation(self) -> None:
        """Starts again without any key, and keeps the old cells for keys that are carried over."""
        self._old_cells = self._cells
        self._cells = []
        self._dirty = bytearray()
        self._recent = []
        self.forget_due()

    def forget(self) -> None:
        """Forgets all keys."""
        self.new_generation()
        self._old_cells = []

    def load(self, new_keys: int, carried: list[int] | None) -> None:
        """Makes room for a message's new keys."""
        if carried is None:
            self._cells += [None] * new_keys
        else:
            self._cells += [self._old_cells[old] if old >= 0 else None for old in carried]
        self._dirty += bytes(new_keys)

    def learn_gone(self, timers: list[SlotTimer]) -> None:
        """Takes in which timers the JVM has deleted, unless more is known of them here."""
        for slot, timer in timers:
            cell = self._cells[slot]
            if cell is None:
                cell = self._cells[slot] = TimerCell()
            cell.setdefault(timer, DELETED)

    def changes(self, start: int, stop: int) -> dict[str, pa.Array]:
        """The columns with what changed in these slots since the last call."""
        rows: list[Change] = []
        for slot in compress(range(start, stop), self._dirty[start:stop]):
            rows += self._take_changes(slot)
        self._dirty[start:stop] = bytes(stop - start)
        return self.columns(rows)

    def take_recent(self) -> list[Change]:
        """All that changed since the last call, for real-time mode.

        The JVM then knows as much as the worker, so what the worker knows is forgotten.
        """
        rows: list[Change] = []
        for slot in self._recent:
            rows += self._take_changes(slot)
            self._cells[slot] = None
            self._dirty[slot] = 0
        self._recent = []
        self.forget_due()
        return rows

    def _take_changes(self, slot: int) -> list[Change]:
        cell = self._cells[slot]
        assert cell is not None
        rows = [(slot, timer, cell[timer]) for timer in sorted(cell.changed)]
        for timer in cell.changed:
            # The JVM knows now, and sends it when it is its turn.
            if cell[timer] == WAITS:
                del cell[timer]
        cell.changed.clear()
        return rows

    def columns(self, rows: list[Change]) -> dict[str, pa.Array]:
        """The columns with these changes."""
        if not rows:
            return self.no_changes()
        slots, timers, now = zip(*rows)
        domains, times, *windows = zip(*timers)
        columns = zip(self._types.items(), (slots, domains, times, now, *windows))
        return {name: list_column(pa.array(values, kind)) for (name, kind), values in columns}

    def no_changes(self) -> dict[str, pa.Array]:
        """The columns of changes, empty."""
        return {name: empty_column(kind) for name, kind in self._types.items()}
