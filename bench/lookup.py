"""How long it takes to look up one key in the checkpoint of a query with much state.

python -m bench.lookup [--keys 1000000] [--lookups 200]

A query builds its state in four batches over two partitions and is stopped. Then random keys are
looked up, one after the other, each with what it takes to find the last batch and the files. Every
value is checked. For comparison the same key is read through Spark's `statestore` reader.
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

from keystate import admin
from pyspark.sql import SparkSession

from bench.rescale import CONTENDERS, built
from bench.session import bench_session, configured

BACKENDS = ("Keystate heap", "Keystate RocksDB")
WARM_UP = 30


def timed(call: Callable[[], Any], expected: Any) -> float:
    """Milliseconds that a call takes."""
    start = time.perf_counter()
    found = call()
    took = time.perf_counter() - start
    assert found == expected, (found, expected)
    return took * 1000


def measure(spark: SparkSession, work: Path, name: str, keys: int, lookups: int) -> str:
    """A row of the table for one backend."""
    folder = Path(tempfile.mkdtemp(dir=work))
    try:
        with configured(spark, CONTENDERS[name][1]):
            built(spark, folder, name, keys)
            checkpoint = str(folder / "checkpoint")

            def look_up(key: int) -> float:
                expected = (1, key % 97)
                return timed(lambda: admin.lookup(checkpoint, state="totals", key=key), expected)

            def read(key: int) -> float:
                def call() -> Any:
                    rows = admin.read_state(spark, checkpoint, state="totals")
                    return rows.where(f"key.key = {key}").select("value.*").collect()

                return timed(call, [(1, key % 97)])

            chosen = [random.randrange(keys) for _ in range(WARM_UP + lookups)]
            taken = sorted([look_up(key) for key in chosen][WARM_UP:])
            whole = statistics.median(read(key) for key in chosen[:3])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    late = taken[int(len(taken) * 0.95)]
    return f"| {name} | {statistics.median(taken):.1f} | {late:.1f} | {whole:.0f} |"


def print_table(keys: int, rows: list[str]) -> None:
    """Prints the rows that `measure` made."""
    print(f"\n{keys:,} keys, in ms\n")
    print("| | `lookup`, median | 95th percentile | `read_state`, median of 3 |")
    print("|---|---|---|---|")
    print("\n".join(rows))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--lookups", type=int, default=200)
    args = parser.parse_args()
    random.seed(1)
    with bench_session() as (spark, work):
        rows = [measure(spark, work, name, args.keys, args.lookups) for name in BACKENDS]
    print_table(args.keys, rows)


if __name__ == "__main__":
    main()
