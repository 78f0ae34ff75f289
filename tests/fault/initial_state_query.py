"""A query that begins with initial state, and what it should emit.

Run as a script it is the driver that a test kills in the first micro-batch of each query:
python initial_state_query.py BACKEND:FORMAT:FOLDER...
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import keystate
from keystate._jvm.session import FORMAT_KEY
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.fault import batch_files, sessions
from tests.fault.restart_query import Ledger

KEYS = 3000


class Initialized(Ledger):
    """Every key begins with one entry in each state.

    Args:
        slow: a folder in which each task notes that it is halfway, and then waits to be killed.
    """

    def __init__(self, slow: Path | None = None) -> None:
        self._slow = slow
        self._seen = 0

    def process_initial_state(self, row: Any, ctx: Any) -> None:
        self.count.update(self.count.value() + row.count)
        self.last.add(row.key)
        self.by_kind["initial"] = (self.by_kind["initial"] or 0) + row.key
        ctx.timer_service().register_processing_time_timer(10**15)
        self._seen += 1
        if self._slow is not None and self._seen == KEYS // 4:
            (self._slow / str(row.key)).touch()
            time.sleep(300)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield -1, ctx.get_current_key(), "in the year 33658"


def settings(backend: str, checkpoint_format: str, partitions: int = 2) -> dict[str, str]:
    """Of a session in which a query is started."""
    return {
        FORMAT_KEY: checkpoint_format,
        "spark.keystate.backend": backend,
        "spark.sql.shuffle.partitions": str(partitions),
    }


def start(spark: SparkSession, folder: Path, out: Path | None = None, slow: Any = None) -> Any:
    """Starts the query, a file a micro-batch; it ends with the input."""
    rows = (
        spark.readStream.schema("number long, key long, x long")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / "input"))
    )
    initial = spark.range(KEYS).select(F.col("id").alias("key"), (F.col("id") % 9).alias("count"))
    out = out or folder
    out.mkdir(exist_ok=True)
    return (
        keystate.keyed(rows, "key")
        .process(Initialized(slow), "number long, key long, state string", initial_state=initial)
        .writeStream.foreachBatch(batch_files.saver(out))
        .option("checkpointLocation", str(out / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def main() -> None:
    # A task that waits keeps its core.
    spark = sessions.create("local[8]", 2)
    for case in sys.argv[1:]:
        backend, checkpoint_format, folder = case.split(":")
        for key, value in settings(backend, checkpoint_format).items():
            spark.conf.set(key, value)
        start(spark, Path(folder), slow=Path(folder, "halfway"))
    spark.streams.awaitAnyTermination()


if __name__ == "__main__":
    main()
