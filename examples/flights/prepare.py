"""Prepares the stream's input: flights in order of departure, cut into one Parquet file per period.

A file holds whole days, and the query takes one file per micro-batch, or two after a crash; within
a micro-batch it sorts the rows. The weather is a stream of its own, in files of the same days.
"""

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .source import read_flights, read_weather

MINUTES_PER_DAY = 24 * 60
NEW_YORK = -5 * 60  # minutes; standard time all year, so that days follow each other without a seam
ORDER = ["minute", "scheduled", "carrier", "flight", "origin"]  # no two flights agree in all of it
COLUMNS = [*ORDER, "tailnum", "dest", "dep_delay", "arr_delay", "air_time"]
FLIGHTS = """
    minute long, scheduled long, carrier string, flight long, origin string, tailnum string,
    dest string, dep_delay long, arr_delay long, air_time long
"""
WEATHER = "origin string, hour long, visibility double"


def flights_in_order() -> pa.Table:
    """Every flight with a known aircraft, in order of departure, with the columns of ``FLIGHTS``.

    ``minute`` (minutes since 1970, UTC) is when the aircraft left, or for a cancelled flight, which
    is one without ``dep_delay``, when it should have; ``scheduled`` is when it should have. The
    2,512 flights dropped, for which no aircraft is recorded, were all cancelled.
    """
    raw = read_flights([*COLUMNS[2:], "time_hour", "minute"])
    raw = raw.filter(pc.is_valid(raw["tailnum"]))
    hour = pc.cast(pc.cast(raw["time_hour"], pa.timestamp("s")), pa.int64())
    scheduled = pc.add(pc.divide(hour, 60), raw["minute"])
    left = pc.add(scheduled, pc.coalesce(raw["dep_delay"], 0))
    table = raw.drop_columns(["time_hour", "minute"])
    table = table.append_column("minute", left).append_column("scheduled", scheduled)
    return table.select(COLUMNS).sort_by([(name, "ascending") for name in ORDER])


def weather_by_hour() -> pa.Table:
    """The columns of ``WEATHER``: ``hour`` is hours since 1970, UTC, ``visibility`` in miles."""
    raw = read_weather()
    seconds = pc.cast(pc.cast(raw["time_hour"], pa.timestamp("s")), pa.int64())
    table = pa.table(
        {
            "origin": raw["origin"],
            "hour": pc.divide(seconds, 3600),
            "visibility": pc.cast(raw["visib"], pa.float64()),
        }
    )
    # When the clocks were turned back, an hour is there twice.
    once = table.group_by(["origin", "hour"]).aggregate([("visibility", "min")])
    columns = once.rename_columns({"visibility_min": "visibility"}).select(table.column_names)
    return columns.sort_by([("hour", "ascending"), ("origin", "ascending")])


def write_input(flights: Path, weather: Path, days: int | None, days_per_file: int) -> None:
    """Writes the first ``days`` days (``None``: all) as ``NNN.parquet`` in both folders."""
    table = flights_in_order()
    day = _day(table["minute"])
    first = pc.min(day)
    end = min(pc.subtract(pc.max(day), first).as_py() + 1, days or 366)
    hours = weather_by_hour()
    weather_day = _day(pc.multiply(hours["hour"], 60))
    # The flights last: they tell that all is there.
    _write(weather, hours, pc.subtract(weather_day, first), end, days_per_file)
    _write(flights, table, pc.subtract(day, first), end, days_per_file)


def _day(minute: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.divide(pc.add(minute, NEW_YORK), MINUTES_PER_DAY)


def _write(
    folder: Path, table: pa.Table, day: pa.ChunkedArray, end: int, days_per_file: int
) -> None:
    """Writes the rows of days 0 to ``end``.

    The file source takes files by modification time, so that is set, a second apart. The folder
    appears under its name only when it is complete.
    """
    unfinished = folder.with_name(folder.name + ".unfinished")
    for old in (unfinished, folder):
        shutil.rmtree(old, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for number, first in enumerate(range(0, end, days_per_file)):
        last = min(first + days_per_file, end)
        path = unfinished / f"{number:03}.parquet"
        inside = pc.and_(pc.greater_equal(day, first), pc.less(day, last))
        pq.write_table(table.filter(inside), path)
        os.utime(path, (1_388_534_400 + number,) * 2)
    unfinished.rename(folder)
