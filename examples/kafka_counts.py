"""Counts the records of each key, from a Kafka topic to another one.

python -m examples.kafka_counts SERVERS INPUT OUTPUT CHECKPOINT [--partitions 2] [--once]
    [--records 10000]

The state is exactly once: the offsets of a micro-batch and the version of the state that was made
of them are committed together, whatever is killed, and with any number of partitions at the next
start. Spark's Kafka sink writes at least once: a micro-batch that is run again writes its records
again. Here that does no harm, because a record says how many there were of its key, and a reader
takes the highest number.

The rows of a key come from one Kafka partition in its order, if the producer chose the partition by
the key. `order_by` keeps that order over several partitions of Spark, within a micro-batch.

Spark needs its Kafka package for this: spark-submit --packages org.apache.spark:spark-sql-kafka-...
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import keystate
from keystate import KeyedProcessFunction, ValueStateDescriptor
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F


class Count(KeyedProcessFunction):
    """Emits how many records of the key there have been, and the newest value."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[str, str]]:
        count = self.count.value() + 1
        self.count.update(count)
        yield row.key, f"{count} {row.value}"


def records(spark: SparkSession, servers: str, topic: str, most: int) -> DataFrame:
    """A topic as a stream: key, value and offset; so many records a micro-batch."""
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", most)
        .load()
        .select(F.col("key").cast("string"), F.col("value").cast("string"), "offset")
    )


def results(rows: DataFrame) -> DataFrame:
    return keystate.keyed(rows, "key", order_by="offset").process(
        Count(), "key string, value string"
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("servers")
    parser.add_argument("input")
    parser.add_argument("output")
    parser.add_argument("checkpoint")
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--records", type=int, default=10_000, help="of a micro-batch, at most")
    parser.add_argument("--once", action="store_true", help="end when all is processed")
    args = parser.parse_args()

    builder = SparkSession.builder.config("spark.sql.shuffle.partitions", args.partitions)
    spark = keystate.configure(builder).getOrCreate()
    trigger: dict[str, Any] = (
        {"availableNow": True} if args.once else {"processingTime": "0 seconds"}
    )
    query = (
        results(records(spark, args.servers, args.input, args.records))
        .writeStream.format("kafka")
        .option("kafka.bootstrap.servers", args.servers)
        .option("topic", args.output)
        .option("checkpointLocation", args.checkpoint)
        .trigger(**trigger)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
