"""A driver that waits where a test wants it, so that another one can come in between.

python second_driver_query.py NAME PARTITIONS FORMAT:KIND:FOLDER...

It runs a query for each folder. With a file FOLDER/NAME.rows it waits before a batch's rows are
read, with FOLDER/NAME.sink before its output is saved: while the file is there and in no batch
before the second. It says so by a file NAME.rows.waits or NAME.sink.waits, and writes a query's
error into NAME.error.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keystate
import pyarrow as pa
import pyarrow.parquet as pq
from keystate import CheckpointedFunction, KeyedProcessFunction, ValueStateDescriptor
from keystate._jvm.session import FORMAT_KEY
from keystate.state import ListStateDescriptor
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.fault import batch_files, sessions

KEYS, ROWS = 40, 200


class Count(KeyedProcessFunction):
    """Emits how many rows of the key there were."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[int, int]]:
        self.count.update(self.count.value() + 1)
        yield row.key, self.count.value()


class CountAll(Count, CheckpointedFunction):
    """Also counts all rows of the subtasks, in operator state; emits that with a negative key."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.seen = store.get_list_state(ListStateDescriptor("seen", "long"))
        self.rows = sum(self.seen.get())

    def open(self, ctx: Any) -> None:
        super().open(ctx)
        self.subtask = ctx.get_index_of_this_subtask()

    def snapshot_state(self, context: Any) -> None:
        self.seen.update([self.rows])

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[int, int]]:
        self.rows += 1
        yield from super().process_element(row, ctx)
        yield -1 - self.subtask, self.rows


def feed(folder: Path, number: int) -> None:
    """Adds a batch: every key several times."""
    (folder / "input").mkdir(exist_ok=True)
    table = pa.table({"key": [i % KEYS for i in range(ROWS)]})
    part = folder / "input" / f"_{number}"
    pq.write_table(table, part)
    part.rename(folder / "input" / f"{number}.parquet")


def wait_while(folder: Path, name: str) -> None:
    if (folder / name).exists():
        (folder / f"{name}.waits").touch()
        while (folder / name).exists():
            time.sleep(0.02)


def waiting_saver(folder: Path, name: str) -> Callable[[DataFrame, int], None]:
    """Saves the output of each micro-batch; with all but the first it waits before that."""
    save = batch_files.saver(folder)

    def wait_and_save(df: DataFrame, batch: int) -> None:
        df = df.persist()
        df.count()
        if batch > 0:
            wait_while(folder, f"{name}.sink")
        save(df, batch)
        df.unpersist()

    return wait_and_save


def start(spark: SparkSession, folder: Path, name: str, kind: str, **trigger: Any) -> Any:
    stream = (
        spark.readStream.schema("key long")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / "input"))
    )

    def wait_for_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if (folder / "checkpoint" / "commits" / "0").exists():
                wait_while(folder, f"{name}.rows")
            yield batch

    rows = stream.mapInArrow(wait_for_rows, "key long")
    if kind == "spark":
        counts = rows.groupBy("key").agg(F.count("*").alias("count"))
    else:
        fn = CountAll() if kind == "operator" else Count()
        counts = keystate.keyed(rows, "key").process(fn, "key long, count long")
    return (
        counts.writeStream.foreachBatch(waiting_saver(folder, name))
        .outputMode("update" if kind == "spark" else "append")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(**trigger)
        .start()
    )


def main() -> None:
    name, partitions, *cases = sys.argv[1:]
    # A task that waits keeps its core.
    spark = sessions.create("local[16]", partitions)
    queries = {}
    for case in cases:
        version, kind, folder = case.split(":")
        spark.conf.set(FORMAT_KEY, version)
        queries[folder] = start(spark, Path(folder), name, kind, processingTime="0 seconds")
    while True:
        for folder, query in queries.items():
            if query.exception() is not None:
                Path(folder, f"{name}.error").write_text(str(query.exception()))
        time.sleep(0.1)


if __name__ == "__main__":
    main()
