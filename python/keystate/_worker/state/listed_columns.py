"""The rows of windows by columns: an entry for each, numbered as they came.

Rows stay as they came, in Arrow; they are made Python's when their window fires.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from keystate._spec.protocol import Bound
from keystate._spec.specs import StateSpec
from keystate._worker.state.column_entries import Entries
from keystate._worker.state.row_numbers import RowNumbers
from keystate._worker.state.window_columns import WindowColumns
from keystate._worker.windows.groups import Numbers, stable_order
from keystate._worker.windows.parts import Parts

_LAST = 2**63 - 1


class ListedColumns(WindowColumns):
    """The rows of the windows of all keys. What is known of a remote map are rows' numbers.

    The parts of an entry are its row's number, and what is stored of the row.
    """

    _remote: dict[int, set[Any]]
    #: Gives each row a number.
    numbers: RowNumbers

    def __init__(self, spec: StateSpec, index: int, cursor: Any) -> None:
        self._wide: pa.DataType = wide(spec.value_codec().arrow)
        super().__init__(spec, index, cursor, lateness=0)

    # -- what the operator does -----------------------------------------------------------------

    def add(self, slots: Numbers, ends: Numbers, starts: Numbers, parts: Parts) -> None:
        numbers = self.numbers.take(slots)
        if self._remote:
            for slot, number in zip(slots.tolist(), numbers.tolist()):
                if slot in self._remote:
                    self._remote[slot].add(number)
        ones = np.ones(len(slots), np.int64)
        elements = parts[0].cast(self._wide)
        self._append(Entries(slots, ones, ends, starts, [numbers, elements], False))

    def take(self, slots: Numbers, timers: Entries, until: int) -> Entries:
        """Removes the rows of windows, all of which end by `until`.

        Args:
            slots: the keys of which a timer is due; not each of them has such a window.
            timers: the windows' timers. If none is at the end, the rows are not wanted.
            until: the time, in ms.

        Returns:
            The rows that are wanted, window by window, each as they came.
        """
        mine, ending, _ = self._due(slots, until)
        entries = self._merged
        self._untime(entries, mine, ending)
        (places,) = np.nonzero(ending)
        groups = Entries.concat([timers.windows(), entries.windows().take(places)]).groups()
        windows = groups.ids()
        of_timers, of_rows = windows[: len(timers)], windows[len(timers) :]
        noted, fires = np.zeros((2, len(groups)), np.bool_)
        noted[of_timers] = True
        fires[of_timers[timers.parts[0] == timers.ends - 1]] = True
        gone = np.zeros(len(entries), np.bool_)
        gone[places] = noted[of_rows]
        order = groups.order[groups.order >= len(timers)] - len(timers)
        order = order[fires[of_rows[order]]]
        if self._remote:  # of such a map the first rows may have been read last
            numbers = entries.parts[0][places]
            order = order[np.lexsort([numbers[order], of_rows[order]])]
        taken = entries.take(places[order])
        if gone.any():
            self._remove(entries.select(gone))
            self._merged = entries.select(~gone)
        self._give_back(np.unique(timers.slots), until)
        return taken

    def are_away(self, slots: Numbers) -> Numbers:
        """Which of these keys have a map that stays with the JVM."""
        return np.isin(slots, list(self._remote))

    def _give_back(self, slots: Numbers, until: int) -> None:
        """Numbers begin anew where no rows are left."""
        left = np.isin(slots, self._merged.slots)
        empty = [s for s in slots[~left].tolist() if s not in self._remote or self._ends(s, until)]
        self.numbers.give_back(np.array(empty, np.int64))

    def _ends(self, slot: int, until: int) -> bool:
        """Whether a remote map has no rows of windows that end later."""
        if until >= _LAST - 1:
            return True
        bound = self._bound(until)
        pages = self._cursor.client.scan(self.index, slot, [Bound.START], bound, False, 1)
        return not any(len(keys) for (keys, _), _, _ in pages)

    def _together(self, entries: Entries) -> Entries:
        return entries.take(stable_order(entries.slots))

    # -- a map that stays with the JVM ----------------------------------------------------------

    def _names(self, keys: pa.Array) -> list[Any]:
        numbers: list[Any] = keys.field(2).to_pylist()
        return numbers

    def _bound(self, until: int) -> pa.Array:
        return self._keys(*(np.array([each]) for each in (until + 2, -_LAST, 0)))

    # -- keys and values ------------------------------------------------------------------------

    def _entries(self, slots: Numbers, keys: pa.Array, values: pa.Array) -> Entries:
        ends, starts, numbers = (part.to_numpy(zero_copy_only=False) for part in keys.flatten())
        ones = np.ones(len(slots), np.int64)
        elements = values.cast(self._wide)
        return Entries(slots, ones, ends, starts, [numbers, elements], True)

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
