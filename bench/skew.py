"""A key that has half of all rows: row by row, and combined before the shuffle.

python -m bench.skew [--rows 1000000] [--keys 100000] [--reps 5]

All compute sums of a key's values, in turns in one session, over the same files: a function of
rows, the same whose input is combined by hand as in docs/running/skew.md, `aggregate` of columns,
which combines by itself, and Spark SQL. Ratios are medians of the pairs; CPU is the time of the JVM
and its workers, which differs less.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

import keystate
import numpy as np
import pyarrow as pa
from keystate import KeyedProcessFunction, ValueStateDescriptor
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bench.session import Build, bench_session, measured_in_pairs, print_pairs, write

PARTS = "key long, n long, total long"


class Mean(KeyedProcessFunction):
    """Of parts of a key's rows, or of the rows themselves."""

    def open(self, ctx: Any) -> None:
        self.sums = ctx.get_state(
            ValueStateDescriptor("sums", "n long, total long", default=(0, 0))
        )

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[int, float]]:
        n, total = self.sums.value()
        n, total = n + row.n, total + row.total
        self.sums.update((n, total))
        yield row.key, total / n


def combined(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row for each key of a batch."""
    for batch in batches:
        table = pa.Table.from_batches([batch])
        parts = table.group_by("key").aggregate([("value", "count"), ("value", "sum")])
        yield from parts.rename_columns(["key", "n", "total"]).to_batches()


def sums() -> list[Column]:
    return [F.count("*").alias("n"), F.sum("value").alias("total")]


def means(df: DataFrame) -> DataFrame:
    return keystate.keyed(df, "key").process(Mean(), "key long, mean double")


def parts(df: DataFrame) -> DataFrame:
    return df.selectExpr("key", "1L AS n", "value AS total")


CONTENDERS: dict[str, Build] = {
    "row by row": lambda df: means(parts(df)),
    "by hand": lambda df: means(df.mapInArrow(combined, PARTS)),
    "aggregate": lambda df: keystate.keyed(df, "key").aggregate(*sums()),
    "SQL": lambda df: df.groupBy("key").agg(*sums()),
}

COMPARED = [
    ("by hand", "row by row"),
    ("aggregate", "row by row"),
    ("aggregate", "SQL"),
]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--reps", type=int, default=5)
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    keys = np.where(rng.random(args.rows) < 0.5, 0, rng.integers(1, args.keys, args.rows))
    with bench_session() as (spark, work):
        table = pa.table({"key": keys, "value": rng.integers(0, 1000, args.rows)})
        folder = write(work / "input", table)
        took = measured_in_pairs(spark, CONTENDERS, folder, args.reps)
    print_pairs(took, COMPARED)


if __name__ == "__main__":
    main()
