"""The contents of windows by columns: the state that a window map has.

A map that stays with the JVM is asked for the windows that rows are in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from keystate._spec.specs import StateSpec
from keystate._worker.aggregates.accumulators import Accumulation, Parts
from keystate._worker.aggregates.groups import Numbers
from keystate._worker.state.column_entries import Entries
from keystate._worker.state.map_columns import MapColumns

#: A window as the state has it: 1 while its end is to come, end and start.
_Key = tuple[int, int, int]

_LAST = 2**63 - 1


class WindowColumns(MapColumns):
    """The windows of all keys, with their accumulators.

    Args:
        spec: of the state.
        index: of the state.
        cursor: knows the side channel.
        aggregation: computes accumulators.
        lateness: how long, in ms, a window is kept for late rows.
    """

    _remote: dict[int, set[_Key]]

    def __init__(
        self, spec: StateSpec, index: int, cursor: Any, aggregation: Accumulation, lateness: int
    ) -> None:
        self._lateness = lateness
        super().__init__(spec, index, cursor, aggregation)

    # -- what the operator does -----------------------------------------------------------------

    def add(self, slots: Numbers, ends: Numbers, starts: Numbers, parts: Parts) -> None:
        """Adds accumulators to windows whose end is to come.

        Args:
            slots: their keys.
            ends: their windows' ends, in ms.
            starts: their windows' starts.
            parts: of the accumulators.
        """
        self._fetch(1, slots, ends, starts)
        self._append(Entries(slots, np.ones(len(slots), np.int64), ends, starts, parts, False))

    def add_late(self, slots: Numbers, ends: Numbers, starts: Numbers, parts: Parts) -> Entries:
        """Adds accumulators to windows whose end has passed, as in `add`.

        Returns:
            For each of them what its window has with it and those before it.
        """
        self._fetch(0, slots, ends, starts)
        late = Entries(slots, np.zeros(len(slots), np.int64), ends, starts, parts, False)
        before = self._merge()
        mine = before.select(self._of(slots)[before.slots] & (before.opens == 0))
        running = Entries.concat([mine, late]).running(self._aggregation)
        self._append(late)
        return running.select(np.arange(len(running)) >= len(mine))

    def take_due(self, slots: Numbers, until: int) -> Entries:
        """Ends all windows of these keys that end by `until`; removes those whose time is over.

        Returns:
            Those that end, sorted by key and end.
        """
        mine, ending, gone = self._due(slots, until)
        entries = self._merged
        ended = entries.select(ending)
        removed = entries.select(ending | gone)
        self._remove(removed)
        # Those that are kept get another timer, when their time is over.
        self._untime(entries, mine, ending)
        entries.changed |= ending
        entries.stored &= ~ending
        entries.opens = np.where(ending, 0, entries.opens)
        self._know(entries.select(ending & ~gone))
        self._merged = entries.select(~gone)
        return ended

    def due_timers(self, slots: Numbers, until: int) -> tuple[Numbers, Numbers]:
        """Slots and times of the timers of these keys' windows up to `until`."""
        _, ending, gone = self._due(slots, until)
        entries = self._merged
        due = ending | gone
        return entries.slots[due], self._timer_times(entries)[due]

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

    def _take_all_untimed(self, start: int, stop: int) -> tuple[Numbers, Numbers]:
        """Slots and times of timers where each entry has its own, but at the end of all time."""
        low, high = self._between(start, stop)
        (new,) = np.nonzero(~self._merged.timed[low:high])
        self._merged.timed[low:high] = True
        new += low
        times = self._timer_times(self._merged)[new]
        kept = times < _LAST
        return self._merged.slots[new][kept], times[kept]

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

    # -- a map that stays with the JVM ----------------------------------------------------------

    def _fetch(self, is_open: int, slots: Numbers, ends: Numbers, starts: Numbers) -> None:
        """Reads the windows of remote maps that are not known."""
        if not self._remote:
            return
        remote = np.isin(slots, list(self._remote))
        rows = zip(slots[remote].tolist(), ends[remote].tolist(), starts[remote].tolist())
        for slot, end, start in set(rows):
            key = (is_open, end, start)
            if key in self._remote[slot]:
                continue
            self._remote[slot].add(key)
            wanted = self._keys(*(np.array([each]) for each in key))
            found = self._cursor.client.get(self.index, slot, wanted)
            if len(found):
                self._append(self._entries(np.array([slot]), wanted, found))

    def _know(self, entries: Entries) -> None:
        """Notes windows of remote maps that got another key, so that they are not read again."""
        if self._remote:
            rows = zip(
                *(a.tolist() for a in (entries.slots, entries.opens, entries.ends, entries.starts))
            )
            for slot, is_open, end, start in rows:
                if slot in self._remote:
                    self._remote[slot].add((is_open, end, start))

    def _bound(self, until: int) -> pa.Array:
        return self._keys(*(np.array([each]) for each in (1, until + 2, -_LAST)))

    # -- keys and values ------------------------------------------------------------------------

    def _entries(self, slots: Numbers, keys: pa.Array, values: pa.Array) -> Entries:
        opens, ends, starts = (part.to_numpy(zero_copy_only=False) for part in keys.flatten())
        parts = self._aggregation.unpack(values)
        return Entries(slots, opens, ends, starts, parts, True)

    def _keys_of(self, entries: Entries) -> pa.Array:
        return self._keys(entries.opens, entries.ends, entries.starts)
