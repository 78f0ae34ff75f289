"""Arrow columns and Python values, both ways, without Spark."""

from __future__ import annotations

import enum
import math
import re
import warnings
from collections import namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Context, Decimal
from time import tzset
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keystate._types.codec import NOT_GIVEN, Misfit, PackedRows, Shape, codec, struct_codec
from keystate._types.codec.beyond import BeyondPython
from keystate._types.codec.evolution import read_as
from keystate._types.codec.times import TimestampCodec
from pyspark.sql import Row
from pyspark.sql import types as T

from tests.contract.type_cases import same

WIDE = Context(prec=60)


def integers(bits: int) -> st.SearchStrategy[int]:
    return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    bound = 10**precision - 1
    return st.integers(-bound, bound).map(lambda i: Decimal(i).scaleb(-scale, WIDE))


SCALARS: list[tuple[T.DataType, st.SearchStrategy[Any]]] = [
    (T.BooleanType(), st.booleans()),
    (T.ByteType(), integers(8)),
    (T.ShortType(), integers(16)),
    (T.IntegerType(), integers(32)),
    (T.LongType(), integers(64)),
    (T.FloatType(), st.floats(width=32)),
    (T.DoubleType(), st.floats()),
    (T.DecimalType(10, 2), decimals(10, 2)),
    (T.DecimalType(38, 18), decimals(38, 18)),
    (T.StringType(), st.text()),
    (T.BinaryType(), st.binary()),
    (T.DateType(), st.dates()),
    # A day off either end, so that the local time zone keeps the years between 1 and 9999.
    (T.TimestampType(), st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))),
    (T.TimestampNTZType(), st.datetimes()),
    (T.DayTimeIntervalType(), st.timedeltas(timedelta(days=-(10**8)), timedelta(days=10**8))),
    (T.TimeType(), st.times()),
]


@st.composite
def typed_columns(draw: Any) -> tuple[T.DataType, list[Any]]:
    """A random type and some values of it, nulls among them."""
    data_type, values = draw(types)
    return data_type, draw(st.lists(st.none() | values, max_size=8))


def arrays(inner: tuple[T.DataType, Any]) -> tuple[T.DataType, Any]:
    element, values = inner
    return T.ArrayType(element), st.lists(st.none() | values, max_size=4)


def maps(inner: tuple[T.DataType, Any]) -> tuple[T.DataType, Any]:
    value, values = inner
    return T.MapType(T.StringType(), value), st.dictionaries(
        st.text(max_size=3), st.none() | values, max_size=4
    )


def structs(inner: list[tuple[T.DataType, Any]]) -> tuple[T.DataType, Any]:
    names = [f"f{i}" for i in range(len(inner))]
    fields = [T.StructField(name, kind) for name, (kind, _) in zip(names, inner)]
    values = st.tuples(*(st.none() | each for _, each in inner))
    return T.StructType(fields), values.map(lambda row: Row(**dict(zip(names, row))))


types = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: (
        inner.map(arrays) | inner.map(maps) | st.lists(inner, min_size=1, max_size=3).map(structs)
    ),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(typed_columns(), st.integers(0, 3))
@pytest.mark.long
def test_round_trip(column: tuple[T.DataType, list[Any]], offset: int) -> None:
    data_type, values = column
    array = codec(data_type).encode(values)
    array.validate(full=True)
    assert array.type == codec(data_type).arrow
    assert same(codec(data_type).decode(array), values)
    # What comes from the JVM is a slice of a longer array.
    assert same(codec(data_type).decode(array.slice(offset)), values[offset:])


class Text(str):
    """A subclass."""


class Color(str, enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


AWARE = datetime(2024, 7, 1, 12, tzinfo=timezone(timedelta(hours=5)))
TWICE = datetime(2024, 11, 3, 1, 30, fold=1)
SKIPPED = datetime(2024, 3, 10, 2, 30)
SCALARS_OF_ALL_KINDS: list[Any] = [
    *(True, 0, 1, 2**7, 2**31, 2**63, 0.1, -0.0, 1e300, math.inf, "", "x", b"x", bytearray(b"y")),
    *(memoryview(b"z"), Text("t"), Color.RED, Level.LOW, np.int64(3), np.int8(4), np.float32(0.1)),
    *(np.float64(0.1), np.bool_(True), np.str_("n"), Decimal("1"), Decimal("1.230"), Decimal("-0")),
    *(Decimal("1E+2"), Decimal("0.001"), Decimal("123456789"), Decimal("NaN"), AWARE, TWICE),
    *(SKIPPED, TWICE.replace(fold=0), date(2024, 1, 1), pd.Timestamp("2024-07-01 12:00:00.123456")),
    *(pd.Timedelta(3, "s"), timedelta(1), time(1, 2, 3, 4), time(1, 2, fold=1), None),
    *(1e39, -1e300, -math.inf, pd.NaT, pd.NA, np.datetime64("NaT"), np.datetime64("2024-01-01")),
    *(np.datetime64("2024-07-01T12:00"), np.datetime64("2024-07-01T12:00:00.123456000")),
    *(np.datetime64(1, "ns"), np.datetime64("12000-01-01", "us"), np.timedelta64(3, "s")),
    *(np.timedelta64(1, "ns"), np.timedelta64(1, "Y"), np.bytes_(b"b"), np.bool_(False)),
    *(pd.Timestamp(1, unit="ns"), pd.Timedelta(1, "ns"), pd.Timestamp(1, unit="ns", tz="UTC")),
    *(BeyondPython(3 * 10**17, "timestamp", ""), BeyondPython(3_000_000, "date", "")),
    BeyondPython(-(10**17), "timestamp_ntz", ""),
]
MESSY = st.recursive(
    st.sampled_from(SCALARS_OF_ALL_KINDS),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.sampled_from(["f0", "f1", "x"]), inner, max_size=3)
    ),
    max_leaves=6,
)
PLAIN_TYPES = st.recursive(
    st.sampled_from([kind for kind, _ in SCALARS]),
    lambda inner: (
        inner.map(T.ArrayType)
        | inner.map(lambda value: T.MapType(T.StringType(), value))
        | st.lists(inner, min_size=1, max_size=2).map(
            lambda kinds: T.StructType(
                [T.StructField(f"f{i}", kind) for i, kind in enumerate(kinds)]
            )
        )
    ),
    max_leaves=4,
)


def read_at_once(data_type: T.DataType, value: Any, shape: Shape | None = None) -> None:
    """What is read at once is what a stored value gives, or both are refused."""
    of = codec(data_type, shape)
    try:
        stored = of.decode(of.encode([value]))[0]
    except Misfit:
        with pytest.raises(Misfit):
            of.as_read(value)
    else:
        assert same(of.as_read(value), stored), (data_type, value)
        assert same(of.all_as_read([value, None, value]), [stored, None, stored])
        assert same(of.as_read(stored), stored)


@pytest.mark.usefixtures("new_york")
@pytest.mark.parametrize("data_type", [kind for kind, _ in SCALARS], ids=str)
def test_scalars_are_read_at_once_as_later(data_type: T.DataType) -> None:
    for value in SCALARS_OF_ALL_KINDS:
        for wrapped, kind in [
            (value, data_type),
            ([value], T.ArrayType(data_type)),
            ((1, value), ddl(a=LONG, b=data_type)),
            ({"a": 1, "b": value}, ddl(a=T.DoubleType(), b=data_type)),
            ({"k": value}, T.MapType(STRING, data_type)),
        ]:
            read_at_once(kind, wrapped)


@pytest.mark.usefixtures("new_york")
@settings(max_examples=500, deadline=None, derandomize=True)
@given(PLAIN_TYPES, MESSY)
def test_values_are_read_at_once_as_later(data_type: T.DataType, value: Any) -> None:
    read_at_once(data_type, value)


@pytest.fixture
def new_york(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield from in_zone("America/New_York", monkeypatch)


def in_zone(zone: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", zone)
    tzset()
    yield
    monkeypatch.undo()
    tzset()


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    yield from in_zone("Europe/Berlin", monkeypatch)


@pytest.mark.usefixtures("berlin")
def test_hour_that_comes_twice() -> None:
    early = datetime(2024, 10, 27, 2, 30)
    assert early.timestamp() != early.replace(fold=1).timestamp()
    late = early.replace(fold=1)
    read = codec(T.TimestampType()).decode(codec(T.TimestampType()).encode([early, late]))
    assert [value.timestamp() for value in read] == [early.timestamp(), late.timestamp()]


@pytest.mark.parametrize(
    "zone", ["UTC", "Europe/Berlin", "Europe/London", "UTC-5", "UTC+8", "UTC0UTC"]
)
def test_naive_times_are_read_as_written_only_in_utc(
    zone: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where local time is UTC they are taken as they are, and that does not show.

    A zone may be called UTC and be another: its name is whatever TZ says before the offset.
    """
    with_zone = timezone(timedelta(hours=5))
    chance = np.random.default_rng(1)
    some = [
        *(
            datetime(1970, 1, 1) + timedelta(microseconds=int(m))
            for m in chance.integers(2**55, size=200)
        ),
        datetime(2024, 10, 27, 2, 30),
        datetime(2024, 3, 31, 2, 30),
        datetime(1969, 7, 1, 0, 30),
        datetime(1, 1, 3),
        datetime(9999, 12, 29, 1, 2, 3, 999_999),
    ]
    values = [
        None,
        *some,
        *(v.replace(fold=1) for v in some),
        *(v.replace(tzinfo=with_zone) for v in some),
    ]
    for _ in in_zone(zone, monkeypatch):
        usual, by_micros = codec(T.TimestampType()), TimestampCodec(T.TimestampType(), (datetime,))
        by_micros.naive = None
        assert isinstance(usual, TimestampCodec)
        assert (usual.naive is not None) == (zone == "UTC")
        row = struct_codec(T.StructType([T.StructField("t", T.TimestampType())]))
        for value in [*values, *map(usual.key, values)]:
            read = by_micros.as_read(value)
            for found in (usual.as_read(value), row.as_read((value,))[0]):
                assert (type(found), repr(found)) == (type(read), repr(read))
            assert usual.encode([value]) == by_micros.encode([value])
        assert usual.encode(some) == by_micros.encode(some)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Africa/Monrovia"])
def test_timestamps_are_exact(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the microsecond, near 1970 and far from it, and where clocks change."""
    chance = np.random.default_rng(1)
    around = [0, 2**32 * 10**6, -(2**32) * 10**6, 1_729_994_400_000_000, 1_711_846_800_000_000]
    near = [t + d for t in around for d in range(-3, 4)]
    far = [int(t) for span in (2**51, 2**54) for t in chance.integers(-span, span, 1000)]
    micros = [*near, *far, *(t // 10**6 * 10**6 + 999_999 for t in far)]
    exact = [(t // 10**6, t % 10**6) for t in micros]
    for _ in in_zone(zone, monkeypatch):
        timestamps = codec(T.TimestampType())
        array = pa.array(micros, pa.int64()).cast(timestamps.arrow)
        decoded = timestamps.decode(array)
        expected = [datetime.fromtimestamp(s).replace(microsecond=us) for s, us in exact]
        assert [(d, d.fold) for d in decoded] == [(d, d.fold) for d in expected]
        assert timestamps.encode(decoded).equals(array)
        assert [timestamps.as_read(d) for d in expected] == expected


def ddl(**fields: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])


INT, LONG, STRING = T.IntegerType(), T.LongType(), T.StringType()
PAIR = ddl(a=INT, b=STRING)
UTC = timezone.utc

MISFITS: list[tuple[T.DataType, Any, str]] = [
    (T.BooleanType(), 1, "expected boolean, got int 1"),
    (INT, True, "expected int, got bool True"),
    (INT, 2**31, "expected int, got int 2147483648"),
    (T.ByteType(), -129, "expected tinyint, got int -129"),
    (LONG, 2**63, "expected bigint, got int 9223372036854775808"),
    (LONG, 1.0, "expected bigint, got float 1.0"),
    (LONG, "1", "expected bigint, got str '1'"),
    (LONG, Decimal(1), "expected bigint, got Decimal Decimal('1')"),
    (LONG, np.array([1, 2]), "expected bigint, got ndarray array([1, 2])"),
    (T.DoubleType(), np.array([1.0, 2.0]), "expected double, got ndarray array([1., 2.])"),
    (T.DoubleType(), True, "expected double, got bool True"),
    (T.DoubleType(), "1", "expected double, got str '1'"),
    (T.DoubleType(), Decimal(1), "expected double, got Decimal Decimal('1')"),
    (T.DoubleType(), 10**400, "expected double, got int 1000"),
    (STRING, 1, "expected string, got int 1"),
    (STRING, b"x", "expected string, got bytes b'x'"),
    (STRING, "\ud800", "expected string, got str"),
    (T.BinaryType(), "x", "expected binary, got str 'x'"),
    (T.DecimalType(10, 2), Decimal("0.001"), "expected decimal(10,2), got Decimal"),
    (T.DecimalType(10, 2), Decimal("NaN"), "expected decimal(10,2), got Decimal"),
    (T.DecimalType(10, 2), 10**8, "expected decimal(10,2), got "),
    (T.DecimalType(10, 2), 0.5, "expected decimal(10,2), got float 0.5"),
    (T.DateType(), datetime(2024, 1, 1), "expected date, got datetime"),
    (T.DateType(), "2024-01-01", "expected date, got str"),
    (T.TimestampType(), date(2024, 1, 1), "expected timestamp, got date"),
    (T.TimestampType(), 0, "expected timestamp, got int 0"),
    (T.TimestampNTZType(), datetime(2024, 1, 1, tzinfo=UTC), "(without a time zone), got datetime"),
    (T.TimeType(), time(1, tzinfo=UTC), "(without a time zone), got time"),
    (T.DayTimeIntervalType(), timedelta.max, "expected interval day to second, got timedelta"),
    (T.ArrayType(INT), "12", "expected array<int>, got str '12'"),
    (T.ArrayType(INT), {1}, "expected array<int>, got set {1}"),
    (T.ArrayType(INT), [1, "x"], "expected int at an element of the array, got str 'x'"),
    (T.ArrayType(INT, False), [None], "expected int, not null, at an element of the array"),
    (T.MapType(STRING, INT), {None: 1}, "expected string at a key of the map, got NoneType None"),
    (T.MapType(STRING, INT), {1: 1}, "expected string at a key of the map, got int 1"),
    (T.MapType(STRING, INT), {"a": "b"}, "expected int at a value of the map, got str 'b'"),
    (T.MapType(STRING, INT, False), {"a": None}, "expected int, not null, at a value of the map"),
    (T.MapType(STRING, INT), [("a", 1), ("a", 2)], "in which each key is once, got list"),
    (T.MapType(STRING, INT), [("a", 1), "b"], "expected map<string,int>, got list"),
    (T.MapType(T.ArrayType(INT), INT), [([1], 1)], "expected map<array<int>,int>, got list"),
    (T.FloatType(), 1e300, "expected float, got float 1e+300"),
    (T.FloatType(), -3.5e38, "expected float, got float -3.5e+38"),
    (T.ArrayType(T.FloatType()), np.array([1e39]), "an element of the array, got float 1e+39"),
    (LONG, np.datetime64("2024-01-01T00:00"), "expected bigint, got datetime64"),
    (
        T.ArrayType(LONG),
        np.array(["2024-01-01"], "M8[ns]"),
        "an element of the array, got datetime",
    ),
    (LONG, np.bool_(True), "expected bigint, got bool"),
    (T.TimestampType(), np.datetime64("2024-01-01"), "expected timestamp, got datetime64"),
    (T.TimestampType(), pd.Timestamp(1, unit="ns"), "expected timestamp, got Timestamp"),
    (T.TimestampNTZType(), np.datetime64(1, "ns"), "expected timestamp_ntz, got datetime64"),
    (T.DateType(), np.datetime64("2024-01-01T00:00"), "expected date, got datetime64"),
    (T.DayTimeIntervalType(), pd.Timedelta(1, "ns"), "expected interval day to second, got Timed"),
    (T.ArrayType(INT, False), [pd.NA], "expected int, not null, at an element of the array"),
    (T.MapType(STRING, INT, False), {"a": pd.NA}, "expected int, not null, at a value of the map"),
    (T.MapType(STRING, INT), {pd.NA: 1}, "expected string at a key of the map, got NoneType None"),
    (PAIR, Row(a=1, c="x"), "which has no field 'c', got Row"),
    (PAIR, Row(b="x"), "of which field 'a' is missing, got Row"),
    (PAIR, Row(a=1, b="x", c=2), "which has no field 'c', got Row"),
    (PAIR, namedtuple("Misspelt", "b A")("x", 1), "which has no field 'A', got Misspelt"),
    (PAIR, T._create_row(["a", "a"], [1, 2]), "in which field 'a' is once, got Row"),
    (T.ArrayType(PAIR), [Row(a=1, c="x")], "which has no field 'c' at an element of the array"),
    (PAIR, (1,), "expected struct<a:int,b:string> (2 fields), got tuple (1,)"),
    (PAIR, (1, "x", None), "(2 fields), got tuple"),
    (PAIR, ("x", 1), "expected int at field 'a', got str 'x'"),
    (PAIR, {"a": 1, "c": 2}, "which has no field 'c', got dict"),
    (PAIR, {1: 2}, "which has no field 1, got dict"),
    (PAIR, "xy", "expected struct<a:int,b:string>, got str 'xy'"),
    (PAIR, 1, "expected struct<a:int,b:string>, got int 1"),
    (
        T.StructType([T.StructField("a", INT, nullable=False)]),
        {},
        "expected int, not null, at field 'a', got NoneType None",
    ),
    (
        T.StructType([T.StructField("a", INT, nullable=False)]),
        (pd.NA,),
        "expected int, not null, at field 'a', got NoneType None",
    ),
    (
        ddl(p=T.ArrayType(PAIR)),
        ([(1, "x"), (2, 3)],),
        "expected string at field 'p', an element of the array, field 'b', got int 3",
    ),
]


@pytest.mark.parametrize("data_type, value, message", MISFITS, ids=lambda v: str(v)[:40])
def test_misfit(data_type: T.DataType, value: Any, message: str) -> None:
    for values in ([value], [None, value]):
        with pytest.raises(Misfit) as caught:
            codec(data_type).encode(values)
        assert message in " ".join(str(caught.value).split())
        assert str(caught.value).startswith("expected ")


#: Values of NumPy and pandas, and what Python has for them.
FOREIGN: list[tuple[T.DataType, Any, Any]] = [
    (T.BooleanType(), np.bool_(True), True),
    (T.DecimalType(10, 0), np.int64(3), Decimal(3)),
    (T.DateType(), np.datetime64("2024-02-29"), date(2024, 2, 29)),
    (T.TimestampType(), np.datetime64("2024-07-01T12:00"), datetime(2024, 7, 1, 12)),
    (T.TimestampType(), np.datetime64(10**9, "ns"), datetime(1970, 1, 1, 0, 0, 1)),
    (T.TimestampNTZType(), np.datetime64("2024-07-01T12:00"), datetime(2024, 7, 1, 12)),
    (T.DayTimeIntervalType(), np.timedelta64(3, "s"), timedelta(seconds=3)),
    (T.ArrayType(T.DateType()), np.array(["2024-01-01", "NaT"], "M8[D]"), [date(2024, 1, 1), None]),
    (T.MapType(STRING, INT), [("a", 1), ("b", None)], {"a": 1, "b": None}),
    *((kind, pd.NA, None) for kind, _ in SCALARS),
    *((kind, pd.NaT, None) for kind, _ in SCALARS),
    *((kind, pd.NA, None) for kind in (T.ArrayType(INT), T.MapType(STRING, INT), PAIR)),
]


@pytest.mark.usefixtures("new_york")
@pytest.mark.parametrize("data_type, value, expected", FOREIGN, ids=lambda v: str(v)[:40])
def test_values_of_numpy_and_pandas(data_type: T.DataType, value: Any, expected: Any) -> None:
    for wrapped, kind, read in [
        (value, data_type, expected),
        ([value], T.ArrayType(data_type), [expected]),
        ((value,), ddl(a=data_type), (expected,)),
        ({"k": value}, T.MapType(STRING, data_type), {"k": expected}),
    ]:
        of = codec(kind)
        assert of.as_read(wrapped) == of.decode(of.encode([wrapped]))[0] == read


@pytest.mark.usefixtures("new_york")
@pytest.mark.parametrize(
    "kind, number, text",
    [
        (T.TimestampType(), 253_402_318_800_000_000, "+10000-01-01T05:00:00+00:00"),
        (T.TimestampType(), -62_135_596_800_000_001, "0000-12-31T23:59:59.999999+00:00"),
        (T.TimestampType(), 2**63 - 1, "+294247-01-10T04:00:54.775807+00:00"),
        (T.TimestampType(), -(2**63), "-290308-12-21T19:59:05.224192+00:00"),
        (T.TimestampNTZType(), 253_402_300_800_000_000, "+10000-01-01T00:00:00"),
        (T.DateType(), 2_932_897, "+10000-01-01"),
        (T.DateType(), -719_163, "0000-12-31"),
        (T.DateType(), 2**31 - 1, "+5881580-07-11"),
    ],
)
def test_times_that_python_has_not_are_kept_as_they_are(
    kind: T.DataType, number: int, text: str
) -> None:
    width = pa.int32() if isinstance(kind, T.DateType) else pa.int64()
    of = codec(ddl(k=LONG, until=kind, all=T.ArrayType(kind)))
    times = pa.array([number, None, 0], width).cast(codec(kind).arrow)
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), times)
    rows = pa.StructArray.from_arrays([pa.array([1, 2, 3]), times, lists], fields=list(of.arrow))
    first, second, third = of.decode(rows)
    assert second.until is None
    assert third.until.year in (1969, 1970)
    assert text in repr(first)
    assert of.encode([first, second, third]) == rows
    assert of.encode(of.all_as_read([first, second, third])) == rows
    assert hash(first.until) == hash(first.all[0])
    assert first.until == first.all[0] != third.until
    assert codec(kind).key(first.until) == first.until
    for use in (
        lambda time: time.year,
        lambda time: time < datetime.now(),
        lambda time: time - timedelta(1),
        str,
        lambda time: f"{time}",
    ):
        with pytest.raises(ValueError, match=re.escape(f"{text} in column 'until' is before or")):
            use(first.until)
    other = T.TimestampType() if isinstance(kind, T.DateType) else T.DateType()
    for wrong in (other, STRING, LONG):
        with pytest.raises(Misfit):
            codec(wrong).as_read(first.until)


def test_a_column_whose_type_has_no_python_value() -> None:
    absent = T.StructField("v", T.BooleanType(), True, {NOT_GIVEN: "variant"})
    of = struct_codec(T.StructType([T.StructField("k", LONG), absent, T.StructField("s", STRING)]))
    sent = pa.StructArray.from_arrays(
        [pa.array([1]), pa.nulls(1, pa.bool_()), pa.array(["x"])], fields=list(of.arrow)
    )
    (row,) = of.decode(sent)
    packed = PackedRows(struct_codec(ddl(k=LONG, v=T.BooleanType(), s=STRING)))
    assert (row.k, row.s, repr(row.v)) == (1, "x", "<variant>")
    assert of.encode([row]) == of.encode([of.as_read(row)]) == sent
    read = PackedRows(of).read(packed.write((1, None, "x")), 0)
    assert (read.k, read.s, repr(read.v)) == (1, "x", "<variant>")
    uses: list[Callable[[Any], Any]] = [str, bool, list, len, hash, lambda v: v["a"], lambda v: v.a]
    for use in (*uses, lambda v: v == 1, lambda v: v != "x", lambda v: v < 1, lambda v: f"{v}"):
        with pytest.raises(TypeError, match="column 'v' is of type variant, which has no Python"):
            use(row.v)
    with pytest.raises(Misfit, match="expected variant at field 'v'"):
        of.as_read((1, True, "x"))


def test_null_maps_of_an_older_type() -> None:
    old, new = T.ArrayType(INT), T.ArrayType(LONG)
    cases: list[tuple[Callable[[T.DataType], T.DataType], list[Any]]] = [
        (lambda t: T.MapType(STRING, t), [None, {"x": None}, {}, {"x": [1, None], "y": []}]),
        (
            lambda t: T.MapType(STRING, T.MapType(STRING, t)),
            [None, {"x": None}, {"x": {"y": None}}],
        ),
        (lambda t: ddl(m=T.MapType(STRING, t)), [(None,), ({"x": None},), None]),
        (lambda t: T.ArrayType(ddl(m=T.MapType(STRING, t))), [[(None,), ({"x": None},)], None, []]),
    ]
    for kind, values in cases:
        stored = codec(kind(old)).encode([*values, *values])
        for array in (stored, stored.slice(1), stored.slice(1, 2)):
            read = read_as(array, kind(new))
            assert codec(kind(new)).decode(read) == codec(kind(old)).decode(array)


def test_an_integer_is_just_an_int_whatever_index_returns() -> None:
    class Number:
        def __index__(self) -> int:
            return Level.LOW

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        assert type(codec(LONG).as_read(Number())) is int


def test_long_values_are_shortened_in_messages() -> None:
    with pytest.raises(Misfit) as caught:
        codec(LONG).encode(["x" * 10_000])
    assert len(str(caught.value)) < 200


Point = namedtuple("Point", "b a")


@dataclass
class Coordinates:
    b: str
    a: int


@pytest.mark.parametrize(
    "form",
    [(1, "x"), [1, "x"], {"a": 1, "b": "x"}, Row(b="x", a=1), Row(1, "x"), Point("x", 1)],
    ids=lambda form: type(form).__name__,
)
def test_forms_of_a_struct(form: Any) -> None:
    pair = codec(PAIR)
    assert pair.decode(pair.encode([form, None])) == [Row(a=1, b="x"), None]
    assert pair.as_read is not None
    read = pair.as_read(form)
    assert (read.a, read.b) == (1, "x")


def test_missing_fields_are_null() -> None:
    pair = codec(PAIR)
    assert pair.decode(pair.encode([{"b": "x"}, {}])) == [(None, "x"), (None, None)]


def test_shapes_of_nested_classes() -> None:
    nested = ddl(one=PAIR, many=T.ArrayType(PAIR), by=T.MapType(STRING, PAIR))
    shape = Shape(Coordinates)
    swapped = ddl(b=STRING, a=INT)
    data_type = T.StructType(
        [T.StructField("one", swapped), T.StructField("many", T.ArrayType(swapped))]
    )
    here = Coordinates("x", 1)
    both = codec(data_type, Shape(None, (shape, Shape(None, (shape,)))))
    read = both.decode(both.encode([(here, [here, None])]))
    assert read == [(here, [here, None])]
    assert type(read[0].one) is Coordinates
    plain = codec(nested)
    assert plain.as_read is not None
    row = plain.as_read(((1, "x"), [(2, "y"), None], {"k": (3, "z")}))
    assert (row.one.b, row.many[0].b, row.many[1], row.by["k"].b) == ("x", "y", None, "z")


def key_form(data_type: T.DataType, value: Any) -> Any:
    return codec(data_type).key(value)


def test_keys_that_are_equal_to_spark_are_one_key() -> None:
    double, single = T.DoubleType(), T.FloatType()
    nans = {key_form(double, math.nan), key_form(double, float("nan"))}
    assert len(nans) == 1
    assert math.copysign(1, key_form(double, -0.0)) == 1
    assert key_form(single, 0.1) == codec(single).decode(pa.array([0.1], pa.float32()))[0]
    assert key_form(T.BinaryType(), bytearray(b"x")) == b"x"
    assert key_form(T.ArrayType(double), [1.0, [-0.0][0]]) == (1.0, 0.0)
    aware = datetime(2024, 1, 1, tzinfo=UTC)
    assert key_form(T.TimestampType(), aware) == aware.astimezone().replace(tzinfo=None)
    nested = ddl(a=T.ArrayType(INT), b=double)
    key = key_form(nested, {"a": [1], "b": -0.0})
    assert (hash(key), key.a, str(key.b)) == (hash(((1,), 0.0)), (1,), "0.0")


@pytest.mark.parametrize(
    "data_type",
    [T.VariantType(), T.CalendarIntervalType(), T.YearMonthIntervalType(), T.VarcharType(3)],
    ids=str,
)
def test_unsupported(data_type: T.DataType) -> None:
    with pytest.raises(TypeError, match="is not supported"):
        codec(ddl(a=T.ArrayType(data_type)))
