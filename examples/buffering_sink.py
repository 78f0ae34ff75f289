"""A sink that writes so many elements at a time, and loses none.

Runs three times over growing input, each time with another number of subtasks. What is buffered
when a run ends is in the checkpoint, and the next run goes on with it.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import keystate
from keystate import CheckpointedFunction, ListStateDescriptor, SinkFunction
from pyspark.sql import SparkSession


class BufferingSink(SinkFunction, CheckpointedFunction):
    """Writes lines of `threshold` elements to a file of its subtask."""

    def __init__(self, folder: str, threshold: int) -> None:
        self.folder = Path(folder)
        self.threshold = threshold

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.checkpointed = store.get_list_state(ListStateDescriptor("buffered", "long"))
        self.buffer = list(self.checkpointed.get()) if context.is_restored() else []

    def open(self, runtime_context: Any) -> None:
        self.file = self.folder / f"subtask-{runtime_context.get_index_of_this_subtask()}.txt"

    def invoke(self, value: Any, context: Any) -> None:
        self.buffer.append(value.x)
        if len(self.buffer) >= self.threshold:
            with self.file.open("a") as file:
                file.write(" ".join(map(str, self.buffer)) + "\n")
            self.buffer = []

    def snapshot_state(self, context: Any) -> None:
        self.checkpointed.update(self.buffer)


def run(
    spark: SparkSession, folder: Path, numbers: range, subtasks: int, threshold: int = 10
) -> None:
    """Adds numbers to the input and processes them."""
    (folder / "input" / f"{numbers.start:04}.csv").write_text("\n".join(map(str, numbers)))
    spark.conf.set("spark.sql.shuffle.partitions", subtasks)
    rows = spark.readStream.schema("x long").csv(str(folder / "input"))
    writer = keystate.stream(rows).add_sink(BufferingSink(str(folder / "out"), threshold))
    writer = writer.option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()


def main(spark: SparkSession, folder: Path) -> list[int]:
    """Returns what was written, in order of number."""
    (folder / "input").mkdir()
    (folder / "out").mkdir()
    run(spark, folder, range(0, 35), subtasks=2)
    run(spark, folder, range(35, 70), subtasks=3)
    # What the three had in their buffers is in one now, which keeps nothing back.
    run(spark, folder, range(70, 100), subtasks=1, threshold=1)
    written = [path.read_text().split() for path in sorted((folder / "out").iterdir())]
    return sorted(int(x) for numbers in written for x in numbers)


if __name__ == "__main__":
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = keystate.configure(builder).getOrCreate()
    with tempfile.TemporaryDirectory() as name:
        found = main(session, Path(name))
    print(f"{len(found)} numbers were written, each of them once")
    session.stop()
    sys.exit(found != list(range(100)))
