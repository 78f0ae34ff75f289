"""The contents of windows by columns: the state that a window map has."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from keystate._spec.specs import StateSpec
from keystate._worker.state.column_entries import Entries
from keystate._worker.state.map_columns import MapColumns
from keystate._worker.windows.groups import Numbers
from keystate._worker.windows.parts import Parts

_LAST = 2**63 - 1


class WindowColumns(MapColumns):
    """The windows of all keys.

    Args:
        spec: of the state.
        index: of the state.
        cursor: knows the side channel.
        lateness: how long, in ms, a window is kept for late rows.
    """

    def __init__(self, spec: StateSpec, index: int, cursor: Any, lateness: int) -> None:
        self._lateness = lateness
        super().__init__(spec, index, cursor)

    # -- what the operator does -----------------------------------------------------------------

    @abstractmethod
    def add(self, slots: Numbers, ends: Numbers, starts: Numbers, parts: Parts) -> None:
        """Adds rows to windows whose end is to come.

        Args:
            slots: their keys.
            ends: their windows' ends, in ms.
            starts: their windows' starts.
            parts: of the rows.
        """

    def settle(self) -> None:
        """Puts together what is waiting."""
        self._merge()

    def due_slots(self, until: int) -> Numbers:
        """The slots with windows that are due by `until`, as far as they are here.

        What a remote map has besides has a timer, which is sent.
        """
        entries = self._merge()
        slots: Numbers = np.unique(entries.slots[self._timer_times(entries) <= until])
        return slots

    def _timer_times(self, entries: Entries) -> Numbers:
        return np.where(entries.opens == 1, entries.ends - 1, self._cleanup_times(entries))

    def _due(self, slots: Numbers, until: int) -> tuple[Numbers, Numbers, Numbers]:
        """Which windows are of these keys, which of them end by `until`, and which are over."""
        mine = self._of(slots)
        self._scan_remote(slots, until)
        entries = self._merge()
        mine = mine[entries.slots]
        ending = mine & (entries.opens == 1) & (entries.ends - 1 <= until)
        gone = mine & (ending | (entries.opens == 0)) & (self._cleanup_times(entries) <= until)
        return mine, ending, gone

    def take_untimed(self, start: int, stop: int) -> tuple[Numbers, Numbers]:
        """Slots and times of timers: of each key the first one, with which all fire that are due.

        A key has one in the JVM by the time of its first window, by whatever lateness there was
        when that was set. So it gets another one only when it has a new window, or has lost one.
        """
        mine = self._merged.slice(*self._between(start, stop))
        slots, timed = mine.slots, mine.timed
        if timed.all():
            return slots[:0], slots[:0]
        times = self._timer_times(mine)
        (begins,) = np.nonzero(np.diff(slots, prepend=-1))
        wanted = ~np.logical_and.reduceat(timed, begins)
        timed[:] = True
        slots, firsts = slots[begins][wanted], np.minimum.reduceat(times, begins)[wanted]
        kept = firsts < _LAST
        return slots[kept], firsts[kept]

    def take_dead_timers(self, start: int, stop: int) -> tuple[Numbers, Numbers]:
        """Slots and times of the timers that windows of these slots are to lose."""
        none = np.empty(0, np.int64)
        return none, none

    def rearm(self, slots: Numbers) -> None:
        """Has keys get their timer again: one of theirs has fired."""
        entries = self._merge()
        entries.timed &= ~self._of(slots)[entries.slots]

    def adopt(self, slots: Numbers) -> None:
        """Has all windows of these keys get a timer: before a restart they had the other clock's.

        Of a map that stays with the JVM the first ones are read.
        """
        self._scan_remote(slots, -_LAST + 1)
        WindowColumns.rearm(self, slots)  # also of sessions: none of theirs is known

    def _untime(self, entries: Entries, mine: Numbers, ending: Numbers) -> None:
        """Notes what lost its timer: entries of these keys, of which some end."""
        entries.timed &= ~mine

    def _cleanup_times(self, entries: Entries) -> Numbers:
        times: Numbers = np.minimum(entries.ends - 1, _LAST - self._lateness) + self._lateness
        return times
