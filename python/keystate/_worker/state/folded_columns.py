"""The contents of windows by columns, where the user's function makes the accumulators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from keystate._types.codec import Misfit
from keystate._worker.aggregates.accumulators import Parts
from keystate._worker.aggregates.folded import FoldedRows
from keystate._worker.aggregates.groups import Groups, Numbers
from keystate._worker.state.column_entries import Entries
from keystate._worker.state.session_columns import SessionColumns
from keystate._worker.state.window_columns import WindowColumns

#: Is given a window's end and start, and its accumulator.
Fire = Callable[[tuple[int, int], Any], None]


class _Folded(WindowColumns):
    """Windows of all keys; rows are added to them when they are asked for.

    An error of the function is one of the key and the row that are at hand then.
    """

    _aggregation: FoldedRows
    _merged_at_once = 50_000  # Python objects, whose bytes are not known

    @contextmanager
    def _blaming(self, entries: Entries) -> Iterator[None]:
        """Has an error of the function be one of the entry that was added."""
        self._aggregation.failed_at = None
        try:
            yield
        except Exception as e:
            at = self._aggregation.failed_at
            if at is not None:
                slot = self._cursor.slot = int(entries.slots[at])
                self._cursor.row = entries.parts[1][at]
                if isinstance(e, Misfit):
                    self._misfit(e, slot)
            raise

    def _take_changed(self, start: int, stop: int) -> Entries:
        put = super()._take_changed(start, stop)
        slots = put.slots
        self._aggregation.blame = lambda i, error: self._misfit_of(
            None if i is None else int(slots[i]), error
        )
        return put


class FoldedSessionColumns(_Folded, SessionColumns):
    """Sessions."""

    def _alone(self, entries: Entries) -> Entries:
        each = np.arange(len(entries))
        entries.parts = self._accumulators(Groups(each, each), entries)
        return entries

    def _accumulators(self, groups: Groups, entries: Entries) -> Parts:
        with self._blaming(entries):
            return self._aggregation.merge_sessions(
                groups, entries.parts, entries.starts, entries.ends
            )


class FoldedColumns(_Folded):
    """Tumbling and sliding windows."""

    def _together(self, entries: Entries) -> Entries:
        with self._blaming(entries):
            return super()._together(entries)

    def add_late_rows(
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
                accumulator = self._aggregation.add(row, known.get(window))
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
