"""A source that counts, a keyed sum behind it and files at the end: exactly once, kill it at will.

python examples/counter_source.py [FOLDER [UNTIL]]

Counts from where the last run in that folder ended. The sums come out the same whether it ran
through or was killed and started again.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import keystate
from keystate import (
    KeyedProcessFunction,
    ListCheckpointed,
    RichParallelSourceFunction,
    RuntimeContext,
    ValueStateDescriptor,
)
from pyspark.sql import SparkSession

KEYS = 5


class CounterSource(RichParallelSourceFunction, ListCheckpointed[int]):
    """Counts; of n instances each emits every nth number."""

    def __init__(self, until: int) -> None:
        self.until = until
        self.offset = 0
        self.is_running = True

    def open(self, ctx: RuntimeContext) -> None:
        self.index = ctx.get_index_of_this_subtask()
        self.step = ctx.get_number_of_parallel_subtasks()

    def run(self, ctx: keystate.SourceContext) -> None:
        while self.is_running and self.offset * self.step + self.index < self.until:
            # Output and state update are atomic.
            with ctx.get_checkpoint_lock():
                ctx.collect(self.offset * self.step + self.index)
                self.offset += 1

    def cancel(self) -> None:
        self.is_running = False

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[int]:
        return [self.offset]

    def restore_state(self, state: list[int]) -> None:
        for offset in state:
            self.offset = offset


class Sum(KeyedProcessFunction):
    """Emits each number with how many of its key there were so far, and their sum."""

    def open(self, ctx: RuntimeContext) -> None:
        self.sum = ctx.get_state(
            ValueStateDescriptor("sum", "count long, total long", default=(0, 0))
        )

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[int, int, int, int]]:
        count, total = self.sum.value()
        self.sum.update((count + 1, total + row.n))
        yield row.key, row.n, count + 1, total + row.n


def start(spark: SparkSession, folder: str, until: int, rows: int = 1000, parallel: int = 2) -> Any:
    """Starts the query, with so many rows a micro-batch."""
    counter = CounterSource(until)
    numbers = keystate.source(
        spark, counter, "n long", parallelism=parallel, max_rows_per_batch=rows
    )
    return (
        keystate.keyed(numbers.selectExpr("n", f"n % {KEYS} AS key"), "key")
        .process(Sum(), "key long, n long, count long, total long")
        .writeStream.format("parquet")
        .option("checkpointLocation", f"{folder}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{folder}/output")
    )


def main() -> None:
    """Runs until the count is reached, and prints the last count and sum of each key."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", 2)
    spark = keystate.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    folder = sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp()
    until = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    start(spark, folder, until).awaitTermination()
    output = spark.read.parquet(f"{folder}/output")
    for row in output.groupBy("key").agg({"count": "max", "total": "max"}).orderBy("key").collect():
        print(tuple(row))
    spark.stop()


if __name__ == "__main__":
    main()
