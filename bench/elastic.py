"""How long a running query pauses when its partitions change: python -m bench.elastic.

[--keys 1000000] [--changes 10] [--rate 1000] [--backend auto] [--out FILE]

A query builds its state in batches over two partitions; then files with a tenth of a second's rows
come ten times a second, and the query is rescaled to 3, 2, 4, 2, ... partitions while it runs.
A pause is the time from the last row before a change until the first row after it, as a sink sees
them. Beside it: the time between two micro-batches without a change, and how long `rescale` took.
What came out is checked: each row once.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import threading
import time
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import keystate
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench.rescale import BACKEND, OURS, PARTITIONS, keyed
from bench.session import PROVIDER, bench_session, configured

TICK = 0.1
BATCH = 250_000


class Feeder(threading.Thread):
    """Writes files of rows, at a rate."""

    def __init__(self, folder: Path, keys: int, rate: int) -> None:
        super().__init__(daemon=True)
        self.folder, self.keys = folder, keys
        self.rows = int(rate * TICK)
        self.written = 0
        self.over = threading.Event()

    def write(self, first: int, rows: int) -> None:
        keys = [key % self.keys for key in range(first, first + rows)]
        path = self.folder / f"_{first:012}.parquet"
        pq.write_table(pa.table({"key": keys, "value": [1] * rows}), path)
        path.rename(self.folder / path.name[1:])
        self.written += rows

    def run(self) -> None:
        due = time.monotonic()
        while not self.over.is_set():
            self.write(self.written, self.rows)
            due += TICK
            time.sleep(max(0.0, due - time.monotonic()))


def measured(
    spark: SparkSession, folder: Path, keys: int, changes: int, rate: int
) -> dict[str, Any]:
    """The pauses of a query."""
    inputs = folder / "input"
    inputs.mkdir(parents=True)
    feeder = Feeder(inputs, keys, rate)
    seen: list[float] = []
    counted: dict[int, int] = {}

    def take(df: Any, batch: int) -> None:
        counted[batch] = df.count()
        if counted[batch]:
            seen.append(time.monotonic())

    def start() -> Any:
        rows = spark.readStream.schema("key long, value long").parquet(str(inputs))
        writer = keyed(rows).writeStream.foreachBatch(take)
        return writer.option("checkpointLocation", str(folder / "checkpoint")).start()

    query = keystate.elastic(start, spark=spark)
    for first in range(0, keys, BATCH):
        feeder.write(first, min(BATCH, keys - first))
        query.processAllAvailable()
    feeder.start()
    time.sleep(5)
    gaps = [b - a for a, b in zip(seen[-10:], seen[-9:], strict=False)]
    pauses, calls = [], []
    for partitions in islice(cycle((3, 2, 4, 2)), changes):
        began = time.monotonic()
        done = query.rescale(partitions)
        calls.append(time.monotonic() - began)
        assert done.after == partitions
        ended = time.monotonic()
        while seen[-1] < ended:
            time.sleep(0.01)
        # The first row after it is the first that came once the query had been told to stop.
        after = next(i for i, at in enumerate(seen) if at > ended - calls[-1] and i)
        window = [i for i in range(after - 1, len(seen) - 1) if seen[i] < ended]
        pauses.append(max(seen[i + 1] - seen[i] for i in window))
        time.sleep(2)
    feeder.over.set()
    feeder.join()
    query.processAllAvailable()
    query.stop()
    assert sum(counted.values()) == feeder.written, (sum(counted.values()), feeder.written)
    return {"gap_s": gaps, "pause_s": pauses, "rescale_s": calls}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--changes", type=int, default=10)
    parser.add_argument("--rate", type=int, default=1000, help="rows a second")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--out", type=Path, help="also write the figures there, as JSON")
    args = parser.parse_args()
    settings = {PROVIDER: OURS, BACKEND: args.backend, PARTITIONS: "2"}
    with (
        bench_session({}) as (spark, _),
        tempfile.TemporaryDirectory() as folder,
        configured(spark, settings),
    ):
        measured(spark, Path(folder) / "warm-up", 10_000, 2, args.rate)
        found = measured(spark, Path(folder) / "query", args.keys, args.changes, args.rate)
    for name, values in found.items():
        print(f"{name:10} median {statistics.median(values):.2f}, most {max(values):.2f} s")
    if args.out:
        args.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
