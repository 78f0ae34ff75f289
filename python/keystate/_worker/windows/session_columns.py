"""The contents of grouped sessions: a sorted map of the sessions of each key.

Rows are added as sessions of their own. Those of a key that meet are merged, when there are enough
of them and when the state is asked for what it has: which ones meet does not depend on when.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from keystate._worker.state.maps import LARGEST_PAGE
from keystate._worker.windows.entries import NO_TIMER, Entries
from keystate._worker.windows.folded_columns import FoldedColumns
from keystate._worker.windows.groups import Groups, Numbers, stable_order
from keystate._worker.windows.parts import Parts
from keystate._worker.windows.window_columns import Timers, all_timers

#: Stands among the known sessions of a remote map all of whose sessions have been read.
_WHOLE = (-1, 0)


class SessionColumns(FoldedColumns):
    """The sessions of all keys, with their accumulators. Those of a key do not meet."""

    def _clear(self) -> None:
        super()._clear()
        # Timers that sessions have lost, which the JVM is yet to be told.
        self._dead: list[Timers] = []

    def drop_gone(self, gone: int) -> None:
        """Removes sessions that end by then: lateness was longer before a restart."""
        entries = self._merge()
        over = entries.ends <= gone
        if over.any():
            self._remove(entries.select(over))
            self._merged = entries.select(~over)

    def meet_none(self, slots: Numbers, ends: Numbers, starts: Numbers, gone: int) -> Numbers:
        """Which of some sessions are too late in whatever order they come.

        Args:
            slots: their keys.
            ends: their ends, in ms.
            starts: their starts.
            gone: sessions that end by then are gone.
        """
        self._fetch(slots, ends, starts)
        entries = self._merge()
        mine = self._of(slots)[entries.slots]
        others = int(np.count_nonzero(mine))
        live = np.concatenate([np.full(others, True), ends > gone])
        columns = ((entries.slots, slots), (entries.starts, starts), (entries.ends, ends))
        order, heads = _grouped(*(np.concatenate([a[mine], b]) for a, b in columns))
        sizes = np.diff(heads, append=len(order))
        dead = np.empty(len(order), np.bool_)
        dead[order] = np.repeat(~np.logical_or.reduceat(live[order], heads), sizes)
        found: Numbers = dead[others:]
        return found

    @contextmanager
    def only(self, slots: Numbers) -> Iterator[None]:
        """Sets sessions of other keys aside, where there is much to do with those of these."""
        entries = self._merge()
        mine = self._of(slots)[entries.slots]
        self._merged, others = entries.select(mine), entries.select(~mine)
        try:
            yield
        finally:
            self._set_merged(others, self._merged)

    def _set_merged(self, *chunks: Entries) -> None:
        together = Entries.concat(list(chunks))
        self._merged = together.take(stable_order(together.slots))

    def add_late_sessions(
        self, slots: Numbers, ends: Numbers, starts: Numbers, parts: Parts, gone: int
    ) -> tuple[Numbers, Entries]:
        """Adds sessions whose own end has passed, of each key one.

        Args:
            slots: their keys.
            ends: their ends, in ms.
            starts: their starts.
            parts: of the accumulators.
            gone: sessions that end by then are gone.

        Returns:
            Which of them are too late: these meet none and are not added. And the sessions that the
            others are in now, if these have ended.
        """
        self._fetch(slots, ends, starts)
        entries = self._merge()
        mine = self._of(slots)[entries.slots]
        late = Entries(slots, ends, starts, parts, self._cleanup_times(ends))
        near = Entries.concat([entries.select(mine), late])
        others = len(near) - len(late)
        order, heads = _grouped(near.slots, near.starts, near.ends)
        sizes = np.diff(heads, append=len(order))
        alone = np.empty(len(near), np.bool_)
        alone[order] = np.repeat(sizes == 1, sizes)
        too_late: Numbers = alone[others:] & (ends <= gone)
        near = near.select(np.concatenate([np.full(others, True), ~too_late]))
        order, heads = _grouped(near.slots, near.starts, near.ends)
        merged = self._sessions(near, order, heads)
        number = np.empty(len(near), np.int64)
        number[order] = np.repeat(np.arange(len(heads)), np.diff(heads, append=len(order)))
        touched = number[others:]
        ended = merged.take(touched[merged.ends[touched] - 1 <= self.watermark])
        self._set_merged(entries.select(~mine), merged)
        return too_late, ended

    def take_dead_timers(self, start: int, stop: int) -> Timers:
        self._merge()
        columns = all_timers(self._dead)
        here = (columns[0] >= start) & (columns[0] < stop)
        self._dead = [] if here.all() else [_where(columns, ~here)]
        return _where(columns, here)

    # -- sessions that meet ---------------------------------------------------------------------

    def _together(self, entries: Entries) -> Entries:
        return self._sessions(entries, *_grouped(entries.slots, entries.starts, entries.ends))

    def _sessions(self, entries: Entries, order: Numbers, heads: Numbers) -> Entries:
        """One session for each group of entries, sorted by slot and start."""
        if len(entries) == len(heads):
            alone = entries.take(order)
            each = np.arange(len(alone))
            alone.parts = self._accumulators(Groups(each, each), alone)
            return alone
        parts = self._accumulators(Groups(order, heads), entries)
        sizes = np.diff(heads, append=len(order))
        ends = np.maximum.reduceat(entries.ends[order], heads)
        slots, starts = entries.slots[order][heads], entries.starts[order][heads]
        # An entry that has become another one: the JVM is to forget it, and its timer.
        same = np.empty(len(entries), np.bool_)
        columns = ((entries.ends, ends), (entries.starts, starts))
        same[order] = np.all([a[order] == np.repeat(b, sizes) for a, b in columns], axis=0)
        stored = np.logical_or.reduceat((entries.stored & same)[order], heads)
        timers = np.where(stored, NO_TIMER, self._own_timers(ends))
        merged = Entries(slots, ends, starts, parts, timers)
        changed = np.logical_or.reduceat(entries.changed[order], heads)
        merged.changed, merged.stored = changed | (sizes > 1), stored
        lost = entries.select(entries.stored & ~same)
        self._remove(lost)
        self._dead.append((lost.slots, self._own_timers(lost.ends), lost.ends, lost.starts))
        return merged

    def _accumulators(self, groups: Groups, entries: Entries) -> Parts:
        """The accumulators of sessions, each of entries that are sorted by start."""
        with self._blaming(entries):
            return self._folded.merge_sessions(groups, entries.parts, entries.starts, entries.ends)

    # -- a map that stays with the JVM ----------------------------------------------------------

    def _fetch(self, slots: Numbers, ends: Numbers, starts: Numbers) -> None:
        """Reads all sessions of remote maps, once: any of them can meet."""
        for slot in self._remote.keys() & set(slots.tolist()):
            if _WHOLE not in self._remote[slot]:
                scan = self._cursor.client.scan
                self._read(slot, scan(self.index, slot, [], None, False, LARGEST_PAGE))
                self._remote[slot].add(_WHOLE)


def _where(timers: Timers, mask: Numbers) -> Timers:
    slots, times, ends, starts = (column[mask] for column in timers)
    return slots, times, ends, starts


def _grouped(slots: Numbers, starts: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
    """The order by slot and start, and where in it each session begins."""
    if len(slots) == 0:
        return np.arange(0), np.arange(0)
    first = int(starts.min())
    span = int(ends.max()) - first + 1
    if span * (int(slots.max()) + 1) < NO_TIMER:
        code = slots * span + (starts - first)
        order = stable_order(code)
        # Ends of a later slot are greater than all of those before it.
        reach = np.maximum.accumulate(slots[order] * span + (ends[order] - first))
        begins = code[order][1:] > reach[:-1]
        begins |= np.diff(slots[order]) != 0
    else:
        order = np.lexsort((starts, slots))
        begins = np.empty(len(order) - 1, np.bool_)
        reached = int(ends[order[0]])
        for i in range(1, len(order)):
            is_new = slots[order[i]] != slots[order[i - 1]] or starts[order[i]] > reached
            reached = int(ends[order[i]]) if is_new else max(reached, int(ends[order[i]]))
            begins[i - 1] = is_new
    return order, np.concatenate([[0], np.flatnonzero(begins) + 1])
