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
from keystate._worker.messages.columns import empty_column, list_column
from keystate._worker.messages.packed import Change

TYPES = {
    Answer.TIMER_KEY_INDEX: pa.int32(),
    Answer.TIMER_DOMAIN: pa.int8(),
    Answer.TIMER_TIME: pa.int64(),
    Answer.TIMER_SET: pa.int8(),
}

#: The known state of a timer, which is also sent to the JVM.
DELETED, SET, WAITS = 0, 1, 2

#: Before and after all times.
_NEVER, _END = -(2**63) - 1, 2**63 - 1


class TimerCell(dict[tuple[int, int], int]):
    """The known timers of one key, by domain and time."""

    __slots__ = ("changed",)

    def __init__(self) -> None:
        super().__init__()
        self.changed: set[tuple[int, int]] = set()


class WorkerTimers:
    """The timers of all keys; the same life cycle as a state's."""

    def __init__(self) -> None:
        self._cells: list[TimerCell | None] = []
        self._old_cells: list[TimerCell | None] = []
        self._dirty = bytearray()
        self._recent: list[int] = []  # dirty slots
        self._until = [_NEVER, _NEVER]  # by domain, until when timers that are set are due
        #: The timers that were set and are due, as time, domain and slot; some may be gone.
        self._due: list[tuple[int, int, int]] = []
        self._waiting: list[tuple[int, int, int]] = []  # in a batch query

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

    def set(
        self, slot: int, domain: int, time: int, wanted: bool, by: tuple[int, int] | None = None
    ) -> None:
        """Sets a key's timer, or deletes it.

        Args:
            slot: the key.
            domain: of the timer.
            time: of the timer.
            wanted: whether it is set.
            by: domain and time of the timer that does it; ``None`` of a row.
        """
        cell = self._cells[slot]
        if cell is None:
            cell = self._cells[slot] = TimerCell()
        timer = domain, time
        if not wanted:
            cell[timer] = DELETED
        elif cell.get(timer) != SET:
            waits = by is not None and (time, domain) <= (by[1], by[0])
            cell[timer] = WAITS if waits else SET
            if time <= self._until[domain]:
                self._note_due(time, domain, slot, waits)
        cell.changed.add(timer)
        if not self._dirty[slot]:
            self._dirty[slot] = 1
            self._recent.append(slot)

    def _note_due(self, time: int, domain: int, slot: int, waits: bool) -> None:
        if not waits:
            heappush(self._due, (time, domain, slot))
        elif self._until[domain] == _END:
            self._waiting.append((time, domain, slot))

    def take(self, slot: int, domain: int, time: int) -> bool:
        """Takes a timer out to fire it; false if it was deleted, and maybe set again to wait."""
        cell = self._cells[slot]
        if cell is not None and cell.get((domain, time), SET) != SET:
            return False
        self.set(slot, domain, time, False)
        return True

    def give_back(self, slot: int, domain: int, time: int) -> None:
        """Leaves a timer that was sent to the JVM again, unless it was deleted."""
        cell = self._cells[slot]
        if cell is None or cell.get((domain, time)) != DELETED:
            self.set(slot, domain, time, True)

    # -- those that were set and are due ---------------------------------------------------------

    def next_due(self, before: tuple[int, int] | None = None) -> tuple[int, int, int] | None:
        """Slot, domain and time of the first one; ``None`` if there is none.

        Args:
            before: only one that comes before this time and domain.
        """
        due = self._due
        while due and (before is None or due[0][:2] < before):
            time, domain, slot = heappop(due)
            cell = self._cells[slot]
            if cell is not None and cell.get((domain, time)) == SET:
                return slot, domain, time
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
        for time, domain, slot in waiting:
            cell = self._cells[slot]
            if cell is not None and cell.get((domain, time)) == WAITS:
                cell[domain, time] = SET
                heappush(self._due, (time, domain, slot))

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

    def learn_gone(self, timers: list[tuple[int, int, int]]) -> None:
        """Takes in which timers the JVM has deleted, unless more is known of them here.

        Args:
            timers: slot, domain and time of each.
        """
        for slot, domain, time in timers:
            cell = self._cells[slot]
            if cell is None:
                cell = self._cells[slot] = TimerCell()
            cell.setdefault((domain, time), DELETED)

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
        rows = [(slot, *timer, cell[timer]) for timer in sorted(cell.changed)]
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
        columns = zip(TYPES.items(), zip(*rows))
        return {name: list_column(pa.array(values, kind)) for (name, kind), values in columns}

    def no_changes(self) -> dict[str, pa.Array]:
        """The columns of changes, empty."""
        return {name: empty_column(kind) for name, kind in TYPES.items()}
