"""How long a row takes from source to sink: python -m bench.latency [--seconds 60] [--out FILE].

Rows come at a steady rate from a source in memory; the function reads and updates a value for each
one. The time at the source is taken before rows are handed to it, the one at the sink by an
expression above the function, as the row goes to the sink. Needs Spark 4.3.

If the source or a query can't keep up with the rate, the figures are those of a backlog, and CPU
time without rows is that of catching up: then choose a lower --rate.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import keystate
import pandas as pd
from keystate import KeyedProcessFunction, ValueStateDescriptor
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from bench.session import CORES, STOCK, bench_session, configured, cpu_seconds

SCHEMA = "key long, n long, source long"
#: What a batch of real-time mode needs until its tasks run, in ms.
START = 1000


class Count(KeyedProcessFunction):
    """One value read and one update a row."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[int, int, int]]:
        n = self.count.value() + 1
        self.count.update(n)
        yield row.key, n, row.source


class PandasCount(StatefulProcessor):
    """The same with Spark's own API."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self.count = handle.getValueState("count", "count long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[pd.DataFrame]:
        n = self.count.get()[0] if self.count.exists() else 0
        for df in rows:
            counts = range(n + 1, n + 1 + len(df))
            n += len(df)
            yield pd.DataFrame({"key": key[0], "n": counts, "source": df["source"]})
        self.count.update((n,))

    def close(self) -> None:
        pass


class Times:
    """A sink that writes each row's two times to a file, once a batch."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def open(self, partition: int, epoch: int) -> bool:
        self.path = f"{self.folder}/{epoch}-{partition}-{time.time_ns()}"
        self.times: list[tuple[int, int]] = []
        return True

    def process(self, row: Any) -> None:
        self.times.append((row.source, row.sink))

    def close(self, error: Exception | None) -> None:
        Path(self.path).write_text(json.dumps(self.times))


class Source:
    """Rows in memory, at a steady rate."""

    def __init__(self, spark: SparkSession, keys: int) -> None:
        self._spark, self._keys = spark, keys
        self._jvm: Any = spark._jvm
        package = self._jvm.org.apache.spark.sql.execution.streaming.sources
        encoder = self._jvm.org.apache.spark.sql.Encoders.STRING()
        self._stream = package.LowLatencyMemoryStream.apply(spark._jsparkSession, 1, encoder)

    def rows(self) -> DataFrame:
        parts = F.split("value", ",")
        return DataFrame(self._stream.toDF(), self._spark).select(
            parts[0].cast("long").alias("key"), parts[1].cast("long").alias("source")
        )

    def feed(self, seconds: float, rate: int) -> None:
        """Adds rows for so long, every few ms those that are due."""
        begin = time.time()
        added = 0
        while (now := time.time()) < begin + seconds:
            due = int((now - begin) * rate) - added
            if due:
                texts = self._jvm.java.util.ArrayList()
                for _ in range(due):
                    texts.add(f"{random.randrange(self._keys)},{int(time.time() * 1000)}")
                self._stream.addData(self._jvm.org.apache.spark.api.python.PythonUtils.toSeq(texts))
                added += due
            time.sleep(0.004)


def percentiles(latencies: list[int]) -> dict[str, float]:
    """p50, p95, p99 and the maximum, in ms."""
    ordered = sorted(latencies)
    at = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    last = len(ordered) - 1
    return {name: ordered[min(int(len(ordered) * p), last)] for name, p in at.items()}


def in_keystate(rows: DataFrame) -> DataFrame:
    return keystate.keyed(rows, "key").process(Count(), SCHEMA, time_mode="none")


def in_pandas(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").transformWithStateInPandas(PandasCount(), SCHEMA, "Update", "None")


def run(
    spark: SparkSession,
    folder: Path,
    build: Any,
    trigger: dict[str, str],
    arguments: argparse.Namespace,
) -> dict[str, Any]:
    """Runs a query while rows come, and then for a while without rows."""
    out = folder / "times"
    out.mkdir(parents=True)
    source = Source(spark, arguments.keys)
    now = F.expr("reflect('java.lang.System', 'currentTimeMillis')").cast("long")
    query = (
        build(source.rows())
        .withColumn("sink", now)
        .writeStream.outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .foreach(Times(out))
        .trigger(**trigger)
        .start()
    )
    real_time = "realTime" in trigger
    try:
        source.feed(arguments.warm_up, arguments.rate)
        warm = time.time() * 1000
        source.feed(arguments.seconds, arguments.rate)
        # Until the batch with the last rows has ended, and its output is there.
        ended = len(query.recentProgress) + 2
        while real_time and len(query.recentProgress) < ended:
            time.sleep(0.1)
        if not real_time:
            query.processAllAvailable()
        before, cpu = time.perf_counter(), cpu_seconds()
        time.sleep(arguments.idle)
        idle = (cpu_seconds() - cpu) / (time.perf_counter() - before)
        progress = list(query.recentProgress)
    finally:
        query.stop()
    times = [pair for path in out.iterdir() for pair in json.loads(path.read_text())]
    measured = [(source, sink - source) for source, sink in times if source >= warm]
    result: dict[str, Any] = {
        "rows": len(measured),
        "all": percentiles([latency for _, latency in measured]),
        "idle": idle,
        "batches": len(progress),
    }
    if real_time:
        begins = [datetime.fromisoformat(p.timestamp).timestamp() * 1000 for p in progress]
        length = arguments.batch * 1000
        inside = [
            latency
            for source, latency in measured
            if any(begin + START <= source < begin + length - 200 for begin in begins)
        ]
        result["within"] = percentiles(inside)
        result["gap"] = max(p.durationMs["triggerExecution"] - length for p in progress[1:])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--warm-up", type=float, default=30)
    parser.add_argument("--idle", type=float, default=10)
    parser.add_argument("--batch", type=int, default=10, help="seconds a batch of real-time mode")
    parser.add_argument("--rate", type=int, default=1000, help="rows a second")
    parser.add_argument("--keys", type=int, default=50_000)
    parser.add_argument("--only", help="contenders whose names have this")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    now = {"processingTime": "0 seconds"}
    contenders: dict[str, tuple[Any, dict[str, str], dict[str, str]]] = {
        "Keystate, real time": (in_keystate, {"realTime": f"{arguments.batch} seconds"}, {}),
        "Keystate, micro-batches": (in_keystate, now, {}),
        "transformWithStateInPandas, micro-batches": (in_pandas, now, STOCK),
    }
    results = {}
    with bench_session(slots=CORES + 2) as (spark, work):
        for i, (name, (build, trigger, settings)) in enumerate(contenders.items()):
            if arguments.only and arguments.only not in name:
                continue
            with configured(spark, settings):
                results[name] = run(spark, work / str(i), build, trigger, arguments)
            print(name, json.dumps(results[name]), flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
