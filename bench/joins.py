"""Joins in time of streams, against the same by hand, and against Spark's own joins.

python -m bench.joins [--rows 1000000] [--keys 100000] [--repeat 3] [--backend hashmap] [asof ...]

Each side has so many rows of random keys over ten minutes, in ten files of a micro-batch each.

asof        `join_asof`, and a function of two keyed inputs that keeps quotes and waiting trades in
            sorted maps and joins a trade when its timer fires: what `join_asof` does by itself
three five  `join_all` of so many streams within a minute, and Spark's joins of them, one behind the
            other: on Keystate's provider and on Spark's RocksDB
interval    the same of two: `join_all`, and Spark's join with a range
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

import keystate
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from keystate import KeyedCoProcessFunction, SortedMapStateDescriptor, Time
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.session import STOCK, bench_session, configured, in_turns, print_compared

FILES = 10
SPAN = 600  # seconds
SCHEMA = "key long, value long, time timestamp"
OUTPUT = "key long, value long, time timestamp, price long"
WITHIN = 60  # seconds
STREAMS = {"interval": 2, "three": 3, "five": 5}


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
    parser.add_argument("what", nargs="*", default=["asof", *STREAMS])
    args = parser.parse_args()
    with bench_session() as (spark, work):
        spark.conf.set("spark.keystate.backend", args.backend)
        sides, short = ([work / f"{size}{i}" for i in range(5)] for size in ("side", "short"))
        for seed, (side, other) in enumerate(zip(sides, short)):
            write_side(side, seed, args.rows, args.keys)
            write_side(other, seed, args.rows // 4, args.keys // 4)
        if "asof" in args.what:
            as_of(spark, work, sides, args.rows, args.repeat)
        for what, count in STREAMS.items():
            if what in args.what:
                print(f"{count} streams:")
                many = sides[:count], short[:count]
                of_many(spark, work, *many, args.rows, args.repeat)


def as_of(spark: SparkSession, work: Path, sides: list[Path], rows: int, repeat: int) -> None:
    def side(i: int) -> Any:
        return keystate.keyed(read(spark, sides[i]), "key")

    def joined(**settings: Any) -> DataFrame:
        return side(0).join_asof(side(1), left_on="time", right_on="time", **settings)

    contenders: dict[str, Callable[[], DataFrame]] = {
        "by hand": lambda: side(0).connect(side(1)).process(ByHand(), OUTPUT),
        "join_asof": joined,
        "join_asof, nearest within a second": lambda: joined(direction="nearest", tolerance=1000),
        "join_asof, without waiting": lambda: joined(wait="none"),
    }
    print_compared(in_turns(work, contenders, repeat), 2 * rows)


def of_many(
    spark: SparkSession, work: Path, sides: list[Path], short: list[Path], rows: int, repeat: int
) -> None:
    """Prints what joins take: time, and the most state after any micro-batch, by its provider.

    Args:
        spark: the session.
        work: for checkpoints.
        sides: what is joined.
        short: the same with fewer rows, to warm up.
        rows: of a side.
        repeat: how often each is measured; the shortest run counts.
    """

    def each(folders: list[Path]) -> list[DataFrame]:
        return [
            read(spark, folder).toDF(f"key{i}", f"value{i}", f"time{i}")
            for i, folder in enumerate(folders)
        ]

    def ours(folders: list[Path]) -> DataFrame:
        inputs = [keystate.keyed(df, f"key{i}") for i, df in enumerate(each(folders))]
        return keystate.join_all(inputs, within=Time.seconds(WITHIN))

    def tower(folders: list[Path]) -> DataFrame:
        whole, *others = each(folders)
        span = F.expr(f"INTERVAL {WITHIN} SECONDS")
        for i, other in enumerate(others, 1):
            condition = F.col("key0") == F.col(f"key{i}")
            for j in range(i):
                earlier, own = F.col(f"time{j}"), F.col(f"time{i}")
                condition &= (own >= earlier - span) & (own <= earlier + span)
            # Spark's next join refuses two columns with a watermark.
            plain = F.col(f"time{i}").alias(f"time{i}", metadata={"watermark": "none"})
            whole = whole.join(other, condition).drop(f"key{i}").withColumn(f"time{i}", plain)
        return whole

    ways: Mapping[str, tuple[Callable[[list[Path]], DataFrame], dict[str, str]]] = {
        "join_all": (ours, {}),
        "Spark's joins, Keystate's provider": (tower, {}),
        "Spark's joins, Spark's RocksDB": (tower, STOCK),
    }
    counts = itertools.count()

    def run(name: str, folders: list[Path]) -> tuple[float, int, int, int]:
        build, settings = ways[name]
        with configured(spark, settings):
            return measured(build(folders), work / f"many{len(sides)}-{next(counts)}")

    for name in ways:
        run(name, short)
    for name in ways:
        seconds, emitted, memory, disk = min(run(name, sides) for _ in range(repeat))
        print(
            f"{name}: {seconds / rows / len(sides) * 1e6:.2f} µs a row, {emitted} results, "
            f"{memory / 1e6:.0f} MB of state, {disk / 1e6:.0f} MB of files",
            flush=True,
        )


def measured(df: DataFrame, checkpoint: Path) -> tuple[float, int, int, int]:
    """Seconds, rows of output, and the most bytes of state: in memory, and all of its files."""
    begun = perf_counter()
    writer = df.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    seconds = perf_counter() - begun
    batches = query.recentProgress
    state = checkpoint / "state"
    return (
        seconds,
        sum(batch.sink.numOutputRows for batch in batches),
        max(sum(each.memoryUsedBytes for each in batch.stateOperators) for batch in batches),
        sum(file.stat().st_size for file in state.rglob("*") if file.is_file()),
    )


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
