"""Codecs of numbers."""

from __future__ import annotations

import ctypes
import operator
import struct
from collections.abc import Sequence
from decimal import Context, Decimal, DecimalException, Inexact, InvalidOperation
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from keystate._types.codec.base import NONE, Codec, validity
from keystate._types.codec.foreign import of_python
from keystate._types.codec.misfits import Misfit

_NAN = float("nan")
_INFINITY = float("inf")


class FixedCodec(Codec):
    """Numbers: decoded straight from the array's buffer."""

    def __init__(
        self, data_type: T.DataType, accepted: tuple[type, ...], letter: str, width: int
    ) -> None:
        super().__init__(data_type, accepted)
        self._letter = letter
        self._width = width

    def decode(self, array: pa.Array) -> list[Any]:
        size = len(array)
        if array.null_count == size:
            return [None] * size
        start, width = array.offset, self._width
        view = memoryview(array.buffers()[1])[start * width : (start + size) * width]
        values: list[Any] = view.cast(self._letter).tolist()  # type: ignore[call-overload]
        if array.null_count:
            return [v if ok else None for v, ok in zip(values, validity(array))]
        return values


class IntegerCodec(FixedCodec):
    def __init__(
        self, data_type: T.DataType, accepted: tuple[type, ...], letter: str, width: int
    ) -> None:
        super().__init__(data_type, accepted, letter, width)
        self.highest = 2 ** (8 * width - 1) - 1
        self.lowest = -self.highest - 1
        if width < 8:
            self.plain = None

    def as_read(self, value: Any) -> Any:
        value = self._coerce(value)
        if value is not None and not self.lowest <= value <= self.highest:
            raise Misfit(value, self.name)
        return value

    def is_plain(self, value: Any) -> bool:
        return type(value) is self.plain and self.lowest <= value <= self.highest

    def key(self, value: Any) -> Any:
        return self.as_read(value)

    def all_as_read(self, values: Sequence[Any]) -> list[Any]:
        all_int = set(map(type, values)) == {int}
        if all_int and self.lowest <= min(values) and max(values) <= self.highest:
            return list(values)
        return list(map(self.as_read, values))

    def _coerce(self, value: Any) -> Any:
        if type(value) is int or value is None:
            return value
        # numpy's integers and the like; a bool is an int to Python but not a number to Spark.
        if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
            raise Misfit(value, self.name)
        try:
            return operator.index(value)  # just an int, whatever __index__ returns
        except TypeError:
            return _none(value, self.name)


class FloatCodec(FixedCodec):
    def __init__(
        self, data_type: T.DataType, accepted: tuple[type, ...], letter: str, width: int
    ) -> None:
        super().__init__(data_type, accepted, letter, width)
        self.as_key = self._form = _double_key if letter == "d" else _float_key
        self.key_class = None
        self._is_double = letter == "d"
        if not self._is_double:
            self.plain = None

    def as_read(self, value: Any) -> Any:
        number = self._coerce(value)
        if number is None or self._is_double:
            return number
        read = ctypes.c_float(number).value
        if abs(read) == _INFINITY != abs(number):
            raise Misfit(value, self.name)
        return read

    def key(self, value: Any) -> Any:
        return None if value is None else self._form(self.as_read(value))

    def encode(self, values: Sequence[Any]) -> pa.Array:
        kinds = set(map(type, values))
        if not kinds <= {float, NONE}:
            values = [self._coerce(value) for value in values]
        if not self._is_double:
            numbers = [value for value in values if value is not None]
            try:
                # Arrow would make a number that is too large infinite.
                struct.pack(f"<{len(numbers)}f", *numbers)
            except OverflowError:
                self.all_as_read(numbers)
        return pa.array(values, self.arrow)

    def _coerce(self, value: Any) -> Any:
        if value is None or type(value) is float:
            return value
        if isinstance(value, (bool, str, bytes, Decimal)):
            raise Misfit(value, self.name)
        if not hasattr(value, "__float__"):
            return _none(value, self.name)
        if type(value).__name__ == "bool_":
            raise Misfit(value, self.name)
        try:
            return float(value)
        except (OverflowError, TypeError, ValueError):
            raise Misfit(value, self.name) from None


def _none(value: Any, name: str) -> None:
    """``None`` of what pandas has for a missing value; nothing else fits."""
    if of_python(value) is not None:
        raise Misfit(value, name)


def _double_key(value: float | None) -> float | None:
    # Every NaN is one key, which a dictionary finds only as one object, and -0.0 is 0.0.
    return None if value is None else _NAN if value != value else value + 0.0


def _float_key(value: float | None) -> float | None:
    return None if value is None else _double_key(ctypes.c_float(value).value)


class DecimalCodec(Codec):
    """Decimals are read with their type's scale: of ``1`` in a decimal(10,2) is read ``1.00``."""

    def __init__(self, data_type: T.DataType, accepted: tuple[type, ...]) -> None:
        super().__init__(data_type, accepted)
        assert isinstance(data_type, T.DecimalType)
        # Whether one fits shows only when it is read.
        self.plain = self.key_class = self.frozen = None
        self._unit = Decimal(1).scaleb(-data_type.scale)
        self._bound = Decimal(1).scaleb(data_type.precision - data_type.scale)

    def as_read(self, value: Any) -> Any:
        if value is None:
            return None
        given = self._coerce(value)
        if given is None:
            return None
        try:
            value = given.quantize(self._unit, context=_EXACT)
        except DecimalException:
            raise Misfit(given, self.name) from None
        if value.is_nan() or not -self._bound < value < self._bound:
            raise Misfit(given, self.name)
        return value if value else value.copy_abs()

    def _coerce(self, value: Any) -> Any:
        python = of_python(value)
        return Decimal(python) if type(python) is int else super()._coerce(value)


#: Digits that would be lost are an error.
_EXACT = Context(prec=76, traps=[Inexact, InvalidOperation])

LONG = FixedCodec(T.LongType(), (int,), "q", 8)
