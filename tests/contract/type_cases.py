"""Values of every Spark SQL type, in Python and as SQL literals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

from pyspark.sql import Row


@dataclass(frozen=True)
class Case:
    """A type with values of it. `is_key` says whether it can be a key."""

    ddl: str
    values: list[Any]
    sql: list[str]
    is_key: bool = True


def floats(ddl: str) -> Case:
    literals = ["'NaN'", "'-0.0'", "'-Infinity'", "'0.15625'"]
    values = [math.nan, -0.0, -math.inf, 0.15625]
    return Case(ddl, values, [f"cast({literal} as {ddl})" for literal in literals])


# Python's timestamps are naive local ones, whatever the zone of the machine.
TIMESTAMPS = [datetime(1905, 6, 30, 12, 0, 0, 1), datetime(2024, 10, 27, 1, 30, 0, 999_999)]
TIMESTAMPS_UTC = [timestamp.astimezone(timezone.utc) for timestamp in TIMESTAMPS]
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

CASES = {
    "boolean": Case("boolean", [True, False], ["true", "false"]),
    "byte": Case("tinyint", [-(2**7), 2**7 - 1], ["-128Y", "127Y"]),
    "short": Case("smallint", [-(2**15), 2**15 - 1], ["-32768S", "32767S"]),
    "int": Case("int", [-(2**31), 2**31 - 1], ["int(-2147483648)", "2147483647"]),
    "long": Case("long", [-(2**63), 2**63 - 1], ["bigint(-9223372036854775808)", "~(1L << 63)"]),
    "float": floats("float"),
    "double": floats("double"),
    "decimal": Case(
        "decimal(10,2)",
        [Decimal("-12345678.90"), Decimal("0.01")],
        ["cast(-12345678.9 as decimal(10,2))", "cast(0.01 as decimal(10,2))"],
    ),
    "wide_decimal": Case(
        "decimal(38,18)",
        [Decimal("-99999999999999999999.999999999999999999"), Decimal("0.000000000000000001")],
        [
            "cast(-99999999999999999999.999999999999999999 as decimal(38,18))",
            "cast(0.000000000000000001 as decimal(38,18))",
        ],
    ),
    "string": Case("string", ["", "é😀", "a\0b"], ["''", "'é😀'", "'a\\0b'"]),
    "binary": Case("binary", [b"", b"\0\xff\0"], ["X''", "X'00FF00'"]),
    "date": Case(
        "date", [date(1969, 12, 31), date(9999, 12, 31)], ["date'1969-12-31'", "date'9999-12-31'"]
    ),
    "timestamp": Case(
        "timestamp",
        TIMESTAMPS,
        [f"timestamp_micros({(t - EPOCH) // timedelta(microseconds=1)})" for t in TIMESTAMPS_UTC],
    ),
    "timestamp_ntz": Case(
        "timestamp_ntz",
        [datetime(1, 1, 1), datetime(2024, 3, 31, 2, 30)],
        ["timestamp_ntz'0001-01-01 00:00:00'", "timestamp_ntz'2024-03-31 02:30:00'"],
    ),
    "interval": Case(
        "interval day to second",
        [timedelta(days=-1, microseconds=1), timedelta(days=100_000)],
        [
            "interval '-0 23:59:59.999999' day to second",
            "interval '100000 00:00:00' day to second",
        ],
    ),
    "time": Case(
        "time(6)",
        [time(0), time(23, 59, 59, 999_999)],
        ["time'00:00:00'", "time'23:59:59.999999'"],
    ),
    "array": Case(
        "array<array<int>>",
        [[], [[1, None], None, []]],
        ["cast(array() as array<array<int>>)", "array(array(1, null), null, array())"],
    ),
    "floats": Case(
        "array<float>",
        [[None], [0.5, None]],
        ["array(cast(null as float))", "array(0.5F, null)"],
    ),
    "doubles": Case(
        "array<struct<a: array<double>>>",
        [[], [Row(a=[None, 0.5]), None, Row(a=None)]],
        [
            "cast(array() as array<struct<a: array<double>>>)",
            "array(named_struct('a', array(null, 0.5D)), null,"
            " named_struct('a', cast(null as array<double>)))",
        ],
    ),
    "map": Case(
        "map<string, array<string>>",
        [{}, {"a": ["x", None], "b": None}],
        [
            "cast(map() as map<string, array<string>>)",
            "map('a', array('x', null), 'b', cast(null as array<string>))",
        ],
        is_key=False,
    ),
    "map_of_arrays": Case(
        "map<array<int>, double>",
        [{}, {(1, None): 0.5}],
        ["cast(map() as map<array<int>, double>)", "map(array(1, null), 0.5D)"],
        is_key=False,
    ),
    "struct": Case(
        "struct<a: int, b: struct<c: string, d: array<date>>>",
        [Row(a=None, b=None), Row(a=1, b=Row(c=None, d=[date(1970, 1, 1), None]))],
        [
            "named_struct('a', int(null), 'b', cast(null as struct<c: string, d: array<date>>))",
            "named_struct('a', 1, 'b',"
            " named_struct('c', string(null), 'd', array(date'1970-01-01', null)))",
        ],
    ),
    "structs": Case(
        "array<struct<a: int>>",
        [[None, Row(a=None), Row(a=1)]],
        ["array(null, named_struct('a', int(null)), named_struct('a', 1))"],
    ),
}


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal as stored ones: same type, same zero, NaN equal to NaN."""
    if isinstance(a, float) and isinstance(b, float):
        return (a != a and b != b) or (a == b and math.copysign(1, a) == math.copysign(1, b))
    if isinstance(a, Row) and isinstance(b, Row):
        return a.asDict().keys() == b.asDict().keys() and same(list(a), list(b))
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return bool(a == b)


def as_key(value: Any) -> Any:
    """What a value is as a key: there is one zero, and an array is a tuple."""
    if isinstance(value, float):
        return value + 0.0
    if isinstance(value, Row):
        return Row(**{name: as_key(part) for name, part in value.asDict().items()})
    if isinstance(value, (list, tuple)):
        return tuple(map(as_key, value))
    return value
