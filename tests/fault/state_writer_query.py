"""A query with some state; as a script, the driver that edits its checkpoint and is killed.

python state_writer_query.py CHECKPOINT TARGET SLOW BACKEND
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import keystate
from keystate import KeyedProcessFunction, ValueStateDescriptor, admin
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.fault import sessions

KEYS = 4000


class Count(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        yield row.key, self.count.value()


def counts(df: DataFrame, operators: int = 1) -> DataFrame:
    """Operators one after the other that all count the same."""
    for _ in range(operators):
        df = keystate.keyed(df, "key").process(Count(), "key long, count long")
    return df


def write(checkpoint: str, target: str, slow: Path | None = None) -> None:
    """Adds ten to each count, with other key groups; a slow task notes it and lingers.

    Of several operators the last is copied as it is, and the slow one is the one before.
    """

    def lingering(frames: Any) -> Any:
        for frame in frames:
            if slow is not None:
                (slow / "begun").touch()
                time.sleep(5)
            yield frame

    editor = admin.edit(checkpoint)
    edited = list(editor.operators)[:-1] or list(editor.operators)
    for operator in edited:
        rows = editor.read("count", operator=operator).withColumn("value", F.col("value") + 10)
        if operator == edited[-1]:
            rows = rows.mapInPandas(lingering, rows.schema)
        editor.replace("count", rows, operator=operator)
        editor.set_max_parallelism(300, operator=operator)
    editor.write(target)


def main() -> None:
    checkpoint, target, slow, backend = sys.argv[1:]
    builder = sessions.builder("local[2]", 2).config("spark.keystate.backend", backend)
    keystate.configure(builder).getOrCreate()
    write(checkpoint, target, Path(slow))


if __name__ == "__main__":
    main()
