"""Sorted map state by window: the worker's side.

Its keys are tuples of longs that Keystate's own code makes. They are not checked again for each
call, and compare as they are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from keystate._spec.specs import StateSpec
from keystate._types.codec import Codec, codec
from keystate._worker.state.sorted_maps import WorkerSortedMapState
from keystate.state import SortedMapStateDescriptor, TypeLike

_LONGS = codec(T.LongType())


class WindowMapDescriptor(SortedMapStateDescriptor[tuple[int, ...], Any]):
    """Describes a sorted map whose keys are tuples of longs, given and taken as such.

    Args:
        name: unique among the states of a function.
        fields: the names of the longs.
        value_type: type of the values.
        own_values: whether values are tuples that need not be checked either, because Keystate's
            own code makes them of what was read.
    """

    def __init__(
        self, name: str, fields: tuple[str, ...], value_type: TypeLike, own_values: bool = False
    ) -> None:
        super().__init__(name, ", ".join(f"{field} long" for field in fields), value_type)
        self.own_values = own_values


class _KeyCodec(Codec):
    """The codec of tuples of longs, without a look at each of them."""

    def __init__(self, data_type: T.StructType) -> None:
        super().__init__(data_type, (tuple,))
        self._width = len(data_type.fields)
        self.key_class = tuple

    def key(self, value: Any) -> Any:
        return value

    def decode(self, array: pa.Array) -> list[Any]:
        return list(zip(*(_LONGS.decode(array.field(i)) for i in range(self._width))))

    def encode(self, values: Sequence[Any]) -> pa.Array:
        columns = list(zip(*values)) or [()] * self._width
        arrays = [pa.array(column, pa.int64()) for column in columns]
        return pa.StructArray.from_arrays(arrays, fields=list(self.arrow))


class WorkerWindowMapState(WorkerSortedMapState):
    def __init__(
        self, spec: StateSpec, index: int, cursor: Any, descriptor: WindowMapDescriptor
    ) -> None:
        super().__init__(spec, index, cursor, descriptor)
        assert isinstance(spec.key_type, T.StructType)
        if descriptor.own_values:
            self._plain = tuple
        self._key_codec = _KeyCodec(spec.key_type)
        self._key_class = tuple
        self._by = None

    def _as_key(self, key: Any) -> Any:
        return key

    def fold(self, key: tuple[int, ...], add: Callable[[Any, Any], Any], row: Any) -> bool:
        """Puts what `add` makes of a row and the value that there is; whether there was none."""
        cell: Any = self._cell()
        if cell.remote:
            self._fetch(cell, key)
        old = cell.get(key)
        value = add(row, old)
        if type(value) is not self._plain:
            value = self._as_read(value)
        if cell.live:
            cell.changing()
        if old is None and key not in cell:
            self._insert(cell, key)
        cell[key] = value
        cell.changed.add(key)
        self._dirty[self._cursor.slot] = 1
        return old is None

    def keys_from(
        self, start: tuple[int, ...], count: int, before: tuple[int, ...] | None = None
    ) -> list[Any]:
        """The first so many keys from `start` on that are less than `before`."""
        cell: Any = self._cell()
        if cell.remote:
            return [key for key, _ in islice(self.sub_iterator(start, before), count)]
        order: list[Any] = cell.order
        at = bisect_left(order, start)
        found = order[at : at + count]
        return found if before is None else [key for key in found if key < before]

    def take_first(
        self, before: tuple[int, ...], start: tuple[int, ...] = ()
    ) -> tuple[Any, Any] | None:
        """Takes out the first entry from `start` on if its key is less than `before`."""
        cell: Any = self._cell()
        if cell.remote:
            first = next(self.sub_iterator(start, before), None) if start else self.first_entry()
            if first is None or first[0] >= before:
                return None
            self.remove(first[0])
            return first
        order = cell.order
        at = bisect_left(order, start)
        if at == len(order) or order[at] >= before:
            return None
        if cell.live:
            cell.changing()
        key = order.pop(at)
        cell.changed.add(key)
        self._dirty[self._cursor.slot] = 1
        return key, cell.pop(key)
