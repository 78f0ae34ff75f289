"""CountWindowAverage over Keystate and over Spark's own transformWithStateInPandas, in one run.

    python bench/keyed_state.py [--rows 1000000] [--keys 100000] [--peer-rows 200000] [--reps 3]

Each figure is a whole streaming query (start to end) over one micro-batch, trigger availableNow,
into the noop sink; the median of the repetitions. The peer gets fewer rows and, in proportion,
fewer keys, for it takes minutes for what takes Keystate seconds; pass --peer-rows equal to --rows
to compare like with like.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from keystate import KeyedProcessFunction, ValueStateDescriptor
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

OUTPUT = "key long, average double"
SPARK_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class CountWindowAverage(KeyedProcessFunction):
    """Emits the average of every two values of a key."""

    def open(self, ctx: Any) -> None:
        self.sum = ctx.get_state(
            ValueStateDescriptor("average", "count long, total long", default=(0, 0))
        )

    def process_element(self, row: Any, ctx: Any) -> Any:
        count, total = self.sum.value()
        count += 1
        total += row.value
        if count >= 2:
            self.sum.clear()
            yield row.key, total / count
        else:
            self.sum.update((count, total))


class PandasCountWindowAverage(StatefulProcessor):
    """The same on Spark's API."""

    def init(self, handle: Any) -> None:
        self.sum = handle.getValueState("average", "count long, total long")

    def handleInputRows(self, key: Any, rows: Any, timer_values: Any) -> Any:
        averages = []
        for pdf in rows:
            for value in pdf["value"].tolist():
                current = self.sum.get()
                count, total = current if current is not None else (0, 0)
                count += 1
                total += value
                if count >= 2:
                    self.sum.clear()
                    averages.append(total / count)
                else:
                    self.sum.update((count, total))
        if averages:
            yield pd.DataFrame({"key": [key[0]] * len(averages), "average": averages})

    def close(self) -> None:
        pass


def plain_dict(batches: Any) -> Any:
    """The same with a dictionary in the worker, lost with the query: what no state can beat."""
    state: dict[int, tuple[int, int]] = {}
    for batch in batches:
        keys, averages = [], []
        rows = zip(batch.column("key").to_pylist(), batch.column("value").to_pylist())
        for key, value in rows:
            count, total = state.get(key, (0, 0))
            count += 1
            total += value
            if count >= 2:
                del state[key]
                keys.append(key)
                averages.append(total / count)
            else:
                state[key] = (count, total)
        columns = [pa.array(keys, pa.int64()), pa.array(averages, pa.float64())]
        yield pa.RecordBatch.from_arrays(columns, ["key", "average"])


def with_keystate(df: DataFrame) -> DataFrame:
    return keystate.keyed(df, "key").process(CountWindowAverage(), OUTPUT)


def with_pandas(df: DataFrame) -> DataFrame:
    return df.groupBy("key").transformWithStateInPandas(
        PandasCountWindowAverage(), OUTPUT, outputMode="Update", timeMode="None"
    )


def with_dict(df: DataFrame) -> DataFrame:
    return df.repartition(2, "key").mapInArrow(plain_dict, OUTPUT)


def make_input(folder: Path, rows: int, keys: int) -> int:
    """Writes random rows; returns how many averages they give."""
    random = np.random.default_rng(7)
    key = random.integers(0, keys, rows)
    table = pa.table({"key": key, "value": random.integers(0, 1000, rows)})
    folder.mkdir()
    for i in range(4):
        step = -(-rows // 4)
        pq.write_table(table.slice(i * step, step), folder / f"{i}.parquet")
    return int((np.bincount(key) // 2).sum())


def run(
    spark: SparkSession, implementation: Callable[[DataFrame], DataFrame], folder: Path, work: Path
) -> tuple[float, int]:
    """Seconds of one query, and how many rows it emitted."""
    checkpoint = tempfile.mkdtemp(dir=work)
    stream = spark.readStream.schema("key long, value long").parquet(str(folder))
    started = time.perf_counter()
    query = (
        implementation(stream)
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    seconds = time.perf_counter() - started
    emitted = sum(p.sink.numOutputRows for p in query.recentProgress)
    shutil.rmtree(checkpoint)
    return seconds, emitted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--peer-rows", type=int, default=200_000)
    parser.add_argument("--reps", type=int, default=3)
    parser.add_argument("--skip-peer", action="store_true")
    arguments = parser.parse_args()

    work = Path(tempfile.mkdtemp(prefix="keystate-bench"))
    builder = SparkSession.builder.master("local[2]").appName("keyed_state")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(work / "warehouse"),
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    }.items():
        builder = builder.config(key, value)
    spark = keystate.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    own_provider = spark.conf.get("spark.sql.streaming.stateStore.providerClass")
    try:
        cases = {
            "keystate": (with_keystate, arguments.rows, own_provider),
            "plain dict, not durable": (with_dict, arguments.rows, own_provider),
            "transformWithStateInPandas": (with_pandas, arguments.peer_rows, SPARK_ROCKSDB),
        }
        if arguments.skip_peer:
            del cases["transformWithStateInPandas"]
        rates = {}
        warm = work / "warm"
        make_input(warm, 2000, 200)
        for name, (implementation, rows, provider) in cases.items():
            spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
            keys = max(1, arguments.keys * rows // arguments.rows)
            folder = work / name.replace(" ", "-")
            expected = make_input(folder, rows, keys)
            run(spark, implementation, warm, work)
            times = []
            for _ in range(arguments.reps):
                seconds, emitted = run(spark, implementation, folder, work)
                if emitted >= 0 and emitted != expected:
                    sys.exit(f"{name} emitted {emitted} rows, expected {expected}")
                times.append(seconds)
            median = statistics.median(times)
            rates[name] = rows / median
            print(
                f"{name:28} {rows:>9,} rows {keys:>7,} keys  {median:7.2f} s  "
                f"{rates[name]:>10,.0f} rows/s  {median / rows * 1e6:7.2f} us/row",
                flush=True,
            )
        for name, rate in rates.items():
            if name != "keystate":
                print(f"keystate / {name}: {rates['keystate'] / rate:.2f}")
    finally:
        spark.stop()
        shutil.rmtree(work, ignore_errors=True)
        os.environ.pop("PYSPARK_PYTHON", None)


if __name__ == "__main__":
    main()
