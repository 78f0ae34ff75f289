"""The contents of grouped windows, where the user's function adds rows to accumulators."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa

from keystate._spec.specs import StateSpec
from keystate._types.codec import Misfit
from keystate._worker.windows.entries import Entries
from keystate._worker.windows.folded import Fold, FoldedRows
from keystate._worker.windows.groups import Numbers
from keystate._worker.windows.parts import Parts
from keystate._worker.windows.window_columns import WindowColumns

#: A key's slot, and a window's end and start.
_Window = tuple[int, int, int]

#: Is given a window's end and start, and its accumulator.
Fire = Callable[[tuple[int, int], Any], None]


class FoldedColumns(WindowColumns):
    """Windows of all keys, with their accumulators; rows are added when these are asked for.

    An error of the function is one of the key and the row that are at hand then.

    Args:
        spec: of the state.
        index: of the state.
        cursor: knows the side channel.
        lateness: how long, in ms, a window is kept for late rows.
        fold: adds a row.
        copy: of a row that other windows are given too; ``None`` if there is no need for one.
    """

    _merged_at_once = 50_000  # Python objects, whose bytes are not known

    def __init__(
        self,
        spec: StateSpec,
        index: int,
        cursor: Any,
        lateness: int,
        fold: Fold,
        copy: Callable[[Any], Any] | None,
    ) -> None:
        self._folded = FoldedRows(fold, copy)
        super().__init__(spec, index, cursor, lateness)

    def add(self, slots: Numbers, ends: Numbers, starts: Numbers, parts: Parts) -> None:
        self._fetch(slots, ends, starts)
        self._append(Entries(slots, ends, starts, parts, ends - 1))

    def add_late(
        self, slots: Numbers, ends: Numbers, starts: Numbers, parts: Parts, fire: Fire
    ) -> None:
        """Adds rows to windows whose end has passed, and fires the window after each of them."""
        self._fetch(slots, ends, starts)
        before = self._merge()
        mine = before.select(self._of(slots)[before.slots])
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
        slots, ends, starts = (np.array(column) for column in zip(*changed))
        accumulators = FoldedRows.of_accumulators([known[window] for window in changed])
        timers = self._cleanup_times(ends)
        self._append(Entries(slots, ends, starts, accumulators, timers))

    def _together(self, entries: Entries) -> Entries:
        with self._blaming(entries):
            return entries.merged(self._folded.merge)

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

    def _fetch(self, slots: Numbers, ends: Numbers, starts: Numbers) -> None:
        """Reads the windows of remote maps that are not known."""
        if not self._remote:
            return
        remote = np.isin(slots, list(self._remote))
        rows = zip(slots[remote].tolist(), ends[remote].tolist(), starts[remote].tolist())
        for slot, end, start in set(rows):
            if (end, start) not in self._remote[slot]:
                self._remote[slot].add((end, start))
                wanted = self._keys(*(np.array([each]) for each in (end, start)))
                found = self._cursor.client.get(self.index, slot, wanted)
                if len(found):
                    self._append(self._entries(np.array([slot]), wanted, found))

    def _fetch_due(self, slots: Numbers, ends: Numbers, starts: Numbers) -> None:
        self._fetch(slots, ends, starts)

    # -- keys and values ------------------------------------------------------------------------

    def _entries(self, slots: Numbers, keys: pa.Array, values: pa.Array) -> Entries:
        ends, starts = (part.to_numpy(zero_copy_only=False) for part in keys.flatten())
        return Entries(slots, ends, starts, self._folded.unpack(values), None)

    def _keys_of(self, entries: Entries) -> pa.Array:
        return self._keys(entries.ends, entries.starts)

    def _values(self, parts: Parts) -> pa.Array:
        return self._folded.pack(parts, self._codec.arrow)


def _windows(slots: Numbers, ends: Numbers, starts: Numbers) -> list[_Window]:
    return list(zip(slots.tolist(), ends.tolist(), starts.tolist()))
