"""State several times as large as the memory of the RocksDB backend, against Spark's on its own.

python -m bench.larger_than_memory [--keys 20000000] [--batch 2000000] [--updates 3] [--memory 256]
                                   [--heap 6g] [--only NAME ...] [--out FILE]

A query builds its state in batches of new keys over two partitions, then come batches of random
keys of all these. Each batch is timed. Then the query starts again, as it was and with four
partitions: the time until a batch of ten rows is committed, as in bench.rescale. Keystate counts
and sums in a value state of two longs, on its RocksDB backend; Spark does the same with
groupBy().agg() on its RocksDB provider with that one's default settings. The keys are numbers in
scattered order.

While a query runs, the native memory of the JVM is measured from outside: what the process has in
memory (/proc) but for what the JVM itself has allocated (`jcmd VM.native_memory`; its heap is
touched when it is allocated), less the same after a small query on the same backend. The heap
backend runs last: its native memory is what Spark's own work takes beside any RocksDB. What all
processes have in memory together, this one, the JVM with its heap and the Python workers, is
measured too; the files that Linux keeps in memory do not count.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark.sql.functions as F
from pyspark.sql import SparkSession

from bench.processes import memory
from bench.rescale import CHANGELOG, OURS, PARTITIONS, Contender, Query, aggregated, keyed
from bench.session import CORES, PROVIDER, STOCK, Build, bench_session, configured

JVM = {"spark.driver.extraJavaOptions": "-XX:NativeMemoryTracking=summary -XX:+AlwaysPreTouch"}
KEYSTATE = "Keystate RocksDB"
HEAP = "Keystate heap"
WARM_UP = 10_000


class Peak:
    """The most that something was, looked at every so many seconds."""

    def __init__(self, now: Callable[[], float], seconds: float) -> None:
        self._now, self._seconds = now, seconds
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._most = 0.0
        self._thread.start()

    def stop(self) -> float:
        self._done.set()
        self._thread.join()
        return self._most

    def _sample(self) -> None:
        while not self._done.wait(self._seconds):
            self._most = max(self._most, self._now())


class NativeMemory:
    """The native memory that the JVM has beside its own, more than at first, in MB."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._jcmd = shutil.which("jcmd") or f"{os.environ.get('JAVA_HOME', '')}/bin/jcmd"
        self._before = self._all()

    def now(self) -> float:
        return self._all() - self._before

    def _all(self) -> float:
        command = [self._jcmd, str(self._pid), "VM.native_memory", "summary"]
        told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        allocated = int(told.split("committed=")[1].split("KB")[0])
        status = Path(f"/proc/{self._pid}/status").read_text()
        return (int(status.split("VmRSS:")[1].split()[0]) - allocated) / 1024


def contenders(megabytes: int) -> dict[str, Contender]:
    """The queries by name, with their settings."""
    ours = {
        PROVIDER: OURS,
        "spark.keystate.backend": "rocksdb",
        "spark.keystate.rocksdb.memoryMB": str(megabytes),
    }
    return {
        KEYSTATE: (keyed, ours),
        "Spark RocksDB": (aggregated, {**STOCK, CHANGELOG: "false"}),
        HEAP: (keyed, {PROVIDER: OURS, "spark.keystate.backend": "hashmap"}),
    }


def write_batches(spark: SparkSession, folder: Path, keys: int, batch: int, updates: int) -> None:
    """A file for each batch, in the order in which they are read."""
    scattered = (F.col("id") * 7_368_787) % keys
    anywhere = F.floor(F.rand(seed=1) * keys).cast("long")
    batches = -(-keys // batch)
    for i in range(batches + updates):
        rows = spark.range(
            i * batch, min((i + 1) * batch, keys) if i < batches else (i + 1) * batch
        )
        key = (scattered if i < batches else anywhere).alias("key")
        made = folder / f"{i}"
        rows.select(key, (F.col("id") % 97).alias("value")).coalesce(1).write.parquet(str(made))
        (part,) = made.glob("*.parquet")
        os.utime(part, (1e9 + i, 1e9 + i))
        part.rename(folder / f"{i:05}.parquet")
        shutil.rmtree(made)


def run(spark: SparkSession, build: Build, folder: Path, keys: int) -> list[Any]:
    """The progress of each batch of the files in FOLDER/input."""
    rows = spark.readStream.schema("key long, value long").option("maxFilesPerTrigger", 1)
    query = (
        build(rows.parquet(str(folder / "input")))
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    told = 0
    while query.isActive:
        query.awaitTermination(1)
        told = tell(query.recentProgress, told)
    if (e := query.exception()) is not None:
        raise e
    tell(query.recentProgress, told)
    progress = [p for p in query.recentProgress if p.numInputRows]
    held = progress[-1].stateOperators[0].numRowsTotal
    assert held == keys, f"{held:,} keys are held instead of {keys:,}"
    return progress


def tell(progress: list[Any], told: int) -> int:
    """Prints the batches after those already told."""
    done = [p for p in progress if p.numInputRows]
    for p in done[told:]:
        seconds = p.durationMs["triggerExecution"] / 1000
        held = p.stateOperators[0].numRowsTotal
        print(f"#   {held:>12,} keys held: {seconds:6.1f} s", flush=True)
    return len(done)


def measured(
    spark: SparkSession, work: Path, contender: Contender, keys: int, updates: int
) -> dict[str, Any]:
    """All figures of a contender."""
    build, settings = contender
    folder = work / "query"
    with configured(spark, {**settings, PARTITIONS: str(CORES)}):
        take(work / "warm-up", folder)
        run(spark, build, folder, WARM_UP)
        shutil.rmtree(folder)
        native = NativeMemory(spark._jvm.ProcessHandle.current().pid())
        peaks = {
            "native_mb": Peak(native.now, 5),
            "processes_mb": Peak(lambda: memory(os.getpid()), 1),
        }
        take(work / "input", folder)
        progress = run(spark, build, folder, keys)
        batches = [p.durationMs["triggerExecution"] / 1000 for p in progress]
        query = Query(spark, folder, contender, keys)
        restarts = {}
        for name, partitions in (("restart_s", CORES), ("rescale_s", 2 * CORES)):
            restarts[name] = query.restart(partitions, change=partitions != CORES)
            print(f"#   started with {partitions} partitions: {restarts[name]:.1f} s", flush=True)
        found = {name: round(peak.stop()) for name, peak in peaks.items()}
    shutil.rmtree(folder)
    new = batches[: len(batches) - updates]
    return {
        "seconds": batches,
        "first_s": statistics.mean(new[:3]),
        "last_s": statistics.mean(new[-3:]),
        "update_s": statistics.mean(batches[len(new) :]) if updates else None,
        **restarts,
        **found,
    }


def take(files: Path, folder: Path) -> None:
    """Makes them the input of a query."""
    shutil.copytree(files, folder / "input", copy_function=os.link)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=20_000_000)
    parser.add_argument("--batch", type=int, default=2_000_000)
    parser.add_argument("--updates", type=int, default=3, help="batches of random keys")
    parser.add_argument("--memory", type=int, default=256, help="spark.keystate.rocksdb.memoryMB")
    parser.add_argument("--heap", default="6g", help="of the JVM")
    parser.add_argument("--only", nargs="+", choices=contenders(0))
    parser.add_argument("--out", type=Path, help="also write the figures there, as JSON")
    args = parser.parse_args()

    results: dict[str, dict[str, Any]] = {}
    with bench_session({**JVM, "spark.driver.memory": args.heap}) as (spark, work):
        write_batches(spark, work / "warm-up", WARM_UP, WARM_UP, 1)
        write_batches(spark, work / "input", args.keys, args.batch, args.updates)
        for name, contender in contenders(args.memory).items():
            if args.only and name not in args.only:
                continue
            print(f"# {name}", flush=True)
            results[name] = measured(spark, work, contender, args.keys, args.updates)
            time.sleep(2)

    print(f"\n{args.keys:,} keys, {args.batch:,} a batch, {CORES} partitions, heap {args.heap}\n")
    print("| | first 3 batches, s | last 3, s | rate | updates, s | restart, s |", end="")
    print(f" to {2 * CORES} partitions, s | native memory, MB | all processes, MB |")
    print("|---|---|---|---|---|---|---|---|---|")
    for name, r in results.items():
        update = f"{r['update_s']:.1f}" if args.updates else "-"
        print(
            f"| {name} | {r['first_s']:.1f} | {r['last_s']:.1f} | {r['first_s'] / r['last_s']:.0%} "
            f"| {update} | {r['restart_s']:.1f} | {r['rescale_s']:.1f} | {r['native_mb']} "
            f"| {r['processes_mb']} |"
        )
    if args.out:
        args.out.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
