"""Prepares the stream's input: flights in order of departure, cut into one Parquet file per period.

Spark keeps the order of an aircraft's flights within a micro-batch only if one task reads them all.
So a file holds whole days, its rows are sorted, and the query takes one file per micro-batch.
"""

import os
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .source import read_flights

MINUTES_PER_DAY = 24 * 60
NEW_YORK = -5 * 60  # minutes; standard time all year, so that days follow each other without a seam
ORDER = ["minute", "scheduled", "carrier", "flight", "origin"]  # no two flights agree in all of it
COLUMNS = [*ORDER, "tailnum", "dest", "dep_delay", "arr_delay", "air_time"]
FLIGHTS = """
    minute long, scheduled long, carrier string, flight long, origin string, tailnum string,
    dest string, dep_delay long, arr_delay long, air_time long
"""


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


def write_input(folder: Path, days: int | None, days_per_file: int) -> None:
    """Writes the first ``days`` days (``None``: all) as ``folder/NNN.parquet``, in order.

    The file source takes files by modification time, so that is set, a second apart. The folder
    appears under its name only when it is complete.
    """
    flights = flights_in_order()
    day = pc.divide(pc.add(flights["minute"], NEW_YORK), MINUTES_PER_DAY)
    day = pc.subtract(day, pc.min(day))
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    end = min(pc.max(day).as_py() + 1, days or 366)
    for number, first in enumerate(range(0, end, days_per_file)):
        last = min(first + days_per_file, end)
        path = unfinished / f"{number:03}.parquet"
        inside = pc.and_(pc.greater_equal(day, first), pc.less(day, last))
        pq.write_table(flights.filter(inside), path)
        os.utime(path, (1_388_534_400 + number,) * 2)
    unfinished.rename(folder)
