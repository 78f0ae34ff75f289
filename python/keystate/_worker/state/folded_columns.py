"""The contents of windows by columns, where the user's function adds rows to accumulators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from keystate._spec.specs import StateSpec
from keystate._types.codec import Misfit
from keystate._worker.state.column_entries import Entries
from keystate._worker.state.window_columns import WindowColumns
from keystate._worker.windows.folded import Fold, FoldedRows
from keystate._worker.windows.groups import Numbers
from keystate._worker.windows.parts import Parts

_LAST = 2**63 - 1

#: A window as the state has it: 1 while its end is to come, end and start.
_Key = tuple[int, int, int]

#: Is given a window's end and start, and its accumulator.
Fire = Callable[[tuple[int, int], Any], None]


class FoldedColumns(WindowColumns):
    """Windows of all keys, with their accumulators; rows are added when these are asked for.

    An error of the function is one of the key and the row that are at hand then.

    Args:
        spec: of the state.
        index: of the state.
        cursor: knows the side channel.
        fold: adds a row.
        copy: of a row that other windows are given too; ``None`` if there is no need for one.
        lateness: how long, in ms, a window is kept for late rows.
    """

    _remote: dict[int, set[_Key]]
    _merged_at_once = 50_000  # Python objects, whose bytes are not known

    def __init__(
        self,
        spec: StateSpec,
        index: int,
        cursor: Any,
        fold: Fold,
        copy: Callable[[Any], Any] | None,
        lateness: int,
    ) -> None:
        self._folded = FoldedRows(fold, copy)
        super().__init__(spec, index, cursor, lateness)

    # -- what the operator does -----------------------------------------------------------------

    def add(self, slots: Numbers, ends: Numbers, starts: Numbers, parts: Parts) -> None:
        self._fetch(1, slots, ends, starts)
        self._append(Entries(slots, np.ones(len(slots), np.int64), ends, starts, parts, False))

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

    @contextmanager
    def _blaming(self, entries: Entries) -> Iterator[None]:
        """Has an error of the function be one of the entry that was added."""
        self._folded.failed_at = None
        try:
            yield
        except Exception as e:
            at = self._folded.failed_at
            if at is not None:
                slot = self._cursor.slot = int(entries.slots[at])
                self._cursor.row = entries.parts[1][at]
                if isinstance(e, Misfit):
                    self._misfit(e, slot)
            raise

    def _take_changed(self, start: int, stop: int) -> Entries:
        put = super()._take_changed(start, stop)
        slots = put.slots
        self._folded.blame = lambda i, error: self._misfit_of(
            None if i is None else int(slots[i]), error
        )
        return put

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
        return Entries(slots, opens, ends, starts, self._folded.unpack(values), True)

    def _keys_of(self, entries: Entries) -> pa.Array:
        return self._keys(entries.opens, entries.ends, entries.starts)

    def _values(self, parts: Parts) -> pa.Array:
        return self._folded.pack(parts, self._codec.arrow)


class FoldedWindowColumns(FoldedColumns):
    """Tumbling and sliding windows."""

    def _together(self, entries: Entries) -> Entries:
        with self._blaming(entries):
            return entries.merged(self._folded.merge)

    def add_late(
        self, slots: Numbers, ends: Numbers, starts: Numbers, parts: Parts, fire: Fire
    ) -> None:
        """Adds rows to windows whose end has passed, and fires the window after each of them."""
        self._fetch(0, slots, ends, starts)
        before = self._merge()
        mine = before.select(self._of(slots)[before.slots] & (before.opens == 0))
        known = dict(zip(_windows(mine.slots, mine.ends, mine.starts), mine.parts[1].tolist()))
        changed = dict.fromkeys(windows := _windows(slots, ends, starts))
        for window, row in zip(windows, parts[1].tolist()):
            slot, end, start = window
            self._cursor.slot, self._cursor.row = slot, row
            try:
                accumulator = self._folded.add(row, known.get(window))
            except Misfit as e:
                self._misfit(e, slot)
            known[window] = accumulator
            fire((end, start), accumulator)
        columns = [np.array(column) for column in zip(*changed)]
        accumulators = FoldedRows.of_accumulators([known[window] for window in changed])
        opens = np.zeros(len(changed), np.int64)
        self._append(Entries(columns[0], opens, columns[1], columns[2], accumulators, False))


def _windows(slots: Numbers, ends: Numbers, starts: Numbers) -> list[tuple[int, int, int]]:
    return list(zip(slots.tolist(), ends.tolist(), starts.tolist()))
