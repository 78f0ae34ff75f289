"""A Spark session to measure in, and how a query is measured."""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import keystate
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from bench.processes import cpu_seconds, worker_memory

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
FILE_MANAGER = "spark.sql.streaming.checkpointFileManagerClass"
SPARK_FILE_MANAGER = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileContextBasedCheckpointFileManager"
)
SPARK_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
#: What Spark's own operators run with.
STOCK = {PROVIDER: SPARK_ROCKSDB, FILE_MANAGER: SPARK_FILE_MANAGER}
CORES = 2

Build = Callable[[DataFrame], DataFrame]


@dataclass(frozen=True)
class Measured:
    """One query run to its end over what is in a folder.

    Attributes:
        seconds: from start() to the end.
        cpu: seconds of CPU time of the JVM and its Python workers, user and system.
        emitted: rows that the query emitted.
        batches: ms that each micro-batch with rows took.
        rss: the most MB that one of its Python workers had in memory.
    """

    seconds: float
    cpu: float
    emitted: int
    batches: list[int] = field(default_factory=list)
    rss: float = 0.0


@contextmanager
def bench_session(
    settings: dict[str, str] | None = None, slots: int = CORES
) -> Iterator[tuple[SparkSession, Path]]:
    """A session with two cores, and a folder; both are gone afterwards.

    Args:
        settings: what the session is to have besides.
        slots: how many tasks run at a time. In real-time mode those that wait have a slot too.
    """
    work = Path(tempfile.mkdtemp(prefix="keystate-bench"))
    builder = SparkSession.builder.master(f"local[{slots}]").appName("keystate bench")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "6g",
        "spark.local.dir": str(work / "local"),
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.sql.warehouse.dir": str(work / "warehouse"),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        **(settings or {}),
    }.items():
        builder = builder.config(key, value)
    spark = keystate.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark, work
    finally:
        spark.stop()
        shutil.rmtree(work, ignore_errors=True)


@contextmanager
def configured(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    """A session with these settings, and with its own again afterwards."""
    before = {key: spark.conf.get(key, None) for key in settings}
    for key, value in settings.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, value)


def write(folder: Path, table: pa.Table, files: int = 4) -> Path:
    """Writes a table as so many Parquet files, in an order that the file source keeps."""
    folder.mkdir(parents=True)
    step = -(-table.num_rows // files)
    for i in range(files):
        path = folder / f"{i:05}.parquet"
        pq.write_table(table.slice(i * step, step), path)
        os.utime(path, (1e9 + i, 1e9 + i))
    return folder


def measure(
    spark: SparkSession,
    build: Build,
    folder: Path,
    settings: dict[str, str],
    *,
    files_per_batch: int | None = None,
    checkpoint: Path | None = None,
) -> Measured:
    """Runs a query over a folder into the noop sink, trigger availableNow."""
    own = Path(tempfile.mkdtemp(dir=folder.parent)) if checkpoint is None else checkpoint
    try:
        schema = spark.read.parquet(str(folder)).schema
        reader = spark.readStream.schema(schema)
        if files_per_batch is not None:
            reader = reader.option("maxFilesPerTrigger", files_per_batch)
        with configured(spark, settings):
            out = build(reader.parquet(str(folder)))
            cpu, started = cpu_seconds(), time.perf_counter()
            query = (
                out.writeStream.format("noop")
                .outputMode("update")
                .option("checkpointLocation", str(own))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            seconds, cpu = time.perf_counter() - started, cpu_seconds() - cpu
        with_rows = [p for p in query.recentProgress if p.numInputRows]
        return Measured(
            seconds,
            cpu,
            sum(p.sink.numOutputRows for p in with_rows),
            [p.durationMs["triggerExecution"] for p in with_rows],
            worker_memory(),
        )
    finally:
        if checkpoint is None:
            shutil.rmtree(own)


def took(
    build: Callable[[], DataFrame], checkpoint: Path, mode: str = "append"
) -> tuple[float, float]:
    """Seconds, and those of CPU, of a streaming query from start to end, into the noop sink."""
    cpu, started = cpu_seconds(), time.perf_counter()
    query = (
        build()
        .writeStream.format("noop")
        .outputMode(mode)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return time.perf_counter() - started, cpu_seconds() - cpu


def in_turns(
    work: Path,
    contenders: dict[str, Callable[[], DataFrame]],
    repeat: int,
    mode: str = "append",
) -> dict[str, list[tuple[float, float]]]:
    """What queries take, see `took`; they run in turns, after a round that warms up."""
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    for i in range(-1, repeat):
        for name, build in contenders.items():
            measured = took(build, work / f"checkpoint-{mode}-{name}-{i}", mode)
            if i >= 0:
                times[name].append(measured)
    return times


def print_compared(times: dict[str, list[tuple[float, float]]], rows: int) -> None:
    """Prints µs a row, and that as a multiple of the first one's; and µs of CPU."""
    medians = {name: tuple(map(statistics.median, zip(*each))) for name, each in times.items()}
    base, _ = next(iter(medians.values()))
    for name, (seconds, cpu) in medians.items():
        told = f"{seconds / rows * 1e6:.2f} µs a row ({seconds / base:.2f})"
        print(f"{name}: {told}, CPU {cpu / rows * 1e6:.2f} µs")


def measured_in_pairs(
    spark: SparkSession, ways: Mapping[str, Build], folder: Path, pairs: int
) -> dict[str, list[Measured]]:
    """Queries over a folder, in turns there and back, after a round that warms up."""
    took: dict[str, list[Measured]] = {name: [] for name in ways}
    for i in range(1 + pairs):
        for name in list(ways)[:: 1 if i % 2 else -1]:
            measured = measure(spark, ways[name], folder, {})
            if i > 0:
                took[name].append(measured)
    return took


def print_pairs(took: Mapping[str, list[Measured]], compared: Sequence[tuple[str, str]]) -> None:
    """Prints the medians and ranges of the pairs' ratios: of the times, and of the CPU times.

    Args:
        took: what was measured, by name.
        compared: which ones by which, by their names.
    """
    for name, base in compared:
        pairs = list(zip(took[name], took[base]))
        wall = sorted(a.seconds / b.seconds for a, b in pairs)
        cpu = sorted(a.cpu / b.cpu for a, b in pairs)
        print(
            f"{name} / {base}: "
            f"time {statistics.median(wall):.3f} ({wall[0]:.3f} to {wall[-1]:.3f}), "
            f"CPU {statistics.median(cpu):.3f} ({cpu[0]:.3f} to {cpu[-1]:.3f})"
        )
