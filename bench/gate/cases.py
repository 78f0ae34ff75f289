"""What the gate measures: queries of a few seconds, and what they are compared with."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from bench import spark_operators, windows
from bench.nexmark.events import Events
from bench.nexmark.queries import BY_ROWS
from bench.nexmark.spark_system import run
from bench.session import configured, measure, write
from bench.workloads import DICT, KEYSTATE, KEYSTATE_ROCKSDB, SHIP, TWS_PANDAS, Workload
from bench.workloads.average import W1, W3
from bench.workloads.lists import W4
from bench.workloads.overhead import TINY, TINY_ROWS, some_keys
from bench.workloads.recent import W8
from bench.workloads.reducing import W5
from bench.workloads.words import W2

EVENTS = Events(200_000, files=2)
BATCHES = 12
BY_COLUMNS = "keystate, process_batches"

#: Seconds that something takes in a session, with a folder for its input.
Measure = Callable[[SparkSession, Path], float]


@dataclass(frozen=True)
class Case:
    """Something that Keystate does, and what it is a multiple of."""

    keystate: Measure
    yardstick: Measure | None = None


def _rows(workload: Workload, name: str) -> Measure:
    """A workload's query, over one micro-batch."""
    contender = workload.contenders[name]

    def seconds(spark: SparkSession, folder: Path) -> float:
        data = folder / workload.name
        if not data.exists():
            write(data, workload.make(workload.rows, workload.keys)[0])
        return measure(spark, contender.build, data, dict(contender.settings)).seconds

    return seconds


def _batch(name: str) -> Measure:
    """A micro-batch of ten rows."""

    def seconds(spark: SparkSession, folder: Path) -> float:
        data = folder / "tiny"
        if not data.exists():
            write(data, some_keys(1000, BATCHES, TINY_ROWS), BATCHES)
        contender = TINY[name]
        settings = dict(contender.settings)
        took = measure(spark, contender.build, data, settings, files_per_batch=1).batches
        return statistics.median(took[2:]) / 1000

    return seconds


def _nexmark(query: str) -> Measure:
    def seconds(spark: SparkSession, folder: Path) -> float:
        took: float = run(spark, BY_ROWS[query], EVENTS.cached(folder), folder)["seconds"]
        return took

    return seconds


def _windows(name: str) -> Measure:
    """Windows by functions, of 500,000 rows in one micro-batch."""

    def seconds(spark: SparkSession, folder: Path) -> float:
        data = folder / "windows"
        if not data.exists():
            write(data, windows.rows(500_000))
        return measure(spark, windows.WINDOWS[name], data, {}).seconds

    return seconds


def _operator(name: str, provider: str) -> Measure:
    """A million rows in one of Spark's own operators."""
    operator, mode = spark_operators.OPERATORS[name]

    def seconds(spark: SparkSession, folder: Path) -> float:
        with configured(spark, spark_operators.PROVIDERS[provider]):
            df = operator(spark_operators.Rows(spark, 100_000, 50_000))
            rate, _ = spark_operators.measure(df, mode, folder, 8)
        return 1e6 / rate

    return seconds


def _spark(name: str) -> Case:
    return Case(_operator(name, "Keystate rocksdb"), _operator(name, spark_operators.BASE))


CASES = {
    "W1": Case(_rows(W1, KEYSTATE), _rows(W1, DICT)),
    "W1, RocksDB": Case(_rows(W1, KEYSTATE_ROCKSDB), _rows(W1, DICT)),
    "W1, process_batches": Case(_rows(W1, BY_COLUMNS), _rows(W1, SHIP)),
    "W2": Case(_rows(W2, KEYSTATE), _rows(W2, DICT)),
    "W3": Case(_rows(W3, KEYSTATE), _rows(W3, DICT)),
    "W4": Case(_rows(W4, KEYSTATE)),
    "W5": Case(_rows(W5, KEYSTATE)),
    "W8": Case(_rows(W8, KEYSTATE)),
    "windows, late firings": Case(_windows("tumbling, aggregate, late firings")),
    "sessions": Case(_windows("sessions, aggregate")),
    "batch of 10 rows": Case(_batch(KEYSTATE), _batch(TWS_PANDAS)),
    "Spark's aggregation, RocksDB": _spark("aggregation, known keys"),
    "Spark's sessions, RocksDB": _spark("sessions"),
    "Spark's join, RocksDB": _spark("stream-stream join"),
    "NEXMark q9": Case(_nexmark("q9")),
    "NEXMark q11": Case(_nexmark("q11")),
    "NEXMark q19": Case(_nexmark("q19")),
}
