"""The three orders of a sorted map's keys, by one definition: their bytes in docs/file-format.md.

It is written down here once more, from that page and not from Keystate's code, so that workers,
harness, both backends and functions in Scala can each be compared with it. A map's value is its
key's place in the order: whoever lists the values sees at once whether the order is right.
"""

from __future__ import annotations

import math
import random
import struct
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

from keystate import BYTEWISE, DESCENDING, NATURAL, KeyOrder
from keystate._types.ddl import parse_ddl
from pyspark.sql import types as T

ORDERS = (NATURAL, DESCENDING, BYTEWISE)

#: Of every atomic type; then such in which others are, or may be null.
TYPES = (
    "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "decimal(9,2)",
    "decimal(30,4)", "string", "binary", "date", "timestamp", "timestamp_ntz", "time(6)",
    "interval day to second", "array<timestamp>", "array<string>", "struct<a: binary, b: double>",
    "struct<a: date, b: struct<c: interval day to second, d: string>, e: array<decimal(9,2)>>",
)  # fmt: skip

_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)
_SIZES = {T.ByteType: 1, T.ShortType: 2, T.IntegerType: 4, T.LongType: 8}


def ranked(ddl: str, order: KeyOrder, keys: list[Any]) -> list[Any]:
    """The keys in this order, of equal ones the first."""
    data_type = parse_ddl(ddl)
    by_bytes: dict[bytes, Any] = {}
    for key in keys:
        by_bytes.setdefault(key_bytes(key, data_type, order), key)
    return [by_bytes[stored] for stored in sorted(by_bytes)]


def key_bytes(key: Any, data_type: T.DataType, order: KeyOrder) -> bytes:
    """What is stored of a key."""
    stored = _encoded(key, data_type, order is not BYTEWISE, order is not DESCENDING)
    return bytes(255 - byte for byte in stored) if order is DESCENDING else stored


def _encoded(value: Any, data_type: T.DataType, flips: bool, whole: bool) -> bytes:
    if isinstance(data_type, T.BooleanType):
        return bytes([value])
    if isinstance(data_type, (T.FloatType, T.DoubleType)):
        return _float_bytes(value, "f" if isinstance(data_type, T.FloatType) else "d", flips)
    if isinstance(data_type, (T.StringType, T.BinaryType)):
        plain = value.encode() if isinstance(value, str) else value
        return plain if whole else plain.replace(b"\0", b"\0\xff") + b"\0\x01"
    if isinstance(data_type, T.StructType):
        parts = zip(value, data_type.fields)
        return b"".join(
            b"\0" if part is None else b"\x01" + _encoded(part, field.dataType, flips, False)
            for part, field in parts
        )
    if isinstance(data_type, T.ArrayType):
        element = data_type.elementType
        return b"".join(
            b"\x01" if part is None else b"\x02" + _encoded(part, element, flips, False)
            for part in value
        ) + b"\0"  # fmt: skip
    size, number = _stored_integer(value, data_type)
    flipped = 1 << (8 * size - 1) if flips else 0
    return ((number % (1 << 8 * size)) ^ flipped).to_bytes(size, "big")


def _stored_integer(value: Any, data_type: T.DataType) -> tuple[int, int]:
    """How many bytes a number or a time has, and the integer in them."""
    if isinstance(data_type, T.DecimalType):
        return 8 if data_type.precision <= 18 else 16, int(value.scaleb(data_type.scale))
    if isinstance(data_type, T.DateType):
        return 4, (value - _EPOCH.date()).days
    if isinstance(data_type, T.TimestampType):
        instant = value.astimezone(timezone.utc).replace(tzinfo=None)
        return 8, (instant - _EPOCH) // _MICROSECOND
    if isinstance(data_type, T.TimestampNTZType):
        return 8, (value - _EPOCH) // _MICROSECOND
    if isinstance(data_type, T.TimeType):
        return 8, (datetime.combine(_EPOCH, value) - _EPOCH) // _MICROSECOND * 1000
    if isinstance(data_type, T.DayTimeIntervalType):
        return 8, value // _MICROSECOND
    return _SIZES[type(data_type)], value


def _float_bytes(value: float, form: str, flips: bool) -> bytes:
    value = math.nan if value != value else value + 0.0
    stored = struct.pack(f">{form}", value)
    if not flips:
        return stored
    if stored[0] < 0x80:
        return bytes([stored[0] | 0x80]) + stored[1:]
    return bytes(255 - byte for byte in stored)


def random_keys(ddl: str, count: int, rng: random.Random) -> list[Any]:
    """Keys of a type, some of them equal."""
    make = _maker(parse_ddl(ddl), rng)
    return [make() for _ in range(count)]


def _maker(data_type: T.DataType, rng: random.Random) -> Callable[[], Any]:
    if isinstance(data_type, T.StructType):
        fields = [_nullable(_maker(field.dataType, rng), rng) for field in data_type.fields]
        return lambda: tuple(field() for field in fields)
    if isinstance(data_type, T.ArrayType):
        element = _nullable(_maker(data_type.elementType, rng), rng)
        return lambda: tuple(element() for _ in range(rng.randrange(4)))
    if isinstance(data_type, T.DecimalType):
        digits, scale = data_type.precision, data_type.scale
        return lambda: Decimal(_integer(rng, 10**digits)).scaleb(-scale)
    if type(data_type) in _SIZES:
        bound = 1 << (8 * _SIZES[type(data_type)] - 1)
        return lambda: _integer(rng, bound)
    return _OTHERS[type(data_type)](rng)


def _nullable(make: Callable[[], Any], rng: random.Random) -> Callable[[], Any]:
    return lambda: None if rng.random() < 0.2 else make()


def _integer(rng: random.Random, bound: int) -> int:
    """An integer of any length, on either side of zero; often near it."""
    number = rng.randrange(bound) >> rng.randrange(bound.bit_length())
    return -number if rng.random() < 0.5 else number


def _moment(rng: random.Random) -> timedelta:
    """Within three centuries of the epoch, and often close to it."""
    return timedelta(microseconds=_integer(rng, 10**16))


def _float(rng: random.Random, form: str) -> float:
    size = struct.calcsize(form)
    edges = (0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan)
    value: float = struct.unpack(form, rng.randbytes(size))[0]
    return rng.choice((*edges, value, value, value))


# Code points on both sides of the surrogates, which UTF-16 would sort otherwise.
_ALPHABET = ("\0", "\x01", "A", "a", "é", "€", "\ud7ff", "\ue000", "\uffff", "😀", "\U0010ffff")

_OTHERS: dict[type[T.DataType], Callable[[random.Random], Callable[[], Any]]] = {
    T.BooleanType: lambda rng: lambda: rng.random() < 0.5,
    T.FloatType: lambda rng: lambda: _float(rng, "f"),
    T.DoubleType: lambda rng: lambda: _float(rng, "d"),
    T.StringType: lambda rng: lambda: "".join(rng.choices(_ALPHABET, k=rng.randrange(5))),
    T.BinaryType: lambda rng: lambda: bytes(rng.choices(b"\0\x01\x7f\x80\xff", k=rng.randrange(5))),
    T.DateType: lambda rng: lambda: date(1970, 1, 1) + timedelta(_integer(rng, 700_000)),
    T.TimestampType: lambda rng: lambda: _local(_EPOCH + _moment(rng)),
    T.TimestampNTZType: lambda rng: lambda: _EPOCH + _moment(rng),
    T.TimeType: lambda rng: (
        lambda: time(
            rng.randrange(24), rng.randrange(60), rng.choice((0, 59)), rng.randrange(1_000_000)
        )
    ),
    T.DayTimeIntervalType: lambda rng: lambda: _moment(rng),
}


def _local(utc: datetime) -> datetime:
    """The naive local time of an instant, as PySpark's rows have it."""
    return utc.replace(tzinfo=timezone.utc).astimezone().replace(tzinfo=None)
