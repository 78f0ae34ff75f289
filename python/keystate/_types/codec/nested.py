"""Codecs of arrays and maps."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from keystate._types.codec.base import NONE, Codec, Shape, mask_of, offsets, offsets_of, with_nulls
from keystate._types.codec.foreign import of_python
from keystate._types.codec.misfits import Misfit

_SEQUENCES = {list, tuple, NONE}
_DICTS = {dict, NONE}


class ArrayCodec(Codec):
    def __init__(self, data_type: T.ArrayType, shape: Shape, element: Codec) -> None:
        super().__init__(data_type, (list, tuple))
        self._element = element
        self._nullable = data_type.containsNull
        self._make: Callable[[Any], Any] = tuple if shape.cls is tuple else list
        self.plain = self.frozen = None
        self.mutable = self._make is list or element.mutable
        self.as_key = self._as_key
        self.key_class = None
        self.runs_code = element.runs_code

    def name_column(self, name: str) -> None:
        super().name_column(name)
        self._element.name_column(name)

    def made(self, value: Any) -> Any:
        if value is None:
            return None
        return self._make(map(self._element.made, value))

    def _as_key(self, value: Any) -> Any:
        form = self._element.as_key
        return None if value is None else tuple(value if form is None else map(form, value))

    def key(self, value: Any) -> Any:
        value = self._sequence(value)
        if value is None:
            return None
        try:
            return tuple(map(self._element.key, value))
        except Misfit as e:
            raise e.within("an element of the array") from None

    def as_read(self, value: Any) -> Any:
        value = self._sequence(value)
        if value is None:
            return None
        try:
            elements = self._element.all_as_read(value)
        except Misfit as e:
            raise e.within("an element of the array") from None
        if not self._nullable and any(each is None for each in elements):
            raise Misfit(None, f"{self._element.name}, not null,", "an element of the array")
        return elements if self._make is list else self._make(elements)

    def copy(self, value: Any) -> Any:
        if value is None or not self.mutable:
            return value
        elements = self._element.all_copied(value)
        return elements if self._make is list else self._make(elements)

    def decode(self, array: pa.Array) -> list[Any]:
        at = offsets(array)
        values = self._element.decode(array.values.slice(at[0], at[-1] - at[0]))
        first = at[0]
        lists: list[Any] = [values[a - first : b - first] for a, b in pairwise(at)]
        if self._make is not list:
            lists = list(map(self._make, lists))
        return with_nulls(lists, array)

    def encode(self, values: Sequence[Any]) -> pa.Array:
        if not set(map(type, values)) <= _SEQUENCES:
            values = list(map(self._sequence, values))
        flat = list(chain.from_iterable(v for v in values if v is not None))
        try:
            elements = self._element.encode(flat)
        except Misfit as e:
            raise e.within("an element of the array") from None
        if not self._nullable and elements.null_count:
            raise Misfit(None, f"{self._element.name}, not null,", "an element of the array")
        return pa.ListArray.from_arrays(
            offsets_of(values), elements, type=self.arrow, mask=mask_of(values)
        )

    def _sequence(self, value: Any) -> Any:
        """A value whose elements can be gone through; NumPy's arrays as lists."""
        if value is None or isinstance(value, (list, tuple)):
            return value
        # Workers do without NumPy unless a function imports it.
        numpy = sys.modules.get("numpy")
        if numpy is not None and isinstance(value, numpy.ndarray) and value.ndim > 0:
            # tolist() would turn times into numbers.
            return list(value) if value.dtype.kind in "mM" else value.tolist()
        if of_python(value) is None:
            return None
        raise Misfit(value, self.name)


class MapCodec(Codec):
    def __init__(self, data_type: T.MapType, key: Codec, value: Codec) -> None:
        super().__init__(data_type, (dict,))
        self._key = key
        self._value = value
        self._nullable = data_type.valueContainsNull
        self.plain = self.frozen = None
        self.mutable = True
        self.runs_code = key.runs_code or value.runs_code

    def name_column(self, name: str) -> None:
        super().name_column(name)
        self._key.name_column(name)
        self._value.name_column(name)

    def made(self, value: Any) -> Any:
        if value is None:
            return None
        return {self._key.made(k): self._value.made(v) for k, v in value.items()}

    def as_read(self, value: Any) -> Any:
        value = self._map(value)
        if value is None:
            return None
        try:
            keys = list(map(self._key.key, value))
        except Misfit as e:
            raise e.within("a key of the map") from None
        if None in keys:
            raise Misfit(None, self._key.name, "a key of the map")
        try:
            items = self._value.all_as_read(list(value.values()))
        except Misfit as e:
            raise e.within("a value of the map") from None
        if not self._nullable and any(each is None for each in items):
            raise Misfit(None, f"{self._value.name}, not null,", "a value of the map")
        return dict(zip(keys, items))

    def copy(self, value: Any) -> Any:
        if value is None:
            return None
        if not self._value.mutable:
            return dict(value)
        return {key: self._value.copy(each) for key, each in value.items()}

    def decode(self, array: pa.Array) -> list[Any]:
        at = offsets(array)
        first, size = at[0], at[-1] - at[0]
        keys = self._key.decode_keys(array.keys.slice(first, size))
        values = self._value.decode(array.items.slice(first, size))
        maps = [
            dict(zip(keys[a - first : b - first], values[a - first : b - first]))
            for a, b in pairwise(at)
        ]
        return with_nulls(maps, array)

    def encode(self, values: Sequence[Any]) -> pa.Array:
        if not set(map(type, values)) <= _DICTS:
            values = list(map(self._map, values))
        present = [v for v in values if v is not None]
        try:
            keys = self._key.encode(list(chain.from_iterable(present)))
        except Misfit as e:
            raise e.within("a key of the map") from None
        if keys.null_count:
            raise Misfit(None, self._key.name, "a key of the map")
        items = list(chain.from_iterable(v.values() for v in present))
        try:
            encoded = self._value.encode(items)
        except Misfit as e:
            raise e.within("a value of the map") from None
        if not self._nullable and encoded.null_count:
            raise Misfit(None, f"{self._value.name}, not null,", "a value of the map")
        return pa.MapArray.from_arrays(
            offsets_of(values), keys, encoded, type=self.arrow, mask=mask_of(values)
        )

    def _map(self, value: Any) -> Any:
        """A value as a dictionary; it may be a list of pairs, as pyarrow has maps."""
        if value is None or isinstance(value, dict):
            return value
        if isinstance(value, list) and all(type(p) is tuple and len(p) == 2 for p in value):
            try:
                pairs = dict(value)
            except TypeError:  # a key that has no hash
                raise Misfit(value, self.name) from None
            if len(pairs) < len(value):
                raise Misfit(value, f"{self.name}, in which each key is once")
            return pairs
        if of_python(value) is None:
            return None
        raise Misfit(value, self.name)
