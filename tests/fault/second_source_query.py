"""A driver of a stateful source that gives as many numbers as a test allows it, and counts them.

python second_source_query.py FOLDER NAME PARTITIONS FORMAT
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import keystate
from keystate import KeyedProcessFunction, ListCheckpointed, SourceFunction, ValueStateDescriptor
from keystate._jvm.session import FORMAT_KEY
from pyspark.sql import SparkSession

from tests.fault import batch_files, sessions

KEYS = 7


class Allowed(SourceFunction, ListCheckpointed[int]):
    """Counts up to the number in a file, which a test raises."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.next = 0
        self.running = True

    def run(self, ctx: Any) -> None:
        while self.running:
            until = int(self.file.read_text())
            if self.next < until:
                with ctx.get_checkpoint_lock():
                    while self.next < until:
                        ctx.collect(self.next)
                        self.next += 1
            elif until < 0:
                return
            else:
                ctx.mark_as_temporarily_idle()
                time.sleep(0.02)

    def cancel(self) -> None:
        self.running = False

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[int]:
        return [self.next]

    def restore_state(self, state: list[int]) -> None:
        self.next = max(state)


class Count(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        yield row.n, self.count.value()


def allow(folder: Path, name: str, until: int) -> None:
    part = folder / f"{name}.part"
    part.write_text(str(until))
    part.rename(folder / f"{name}.until")


def start(spark: SparkSession, folder: Path, name: str, **trigger: Any) -> Any:
    df = keystate.source(spark, Allowed(folder / f"{name}.until"), "n long")
    return (
        keystate.keyed(df.selectExpr("n", f"n % {KEYS} AS key"), "key")
        .process(Count(), "n long, count long")
        .writeStream.foreachBatch(batch_files.saver(folder))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(**trigger)
        .start()
    )


def main() -> None:
    folder, name, partitions, version = sys.argv[1:]
    spark = sessions.create("local[2]", partitions, **{FORMAT_KEY: version})
    start(spark, Path(folder), name, processingTime="0 seconds").awaitTermination()


if __name__ == "__main__":
    main()
