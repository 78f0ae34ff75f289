"""Spark's own stateful operators on Keystate's backends and on Spark's providers.

python -m bench.spark_operators [--rows 200000] [--keys 100000] [--batches 8] [--repeat 3]
                                [--warm-up 2] [--rounds-before 1] [--heap 6g]
                                [--only sessions] [--without "Spark HDFS-backed"]

Each operator runs on each provider in turns, in one session, over the same rows; rounds before do
not count. Of a run all micro-batches after those that warm up count: the medians of rows a second,
and the CPU time of the process in µs a row. In parentheses: how much more is done in that time than
with Spark's RocksDB provider.

With large states, where a round before would take as long as what counts:

python -m bench.spark_operators --rows 2500000 --keys 10000000 --batches 8 --warm-up 5 --repeat 1
                                --rounds-before 0 --heap 8g --without "Spark HDFS-backed"
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.processes import cpu_seconds
from bench.rescale import BACKEND, OURS
from bench.session import PROVIDER, STOCK, bench_session, configured

BASE = "Spark RocksDB"
PROVIDERS: dict[str, dict[str, str]] = {
    "Keystate auto": {PROVIDER: OURS, BACKEND: "auto"},
    "Keystate hashmap": {PROVIDER: OURS, BACKEND: "hashmap"},
    "Keystate rocksdb": {PROVIDER: OURS, BACKEND: "rocksdb"},
    BASE: STOCK,
    "Spark HDFS-backed": {**STOCK, PROVIDER: STOCK[PROVIDER].replace("RocksDB", "HDFSBacked")},
}


@dataclass(frozen=True)
class Rows:
    """What is streamed: numbers from 0 on, so many in a micro-batch."""

    spark: SparkSession
    a_batch: int
    keys: int

    def stream(self, part: int = 1) -> DataFrame:
        """A part of the rows; time goes on by ten seconds with each micro-batch."""
        return (
            self.spark.readStream.format("rate-micro-batch")
            .option("rowsPerBatch", self.a_batch // part)
            .option("numPartitions", 2)
            .option("startTimestamp", 1_600_000_000_000)
            .option("advanceMillisPerBatch", 10_000)
            .load()
        )

    def timed(self, part: int = 1) -> DataFrame:
        return self.stream(part).withWatermark("timestamp", "20 seconds")

    def key(self, of: int = 1) -> Column:
        """One of `keys / of` keys, by chance."""
        return F.pmod(F.xxhash64("value"), F.lit(self.keys // of)).alias("key")


def new_keys(rows: Rows) -> DataFrame:
    return rows.stream().groupBy("value").agg(F.count("*").alias("n"), F.sum("value"))


def known_keys(rows: Rows) -> DataFrame:
    return rows.stream().groupBy(rows.key()).agg(F.count("*").alias("n"), F.sum("value"))


def windows(rows: Rows) -> DataFrame:
    key = F.pmod("value", F.lit(rows.keys // 5)).alias("key")
    return (
        rows.timed().groupBy(F.window("timestamp", "10 seconds"), key).agg(F.count("*").alias("n"))
    )


def sessions(rows: Rows) -> DataFrame:
    session = F.session_window("timestamp", "5 seconds")
    return rows.timed().groupBy(session, rows.key(of=5)).agg(F.count("*").alias("n"))


def deduplicated(rows: Rows) -> DataFrame:
    return rows.timed().dropDuplicatesWithinWatermark(["value"])


def joined(rows: Rows) -> DataFrame:
    left, right = (
        rows.timed(2).selectExpr(f"timestamp AS time_{side}", f"value AS {side}") for side in "ab"
    )
    near = "a = b AND time_b BETWEEN time_a - INTERVAL 20 SECONDS AND time_a + INTERVAL 20 SECONDS"
    return left.join(right, F.expr(near))


#: The operators, each with its output mode.
OPERATORS: dict[str, tuple[Callable[[Rows], DataFrame], str]] = {
    "aggregation, new keys": (new_keys, "update"),
    "aggregation, known keys": (known_keys, "update"),
    "windows": (windows, "append"),
    "sessions": (sessions, "append"),
    "dropDuplicatesWithinWatermark": (deduplicated, "append"),
    "stream-stream join": (joined, "append"),
}


def measure(
    df: DataFrame, mode: str, folder: Path, batches: int, warm_up: int = 2
) -> tuple[float, float]:
    """Rows a second, and µs of CPU time a row, of the micro-batches after those that warm up."""
    # A new one each time: what a stopped query still writes may come after the deletion.
    checkpoint = tempfile.mkdtemp(dir=folder)
    query = (
        # No row is left for the sink. By rand(), for Spark would move any other condition to before
        # the join.
        df.where(F.rand() < 0)
        .writeStream.format("noop")
        .outputMode(mode)
        .option("checkpointLocation", checkpoint)
        .start()
    )

    def wait_for(batch: int) -> tuple[int, float]:
        while not (query.lastProgress and query.lastProgress.batchId >= batch):
            error = query.exception()
            if error is not None:
                raise error
            time.sleep(0.01)
        return query.lastProgress.batchId, cpu_seconds()

    first, cpu = wait_for(warm_up - 1)
    last, cpu_then = wait_for(batches - 1)
    query.stop()
    progress = {p.batchId: p for p in query.recentProgress if p.numInputRows}
    rows = sum(progress[i].numInputRows for i in range(first + 1, last + 1))
    rates = [
        progress[i].numInputRows / progress[i].durationMs["triggerExecution"] * 1000
        for i in range(first + 1, last + 1)
    ]
    shutil.rmtree(checkpoint)
    return statistics.median(rates), (cpu_then - cpu) / rows * 1e6


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=200_000, help="in a micro-batch")
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--batches", type=int, default=8)
    parser.add_argument("--warm-up", type=int, default=2, help="micro-batches that don't count")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--rounds-before", type=int, default=1, help="that do not count")
    parser.add_argument("--heap", default="6g", help="of the JVM")
    parser.add_argument("--only", nargs="*", default=[], help="operators whose names have this")
    parser.add_argument("--without", nargs="*", default=[], help="providers")
    args = parser.parse_args()
    settings = {
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        "spark.driver.memory": args.heap,
    }
    providers = {name: each for name, each in PROVIDERS.items() if name not in args.without}
    with bench_session(settings) as (spark, work):
        rows = Rows(spark, args.rows, args.keys)
        for name, (operator, mode) in OPERATORS.items():
            if args.only and not any(part in name for part in args.only):
                continue
            found: dict[str, list[tuple[float, float]]] = {provider: [] for provider in providers}
            for i in range(args.rounds_before + args.repeat):
                for provider, own in providers.items():
                    with configured(spark, own):
                        one = measure(operator(rows), mode, work, args.batches, args.warm_up)
                    if i >= args.rounds_before:
                        found[provider].append(one)
            medians = {
                provider: tuple(statistics.median(part) for part in zip(*each))
                for provider, each in found.items()
            }
            print(f"{name}:")
            for provider, (rate, cpu) in medians.items():
                base_rate, base_cpu = medians[BASE]
                print(
                    f"  {provider}: {rate:,.0f} rows/s ({rate / base_rate:.2f}), "
                    f"{cpu:.2f} µs of CPU a row ({base_cpu / cpu:.2f})",
                    flush=True,
                )


if __name__ == "__main__":
    main()
