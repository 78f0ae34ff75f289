"""Codecs of dates and times."""

from __future__ import annotations

import datetime
import math
import time
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from keystate._types.codec.base import Codec
from keystate._types.codec.beyond import BeyondPython
from keystate._types.codec.foreign import has_nanoseconds, of_python
from keystate._types.codec.misfits import Misfit
from keystate._types.codec.numeric import LONG

#: Seconds and microseconds up to which a float is exact to the microsecond: until the year 2106.
_EXACT_SECONDS = 2**32
_EXACT_MICROS = _EXACT_SECONDS * 1_000_000

_fromtimestamp = datetime.datetime.fromtimestamp
_combine = datetime.datetime.combine


class _TimeCodec(Codec):
    """Times that pyarrow converts, as far as Python has them.

    Args:
        integers: the Arrow type of the numbers that they are.
    """

    def __init__(
        self, data_type: T.DataType, accepted: tuple[type, ...], integers: pa.DataType
    ) -> None:
        super().__init__(data_type, accepted)
        self._integers = integers

    def decode(self, array: pa.Array) -> list[Any]:
        try:
            return super().decode(array)
        except (OverflowError, ValueError):
            return list(map(self._one, array, array.cast(self._integers).to_pylist()))

    def _one(self, scalar: pa.Scalar, number: int | None) -> Any:
        try:
            return scalar.as_py()
        except (OverflowError, ValueError):
            assert number is not None
            return BeyondPython(number, self.name, self.column)

    def encode(self, values: Sequence[Any]) -> pa.Array:
        if BeyondPython in map(type, values):
            return pa.concat_arrays([self._encode_one(value) for value in values])
        return super().encode(values)

    def _encode_one(self, value: Any) -> pa.Array:
        if type(value) is BeyondPython and value.kind == self.name:
            return pa.array([value.number], self._integers).cast(self.arrow)
        return super().encode([value])

    def _coerce(self, value: Any) -> Any:
        if has_nanoseconds(value):
            raise Misfit(value, self.name)
        return super()._coerce(value)


class IntervalCodec(_TimeCodec):
    """Intervals of days to microseconds."""


class DateCodec(_TimeCodec):
    def _coerce(self, value: Any) -> Any:
        # A datetime is a date to Python, but its time of day would be lost.
        if isinstance(of_python(value), datetime.datetime):
            raise Misfit(value, self.name)
        return super()._coerce(value)


class NaiveCodec(_TimeCodec):
    """Times without a zone: an aware one would have to be converted to some zone, or stripped."""

    def __init__(
        self, data_type: T.DataType, accepted: tuple[type, ...], integers: pa.DataType
    ) -> None:
        super().__init__(data_type, accepted, integers)
        self.plain = self.key_class = self.frozen = None
        self._time: Any = accepted[0]
        self.naive = self._time

    def as_read(self, value: Any) -> Any:
        if is_naive(value, self.naive):
            return value
        return super().as_read(value)

    def _coerce(self, value: Any) -> Any:
        value = super()._coerce(value)
        if getattr(value, "tzinfo", None) is not None:
            raise Misfit(value, f"{self.name} (without a time zone)")
        return value

    def encode(self, values: Sequence[Any]) -> pa.Array:
        # Values of exactly this class are not coerced.
        for value in values:
            if type(value) is self._time and value.tzinfo is not None:
                self._coerce(value)
        return super().encode(values)


def _is_in_utc() -> bool:
    # With TZ=UTC-5 a zone is called so too, five hours ahead.
    return time.tzname == ("UTC", "UTC") and time.timezone == 0 and not time.daylight


def is_naive(value: Any, cls: Any) -> bool:
    """Whether it is of just this class, without a zone, and no second of two."""
    return type(value) is cls and value.tzinfo is None and not value.fold


class _Later(datetime.datetime):
    """The second of two instants that have one local time, when clocks are set back.

    Python compares local times alone, so both would be one key, and in no order.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, datetime.datetime) and instant(self) == instant(other)

    def __lt__(self, other: Any) -> bool:
        return instant(self) < instant(other)

    def __le__(self, other: Any) -> bool:
        return instant(self) <= instant(other)

    def __gt__(self, other: Any) -> bool:
        return instant(self) > instant(other)

    def __ge__(self, other: Any) -> bool:
        return instant(self) >= instant(other)

    __hash__ = datetime.datetime.__hash__


def _of_python(value: datetime.datetime) -> datetime.datetime:
    """A datetime of Python's own class.

    Other classes see instants in their own way: to pandas a time without a zone is in UTC, though
    it equals a local one.
    """
    # NaT of pandas is a datetime too, but there is no date in it.
    if type(value) is datetime.datetime or value != value:
        return value
    return _combine(value.date(), value.timetz())


def instant(value: datetime.datetime) -> tuple[float, int]:
    value = _of_python(value)
    # Whole seconds: as a float, a timestamp with its microseconds would not be exact.
    return value.replace(microsecond=0).timestamp(), value.microsecond


def _later(value: datetime.datetime | None) -> datetime.datetime | None:
    if value is None or not value.fold:
        return value
    return _Later(*value.timetuple()[:6], value.microsecond, fold=1)


class TimestampCodec(Codec):
    """Naive local datetimes, as PySpark's rows have them; aware ones are accepted."""

    def __init__(self, data_type: T.DataType, accepted: tuple[type, ...]) -> None:
        super().__init__(data_type, accepted)
        self.plain = None
        self.as_key = _later
        self.key_class = None
        # Elsewhere clocks skip times, of which what is read looks otherwise.
        self.naive = datetime.datetime if _is_in_utc() else None

    def as_read(self, value: Any) -> Any:
        if is_naive(value, self.naive):
            return value
        # A time that clocks skip or show twice may be read as another one.
        return self.local(self.micros(value))

    def key(self, value: Any) -> Any:
        return _later(self.local(self.micros(value)))

    def decode(self, array: pa.Array) -> list[Any]:
        return list(map(self.local, LONG.decode(array.cast(pa.int64()))))

    def local(self, micros: int | None) -> Any:
        """The naive local time of so many microseconds since the epoch, or what stands for it."""
        if micros is None:
            return None
        try:
            if -_EXACT_MICROS < micros < _EXACT_MICROS:
                return _fromtimestamp(micros / 1_000_000)
            whole = _fromtimestamp(micros // 1_000_000)
        except (OSError, OverflowError, ValueError):
            return BeyondPython(micros, self.name, self.column)
        return whole.replace(microsecond=micros % 1_000_000)

    def encode(self, values: Sequence[Any]) -> pa.Array:
        # Asked again: a function may have set another zone.
        if self.naive is not None and _is_in_utc() and all(is_naive(v, self.naive) for v in values):
            return pa.array(values, self.arrow)
        return pa.array([self.micros(v) for v in values], pa.int64()).cast(self.arrow)

    def micros(self, value: Any) -> int | None:
        """Microseconds since the epoch."""
        if value is None:
            return None
        moment = value
        if type(value) is not datetime.datetime:
            if type(value) is BeyondPython and value.kind == self.name:
                number: int = value.number
                return number
            moment = of_python(value)
            if moment is None:
                return None
            if not isinstance(moment, datetime.datetime) or has_nanoseconds(moment):
                raise Misfit(value, self.name)
        try:
            moment = _of_python(moment)
            if moment.tzinfo is None:
                seconds = moment.timestamp()
                if -_EXACT_SECONDS < seconds < _EXACT_SECONDS:
                    return math.floor(seconds) * 1_000_000 + moment.microsecond
            seconds = int(instant(moment)[0])
        # To pandas a year beyond those of Python is not implemented.
        except (NotImplementedError, OverflowError, ValueError):
            raise Misfit(value, self.name) from None
        return seconds * 1_000_000 + moment.microsecond
