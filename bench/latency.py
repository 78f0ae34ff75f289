"""How long a row takes from source to sink: python -m bench.latency [--seconds 60] [--out FILE].
With --ahead 9000000 --batch 5 instead: how many rows a second, if so many wait in the source.
With --idle-only --batch 300 --idle 300: how much of a core a query takes that gets no rows.

Rows come at a steady rate from Kafka, whose broker is started for it; the function reads and
updates a value for each one. The time at the source is taken before a row is handed to Kafka, the
one at the sink by an expression above the function, as the row goes to the sink. Needs Spark 4.3,
and Maven for Kafka's jars.

If a query can't keep up with the rate, the figures are those of a backlog, and CPU time without
rows is that of catching up: then choose a lower --rate. Spark's own source in memory (--memory)
walks along a list for each row, so it can't keep up for long with more than a few hundred a second.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import statistics
import subprocess
import tempfile
import time
import uuid
from bisect import bisect_left
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from math import inf
from operator import itemgetter
from pathlib import Path
from typing import Any

import keystate
import pandas as pd
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from keystate import KeyedProcessFunction, ValueStateDescriptor
from py4j.java_collections import ListConverter
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from bench.processes import busy
from bench.scala import compile_program
from bench.session import CORES, STOCK, bench_session, configured
from tests.stores.artifacts import jars, jars_for_spark
from tests.stores.kafka_broker import kafka

SCHEMA = "key long, n long, source long"

#: How long a query without rows runs before it is measured.
SETTLE_SECONDS = 30


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


class Nowhere:
    """A sink that forgets its rows."""

    def process(self, row: Any) -> None:
        pass


class Source:
    """Rows at a steady rate."""

    def rows(self, **options: Any) -> DataFrame:
        """The rows, with columns `key` and `source`, the time in µs."""
        raise NotImplementedError

    def add(self, texts: list[str]) -> None:
        """Adds rows, each as `key,source`."""
        raise NotImplementedError

    def feed(self, seconds: float, rate: int, keys: int) -> None:
        """Adds rows for so long, every few ms those that are due."""
        begin = time.time()
        added = 0
        while (now := time.time()) < begin + seconds:
            due = int((now - begin) * rate) - added
            micros = time.time_ns() // 1000
            self.add([f"{random.randrange(keys)},{micros}" for _ in range(due)])
            added += due
            time.sleep(0.004)

    def fill(self, rows: int, keys: int) -> None:
        """Adds so many rows at once."""
        for begin in range(0, rows, 10_000):
            self.add([f"{random.randrange(keys)},0" for _ in range(min(10_000, rows - begin))])


def parsed(rows: DataFrame) -> DataFrame:
    parts = F.split(F.col("value").cast("string"), ",")
    return rows.select(parts[0].cast("long").alias("key"), parts[1].cast("long").alias("source"))


class KafkaSource(Source):
    """A topic with one partition."""

    def __init__(self, spark: SparkSession, address: str) -> None:
        self._spark, self.address = spark, address
        self.topic = f"rows-{uuid.uuid4()}"
        self._producer = Producer({"bootstrap.servers": address, "linger.ms": 0, "log_level": 0})
        client = AdminClient({"bootstrap.servers": address})
        client.create_topics([NewTopic(self.topic, 1, 1)])[self.topic].result()

    def rows(self, **options: Any) -> DataFrame:
        reader = self._spark.readStream.format("kafka").options(**options)
        reader = reader.option("kafka.bootstrap.servers", self.address)
        reader = reader.option("startingOffsets", "earliest")
        return parsed(reader.option("subscribe", self.topic).load())

    def add(self, texts: list[str]) -> None:
        for text in texts:
            self._producer.produce(self.topic, text)
        self._producer.poll(0)
        if len(self._producer) > 50_000:
            self._producer.flush()


class MemorySource(Source):
    """Spark's source for tests of real-time mode."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._jvm: Any = spark._jvm
        package = self._jvm.org.apache.spark.sql.execution.streaming.sources
        encoder = self._jvm.org.apache.spark.sql.Encoders.STRING()
        self._stream = package.LowLatencyMemoryStream.apply(spark._jsparkSession, 1, encoder)

    def rows(self, **options: Any) -> DataFrame:
        return parsed(DataFrame(self._stream.toDF(), self._spark))

    def add(self, texts: list[str]) -> None:
        if texts:
            to_seq = self._jvm.org.apache.spark.api.python.PythonUtils.toSeq
            self._stream.addData(to_seq(ListConverter().convert(texts, self._jvm._gateway_client)))


def percentiles(latencies: list[int]) -> dict[str, float]:
    """p50, p95, p99 and the maximum of so many µs, in ms."""
    ordered = sorted(latencies)
    at = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    last = len(ordered) - 1
    return {name: ordered[min(int(len(ordered) * p), last)] / 1000 for name, p in at.items()}


def in_keystate(rows: DataFrame) -> DataFrame:
    return keystate.keyed(rows, "key").process(Count(), SCHEMA, time_mode="none")


def in_pandas(rows: DataFrame) -> DataFrame:
    return rows.groupBy("key").transformWithStateInPandas(PandasCount(), SCHEMA, "Update", "None")


def in_scala(rows: DataFrame) -> DataFrame:
    """With Spark's own API in the JVM."""
    jvm: Any = rows.sparkSession._jvm
    return DataFrame(jvm.Count.transformWithState(rows._jdf), rows.sparkSession)


def fed(source: Source, arguments: argparse.Namespace) -> float:
    """Adds rows; returns from when on they count, in µs."""
    source.feed(arguments.warm_up, arguments.rate, arguments.keys)
    warm = time.time() * 1e6
    source.feed(arguments.seconds, arguments.rate, arguments.keys)
    return warm


def summary(times: list[Any], warm: float, idle: float) -> dict[str, Any]:
    latencies = [sink - source for source, sink in times if source >= warm]
    return {"rows": len(latencies), "all": percentiles(latencies), "idle": idle}


def run(
    source: Source,
    folder: Path,
    build: Any,
    trigger: dict[str, str],
    arguments: argparse.Namespace,
) -> dict[str, Any]:
    """Runs a query while rows come, and then for a while without rows."""
    out = folder / "times"
    out.mkdir(parents=True)
    now = F.expr("unix_micros(cast(reflect('java.time.Instant', 'now') as timestamp))")
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
        warm = fed(source, arguments)
        # Until the batch with the last rows has ended and its output is there, and another one, in
        # which the JVM still compiles.
        ended = len(query.recentProgress) + 3
        while real_time and len(query.recentProgress) < ended:
            time.sleep(0.1)
        if not real_time:
            query.processAllAvailable()
        idle = busy(arguments.idle)
        progress = list(query.recentProgress)
    finally:
        query.stop()
    times = [pair for path in out.iterdir() for pair in json.loads(path.read_text())]
    result = {**summary(times, warm, idle), "batches": len(progress)}
    if real_time:
        begins = [datetime.fromisoformat(p.timestamp).timestamp() * 1e6 for p in progress]
        result |= by_batches(sorted(times, key=itemgetter(1)), begins, arguments.batch, warm)
        result |= in_task([p.stateOperators[0].customMetrics for p in progress if p.numInputRows])
    return result


def in_task(metrics: list[dict[str, int]]) -> dict[str, float]:
    """In ms, what half of the rows waited at most in Keystate's task, and in the worker's hands."""
    names = {"queueing": "keystateQueueingUs.p50", "worker": "keystateWorkerUs.p50"}
    return {
        name: statistics.median(each[metric] for each in metrics) / 1000
        for name, metric in names.items()
        if all(metric in each for each in metrics)
    }


def run_flink(
    source: KafkaSource, folder: Path, python: str, arguments: argparse.Namespace
) -> dict[str, Any]:
    """The same with a job of PyFlink."""
    folder.mkdir()
    command = [python, "-m", "bench.flink_latency", source.address, source.topic, str(folder)]
    command.append(",".join(map(str, jars("kafka-flink"))))
    with subprocess.Popen(command) as job:
        try:
            warm = fed(source, arguments)
            time.sleep(1)
            idle = busy(arguments.idle, job.pid)
        finally:
            job.terminate()
    lines = (line for path in folder.iterdir() for line in path.read_text().split())
    return summary([tuple(map(int, line.split(","))) for line in lines], warm, idle)


def run_idle(
    source: Source, folder: Path, build: Any, trigger: dict[str, str], arguments: argparse.Namespace
) -> dict[str, Any]:
    """How much of a core a query takes that gets no rows.

    Rows come first, in a run with short batches, so that the JVM has compiled what it will. Then it
    starts again: so what is measured need not wait for the end of a long batch with rows.
    """

    def started(duration: dict[str, str]) -> Any:
        return (
            build(source.rows())
            .writeStream.outputMode("update")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .foreach(Nowhere())
            .trigger(**duration)
            .start()
        )

    query = started({"realTime": "5 seconds"})
    try:
        source.feed(arguments.warm_up, arguments.rate, arguments.keys)
        time.sleep(10)
    finally:
        query.stop()
    query = started(trigger)
    try:
        query.awaitTermination(SETTLE_SECONDS)
        before = len(query.recentProgress)
        idle = busy(arguments.idle)
        ended = len(query.recentProgress) - before
    finally:
        query.stop()
    return {"idle": idle, "batches that ended": ended}


def run_ahead(
    source: Source, folder: Path, build: Any, trigger: dict[str, str], arguments: argparse.Namespace
) -> dict[str, Any]:
    """Rows a second of a query whose source is ahead of it, in its second batch."""
    source.fill(arguments.ahead, arguments.keys)
    # A batch of real-time mode takes what comes until its time is up.
    limit = {} if "realTime" in trigger else {"maxOffsetsPerTrigger": arguments.ahead // 3}
    query = (
        build(source.rows(**limit))
        .writeStream.outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .foreach(Nowhere())
        .trigger(**trigger)
        .start()
    )
    try:
        while len(query.recentProgress) < 2:
            # Raises what ended the query.
            query.awaitTermination(0.1)
        progress = query.recentProgress
    finally:
        query.stop()
    if sum(p.numInputRows for p in progress) >= arguments.ahead:
        raise SystemExit("The source was not ahead: choose a larger --ahead.")
    second = progress[1]
    return {"rows a second": second.numInputRows / second.durationMs["triggerExecution"] * 1000}


def by_batches(
    times: list[tuple[int, int]], begins: list[float], seconds: int, warm: float
) -> dict[str, Any]:
    """Splits rows, in the order in which they came out, by the batches of real-time mode.

    ``within`` has the rows that came to a batch at work: after its first row was out, and before it
    was to end. ``start`` is the time from a batch's begin until its first row is out, and ``pause``
    that from the last row of the batch before; both are medians, in ms.
    """
    sink = itemgetter(1)
    inside, starts, pauses = [], [], []
    for begin, end in pairwise([*begins, inf]):
        first, last = (bisect_left(times, time, key=sink) for time in (begin, end))
        if begin < warm or first == 0 or first == last:
            continue
        at_work = times[first][1]
        inside += [
            out - source
            for source, out in times[first:last]
            if at_work <= source < begin + (seconds - 0.2) * 1e6
        ]
        starts.append(at_work - begin)
        pauses.append(at_work - times[first - 1][1])
    return {
        "within": percentiles(inside),
        "start": statistics.median(starts) / 1000,
        "pause": statistics.median(pauses) / 1000,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--warm-up", type=float, default=30)
    parser.add_argument("--idle", type=float, default=10)
    parser.add_argument("--batch", type=int, default=10, help="seconds a batch of real-time mode")
    parser.add_argument("--rate", type=int, default=1000, help="rows a second")
    parser.add_argument("--keys", type=int, default=50_000)
    parser.add_argument("--memory", action="store_true", help="rows from memory, not from Kafka")
    parser.add_argument("--ahead", type=int, help="rows that wait in the source")
    parser.add_argument("--idle-only", action="store_true", help="only what real time takes idle")
    parser.add_argument("--rounds", type=int, default=2, help="only the last one counts")
    parser.add_argument("--pyflink", metavar="PYTHON", help="a Python with apache-flink")
    parser.add_argument("--only", help="contenders whose names have this")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    if arguments.pyflink and arguments.memory:
        parser.error("PyFlink reads its rows from Kafka: leave out --memory or --pyflink")
    # Only batches that begin and get rows after the warm-up count.
    one = arguments.ahead or arguments.idle_only
    if not one and arguments.seconds < 2 * arguments.batch:
        parser.error("--seconds must be at least twice --batch")
    now = {"processingTime": "0 seconds"}
    contenders: dict[str, tuple[Any, dict[str, str], dict[str, str]]] = {
        "Keystate, real time": (in_keystate, {"realTime": f"{arguments.batch} seconds"}, {}),
        "transformWithState in Scala, real time": (
            in_scala,
            {"realTime": f"{arguments.batch} seconds"},
            STOCK,
        ),
        "Keystate, micro-batches": (in_keystate, now, {}),
        "transformWithStateInPandas, micro-batches": (in_pandas, now, STOCK),
    }
    results = {}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keystate-bench")))
        scala = compile_program(Path(__file__).with_name("scala") / "Count.scala", folder)
        settings = {"spark.jars": str(scala)}
        if not arguments.memory:
            settings["spark.jars"] += f",{jars_for_spark('kafka-spark')}"
            address = stack.enter_context(kafka(folder))
        spark, work = stack.enter_context(bench_session(settings, slots=CORES + 2))
        # The JVM compiles what is Spark's in the first round, for whoever comes first.
        for i, (name, (build, trigger, own)) in enumerate(arguments.rounds * [*contenders.items()]):
            if arguments.only and arguments.only not in name:
                continue
            if arguments.idle_only and "realTime" not in trigger:
                continue
            source = MemorySource(spark) if arguments.memory else KafkaSource(spark, address)
            with configured(spark, own):
                measure = run_ahead if arguments.ahead else run_idle if arguments.idle_only else run
                results[name] = measure(source, work / str(i), build, trigger, arguments)
            print(name, json.dumps(results[name]), flush=True)
        if arguments.pyflink:
            flink = run_flink(
                KafkaSource(spark, address), work / "flink", arguments.pyflink, arguments
            )
            results["PyFlink, threads"] = flink
            print("PyFlink, threads", json.dumps(flink), flush=True)
    if arguments.out:
        arguments.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
