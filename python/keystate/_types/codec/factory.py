"""The codec of a type."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal

import pyarrow as pa
from pyspark.sql import types as T

from keystate._types.codec.base import PLAIN, Codec, Shape
from keystate._types.codec.nested import ArrayCodec, MapCodec
from keystate._types.codec.not_given import TYPE as NOT_GIVEN
from keystate._types.codec.not_given import NotGivenCodec
from keystate._types.codec.numeric import DecimalCodec, FloatCodec, IntegerCodec
from keystate._types.codec.structs import StructCodec
from keystate._types.codec.text import BinaryCodec, StringCodec
from keystate._types.codec.times import DateCodec, IntervalCodec, NaiveCodec, TimestampCodec

_SIMPLE: dict[type[T.DataType], Callable[[T.DataType], Codec]] = {
    T.BooleanType: lambda t: Codec(t, (bool,)),
    T.ByteType: lambda t: IntegerCodec(t, (int,), "b", 1),
    T.ShortType: lambda t: IntegerCodec(t, (int,), "h", 2),
    T.IntegerType: lambda t: IntegerCodec(t, (int,), "i", 4),
    T.LongType: lambda t: IntegerCodec(t, (int,), "q", 8),
    T.FloatType: lambda t: FloatCodec(t, (float,), "f", 4),
    T.DoubleType: lambda t: FloatCodec(t, (float,), "d", 8),
    T.DecimalType: lambda t: DecimalCodec(t, (Decimal,)),
    T.StringType: lambda t: StringCodec(t, (str,)),
    T.BinaryType: lambda t: BinaryCodec(t, (bytes,)),
    T.DateType: lambda t: DateCodec(t, (datetime.date,), pa.int32()),
    T.TimestampType: lambda t: TimestampCodec(t, (datetime.datetime,)),
    T.TimestampNTZType: lambda t: NaiveCodec(t, (datetime.datetime,), pa.int64()),
    T.DayTimeIntervalType: lambda t: IntervalCodec(t, (datetime.timedelta,), pa.int64()),
    T.TimeType: lambda t: NaiveCodec(t, (datetime.time,), pa.int64()),
    T.NullType: lambda t: Codec(t, ()),
}


def codec(data_type: T.DataType, shape: Shape | None = None) -> Codec:
    """The codec of a Spark type.

    Args:
        data_type: any type that has a Python value; not variant, calendar and year-month intervals,
            geometry and geography.
        shape: where values are objects of the user's classes.

    Raises:
        TypeError: the type is not supported.
    """
    shape = shape or PLAIN
    if isinstance(data_type, T.StructType):
        return struct_codec(data_type, shape)
    if isinstance(data_type, T.ArrayType):
        return ArrayCodec(data_type, shape, codec(data_type.elementType, shape.part(0)))
    if isinstance(data_type, T.MapType):
        key = codec(data_type.keyType, shape.part(0))
        return MapCodec(data_type, key, codec(data_type.valueType, shape.part(1)))
    for kind, make in _SIMPLE.items():
        if type(data_type) is kind:
            return make(data_type)
    raise TypeError(f"type {data_type.simpleString()} is not supported")


def struct_codec(data_type: T.StructType, shape: Shape = PLAIN) -> StructCodec:
    """The codec of a struct, or of rows."""
    fields = [
        NotGivenCodec(field.name, field.metadata[NOT_GIVEN])
        if NOT_GIVEN in field.metadata
        else codec(field.dataType, shape.part(i))
        for i, field in enumerate(data_type.fields)
    ]
    return StructCodec(data_type, shape, fields)
