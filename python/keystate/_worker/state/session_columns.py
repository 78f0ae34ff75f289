"""The contents of sessions by columns: a sorted map of the sessions of each key.

Rows are added as sessions of their own. Those of a key that meet are merged, when there are enough
of them and when the state is asked for what it has: which ones meet does not depend on when.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from keystate._worker.state.column_entries import Entries
from keystate._worker.state.folded_columns import FoldedColumns
from keystate._worker.windows.groups import Groups, Numbers, stable_order
from keystate._worker.windows.parts import Parts

_LAST = 2**63 - 1

#: Stands among the known sessions of a remote map all of whose sessions have been read.
_WHOLE = (-1, 0, 0)


class SessionColumns(FoldedColumns):
    """The sessions of all keys, with their accumulators. Those of a key do not meet."""

    def _clear(self) -> None:
        super()._clear()
        # Slots and times of timers that sessions have lost, which the JVM is yet to be told.
        self._dead: list[tuple[Numbers, Numbers]] = []

    # -- what the operator does -----------------------------------------------------------------

    def add(self, slots: Numbers, ends: Numbers, starts: Numbers, parts: Parts) -> None:
        self._read_maps(slots)
        self._append(Entries(slots, np.ones(len(slots), np.int64), ends, starts, parts, False))

    def meet_none(self, slots: Numbers, ends: Numbers, starts: Numbers, gone: int) -> Numbers:
        """Which of some sessions are too late in whatever order they come.

        Args:
            slots: their keys.
            ends: their ends, in ms.
            starts: their starts.
            gone: sessions that end by then are gone.
        """
        self._read_maps(slots)
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
        self._read_maps(slots)
        entries = self._merge()
        mine = self._of(slots)[entries.slots]
        late = Entries(slots, np.zeros(len(slots), np.int64), ends, starts, parts, False)
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
        ended = merged.take(touched[merged.opens[touched] == 0])
        self._set_merged(entries.select(~mine), merged)
        return too_late, ended

    def rearm(self, slots: Numbers) -> None:
        # Timers of sessions that are open are known.
        entries = self._merge()
        entries.timed &= ~(self._of(slots)[entries.slots] & (entries.opens == 0))

    def take_untimed(self, start: int, stop: int) -> tuple[Numbers, Numbers]:
        """Slots and times of timers: of all sessions, for rows can take the first one's away.

        One at the end of all time needs none.
        """
        low, high = self._between(start, stop)
        (new,) = np.nonzero(~self._merged.timed[low:high])
        self._merged.timed[low:high] = True
        new += low
        times = self._timer_times(self._merged)[new]
        kept = times < _LAST
        return self._merged.slots[new][kept], times[kept]

    def _untime(self, entries: Entries, mine: Numbers, ending: Numbers) -> None:
        entries.timed &= ~ending

    def take_dead_timers(self, start: int, stop: int) -> tuple[Numbers, Numbers]:
        self._merge()
        slots, times = _all_timers(self._dead)
        here = (slots >= start) & (slots < stop)
        self._dead = [] if here.all() else [(slots[~here], times[~here])]
        return slots[here], times[here]

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
        opens = np.maximum.reduceat(entries.opens[order], heads)
        slots, starts = entries.slots[order][heads], entries.starts[order][heads]
        merged = Entries(slots, opens, ends, starts, parts, True)
        # An entry that has become another one: the JVM is to forget it, and its timer.
        same = np.empty(len(entries), np.bool_)
        columns = ((entries.ends, ends), (entries.starts, starts), (entries.opens, opens))
        same[order] = np.all([a[order] == np.repeat(b, sizes) for a, b in columns], axis=0)
        changed = entries.changed[order]
        merged.changed = np.logical_or.reduceat(changed, heads) | (sizes > 1)
        merged.stored = np.logical_or.reduceat((entries.stored & same)[order], heads)
        merged.timed = np.logical_or.reduceat((entries.timed & same)[order], heads)
        self._remove(entries.select(entries.stored & ~same))
        dead = entries.timed & ~same
        if dead.any():
            lost, times = entries.slots[dead], self._timer_times(entries)[dead]
            kept = _are_in(lost, times, merged.slots, self._timer_times(merged))
            self._dead.append((lost[~kept], times[~kept]))
            # One that goes on with another's timer has it already.
            merged.timed |= _are_in(
                merged.slots, self._timer_times(merged), lost[kept], times[kept]
            )
        return merged

    def _accumulators(self, groups: Groups, entries: Entries) -> Parts:
        """The accumulators of sessions, each of entries that are sorted by start."""
        with self._blaming(entries):
            return self._folded.merge_sessions(groups, entries.parts, entries.starts, entries.ends)

    # -- a map that stays with the JVM ----------------------------------------------------------

    def _read_maps(self, slots: Numbers) -> None:
        if self._remote:
            for slot in self._remote.keys() & set(slots.tolist()):
                self._scan(slot, _LAST)

    def _scan(self, slot: int, until: int) -> None:
        """Reads all sessions of a remote map, once."""
        known = self._remote[slot]
        if _WHOLE not in known:
            super()._scan(slot, _LAST)
            known.add(_WHOLE)


def _all_timers(timers: list[tuple[Numbers, Numbers]]) -> tuple[Numbers, Numbers]:
    """Slots and times of all of these."""
    none = np.empty(0, np.int64)
    slots = np.concatenate([none, *(each for each, _ in timers)])
    return slots, np.concatenate([none, *(each for _, each in timers)])


def _grouped(slots: Numbers, starts: Numbers, ends: Numbers) -> tuple[Numbers, Numbers]:
    """The order by slot and start, and where in it each session begins."""
    if len(slots) == 0:
        return np.arange(0), np.arange(0)
    first = int(starts.min())
    span = int(ends.max()) - first + 1
    if span * (int(slots.max()) + 1) < _LAST:
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


def _are_in(slots: Numbers, times: Numbers, of_slots: Numbers, of_times: Numbers) -> Numbers:
    """Which of some timers are among others."""
    if len(times) == 0 or len(of_times) == 0:
        return np.full(len(times), False)
    first = min(int(times.min()), int(of_times.min()))
    span = max(int(times.max()), int(of_times.max())) - first + 1
    if span * (max(int(slots.max()), int(of_slots.max())) + 1) < _LAST:
        found: Numbers = np.isin(
            slots * span + (times - first), of_slots * span + (of_times - first)
        )
        return found
    others = set(zip(of_slots.tolist(), of_times.tolist()))
    return np.array([each in others for each in zip(slots.tolist(), times.tolist())], np.bool_)
