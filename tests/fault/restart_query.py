"""A query with every kind of state, its input, and what it should emit.

Run as a script it is the driver that a test kills: python restart_query.py FOLDER FORMAT TRIGGER
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keystate
import pyarrow as pa
from keystate import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from keystate._jvm.session import FORMAT_KEY
from pyspark.sql import SparkSession

from tests.fault import batch_files, sessions

FILES, ROWS, KEYS = 20, 40, 12


class Ledger(KeyedProcessFunction):
    """Emits what is in all states of the key after each row."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))
        self.last = ctx.get_list_state(ListStateDescriptor("last", "long"))
        self.by_kind = ctx.get_map_state(MapStateDescriptor("by_kind", "string", "long"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        self.last.add(row.x)
        if row.x % 7 == 0:
            self.last.clear()
        kind = f"k{row.x % 5}"
        self.by_kind[kind] = (self.by_kind[kind] or 0) + row.x
        if row.x % 11 == 0:
            del self.by_kind[kind]
        state = [self.count.value(), list(self.last), sorted(self.by_kind.items())]
        yield row.number, row.key, json.dumps(state)


def make_input(folder: Path, seed: int) -> list[tuple[int, int, str]]:
    """Writes random rows; returns what should be emitted for them."""
    rng = random.Random(seed)
    rows, expected = [], []
    states: dict[int, tuple[list[int], list[int], dict[str, int]]] = {}
    for number in range(FILES * ROWS):
        key, x = rng.randrange(KEYS), rng.randrange(1, 1000)
        rows.append({"number": number, "key": key, "x": x})
        count, last, by_kind = states.setdefault(key, ([], [], {}))
        count.append(number)
        last.append(x)
        if x % 7 == 0:
            last.clear()
        kind = f"k{x % 5}"
        by_kind[kind] = by_kind.get(kind, 0) + x
        if x % 11 == 0:
            del by_kind[kind]
        expected.append((number, key, json.dumps([len(count), last, sorted(by_kind.items())])))
    for i in range(FILES):
        batch_files.write(
            folder / "input", i, pa.Table.from_pylist(rows[i * ROWS : (i + 1) * ROWS])
        )
    return expected


def start(
    spark: SparkSession,
    folder: Path,
    fn: KeyedProcessFunction | None = None,
    scheme: str = "",
    order_by: Sequence[str] = (),
    **trigger: Any,
) -> Any:
    """Starts the query, a file a micro-batch."""
    stream = (
        spark.readStream.schema("number long, key long, x long")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / "input"))
    )
    return (
        keystate.keyed(stream, "key", order_by=order_by)
        .process(fn or Ledger(), "number long, key long, state string")
        .writeStream.foreachBatch(batch_files.saver(folder))
        .option("checkpointLocation", f"{scheme}{folder / 'checkpoint'}")
        .trigger(**trigger)
        .start()
    )


def main() -> None:
    spark = sessions.create("local[2]", 2, **{FORMAT_KEY: sys.argv[2]})
    start(spark, Path(sys.argv[1]), **json.loads(sys.argv[3])).awaitTermination()


if __name__ == "__main__":
    main()
