"""Which subtask has a key: Spark's ``hash()``, and the key groups made of it.

Spark's murmur3 differs from the usual one in the last bytes of strings: each is hashed like an int.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from decimal import Context
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

_MASK = 0xFFFFFFFF
_SEED = 42
_INTS = (T.ByteType, T.ShortType, T.IntegerType, T.DateType)
_LONGS = (T.LongType, T.TimestampType, T.TimestampNTZType, T.TimeType, T.DayTimeIntervalType)
_LONGEST_UNSCALED = 18
_EXACT = Context(prec=80)

Hash = Callable[[Any, int], int]


class KeyGroups:
    """The key groups of keys of one type.

    Args:
        key_type: the key columns.
        max_parallelism: the number of groups.
    """

    def __init__(self, key_type: T.StructType, max_parallelism: int) -> None:
        self._type = key_type
        self._hash = _hasher(key_type)
        self._max_parallelism = max_parallelism

    def of(self, keys: pa.Array) -> list[int]:
        """The group of each of these keys."""
        return [self._hash(key, _SEED) % self._max_parallelism for key in _raw(keys, self._type)]


def key_groups_of(subtask: int, parallelism: int, max_parallelism: int) -> range:
    """The key groups of a subtask: those for which ``g * parallelism // max_parallelism`` is it."""
    first, end = (-(-i * max_parallelism // parallelism) for i in (subtask, subtask + 1))
    return range(first, end)


def _raw(array: pa.Array, data_type: T.DataType) -> list[Any]:
    """Spark's internal value: times as numbers."""
    if isinstance(data_type, T.StructType):
        columns = [_raw(array.field(i), field.dataType) for i, field in enumerate(data_type)]
        rows = list(zip(*columns)) if columns else [()] * len(array)
        return [row if ok else None for row, ok in zip(rows, array.is_valid().to_pylist())]
    if isinstance(data_type, T.ArrayType):
        # Element by element: what is under a null has no place in a flat array.
        return [
            None if each is None else _raw(each, data_type.elementType)
            for each in (scalar.values for scalar in array)
        ]
    if isinstance(data_type, T.DateType):
        array = array.cast(pa.int32())
    elif isinstance(data_type, _LONGS):
        array = array.cast(pa.int64())
    values: list[Any] = array.to_pylist()
    return values


def _hasher(data_type: T.DataType) -> Hash:
    """Hashes one raw value, or passes the seed on for null. Signed or not does not matter here."""
    if isinstance(data_type, T.StructType):
        fields = [_hasher(field.dataType) for field in data_type]
        return lambda row, seed: seed if row is None else _fold(zip(fields, row), seed)
    if isinstance(data_type, T.ArrayType):
        element = _hasher(data_type.elementType)
        return lambda values, seed: _fold(((element, v) for v in values or ()), seed)
    plain = _plain_hasher(data_type)
    return lambda value, seed: seed if value is None else plain(value, seed)


def _fold(parts: Any, seed: int) -> int:
    for hasher, value in parts:
        seed = hasher(value, seed)
    return seed


def _plain_hasher(data_type: T.DataType) -> Hash:
    if isinstance(data_type, T.BooleanType):
        return lambda v, seed: _int(int(v), seed)
    if isinstance(data_type, _INTS):
        return _int
    if isinstance(data_type, _LONGS):
        return _long
    if isinstance(data_type, T.FloatType):
        return lambda v, seed: _int(_bits(v, "f", "i", 0x7FC00000), seed)
    if isinstance(data_type, T.DoubleType):
        return lambda v, seed: _long(_bits(v, "d", "q", 0x7FF8000000000000), seed)
    if isinstance(data_type, T.StringType):
        return lambda v, seed: _bytes(v.encode(), seed)
    if isinstance(data_type, T.BinaryType):
        return _bytes
    if isinstance(data_type, T.DecimalType):
        scale = data_type.scale
        small = data_type.precision <= _LONGEST_UNSCALED
        return lambda v, seed: (_long if small else _big)(int(v.scaleb(scale, _EXACT)), seed)
    if isinstance(data_type, T.NullType):
        return lambda v, seed: seed
    raise TypeError(f"type {data_type.simpleString()} can't be a key")


def _bits(value: float, letter: str, integer: str, nan: int) -> int:
    if value != value:
        return nan
    bits: int = struct.unpack(integer, struct.pack(letter, value + 0.0))[0]
    return bits


def _big(value: int, seed: int) -> int:
    """The bytes of a Java BigInteger: as few as hold it with its sign."""
    bits = (value if value >= 0 else ~value).bit_length()
    return _bytes(value.to_bytes(bits // 8 + 1, "big", signed=True), seed)


def _int(value: int, seed: int) -> int:
    return _finish(_mix(seed, value & _MASK), 4)


def _long(value: int, seed: int) -> int:
    return _finish(_mix(_mix(seed, value & _MASK), (value >> 32) & _MASK), 8)


def _bytes(value: bytes, seed: int) -> int:
    aligned = len(value) & ~3
    for (word,) in struct.iter_unpack("<I", value[:aligned]):
        seed = _mix(seed, word)
    for byte in value[aligned:]:
        seed = _mix(seed, (byte - 256 if byte > 127 else byte) & _MASK)
    return _finish(seed, len(value))


def _mix(h: int, k: int) -> int:
    k = (k * 0xCC9E2D51) & _MASK
    k = ((k << 15) | (k >> 17)) & _MASK
    h = (h & _MASK) ^ ((k * 0x1B873593) & _MASK)
    h = ((h << 13) | (h >> 19)) & _MASK
    return (h * 5 + 0xE6546B64) & _MASK


def _finish(h: int, length: int) -> int:
    """Signed, as Java has it: the group is of the signed number."""
    h = (h & _MASK) ^ length
    h = ((h ^ (h >> 16)) * 0x85EBCA6B) & _MASK
    h = ((h ^ (h >> 13)) * 0xC2B2AE35) & _MASK
    h ^= h >> 16
    return h - (1 << 32) if h >> 31 else h
