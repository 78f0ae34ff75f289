"""Values of Spark SQL types as JSON has them, and back."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

from pyspark.sql import Row
from pyspark.sql import types as T

from keystate._types.codec.beyond import BeyondPython
from keystate.errors import StateTypeError

# The types whose JSON is not what Python's parser makes of it.
_FROM_TEXT: dict[type[T.DataType], Callable[[str], Any]] = {
    T.BinaryType: lambda text: base64.b64decode(text, validate=True),
    T.DateType: date.fromisoformat,
    T.TimestampType: datetime.fromisoformat,
    T.TimestampNTZType: datetime.fromisoformat,
    T.TimeType: time.fromisoformat,
}


def to_json(value: Any) -> Any:
    """A value as JSON: a struct and a map as an object, binary in Base64, times in ISO 8601.

    Decimals are strings, an interval is its seconds, and so are NaN and the infinities strings. A
    map whose keys are no strings is a list of pairs.
    """
    if isinstance(value, Row):
        return {name: to_json(part) for name, part in zip(value.__fields__, value)}
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: to_json(part) for key, part in value.items()}
        return [[to_json(key), to_json(part)] for key, part in value.items()]
    if isinstance(value, (list, tuple)):
        return [to_json(part) for part in value]
    if isinstance(value, (bytes, bytearray)):
        return base64.b64encode(value).decode()
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    if isinstance(value, BeyondPython):
        return value.text()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal) or (isinstance(value, float) and not math.isfinite(value)):
        return str(value)
    return value


def from_json(value: Any, data_type: T.DataType) -> Any:
    """A value of a type from its JSON, as :func:`to_json` writes it.

    Raises:
        StateTypeError: it is not one of that type.
    """
    try:
        return _part(value, data_type)
    except ValueError as e:
        raise StateTypeError(str(e)) from None


def _part(value: Any, data_type: T.DataType) -> Any:
    """A value, or a part of one; the error names the innermost part too."""
    try:
        return _converted(value, data_type)
    except (ValueError, ArithmeticError, TypeError, LookupError) as e:
        raise ValueError(f"{value!r} is no {data_type.simpleString()}: {e}") from None


def _converted(value: Any, data_type: T.DataType) -> Any:
    if value is None:
        return None
    if isinstance(data_type, T.StructType):
        parts = [value[name] for name in data_type.names] if isinstance(value, dict) else value
        if len(parts) != len(data_type):
            raise ValueError(f"it has {len(parts)} parts")
        return tuple(_part(part, field.dataType) for part, field in zip(parts, data_type))
    if isinstance(data_type, T.ArrayType):
        return [_part(part, data_type.elementType) for part in value]
    if isinstance(data_type, T.DecimalType):
        return Decimal(str(value))
    if isinstance(data_type, T.DayTimeIntervalType):
        return timedelta(seconds=value)
    if isinstance(data_type, (T.FloatType, T.DoubleType)):
        return float(value)
    convert = _FROM_TEXT.get(type(data_type))
    return value if convert is None else convert(value)
