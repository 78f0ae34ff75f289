"""As-of joins of two streams, against the same by hand in a function of two keyed inputs.

python -m bench.joins [--rows 1000000] [--keys 100000] [--repeat 3] [--backend hashmap]

Each side has so many rows of random keys over ten minutes, in ten files of a micro-batch each. The
function by hand keeps quotes and waiting trades in sorted maps and joins a trade when its timer
fires: what `join_asof` does by itself. Both have the same rows of output, which are counted.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from keystate import KeyedCoProcessFunction, SortedMapStateDescriptor
from pyspark.sql import DataFrame, SparkSession

from bench.session import bench_session, in_turns, print_compared

FILES = 10
SPAN = 600  # seconds
SCHEMA = "key long, value long, time timestamp"
OUTPUT = "key long, value long, time timestamp, price long"


class ByHand(KeyedCoProcessFunction):
    """Joins trades with the last quote at or before their time, once no earlier one can come."""

    def open(self, ctx: Any) -> None:
        self.quotes = ctx.get_sorted_map_state(SortedMapStateDescriptor("quotes", "long", "long"))
        self.waiting = ctx.get_sorted_map_state(
            SortedMapStateDescriptor(
                "waiting", "long", "array<struct<value: long, time: timestamp>>"
            )
        )

    def process_element1(self, row: Any, ctx: Any) -> Any:
        time = ctx.timestamp()
        trades = self.waiting.get(time) or []
        self.waiting.put(time, [*trades, (row.value, row.time)])
        ctx.timer_service().register_event_time_timer(time)

    def process_element2(self, row: Any, ctx: Any) -> Any:
        self.quotes.put(ctx.timestamp(), row.value)
        ctx.timer_service().register_event_time_timer(ctx.timestamp())

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        key = ctx.get_current_key()
        last = None
        for time, _ in self.quotes.sub_iterator(None, timestamp + 1):
            if last is not None:
                self.quotes.remove(last)
            last = time
        trades = self.waiting.get(timestamp)
        if trades is not None:
            price = None if last is None else self.quotes.get(last)
            self.waiting.remove(timestamp)
            for value, time in trades:
                yield key, value, time, price


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--backend", default="hashmap")
    args = parser.parse_args()
    with bench_session() as (spark, work):
        spark.conf.set("spark.keystate.backend", args.backend)
        for seed, side in enumerate(("left", "right")):
            write_side(work / side, seed, args.rows, args.keys)

        def side(name: str) -> Any:
            return keystate.keyed(read(spark, work / name), "key")

        def joined(**settings: Any) -> DataFrame:
            quotes = side("right")
            return side("left").join_asof(quotes, left_on="time", right_on="time", **settings)

        contenders: dict[str, Callable[[], DataFrame]] = {
            "by hand": lambda: side("left").connect(side("right")).process(ByHand(), OUTPUT),
            "join_asof": joined,
            "join_asof, nearest within a second": lambda: joined(
                direction="nearest", tolerance=1000
            ),
            "join_asof, without waiting": lambda: joined(wait="none"),
        }
        print_compared(in_turns(work, contenders, args.repeat), 2 * args.rows)


def write_side(folder: Path, seed: int, rows: int, keys: int) -> None:
    """Rows of random keys in the order of their times."""
    chance = np.random.default_rng(seed)
    micros = np.sort(chance.integers(0, SPAN * 1_000_000, rows)) + 10**15
    table = pa.table(
        {
            "key": chance.integers(0, keys, rows),
            "value": chance.integers(0, 1000, rows),
            "time": pa.array(micros).cast(pa.timestamp("us", tz="UTC")),
        }
    )
    folder.mkdir()
    for i in range(FILES):
        part = table.slice(i * rows // FILES, (i + 1) * rows // FILES - i * rows // FILES)
        pq.write_table(part, folder / f"{i:02}.parquet")


def read(spark: SparkSession, folder: Path) -> DataFrame:
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder)).withWatermark("time", "0 seconds")


if __name__ == "__main__":
    main()
