"""The average of every two values of a key: in a batch, then in a stream with the same function.

python examples/count_window_average.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import keystate
from keystate import KeyedProcessFunction, RuntimeContext, ValueStateDescriptor
from pyspark.sql import SparkSession


class CountWindowAverage(KeyedProcessFunction):
    """Keeps a count and a sum for each key, and starts over when the count is two."""

    def open(self, ctx: RuntimeContext) -> None:
        self.sum = ctx.get_state(
            ValueStateDescriptor("average", "count long, total long", default=(0, 0))
        )

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[int, int]]:
        count, total = self.sum.value()
        count += 1
        total += row.value
        if count >= 2:
            yield row.key, total // count
            self.sum.clear()
        else:
            self.sum.update((count, total))


def main() -> None:
    """Prints (1,4) and (1,5), twice."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = keystate.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    rows = [(1, 3), (1, 5), (1, 7), (1, 4), (1, 2)]
    df = spark.createDataFrame(rows, "key long, value long").coalesce(1)
    schema = "key long, average long"

    for row in keystate.keyed(df, "key").process(CountWindowAverage(), schema).collect():
        print(f"({row.key},{row.average})")

    with tempfile.TemporaryDirectory() as folder:
        df.write.parquet(f"{folder}/input")
        stream = spark.readStream.schema(df.schema).parquet(f"{folder}/input")
        averages = keystate.keyed(stream, "key").process(CountWindowAverage(), schema)
        query = (
            averages.writeStream.foreachBatch(
                lambda batch, _: [print(f"({r.key},{r.average})") for r in batch.collect()]
            )
            .option("checkpointLocation", f"{folder}/checkpoint")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
