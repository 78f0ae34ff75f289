"""Maps that nobody reads any more: what they have of the keys that come is deleted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keystate._spec.protocol import Part, state_column
from keystate._spec.specs import StateSpec
from keystate._worker.messages.columns import Columns, list_column, nested
from keystate._worker.state.worker_state import WorkerState


class EmptiedMap(WorkerState):
    """A map of which nothing is needed that was there before a restart."""

    def __init__(self, spec: StateSpec, index: int, cursor: Any) -> None:
        super().__init__(spec, index, cursor)
        self._key_type: pa.DataType = spec.key_codec().arrow
        self._size = 0
        self._full: list[int] = []  # slots that have entries

    def clear(self) -> None:
        raise NotImplementedError("it is emptied by itself")

    def new_generation(self) -> None:
        self._size, self._full = 0, []

    def load(self, message: Columns, carried: list[int] | None) -> None:
        lists = message.elements(state_column(self.index, Part.KEYS))
        # A map that stays with the JVM is null, and so is that of a key that is carried over.
        lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 1))
        if carried is not None:
            lengths = np.where(np.array(carried) >= 0, 0, lengths)
        self._full += (self._size + np.flatnonzero(lengths)).tolist()
        self._size += len(lists)

    def changes(self, start: int, stop: int) -> dict[str, pa.Array]:
        here = [slot for slot in self._full if start <= slot < stop]
        if not here:
            return self.no_changes()
        self._full = [slot for slot in self._full if not start <= slot < stop]
        nothing = {name: [0] * len(here) for name in (Part.KEYS, Part.VALUES, Part.REMOVED)}
        types = self._change_types()
        columns = {
            Part.KEY_INDEX: pa.array(here, pa.int32()),
            Part.RESET: pa.array([True] * len(here)),
            **{n: nested(pa.array([], types[n].value_type), each) for n, each in nothing.items()},
        }
        return {self._column(name): list_column(columns[name]) for name in (Part.KEY_INDEX, *types)}

    def _change_types(self) -> dict[str, pa.DataType]:
        keys = pa.list_(self._key_type)
        values = pa.list_(self._codec.arrow)
        return {Part.RESET: pa.bool_(), Part.KEYS: keys, Part.VALUES: values, Part.REMOVED: keys}
