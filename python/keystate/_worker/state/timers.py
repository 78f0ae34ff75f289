"""Timers: the worker's side.

The JVM keeps the timers and sends those that are due; the worker notes what its function sets and
deletes. A timer that was deleted in this batch does not fire in it, and one that fires is gone.
"""

from __future__ import annotations

from itertools import compress

import pyarrow as pa

from keystate._protocol import Answer
from keystate._worker.messages.columns import empty_column, list_column
from keystate._worker.messages.packed import Change

TYPES = {
    Answer.TIMER_SLOT: pa.int32(),
    Answer.TIMER_DOMAIN: pa.int8(),
    Answer.TIMER_TIME: pa.int64(),
    Answer.TIMER_SET: pa.bool_(),
}


class TimerCell(dict[tuple[int, int], bool]):
    """What is known of one key's timers: by domain and time, whether it is set."""

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

    def set(self, slot: int, domain: int, time: int, wanted: bool) -> None:
        """Sets a key's timer, or deletes it."""
        cell = self._cells[slot]
        if cell is None:
            cell = self._cells[slot] = TimerCell()
        cell[domain, time] = wanted
        cell.changed.add((domain, time))
        if not self._dirty[slot]:
            self._dirty[slot] = 1
            self._recent.append(slot)

    def take(self, slot: int, domain: int, time: int) -> bool:
        """Takes a timer out to fire it; false if it was deleted."""
        cell = self._cells[slot]
        if cell is not None and cell.get((domain, time)) is False:
            return False
        self.set(slot, domain, time, False)
        return True

    # -- between JVM and worker; see WorkerState -------------------------------------------------

    def new_generation(self) -> None:
        """Starts anew without any key, and keeps the old cells for keys that are carried over."""
        self._old_cells = self._cells
        self._cells = []
        self._dirty = bytearray()
        self._recent = []

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
            cell.setdefault((domain, time), False)

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
        return rows

    def _take_changes(self, slot: int) -> list[Change]:
        cell = self._cells[slot]
        assert cell is not None
        rows = [(slot, *timer, cell[timer]) for timer in sorted(cell.changed)]
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
