"""The numbers that rows of windows get: by key, as they come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from keystate._spec.protocol import Part, state_column
from keystate._spec.specs import StateSpec
from keystate._worker.messages.columns import Columns, list_column
from keystate._worker.state.worker_state import WorkerState
from keystate._worker.windows.groups import Numbers, stable_order


class RowNumbers(WorkerState):
    """The next number of each key: a value state; 0 where there is none."""

    def __init__(self, spec: StateSpec, index: int, cursor: Any) -> None:
        super().__init__(spec, index, cursor)
        self._next = self._old = np.empty(0, np.int64)
        self._changed = np.empty(0, np.bool_)

    def clear(self) -> None:
        raise NotImplementedError("numbers are given back for many keys at once")

    def take(self, slots: Numbers) -> Numbers:
        """The numbers of rows of these keys, of which a key can have several."""
        order = stable_order(slots)
        mine, starts, sizes = np.unique(slots[order], return_index=True, return_counts=True)
        numbers = np.empty(len(slots), np.int64)
        ranks = np.arange(len(slots)) - np.repeat(starts, sizes)
        numbers[order] = np.repeat(self._next[mine], sizes) + ranks
        self._next[mine] += sizes
        self._changed[mine] = True
        return numbers

    def give_back(self, slots: Numbers) -> None:
        """These keys have no rows any more."""
        self._next[slots] = 0
        self._changed[slots] = True

    # -- between JVM and worker -----------------------------------------------------------------

    def new_generation(self) -> None:
        self._old = self._next
        self._next = np.empty(0, np.int64)
        self._changed = np.empty(0, np.bool_)

    def forget(self) -> None:
        self.new_generation()
        self._old = self._next

    def load(self, message: Columns, carried: list[int] | None) -> None:
        sent = message.elements(state_column(self.index)).fill_null(0).to_numpy()
        if carried is not None:
            old = np.array(carried)
            sent = np.where(old >= 0, self._old[np.maximum(old, 0)], sent)
        self._next = np.concatenate([self._next, sent])
        self._changed = np.concatenate([self._changed, np.zeros(len(sent), np.bool_)])

    def changes(self, start: int, stop: int) -> dict[str, pa.Array]:
        slots = start + np.flatnonzero(self._changed[start:stop])
        if len(slots) == 0:
            return self.no_changes()
        self._changed[start:stop] = False
        numbers = self._next[slots]
        columns = {
            Part.KEY_INDEX: pa.array(slots, pa.int32()),
            "": pa.array(numbers, self._codec.arrow, mask=numbers == 0),
        }
        return {self._column(name): list_column(array) for name, array in columns.items()}

    def _change_types(self) -> dict[str, pa.DataType]:
        return {"": self._codec.arrow}
