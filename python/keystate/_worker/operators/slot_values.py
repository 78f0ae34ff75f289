"""Values by slot in Arrow arrays, for functions of batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

Slots = np.ndarray[Any, np.dtype[np.int64]]

#: So many values that no slot has any more may be kept besides as many as there are slots. Few: a
#: value may be megabytes, and an array of strings or bytes holds 2 GiB.
_SPARE = 64


class SlotValues:
    """One value a slot; none is changed in place, because Arrow's arrays never are.

    A value has a place in the arrays, one after the other. A slot that gets another value gets
    another place, and the old one is of no use any more. Once more than half of the places are of
    no use, those in use are copied: so memory is in proportion to the slots, however often they get
    values, and so is what a call costs at most.
    """

    def __init__(self, kind: pa.DataType) -> None:
        self.type = kind
        self._arrays: list[pa.Array] = []
        self._places = 0
        self._place_of: Slots = np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self._place_of)

    @property
    def places(self) -> int:
        """How many values are kept, those of no use too."""
        return self._places

    def extend(self, values: pa.Array) -> None:
        """Adds slots with these values."""
        self._place_of = np.concatenate([self._place_of, self._append(values)])

    def put(self, slots: Slots, values: pa.Array) -> None:
        """Sets the values of slots, each of which is named once."""
        self._place_of[slots] = self._append(values)
        if self._places > 2 * len(self) + _SPARE:
            self._arrays = [self._all().take(pa.array(self._place_of))]
            self._places = len(self)
            self._place_of = np.arange(len(self))

    def take(self, slots: Slots) -> pa.Array:
        """The values of these slots."""
        return self._all().take(pa.array(self._place_of[slots]))

    def cast(self, kind: pa.DataType) -> None:
        """Makes all values those of another type."""
        self.type = kind
        self._arrays = [array.cast(kind) for array in self._arrays]

    def _append(self, values: pa.Array) -> Slots:
        places = np.arange(self._places, self._places + len(values))
        self._arrays.append(values)
        self._places += len(values)
        return places

    def _all(self) -> pa.Array:
        # To take from several arrays, Arrow would make one of them at each call.
        if len(self._arrays) != 1:
            self._arrays = [pa.concat_arrays(self._arrays or [pa.nulls(0, self.type)])]
        return self._arrays[0]
