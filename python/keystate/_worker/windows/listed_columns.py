"""The rows of grouped windows: an entry for each, numbered as they came.

Rows stay as they came, in Arrow; they are made Python's when their window fires.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from keystate._spec.protocol import Bound
from keystate._spec.specs import StateSpec
from keystate._worker.state.maps import LARGEST_PAGE
from keystate._worker.windows.entries import NO_TIMER, Entries, grouped
from keystate._worker.windows.groups import Groups, Numbers, stable_order
from keystate._worker.windows.parts import Parts
from keystate._worker.windows.row_numbers import RowNumbers
from keystate._worker.windows.window_columns import WindowColumns


class ListedColumns(WindowColumns):
    """The rows of the windows of all keys, which have no lateness.

    The parts of an entry are its row's number, and what is stored of the row. What is known of a
    remote map are rows' numbers.
    """

    #: Gives each row a number.
    numbers: RowNumbers

    def __init__(self, spec: StateSpec, index: int, cursor: Any) -> None:
        self._wide: pa.DataType = wide(spec.value_codec().arrow)
        super().__init__(spec, index, cursor, lateness=0)

    def add(self, slots: Numbers, ends: Numbers, starts: Numbers, parts: Parts) -> None:
        numbers = self.numbers.take(slots)
        if self._remote:
            for slot, number in zip(slots.tolist(), numbers.tolist()):
                if slot in self._remote:
                    self._remote[slot].add(number)
        elements = parts[0].cast(self._wide)
        self._append(Entries(slots, ends, starts, [numbers, elements], ends - 1))

    def _together(self, entries: Entries) -> Entries:
        return entries.take(stable_order(entries.slots))

    def take_due(self, due: Numbers, until: int) -> Entries:
        slots = np.unique(self._merged.slots[due])
        fired = super().take_due(due, until)
        self._give_back(slots)
        order = grouped(fired.slots, fired.ends, fired.starts).order
        if self._remote:  # of such a map the first rows may have been read last
            numbers = fired.parts[0]
            order = np.lexsort((numbers, fired.starts, fired.ends, fired.slots))
        return fired.take(order)

    def due_here(self, until: int) -> Numbers:
        due = self.pending(until)
        if not due.any():
            return due
        if self._remote:  # which may have rows of these windows
            new = self._merged.select(due)
            groups = grouped(new.slots, new.ends, new.starts)
            self._fetch_due(*(groups.heads(each) for each in (new.slots, new.ends, new.starts)))
            due = self.pending(until)
        groups, lack = self._lacking_timers(self._merged)
        due &= lack[groups.ids()]
        return due

    @staticmethod
    def _lacking_timers(entries: Entries) -> tuple[Groups, Numbers]:
        """The windows of entries, and of which of them the JVM does not have the timer.

        It has that of a window of which it has rows, unless it has sent it, and gets it back.
        """
        groups = grouped(entries.slots, entries.ends, entries.starts)
        lack = entries.timers < NO_TIMER
        back = groups.any(entries.stored & lack)
        return groups, groups.any(lack) & (back | ~groups.any(entries.stored))

    def _give_back(self, slots: Numbers) -> None:
        """Numbers begin anew where no rows are left."""
        left = np.isin(slots, self._merged.slots)
        empty = [s for s in slots[~left].tolist() if s not in self._remote or not self._has_more(s)]
        self.numbers.give_back(np.array(empty, np.int64))

    def _has_more(self, slot: int) -> bool:
        """Whether a remote map has rows that are not known."""
        pages = self._cursor.client.scan(self.index, slot, [], None, False, LARGEST_PAGE)
        known = self._remote[slot]
        return any(name not in known for (keys, _), _, _ in pages for name in self._names(keys))

    def _take_timers(self, entries: Entries) -> None:
        """Notes one timer for each window whose timer the JVM does not have."""
        if (entries.timers < NO_TIMER).any():
            groups, lack = self._lacking_timers(entries)
            super()._take_timers(entries.take(groups.order[groups.starts[lack]]))

    # -- a map that stays with the JVM ----------------------------------------------------------

    def is_far(self, slots: Numbers) -> bool:
        """Whether one of these keys has a map that stays with the JVM."""
        return not self._remote.keys().isdisjoint(slots.tolist())

    def _fetch_due(self, slots: Numbers, ends: Numbers, starts: Numbers) -> None:
        for slot, end, start in zip(slots.tolist(), ends.tolist(), starts.tolist()):
            if slot in self._remote:
                bounds = [np.array([end, end]), np.array([start, start]), np.array([0, NO_TIMER])]
                names = [Bound.START, Bound.END]
                keys = self._keys(*bounds)
                scan = self._cursor.client.scan
                self._read(slot, scan(self.index, slot, names, keys, False, LARGEST_PAGE))

    def _names(self, keys: pa.Array) -> list[Any]:
        numbers: list[Any] = keys.field(2).to_pylist()
        return numbers

    # -- keys and values ------------------------------------------------------------------------

    def _entries(self, slots: Numbers, keys: pa.Array, values: pa.Array) -> Entries:
        ends, starts, numbers = (part.to_numpy(zero_copy_only=False) for part in keys.flatten())
        elements = values.cast(self._wide)
        return Entries(slots, ends, starts, [numbers, elements], None)

    def _keys_of(self, entries: Entries) -> pa.Array:
        return self._keys(entries.ends, entries.starts, entries.parts[0])

    def _values(self, parts: Parts) -> pa.Array:
        return parts[1].cast(self._codec.arrow)

    def rows_of(self, entries: Entries) -> pa.Array:
        """The rows without their times."""
        return entries.parts[1].field("row")


def narrowed(rows: pa.Array, kind: pa.DataType) -> pa.Array:
    """Rows of a `wide` type as of their own. Copied first: they may be of an array of any size."""
    return rows.take(pa.array(np.arange(len(rows)))).cast(kind)


def wide(kind: pa.DataType) -> pa.DataType:
    """The type with offsets of 64 bits: rows that wait for their windows can be more than 2 GiB.

    What is in maps has 32 bits still, for Arrow has no others there.
    """
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(wide(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.large_list(kind.value_field.with_type(wide(kind.value_type)))
    if pa.types.is_string(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary(kind) else kind
