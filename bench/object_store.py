"""Requests and times of a checkpoint in a store where each request takes a while.

python -m bench.object_store [--rows 10 100000] [--keys 1000000] [--delay 30] [--only NAME ...]

The store is the local disk behind a Hadoop file system of the tests, which counts each request and
makes it wait. It has the abilities of an object store: a file appears when its stream is closed,
and can be made only if there is none. Spark's own managers rename, so for them it is a file system
that renames; a rename counts as one request, though S3 needs at least two for it.

First the micro-batches of a running query, then a restart with so many keys, then rescales. All
contenders run in one session. Compile the Scala tests first: ./sbt Test/compile.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyspark.sql.functions as F
from pyspark.sql import SparkSession

from bench.rescale import BACKEND, CHANGELOG, OURS, aggregated, keyed
from bench.session import FILE_MANAGER, PROVIDER, SPARK_ROCKSDB, Build, bench_session, configured
from tests.fault.faults import classes_jar

PARTITIONS = "spark.sql.shuffle.partitions"
DELAY = "fs.objects.delayMs"
RENAMES = "fs.objects.rename"
SPARK_FILES = (
    "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
)
KEYSTATE_FILES = "org.apache.spark.sql.keystate.KeystateCheckpointFileManager"
#: What the maintenance does is not in the figures of a micro-batch: it has its own time.
QUIET = {"spark.sql.streaming.stateStore.maintenanceInterval": "1h"}

CONTENDERS: dict[str, tuple[Build, dict[str, str]]] = {
    "Keystate": (
        keyed,
        {PROVIDER: OURS, BACKEND: "hashmap", FILE_MANAGER: KEYSTATE_FILES, RENAMES: "false"},
    ),
    "Keystate, where files are renamed": (
        keyed,
        {PROVIDER: OURS, BACKEND: "hashmap", FILE_MANAGER: KEYSTATE_FILES, RENAMES: "true"},
    ),
    "Spark RocksDB, changelog": (
        aggregated,
        {PROVIDER: SPARK_ROCKSDB, CHANGELOG: "true", FILE_MANAGER: SPARK_FILES, RENAMES: "true"},
    ),
}

#: What a request is for, by its path in the checkpoint.
GROUPS = {
    "state": r"/state/\d+/\d+(/|$)",
    "query": r"/(offsets|commits|_keystate|metadata|state/\d+/_|sources)|/state(/\d+)?$|.",
}


def store_settings(folder: Path) -> dict[str, str]:
    """The settings of a session that has the store, by a jar that is put into a folder."""
    return {
        "spark.driver.extraClassPath": str(classes_jar(folder)),
        "spark.hadoop.fs.objects.impl": "keystate.faults.ObjectFileSystem",
        "spark.hadoop.fs.objects.impl.disable.cache": "true",
    }


class Query:
    """A query over files, whose checkpoint is in the store."""

    def __init__(self, spark: SparkSession, folder: Path, build: Build) -> None:
        self.spark, self.folder, self.build = spark, folder, build
        self.requests = spark._jvm.keystate.faults.Requests

    def feed(self, first: int, rows: int) -> None:
        made = self.spark.range(first, first + rows, numPartitions=1)
        made.select(F.col("id").alias("key"), (F.col("id") % 97).alias("value")).write.mode(
            "append"
        ).parquet(str(self.folder / "input"))

    def start(self, trigger: dict[str, Any]) -> Any:
        source = self.spark.readStream.schema("key long, value long")
        return (
            self.build(source.parquet(str(self.folder / "input")))
            .writeStream.format("noop")
            .outputMode("update")
            .option("checkpointLocation", f"objects://{self.folder}/checkpoint")
            .trigger(**trigger)
            .start()
        )

    def batches(self, rows: int, count: int) -> dict[str, Any]:
        """Micro-batches of a running query: the median's time, and the requests of one."""
        self.feed(0, rows)
        query = self.start({"processingTime": "0 seconds"})
        try:
            query.processAllAvailable()
            for _ in range(3):  # the first ones also read what a start reads
                self.feed(0, rows)
                query.processAllAvailable()
            self.requests.clear()
            times = []
            for _ in range(count):
                self.feed(0, rows)
                query.processAllAvailable()
                times.append(
                    next(
                        p.durationMs["triggerExecution"]
                        for p in reversed(query.recentProgress)
                        if p.numInputRows
                    )
                )
            made = [line.split(" ", 1) for line in self.requests.text().splitlines()]
        finally:
            query.stop()
        groups: dict[str, Counter[str]] = {name: Counter() for name in GROUPS}
        for verb, path in made:
            group = next(name for name, pattern in GROUPS.items() if re.search(pattern, path))
            groups[group][verb] += 1
        figures: dict[str, Any] = {"ms": statistics.median(times)}
        for name, verbs in groups.items():
            figures[name] = {verb: n / count for verb, n in sorted(verbs.items())}
        figures["requests"] = len(made) / count
        return figures

    def restart(self, partitions: int) -> dict[str, float]:
        """Seconds and requests until the query has done ten rows with so many partitions."""
        self.feed(0, 10)
        self.spark.conf.set(PARTITIONS, str(partitions))
        self.requests.clear()
        start = time.perf_counter()
        query = self.start({"availableNow": True})
        query.awaitTermination()
        assert query.recentProgress[-1].stateOperators[0].numShufflePartitions == partitions
        return {"s": time.perf_counter() - start, "requests": self.requests.all().size()}


def measure(spark: SparkSession, work: Path, name: str, args: argparse.Namespace) -> dict[str, Any]:
    build, settings = CONTENDERS[name]
    figures: dict[str, Any] = {}
    with configured(spark, {**settings, DELAY: str(args.delay), PARTITIONS: "2"}):
        for rows in args.rows:
            spark.conf.set(PARTITIONS, str(args.partitions))
            query = Query(spark, Path(tempfile.mkdtemp(dir=work)), build)
            figures[f"micro-batch of {rows} rows"] = query.batches(rows, args.batches)
        if args.keys:
            query = Query(spark, Path(tempfile.mkdtemp(dir=work)), build)
            few = args.partitions
            spark.conf.set(PARTITIONS, str(few))
            query.feed(0, args.keys)
            query.restart(few)
            figures[f"restart with {args.keys} keys"] = query.restart(few)
            if settings[PROVIDER] == OURS:
                figures[f"rescale {few} to {4 * few}"] = query.restart(4 * few)
                figures[f"plain restart with {4 * few}"] = query.restart(4 * few)
                figures[f"rescale {4 * few} to {few}"] = query.restart(few)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[10, 100_000])
    parser.add_argument("--keys", type=int, default=1_000_000, help="of the restart; 0: without")
    parser.add_argument("--delay", type=int, default=30, help="of each request, in ms")
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--out", type=Path, help="also write the figures there, as JSON")
    args = parser.parse_args()

    results: dict[str, Any] = {}
    with (
        tempfile.TemporaryDirectory() as folder,
        bench_session({**store_settings(Path(folder)), **QUIET}) as (spark, work),
    ):
        for name in args.only:
            results[name] = measure(spark, work, name, args)
            print(f"\n{name}, {args.partitions} partitions, {args.delay} ms a request")
            for figure, values in results[name].items():
                print(f"  {figure}: {values}", flush=True)
    if args.out:
        args.out.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
