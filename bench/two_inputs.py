"""Two keyed inputs against one with as many rows, and sorted rows against unsorted ones.

python -m bench.two_inputs [--rows 1000000] [--repeat 3]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pyarrow as pa
from keystate import KeyedCoProcessFunction, KeyedProcessFunction, ValueStateDescriptor
from pyspark.sql import DataFrame

from bench.session import bench_session, in_turns, print_compared, write

KEYS = 100_000
SCHEMA = "key long, ts long, value long"
OUTPUT = "key long, average long"


class Average:
    """The average of every two values of a key, as in W1."""

    def open(self, ctx: Any) -> None:
        self.sum = ctx.get_state(
            ValueStateDescriptor("average", "count long, total long", default=(0, 0))
        )

    def add(self, row: Any) -> Any:
        count, total = self.sum.value()
        count += 1
        total += row.value
        if count >= 2:
            self.sum.clear()
            return [(row.key, total // count)]
        self.sum.update((count, total))
        return None


class OfOne(Average, KeyedProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Any:
        return self.add(row)


class OfTwo(Average, KeyedCoProcessFunction):
    def process_element1(self, row: Any, ctx: Any) -> Any:
        return self.add(row)

    def process_element2(self, row: Any, ctx: Any) -> Any:
        return self.add(row)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    with bench_session() as (spark, work):

        def folder(name: str, numbers: range) -> Path:
            table = pa.table(
                {
                    "key": [i * 7919 % KEYS for i in numbers],
                    "ts": [i * 104729 % args.rows for i in numbers],
                    "value": [i % 1000 for i in numbers],
                }
            )
            return write(work / name, table)

        whole = folder("whole", range(args.rows))
        halves = [
            folder("first", range(args.rows // 2)),
            folder("second", range(args.rows // 2, args.rows)),
        ]

        def keyed(folder: Path, **options: Any) -> keystate.KeyedStream:
            stream = spark.readStream.schema(SCHEMA).parquet(str(folder))
            return keystate.keyed(stream, "key", **options)

        def two() -> keystate.ConnectedStreams:
            return keyed(halves[0]).connect(keyed(halves[1]))

        contenders: dict[str, Callable[[], DataFrame]] = {
            "one input": lambda: keyed(whole).process(OfOne(), OUTPUT),
            "two inputs": lambda: two().process(OfTwo(), OUTPUT),
            "one input, sorted": lambda: keyed(whole, order_by="ts").process(OfOne(), OUTPUT),
            "two inputs, merged": lambda: two().process(OfTwo(), OUTPUT, ordered_by="ts"),
        }
        print_compared(in_turns(work, contenders, args.repeat), args.rows)


if __name__ == "__main__":
    main()
