"""The sink keystate-kafka against Spark's sink for Kafka, on a broker of this machine.

python -m bench.kafka_sink [--rows 100000] [--batches 10] [--repeat 3]

Micro-batches of so many records with short keys and values of 60 bytes, without state. A first
micro-batch, in which clients connect, is not counted.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from bench.session import bench_session, write
from tests.stores.artifacts import KAFKA_SOURCE, jars_for_spark
from tests.stores.kafka_broker import kafka

SINKS = {"Spark's": "kafka", "Keystate's": "keystate-kafka"}


def batches(spark: SparkSession, folder: Path, servers: str, sink: str, name: str) -> list[int]:
    """What micro-batches took, in ms."""
    query = (
        spark.readStream.schema("key string, value string")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder))
        .writeStream.format(sink)
        .option("kafka.bootstrap.servers", servers)
        .option("topic", sink)
        .option("checkpointLocation", str(folder.parent / name))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    progress = [json.loads(each.json) for each in query.recentProgress]
    return [each["durationMs"]["triggerExecution"] for each in progress if each["numInputRows"]][1:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    jars = jars_for_spark("kafka-spark", **KAFKA_SOURCE)
    count = given.rows * (given.batches + 1)
    numbers = np.random.default_rng(1).integers(0, 100_000, count)
    table = pa.table(
        {
            "key": pa.array([f"k{n}" for n in numbers]),
            "value": pa.array([f"{n:060}" for n in numbers]),
        }
    )
    with (
        tempfile.TemporaryDirectory() as place,
        kafka(Path(place)) as servers,
        bench_session({"spark.jars": jars}) as (spark, work),
    ):
        folder = write(work / "input", table, given.batches + 1)
        took: dict[str, list[int]] = {name: [] for name in SINKS}
        for i in range(-1, given.repeat):
            for name, sink in SINKS.items():
                measured = batches(spark, folder, servers, sink, f"{sink}{i}")
                if i >= 0:
                    took[name] += measured
    base = statistics.median(took["Spark's"])
    for name, each in took.items():
        median = statistics.median(each)
        print(f"{name}: {median:.0f} ms a micro-batch ({base / median:.2f} of the throughput)")


if __name__ == "__main__":
    main()
