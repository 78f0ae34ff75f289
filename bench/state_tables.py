"""States read as tables of Keystate's catalog, and by Spark's own `statestore` source.

python -m bench.state_tables [--keys 1000000] [--times 5] [--partitions 2 8]

A query builds its state in four batches and is stopped. Then both sources read the same checkpoint,
in turns: all columns of all keys, one of the columns, and one key. What they give is compared. The
first read of each is left out.
"""

from __future__ import annotations

import argparse
import random
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from bench.rescale import CONTENDERS, built
from bench.session import bench_session, configured

BACKENDS = ("Keystate heap", "Keystate RocksDB")
PARTITIONS = "spark.sql.shuffle.partitions"
Source = Callable[[], DataFrame]


def reads(keys: int) -> dict[str, Callable[[DataFrame], Any]]:
    """What is measured, by its name."""
    key = random.randrange(keys)

    def whole(df: DataFrame) -> Any:
        # All columns are needed, and few bytes leave the tasks.
        return df.selectExpr("sum(hash(key, value))").collect()

    return {
        "all columns": whole,
        "one column": lambda df: df.selectExpr("sum(key.key)").collect(),
        "one key": lambda df: df.where(f"key.key = {key}").select("value.*").collect(),
    }


def in_turns(sources: dict[str, Source], read: Callable[[DataFrame], Any], times: int) -> Any:
    """Seconds by source; the first round is not counted."""
    taken: dict[str, list[float]] = {name: [] for name in sources}
    for i in range(times + 1):
        given = []
        for name, source in sources.items():
            start = time.perf_counter()
            given.append(read(source()))
            if i:
                taken[name].append(time.perf_counter() - start)
        assert given[0] == given[1] and given[0], given
    return taken


def measure(
    spark: SparkSession, work: Path, backend: str, partitions: int, args: argparse.Namespace
) -> list[str]:
    """Rows of the table for one backend and number of partitions."""
    folder = Path(tempfile.mkdtemp(dir=work))
    try:
        with configured(spark, {**CONTENDERS[backend][1], PARTITIONS: str(partitions)}):
            built(spark, folder, backend, args.keys)
            checkpoint = str(folder / "checkpoint")
            sources: dict[str, Source] = {
                "table": lambda: spark.table(f"keystate.`{checkpoint}`.totals"),
                "statestore": lambda: (
                    spark.read.format("statestore")
                    .option("stateVarName", "totals")
                    .load(checkpoint)
                ),
            }
            rows = []
            for name, read in reads(args.keys).items():
                taken = in_turns(sources, read, args.times)
                ours, theirs = (statistics.median(taken[source]) for source in sources)
                rows.append(
                    f"| {backend}, {partitions} partitions | {name} | {ours:.2f} | {theirs:.2f} "
                    f"| {theirs / ours:.1f} |"
                )
            return rows
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--partitions", type=int, nargs="+", default=[2, 8])
    args = parser.parse_args()
    random.seed(1)
    with bench_session() as (spark, work):
        rows = [
            row
            for backend in BACKENDS
            for partitions in args.partitions
            for row in measure(spark, work, backend, partitions, args)
        ]
    print(f"\n{args.keys:,} keys, medians of {args.times}, in s\n")
    print("| | read | table | `statestore` source | times |")
    print("|---|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
