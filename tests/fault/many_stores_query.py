"""A query of very many stores of the RocksDB backend, with more state than they have memory.

python many_stores_query.py FOLDER MEMORY_MB

It runs a micro-batch when there is a file FOLDER/N.run, and makes FOLDER/N.done after it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import keystate
from keystate import EmbeddedRocksDBStateBackend
from keystate._types.waiting import wait_until
from pyspark.sql import Column
from pyspark.sql import functions as F

from tests.fault import batch_files, sessions

PARTITIONS, KEYS, SIZE = 200, 1500, 1_200
BATCHES = 2


def value(key: Column) -> Column:
    """A string of 64 * `SIZE` characters, of which no compression makes much less than half."""
    part = lambda i: F.sha2(F.concat_ws(" ", key, i).cast("binary"), 256)  # noqa: E731
    return F.concat_ws("", F.transform(F.sequence(F.lit(1), F.lit(SIZE)), part))


def wait_for(path: Path) -> None:
    wait_until(path.exists, path.name, seconds=3600)


def main() -> None:
    folder, memory = Path(sys.argv[1]), int(sys.argv[2])
    builder = (
        sessions.builder("local[2]", PARTITIONS)
        .config("spark.driver.memory", "600m")
        # So all of the heap is there from the beginning, and what comes later is not of it.
        .config("spark.driver.extraJavaOptions", "-Xms600m -XX:+AlwaysPreTouch")
        .config("spark.local.dir", str(folder / "local"))
    )
    backend = EmbeddedRocksDBStateBackend(memory_mb=memory)
    spark = keystate.configure(builder, state_backend=backend).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    # A batch is a file of one row.
    (folder / "input").mkdir()
    batches = spark.readStream.schema("first long, last long, fill boolean").parquet(
        str(folder / "input")
    )
    rows = batches.select(F.explode(F.sequence("first", "last")).alias("key"), "fill")
    # An operator of Spark's: its tasks need no Python worker, so there can be many of them.
    largest = F.max(F.when(F.col("fill"), value(F.col("key"))).otherwise(""))
    query = (
        rows.groupBy("key")
        .agg(F.crc32(largest.cast("binary")).alias("crc"))
        .writeStream.foreachBatch(batch_files.saver(folder))
        .outputMode("update")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )
    for n in range(BATCHES + 2):
        wait_for(folder / f"{n}.run")
        # The first has hardly anything: it opens the stores. The last reads all that there is.
        first, last = (n - 1) * KEYS, n * KEYS - 1
        if n in (0, BATCHES + 1):
            first, last = (-KEYS, -1) if n == 0 else (0, BATCHES * KEYS - 1)
        batch = spark.createDataFrame([(first, last, 0 < n <= BATCHES)], batches.schema)
        batch.coalesce(1).write.mode("append").parquet(str(folder / "input"))
        query.processAllAvailable()
        (folder / f"{n}.done").touch()
    query.stop()
    spark.stop()


if __name__ == "__main__":
    main()
