"""A query with state, in one file that is submitted.

    app.py FOLDER CHECKPOINT PARTITIONS TRIGGER SECONDS_A_ROW

It imports nothing of the tests: what executors have is what was shipped to them.
"""

from __future__ import annotations

import json
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keystate
from keystate import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from pyspark.sql import DataFrame, SparkSession


class Account(KeyedProcessFunction):
    """Emits what is in all states of the key after each row, and whose packages the worker has."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def open(self, ctx: Any) -> None:
        print("accounts are open", file=sys.stderr)
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))
        self.last = ctx.get_list_state(ListStateDescriptor("last", "long"))
        self.by_kind = ctx.get_map_state(MapStateDescriptor("by_kind", "string", "long"))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[int, int, str, str]]:
        time.sleep(self.seconds)
        self.count.update(self.count.value() + 1)
        if row.x % 7 == 0:
            self.last.clear()
        self.last.add(row.x)
        kind = f"k{row.x % 5}"
        self.by_kind[kind] = (self.by_kind[kind] or 0) + row.x
        state = [self.count.value(), list(self.last), sorted(self.by_kind.items())]
        place = str(Path(keystate.__file__).resolve())
        yield row.number, row.key, json.dumps(state), f"{sys.executable} {place}"


def main() -> None:
    folder = Path(sys.argv[1])
    checkpoint, partitions, trigger, seconds = sys.argv[2:]
    builder = SparkSession.builder.config("spark.sql.shuffle.partitions", partitions)
    spark = keystate.configure(builder).getOrCreate()
    stream = (
        spark.readStream.schema("number long, key long, x long")
        .option("maxFilesPerTrigger", 1)
        .parquet((folder / "input").as_uri())  # whatever the default file system is
    )

    def save(df: DataFrame, batch: int) -> None:
        part = folder / "output" / f"{uuid.uuid4()}.part"
        part.write_text(json.dumps([list(row) for row in df.collect()]))
        part.rename(folder / "output" / f"{batch}.json")

    query = (
        keystate.keyed(stream, "key", order_by="number")
        .process(Account(float(seconds)), "number long, key long, state string, place string")
        .writeStream.foreachBatch(save)
        .option("checkpointLocation", checkpoint)
        .trigger(**json.loads(trigger))
        .start()
    )
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
