"""Counts values in a sorted map and emits its first entry; the stream is restarted half way.

python examples/count_window_first_entry.py
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from typing import Any

import keystate
from keystate import BYTEWISE, KeyedProcessFunction, RuntimeContext, SortedMapStateDescriptor
from pyspark.sql import SparkSession

ROWS = [(1, 3), (1, 5), (1, 3), (1, 7), (1, 4), (1, 2), (1, 2), (1, 1)]


class CountWindowFirstEntry(KeyedProcessFunction):
    """Counts how often each value came, and emits the least value and its count."""

    def open(self, ctx: RuntimeContext) -> None:
        self.counts = ctx.get_sorted_map_state(
            SortedMapStateDescriptor("sortedmapstate", "long", "long", BYTEWISE)
        )

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[int, int, int]]:
        self.counts.put(row.value, (self.counts.get(row.value) or 0) + 1)
        value, count = self.counts.first_entry()
        yield row.key, value, count


def main() -> None:
    """Prints (1,3,1), (1,3,1), (1,3,2), (1,3,2), (1,3,2), (1,2,1), (1,2,2), (1,1,1)."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    spark = keystate.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    with tempfile.TemporaryDirectory() as folder:
        for rows in (ROWS[:5], ROWS[5:]):
            df = spark.createDataFrame(rows, "key long, value long").coalesce(1)
            df.write.mode("append").parquet(f"{folder}/input")
            stream = spark.readStream.schema(df.schema).parquet(f"{folder}/input")
            firsts = keystate.keyed(stream, "key").process(
                CountWindowFirstEntry(), "key long, value long, count long"
            )
            query = (
                firsts.writeStream.foreachBatch(
                    lambda batch, _: [
                        print(f"({r.key},{r.value},{r['count']})") for r in batch.collect()
                    ]
                )
                .option("checkpointLocation", f"{folder}/checkpoint")
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
