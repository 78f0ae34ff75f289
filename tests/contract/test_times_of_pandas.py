"""A datetime of another class, such as pandas' Timestamp, is the time that its equal is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from keystate import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    SortedMapStateDescriptor,
    StateTypeError,
    ValueStateDescriptor,
    dead_letter_schema,
    dead_letters,
)
from keystate._types.codec import codec, struct_codec
from keystate._types.codec.base import Codec
from keystate._types.codec.misfits import Misfit
from keystate._types.codec.packed import PackedRows
from keystate.testing import KeyedProcessHarness
from pyspark.sql import types as T

from tests.zones import in_zone

BERLIN = ZoneInfo("Europe/Berlin")
#: Usual times, such as clocks skip and show twice, and such as a float does not hold exactly.
LOCAL = [
    datetime(2024, 1, 1, 12, 34, 56, 789_012),
    datetime(1960, 1, 1, 0, 0, 0, 123_456),
    datetime(2024, 3, 31, 2, 30),
    datetime(2024, 10, 27, 2, 30),
    datetime(2024, 10, 27, 2, 30, fold=1),
    datetime(2200, 7, 1, 0, 0, 0, 999_999),
]
AWARE = [
    time.replace(tzinfo=zone)
    for time in LOCAL
    for zone in (timezone.utc, timezone(timedelta(hours=-5)), BERLIN)
]
ROW = T.StructType([T.StructField("t", T.TimestampType())])


LETTERS = OutputTag("letters", dead_letter_schema())


@pytest.fixture(autouse=True, params=["Europe/Berlin", "America/New_York", "UTC"])
def timestamps(request: Any) -> Iterator[Codec]:
    """The codec, which looks at the zone when it is made."""
    with in_zone(request.param):
        yield codec(T.TimestampType())


class OfAUser(datetime):
    """Thinks otherwise of instants too."""

    def timestamp(self) -> float:
        return 0.0


def of_a_user(time: datetime) -> datetime:
    clock = time.hour, time.minute, time.second, time.microsecond, time.tzinfo
    return OfAUser(time.year, time.month, time.day, *clock, fold=time.fold)


@pytest.mark.parametrize("other", [pd.Timestamp, of_a_user])
@pytest.mark.parametrize("time", [*LOCAL, *AWARE], ids=str)
def test_it_is_the_time_that_an_equal_datetime_is(
    other: Any, time: datetime, timestamps: Codec
) -> None:
    given, of, rows = other(time), timestamps, struct_codec(ROW)
    for read in (of.as_read, of.key, lambda v: rows.as_read((v,))[0], lambda v: rows.key((v,))[0]):
        expected = read(time)
        found = read(given)
        assert (type(found), found, found.fold) == (type(expected), expected, expected.fold)
    assert of.encode([given]) == of.encode([time])
    assert rows.encode([(given,)]) == rows.encode([(time,)])
    write = PackedRows(rows).write
    assert write((given,)) == write((time,))


@pytest.mark.parametrize("nanos", [-1, 0, 1, 123_456_700, 500, 999])
@pytest.mark.parametrize("year", [1700, 1960, 1969, 1970, 2024, 2200])
def test_nanoseconds_are_refused(year: int, nanos: int, timestamps: Codec) -> None:
    given = pd.Timestamp(year=year, month=1, day=1, tz="UTC") + pd.Timedelta(nanos, "ns")
    if nanos % 1000 == 0:
        assert timestamps.encode([given]).cast("int64").to_pylist() == [given.value // 1000]
        return
    for read in (timestamps.as_read, timestamps.key, lambda v: timestamps.encode([v])):
        with pytest.raises(Misfit):
            read(given)


def test_not_a_time_is_null(timestamps: Codec) -> None:
    assert timestamps.as_read(pd.NaT) is timestamps.key(pd.NaT) is None
    assert timestamps.encode([pd.NaT]).to_pylist() == [None]
    later = timestamps.key(datetime(2024, 10, 27, 2, 30, fold=1))
    assert later != pd.NaT


class Hours(KeyedProcessFunction):
    """Keeps the time of a row in all states, once in each class."""

    def open(self, ctx: Any) -> None:
        self.last = ctx.get_state(ValueStateDescriptor("last", "timestamp"))
        self.all = ctx.get_list_state(ListStateDescriptor("all", "timestamp"))
        self.map = ctx.get_map_state(MapStateDescriptor("map", "timestamp", "int"))
        self.sorted = ctx.get_sorted_map_state(
            SortedMapStateDescriptor("sorted", "timestamp", "timestamp")
        )

    def process_element(self, row: Any, ctx: Any) -> Any:
        given = pd.Timestamp(row.t)
        for time in (given, row.t):
            self.last.update(time)
            self.all.add(time)
            self.map.put(time, 1)
            self.sorted.put(time, time)
        assert given in self.map
        kept = [self.last.value(), *self.all, *self.map, *self.sorted, *self.sorted.values()]
        yield given, ctx.timestamp(), kept


@pytest.mark.parametrize("time", [time for time in LOCAL if time.year >= 1970], ids=str)
@pytest.mark.parametrize("other", [pd.Timestamp, lambda time: time])
def test_in_all_states_results_and_the_event_time(
    other: Any, time: datetime, timestamps: Codec
) -> None:
    read = timestamps.as_read(time)
    (micros,) = timestamps.encode([time]).cast("int64").to_pylist()
    out = "given timestamp, at long, kept array<timestamp>"
    harness = KeyedProcessHarness(Hours(), "key int, t timestamp", "key", out, event_time="t")
    with harness as h:
        ((given, at, kept),) = h.process((1, other(time)))
    assert (given, given.fold) == (read, read.fold)
    assert at == micros // 1000
    assert [(k, k.fold) for k in kept] == [(read, read.fold)] * 6


def test_a_year_that_python_does_not_have_is_refused(timestamps: Codec) -> None:
    for year in ("12000", "-0005"):
        with pytest.raises(Misfit):
            timestamps.encode([pd.Timestamp(np.datetime64(f"{year}-01-01", "s"))])


class Missing(KeyedProcessFunction):
    """Hands over what pandas has for a missing value; it does what None does."""

    def open(self, ctx: Any) -> None:
        self.value = ctx.get_state(ValueStateDescriptor("value", "timestamp"))
        self.list = ctx.get_list_state(ListStateDescriptor("list", "timestamp"))
        self.map = ctx.get_map_state(MapStateDescriptor("map", "timestamp", "int"))
        self.sorted = ctx.get_sorted_map_state(
            SortedMapStateDescriptor("sorted", "timestamp", "int")
        )

    def process_element(self, row: Any, ctx: Any) -> Any:
        for missing in (pd.NaT, pd.NA, None):
            self.value.update(row.t)
            self.value.update(missing)
            assert self.value.value() is None
            for change, message in (
                (lambda m: self.list.add(m), "a list can't hold None"),
                (lambda m: self.list.add_all([row.t, m]), "a list can't hold None"),
                (lambda m: self.list.update(iter([m])), "a list can't hold None"),
                (lambda m: self.map.put(m, 1), "can't have the key None"),
                (lambda m: self.sorted.put(m, 1), "can't have the key None"),
            ):
                with pytest.raises(StateTypeError, match=message):
                    change(missing)
            self.map[row.t] = missing
            self.map.remove(missing)
            self.sorted.remove(missing)
            assert (list(self.list), self.map[row.t]) == ([], None)
            assert missing not in self.map
        yield row.key, ctx.timestamp(), [pd.NaT]


@pytest.mark.parametrize("on_error", ["fail", dead_letters(LETTERS)], ids=["fail", "letters"])
def test_what_is_missing(on_error: Any) -> None:
    out = "given int, at long, kept array<timestamp>"
    shared = {"event_time": "t", "on_error": on_error}
    with KeyedProcessHarness(Missing(), "key int, t timestamp", "key", out, **shared) as h:
        assert h.process((1, LOCAL[0]))[0].kept == [None]
