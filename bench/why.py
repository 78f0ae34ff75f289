"""How long it takes to see what happened to one key, in a checkpoint with much state.

python -m bench.why [--keys 1000000] [--batches 100] [--times 20] [--replays 5]

A query over files takes a row for each key, and then so many batches of ten rows, each of which
changes one key that is looked for. `admin.history` reads what that key had in all versions, and
`keystate.replay` runs batches of its again; what one ends with is compared with the checkpoint.
The first call is given beside the median of the others: it loads classes.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
from keystate import admin
from pyspark.sql import DataFrame, SparkSession

from bench.rescale import BACKEND, OURS, keyed
from bench.session import PROVIDER, bench_session, configured

KEY = 7
SCHEMA = "key long, value long"


def built(spark: SparkSession, folder: Path, keys: int, batches: int) -> DataFrame:
    """Runs the query; returns its operator."""
    files = folder / "input"
    files.mkdir(parents=True)
    first = spark.range(keys).selectExpr("id AS key", "1L AS value")
    first.coalesce(1).write.parquet(str(folder / "first"))
    for path in (folder / "first").glob("part-*.parquet"):
        path.rename(files / "000000.parquet")
    for batch in range(1, batches + 1):
        rows = [(KEY, batch), *((KEY + batch * 10 + i, 1) for i in range(1, 10))]
        made = folder / f"batch{batch}"
        spark.createDataFrame(rows, SCHEMA).coalesce(1).write.parquet(str(made))
        time.sleep(0.002)  # the file source goes by times in ms
        for path in made.glob("part-*.parquet"):
            path.rename(files / f"{batch:06}.parquet")
        (files / f"{batch:06}.parquet").touch()
    source = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(files))
    made_of = keyed(source)
    query = (
        made_of.writeStream.format("noop")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return made_of


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds that a call takes, and what it gives."""
    start = time.perf_counter()
    found = call()
    return time.perf_counter() - start, found


def measure(spark: SparkSession, work: Path, backend: str, args: argparse.Namespace) -> str:
    """A row of the table for one backend."""
    folder = Path(tempfile.mkdtemp(dir=work))
    try:
        with configured(spark, {PROVIDER: OURS, BACKEND: backend}):
            query = built(spark, folder, args.keys, args.batches)
            checkpoint = str(folder / "checkpoint")
            taken = []
            for _ in range(args.times):
                seconds, found = timed(lambda: admin.history(checkpoint, key=KEY))
                assert len(found) == found[-1].version - found[0].version + 1
                assert all(one.changes for one in found), found
                taken.append(seconds)
            replays = []
            for batch in range(args.batches - args.replays, args.batches):
                seconds, made = timed(
                    lambda: keystate.replay(query, checkpoint, batch=batch, key=KEY)  # noqa: B023
                )
                assert made.same and len(made) == 1, made
                replays.append(seconds)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    cells = [f"{each[0]:.2f} | {statistics.median(each[1:]):.2f}" for each in (taken, replays)]
    return f"| {backend} | {len(found)} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--times", type=int, default=20, help="how many histories")
    parser.add_argument("--replays", type=int, default=5, help="how many replays, at least 2")
    args = parser.parse_args()
    with bench_session() as (spark, work):
        rows = [measure(spark, work, backend, args) for backend in ("hashmap", "rocksdb")]
    print(f"\n{args.keys:,} keys, in s\n")
    print("| | versions | first `history` | median of the others | first `replay` | median |")
    print("|---|---|---|---|---|---|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
