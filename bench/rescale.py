"""How long a query with much state takes to come back: as it was, and with other partitions.

python -m bench.rescale [--keys 1000000 8000000] [--cycles 1] [--only NAME ...] [--out FILE]

A query builds its state in four batches over two partitions and is stopped. Each figure is then the
time until a batch of ten rows is committed and the query has ended, with what it takes to change
the number of partitions: the setting for Keystate, a call of Spark's private
`_streamingCheckpointManager.repartition` for Spark's provider. All contenders run in one session,
which a small query has warmed up; how many keys the state has is checked after each restart.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keystate
import pyspark.sql.functions as F
from keystate import KeyedProcessFunction, ValueStateDescriptor
from pyspark.sql import DataFrame, SparkSession

from bench.session import PROVIDER, STOCK, Build, bench_session, configured

PARTITIONS = "spark.sql.shuffle.partitions"
BACKEND = "spark.keystate.backend"
CHANGELOG = "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"
OURS = "org.apache.spark.sql.keystate.KeyGroupStateStoreProvider"
WARM_UP = 10_000

Figures = dict[str, float]
Contender = tuple[Build, dict[str, str]]


class Totals(KeyedProcessFunction):
    """Count and sum of a key's values."""

    def open(self, ctx: Any) -> None:
        self.totals = ctx.get_state(
            ValueStateDescriptor("totals", "n long, total long", default=(0, 0))
        )

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[int, int]]:
        n, total = self.totals.value()
        self.totals.update((n + 1, total + row.value))
        yield row.key, n + 1


def keyed(df: DataFrame) -> DataFrame:
    """Keystate's operator."""
    return keystate.keyed(df, "key").process(Totals(), "key long, n long")


def aggregated(df: DataFrame) -> DataFrame:
    """Spark's own, with the same state."""
    return df.groupBy("key").agg(F.count("*").alias("n"), F.sum("value").alias("total"))


CONTENDERS: dict[str, Contender] = {
    "Keystate heap": (keyed, {PROVIDER: OURS, BACKEND: "hashmap"}),
    "Keystate RocksDB": (keyed, {PROVIDER: OURS, BACKEND: "rocksdb"}),
    "Spark's operator on Keystate": (aggregated, {PROVIDER: OURS, BACKEND: "hashmap"}),
    "Spark RocksDB, changelog": (aggregated, {**STOCK, CHANGELOG: "true"}),
    "Spark RocksDB, snapshots": (aggregated, {**STOCK, CHANGELOG: "false"}),
}


class Query:
    """A query over the files in FOLDER/input, whose state is to have so many keys."""

    def __init__(self, spark: SparkSession, folder: Path, contender: Contender, keys: int) -> None:
        self.spark, self.folder, self.keys = spark, folder, keys
        self.build, settings = contender
        self.on_keystate = settings[PROVIDER] == OURS

    def feed(self, first: int, last: int) -> None:
        rows = self.spark.range(first, last, numPartitions=2)
        rows.select(F.col("id").alias("key"), (F.col("id") % 97).alias("value")).write.mode(
            "append"
        ).parquet(str(self.folder / "input"))

    def run(self) -> Any:
        """Returns the state operator's progress in the last batch."""
        source = self.spark.readStream.schema("key long, value long")
        query = (
            self.build(source.parquet(str(self.folder / "input")))
            .writeStream.format("noop")
            .outputMode("update")
            .option("checkpointLocation", str(self.folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return query.recentProgress[-1].stateOperators[0]

    def restart(self, partitions: int, change: bool = False) -> float:
        """Seconds until the query has done ten rows, with so many partitions."""
        self.feed(0, 10)
        start = time.perf_counter()
        if change and not self.on_keystate:
            checkpoint = str(self.folder / "checkpoint")
            self.spark._streamingCheckpointManager.repartition(checkpoint, partitions)
        self.spark.conf.set(PARTITIONS, str(partitions))
        state = self.run()
        took = time.perf_counter() - start
        assert (state.numRowsTotal, state.numShufflePartitions) == (self.keys, partitions)
        return took


def built(spark: SparkSession, folder: Path, name: str, keys: int) -> Query:
    """A query that has its state, made in four batches."""
    query = Query(spark, folder, CONTENDERS[name], keys)
    spark.conf.set(PARTITIONS, "2")
    for part in range(4):
        query.feed(keys * part // 4, keys * (part + 1) // 4)
        query.run()
    return query


def measure(spark: SparkSession, work: Path, name: str, keys: int, cycles: int) -> Figures:
    """The medians of all figures of a contender, in seconds."""
    taken: dict[str, list[float]] = {}
    # A new one each time: stores of the query before may still be unloading.
    folder = Path(tempfile.mkdtemp(dir=work))
    try:
        with configured(spark, CONTENDERS[name][1]):
            query = built(spark, folder, name, keys)
            for cycle in range(cycles):
                if cycle:
                    query.restart(2, change=True)
                taken.setdefault("plain restart, 2 partitions", []).append(query.restart(2))
                taken.setdefault("2 to 4 partitions", []).append(query.restart(4, change=True))
                taken.setdefault("plain restart, 4 partitions", []).append(query.restart(4))
                taken.setdefault("4 to 3 partitions", []).append(query.restart(3, change=True))
                taken.setdefault("plain restart, 3 partitions", []).append(query.restart(3))
    except Exception as e:
        # Not each can do each; what it could do counts.
        print(f"# {name} failed: {str(e).splitlines()[0][:200]}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return {figure: statistics.median(seconds) for figure, seconds in taken.items()}


def table(keys: int, figures: dict[str, Figures]) -> None:
    """Prints the seconds and, against the first contender, the ratios."""
    print(f"\n{keys:,} keys: seconds, and how many times as long as {next(iter(figures))}\n")
    print("| |", " | ".join(figures), "|")
    print("|---|" + "---|" * len(figures))
    first = next(iter(figures.values()))
    for figure, least in first.items():
        cells = [
            f"{row[figure]:.2f} ({row[figure] / least:.1f})" if figure in row else "-"
            for row in figures.values()
        ]
        print(f"| {figure} |", " | ".join(cells), "|")
    for change, plain in (("2 to 4", 2), ("4 to 3", 4)):
        cells = [
            f"{row[f'{change} partitions'] / row[f'plain restart, {plain} partitions']:.2f}"
            if f"{change} partitions" in row
            else "-"
            for row in figures.values()
        ]
        print(f"| {change}, against its own plain restart before |", " | ".join(cells), "|")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--keys", type=int, nargs="+", default=[1_000_000])
    parser.add_argument("--cycles", type=int, default=1, help="of 2 to 4 to 3 partitions")
    parser.add_argument("--only", nargs="+", choices=CONTENDERS, default=list(CONTENDERS))
    parser.add_argument("--out", type=Path, help="also write the figures there, as JSON")
    args = parser.parse_args()

    results: dict[int, dict[str, Figures]] = {}
    with bench_session() as (spark, work):
        for name in args.only:
            measure(spark, work, name, WARM_UP, 1)
        for keys in args.keys:
            results[keys] = {}
            for name in args.only:
                results[keys][name] = measure(spark, work, name, keys, args.cycles)
                print(f"# {keys:,} keys, {name}: {results[keys][name]}", flush=True)
            table(keys, results[keys])
    if args.out:
        args.out.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
