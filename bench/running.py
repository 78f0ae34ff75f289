"""A query that runs while something is done to it: its rows, and what a sink sees of them."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from bench.object_store import DELAY, RENAMES
from bench.rescale import BACKEND, OURS, PARTITIONS
from bench.scala import SPARK_HOME
from bench.session import PROVIDER, bench_session, configured
from tests.fault.faults import classes_jar

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

    def end(self) -> None:
        self.over.set()
        self.join()

    def build(self, query: Any) -> None:
        """Writes a row of each key, and waits until the query has them."""
        for first in range(0, self.keys, BATCH):
            self.write(first, min(BATCH, self.keys - first))
            query.processAllAvailable()


class Sink:
    """When rows came out, and how many in which micro-batch."""

    def __init__(self) -> None:
        self.seen: list[float] = []
        self.counted: dict[int, int] = {}

    def __call__(self, df: Any, batch: int) -> None:
        self.counted[batch] = df.count()
        if self.counted[batch]:
            self.seen.append(time.monotonic())

    @property
    def rows(self) -> int:
        return sum(self.counted.values())

    @property
    def gaps(self) -> list[float]:
        """Of the last ten micro-batches, in seconds."""
        last = self.seen[-11:]
        return [b - a for a, b in itertools.pairwise(last)]

    def pause(self, began: float, ended: float) -> float:
        """The longest time without rows, in seconds, from the last ones before something began.

        Waits for the first ones after it ended.
        """
        while self.seen[-1] < ended:
            time.sleep(0.01)
        after = next(i for i, at in enumerate(self.seen) if at > began and i)
        window = [i for i in range(after - 1, len(self.seen) - 1) if self.seen[i] < ended]
        return max(self.seen[i + 1] - self.seen[i] for i in window)


def end(query: Any, feeder: Feeder, sink: Sink) -> None:
    """Ends a query once it has all rows, and checks that each came out once."""
    feeder.end()
    query.processAllAvailable()
    query.stop()
    assert sink.rows == feeder.written, (sink.rows, feeder.written)


def arguments(description: str | None) -> argparse.ArgumentParser:
    """What each benchmark of such a query is told."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--rate", type=int, default=1000, help="rows a second")
    parser.add_argument("--backend", default="auto")
    parser.add_argument("--heap-share", help="of state in the heap, with the backend auto")
    parser.add_argument("--executors", type=int, help="processes of one core; else one JVM for all")
    parser.add_argument("--out", type=Path, help="also write the figures there, as JSON")
    return parser


def add_store(parser: argparse.ArgumentParser) -> None:
    """Checkpoints may be in a store of the tests, where each request takes a while."""
    parser.add_argument("--store", action="store_true", help="in a store that waits")
    parser.add_argument("--delay", type=int, default=30, help="how long, in ms")


def scheme(args: argparse.Namespace) -> str:
    """Of the places of checkpoints."""
    return "objects://" if getattr(args, "store", False) else ""


@contextmanager
def session_of(args: argparse.Namespace, folder: Path) -> Iterator[SparkSession]:
    """A session in which queries run as the arguments say.

    Args:
        args: of `arguments`, maybe with those of `add_store`.
        folder: where to put the store's classes.
    """
    extra = {}
    if args.executors:
        # Where Spark starts executors from, and their workers find this module.
        os.environ["SPARK_HOME"] = str(SPARK_HOME)
        os.environ["PYTHONPATH"] = str(Path(__file__).parents[1])
        cluster = f"local-cluster[{args.executors},1,2048]"
        extra = {"spark.master": cluster, "spark.executor.memory": "2g"}
    settings = {PROVIDER: OURS, BACKEND: args.backend, PARTITIONS: "2"}
    if args.heap_share:
        settings["spark.keystate.auto.heapShare"] = args.heap_share
    if scheme(args):
        extra |= {
            "spark.driver.extraClassPath": str(classes_jar(folder)),
            "spark.hadoop.fs.objects.impl": "keystate.faults.ObjectFileSystem",
            "spark.hadoop.fs.objects.impl.disable.cache": "true",
        }
        settings |= {DELAY: str(args.delay), RENAMES: "false"}
    with bench_session(extra) as (spark, _), configured(spark, settings):
        yield spark


def tell(
    args: argparse.Namespace,
    times: int,
    measured: Callable[[SparkSession, Path, int, int], dict[str, list[float]]],
) -> None:
    """Measures a query, after a small one that warms up, and prints medians.

    Args:
        args: of `arguments`.
        times: how often something is done to the query.
        measured: takes the session, a folder to make, keys and times; returns seconds.
    """
    with tempfile.TemporaryDirectory() as folder, session_of(args, Path(folder)) as spark:
        measured(spark, Path(folder) / "warm-up", 10_000, 2)
        found = measured(spark, Path(folder) / "query", args.keys, times)
    for name, values in found.items():
        print(f"{name:10} median {statistics.median(values):.2f}, most {max(values):.2f} s")
    if args.out:
        args.out.write_text(json.dumps(found, indent=1))
