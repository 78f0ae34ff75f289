"""A driver that ends its query at the border of a micro-batch when it gets SIGTERM.

python sigterm_query.py FOLDER BATCH_SECONDS GRACE_SECONDS

A micro-batch takes as long as is said. FOLDER/batches has a line when one begins, and one when its
output is saved. The driver then says that it came to its end.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import keystate
import pyarrow as pa
from pyspark.sql import DataFrame

from tests.fault import batch_files, sessions
from tests.fault.second_driver_query import Count

KEYS, FILES = 10, 8


def make_input(folder: Path) -> None:
    for number in range(FILES):
        batch_files.write(folder / "input", number, pa.table({"key": list(range(KEYS))}))


def start(spark: Any, folder: Path, batch_seconds: float, **trigger: Any) -> Any:
    save = batch_files.saver(folder)

    def slow(df: DataFrame, batch: int) -> None:
        with (folder / "batches").open("a") as told:
            print("begins", batch, file=told, flush=True)
            time.sleep(batch_seconds)
            save(df, batch)
            print("saved", batch, file=told, flush=True)

    rows = (
        spark.readStream.schema("key long")
        .option("maxFilesPerTrigger", "1")
        .parquet(str(folder / "input"))
    )
    return (
        keystate.keyed(rows, "key")
        .process(Count(), "key long, count long")
        .writeStream.option("checkpointLocation", str(folder / "checkpoint"))
        .foreachBatch(slow)
        .trigger(**trigger)
        .start()
    )


def main(folder: Path, batch_seconds: float, grace_seconds: float) -> None:
    spark = sessions.create("local[2]", 2)
    query = start(spark, folder, batch_seconds, processingTime="0 seconds")
    keystate.stop_on_sigterm(query, grace_seconds=grace_seconds)
    query.awaitTermination()
    (folder / "ended").touch()
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]))
