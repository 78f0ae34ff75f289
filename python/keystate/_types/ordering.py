"""The order of map keys in Python, the same as of their encoding in the JVM.

That encoding, of the JVM's ``OrderedKeyCodec``, defines the order.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import date, datetime, timedelta
from functools import total_ordering
from typing import Any

from pyspark.sql import types as T

from keystate.state import KeyOrder

#: What their values are compared with to tell whether they are stored as negative numbers: all
#: of them are integers in the JVM. A function, because the local time of the epoch can change.
_ZEROS: dict[type[T.DataType], Callable[[], Any]] = {
    **dict.fromkeys((T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.DecimalType), int),
    T.DateType: lambda: date(1970, 1, 1),
    T.TimestampType: lambda: datetime.fromtimestamp(0),
    T.TimestampNTZType: lambda: datetime(1970, 1, 1),
    T.DayTimeIntervalType: timedelta,
}
_FLOATS = (T.FloatType, T.DoubleType)
# Their Python values compare as the type does: strings by code point, which is the order of UTF-8.
_COMPARABLE: tuple[type[T.DataType], ...] = (
    *_ZEROS,
    T.BooleanType,
    T.StringType,
    T.BinaryType,
    T.TimeType,
)


def sort_key(data_type: T.DataType, order: KeyOrder) -> Callable[[Any], Any] | None:
    """A function that makes the sort key of a map's key; None if keys compare without it.

    Raises:
        TypeError: the type has no order.
    """
    if order is not KeyOrder.DESCENDING:
        return _ascending(data_type, order is KeyOrder.BYTEWISE)
    ascending = _ascending(data_type, False)
    if ascending is None:
        return _Reversed
    return lambda key: _Reversed(ascending(key))


def _ascending(data_type: T.DataType, bytewise: bool) -> Callable[[Any], Any] | None:
    if bytewise and type(data_type) in _ZEROS:
        # Two's complement puts negative numbers after the others.
        zero = _ZEROS[type(data_type)]()
        return lambda key: (key < zero, key)
    if isinstance(data_type, _FLOATS):
        return _float_bits if bytewise else _nan_last
    if isinstance(data_type, _COMPARABLE):
        return None
    if isinstance(data_type, T.StructType):
        fields = [nulls_first(_ascending(field.dataType, bytewise)) for field in data_type.fields]
        names = data_type.fieldNames()

        def struct_key(key: Any) -> tuple[Any, ...]:
            # A dataclass has attributes only.
            parts = key if isinstance(key, tuple) else [getattr(key, name) for name in names]
            return tuple(by(value) for by, value in zip(fields, parts))

        return struct_key
    if isinstance(data_type, T.ArrayType):
        element = nulls_first(_ascending(data_type.elementType, bytewise))
        return lambda key: tuple(map(element, key))
    raise TypeError(f"type {data_type.simpleString()} has no order and can't be a key")


def _nan_last(key: float) -> tuple[bool, float]:
    return (True, 0.0) if key != key else (False, key)


def _float_bits(key: float) -> bytes:
    # One zero and one NaN, as in the encoding.
    return struct.pack(">d", float("nan") if key != key else key + 0.0)


def nulls_first(by: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    """A function that makes the sort key of a value that may be null; nulls come first."""

    def nullable(value: Any) -> Any:
        if value is None:
            return (False,)
        return (True, value if by is None else by(value))

    return nullable


@total_ordering
class _Reversed:
    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and self.key == other.key

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other.key < self.key)

    def __hash__(self) -> int:
        return hash(self.key)
