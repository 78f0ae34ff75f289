"""The accumulators of keys by columns: the state that a value state has."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from keystate._spec.protocol import Part, state_column
from keystate._worker.aggregates.accumulators import Parts
from keystate._worker.aggregates.groups import Numbers
from keystate._worker.messages.columns import Columns, list_column
from keystate._worker.state.column_entries import Entries
from keystate._worker.state.column_state import ColumnState


class AggregateColumns(ColumnState):
    """An accumulator for each key."""

    def _no_entries(self) -> Entries:
        none = pa.array([], self._codec.arrow)
        return self._entries(np.empty(0, np.int64), self._aggregation.unpack(none), True)

    def add(self, slots: Numbers, parts: Parts) -> None:
        """Adds accumulators to those of these keys."""
        self._append(self._entries(slots, parts, False))

    def changed(self) -> Entries:
        """The accumulators that the JVM does not have."""
        entries = self._merge()
        return entries.select(entries.changed)

    def of(self, slots: Numbers) -> Entries:
        """The accumulators of these keys."""
        chosen = np.zeros(self._size, np.bool_)
        chosen[slots] = True
        entries = self._merge()
        return entries.select(chosen[entries.slots])

    def take_untimed(self, start: int, stop: int) -> tuple[Numbers, Numbers]:
        low, high = self._between(start, stop)
        (found,) = np.nonzero(~self._merged.timed[low:high])
        self._merged.timed[low:high] = True
        return self._merged.slots[low + found], np.zeros(len(found), np.int64)

    # -- between JVM and worker -----------------------------------------------------------------

    def _sent(self, message: Columns, first: int) -> Entries:
        values = message.elements(state_column(self.index))
        self._size += len(values)
        (here,) = np.nonzero(values.is_valid().to_numpy(zero_copy_only=False))
        if len(here) == 0:
            return self._none
        return self._entries(first + here, self._aggregation.unpack(values.drop_null()), True)

    def changes(self, start: int, stop: int) -> dict[str, pa.Array]:
        put = self._take_changed(start, stop)
        if len(put) == 0:
            return self.no_changes()
        values = self._aggregation.pack(put.parts, self._codec.arrow)
        columns = {Part.KEY_INDEX: pa.array(put.slots, pa.int32()), "": values}
        return {self._column(name): list_column(array) for name, array in columns.items()}

    def _change_types(self) -> dict[str, pa.DataType]:
        return {"": self._codec.arrow}

    def _entries(self, slots: Numbers, parts: Parts, is_stored: bool) -> Entries:
        none = np.zeros(len(slots), np.int64)
        return Entries(slots, none, none, none, parts, is_stored)
