"""A key that has half of all rows: row by row, and combined before the shuffle.

python -m bench.skew [--rows 1000000] [--keys 100000] [--reps 5]

"combined" and "row by row" compute a key's mean, in turns in one session, over the same files; see
docs/running/skew.md. "reduce" is the same by `reduce` with a Python function of two rows, and
"reduce, combined" what an option of `reduce` could do: call that function before the shuffle too.
Ratios are medians of the pairs; CPU is the time of the JVM and its workers, which differs less.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any, NamedTuple

import keystate
import numpy as np
import pyarrow as pa
from keystate import KeyedProcessFunction, ValueStateDescriptor
from pyspark.sql import DataFrame

from bench.session import bench_session, measured_in_pairs, print_pairs, write

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


def added(a: Any, b: Any) -> tuple[int, int, int]:
    return a.key, a.n + b.n, a.total + b.total


def reduced(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row for each key of a batch, by the function of two rows."""
    for batch in batches:
        parts: dict[int, Row] = {}
        for row in map(Row._make, zip(*(column.to_pylist() for column in batch.columns))):
            before = parts.get(row.key)
            parts[row.key] = row if before is None else Row._make(added(before, row))
        columns = [pa.array(column, pa.int64()) for column in zip(*parts.values())]
        yield pa.RecordBatch.from_arrays(columns, names=list(Row._fields))


class Row(NamedTuple):
    key: int
    n: int
    total: int


def totals(df: DataFrame) -> DataFrame:
    return keystate.keyed(df, "key").reduce(added)


def means(df: DataFrame) -> DataFrame:
    return keystate.keyed(df, "key").process(Mean(), "key long, mean double")


def parts(df: DataFrame) -> DataFrame:
    return df.selectExpr("key", "1L AS n", "value AS total")


CONTENDERS = {
    "row by row": lambda df: means(parts(df)),
    "combined": lambda df: means(df.mapInArrow(combined, PARTS)),
    "reduce": lambda df: totals(parts(df)),
    "reduce, combined": lambda df: totals(parts(df).mapInArrow(reduced, PARTS)),
}


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
    compared = [
        ("combined", "row by row"),
        ("reduce", "row by row"),
        ("reduce, combined", "reduce"),
    ]
    print_pairs(took, compared)


if __name__ == "__main__":
    main()
