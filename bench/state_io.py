"""State in and out: how long it takes to begin with much state, to read it all, and to edit it.

python -m bench.state_io [--keys 10000000] [--peer-share 0.01] [--lookup-keys 8000000]
                         [--lookups 200] [--out FILE]

A key has a value state of two longs. To begin with state is to go from a table in Parquet files to
a query that has done its first ten rows: by `initial_state`, by `keystate.admin.create`, and by
Spark's `transformWithStateInPandas` with `initialState`, which gets a share of the keys. Then, of
what `create` wrote: `read_state`, whose values are summed; a copy with other key groups, whose
entries are taken over; a copy with new values, made of a DataFrame. The number of keys, and what
the copies have, is checked. At last comes `bench.lookup` with `--lookup-keys` keys, if not 0.

All run in one session and one after the other, each after a small run of the same. The heap is the
most that a garbage collection left of the JVM's, less what one leaves before: 0 if there was none.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pandas as pd
from keystate import admin
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from bench import lookup
from bench.processes import worker_memory
from bench.rescale import BACKEND, OURS, Totals
from bench.session import CORES, PROVIDER, STOCK, bench_session, configured

OUTPUT = "key long, n long"
WARM_UP = 10_000
ROWS = 10
BACKENDS = {"heap": "hashmap", "RocksDB": "rocksdb"}

Figures = dict[str, Any]


class Initialized(Totals):
    """Counts and sums, and begins with a row of each key."""

    def process_initial_state(self, row: Any, ctx: Any) -> None:
        self.totals.update((row.n, row.total))


class PandasTotals(StatefulProcessor):
    """The same with Spark's operator."""

    def init(self, handle: Any) -> None:
        self.totals = handle.getValueState("totals", "n long, total long")

    def handleInitialState(self, key: Any, initialState: Any, timerValues: Any) -> None:
        self.totals.update((int(initialState["n"].iloc[0]), int(initialState["total"].iloc[0])))

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        for frame in rows:
            n, total = self.totals.get() or (0, 0)
            self.totals.update((n + len(frame), total + int(frame["value"].sum())))
            yield pd.DataFrame({"key": [key[0]], "n": [n + len(frame)]})

    def close(self) -> None:
        pass


class Heap:
    """What garbage collections leave of the JVM's heap, by its log."""

    def __init__(self, spark: SparkSession, log: Path) -> None:
        self._spark, self._log = spark, log

    def begin(self) -> None:
        self._spark._jvm.System.gc()
        self._before = self._left()[-1]
        self._seen = len(self._left())

    def most(self) -> int:
        """MB more than at the begin."""
        return max([0, *(left - self._before for left in self._left()[self._seen :])])

    def _left(self) -> list[int]:
        return [
            int(mb) for mb in re.findall(r"Pause (?:Young|Full).*->(\d+)M", self._log.read_text())
        ]


class Bench:
    """A folder with tables of so many keys, and what is done with them."""

    def __init__(self, spark: SparkSession, work: Path, heap: Heap) -> None:
        self._spark, self._work, self._heap = spark, work, heap
        (spark.range(ROWS).select(F.col("id").alias("key"), F.lit(0).cast("long").alias("value"))
         .coalesce(1).write.parquet(str(work / "rows")))  # fmt: skip

    def table(self, keys: int) -> DataFrame:
        """A row for each key; written once."""
        place = self._work / f"table-{keys}"
        if not place.exists():
            columns = (
                ((F.col("id") * 7_368_787) % keys).alias("key"),
                F.lit(1).cast("long").alias("n"),
                (F.col("id") % 97).alias("total"),
            )
            rows = self._spark.range(keys, numPartitions=2 * CORES)
            rows.select(*columns).write.parquet(str(place))
        return self._spark.read.parquet(str(place))

    def run(self, build: Callable[[DataFrame], DataFrame], checkpoint: Path, keys: int) -> None:
        """A query over ten rows, and how many keys it has at the end."""
        rows = self._spark.readStream.schema("key long, value long")
        query = (
            build(rows.parquet(str(self._work / "rows")))
            .writeStream.format("noop")
            .outputMode("update")
            .option("checkpointLocation", str(checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        held = query.recentProgress[-1].stateOperators[0].numRowsTotal
        assert held == keys, f"{held:,} keys are held instead of {keys:,}"

    def initial_state(self, keys: int, checkpoint: Path) -> None:
        def build(rows: DataFrame) -> DataFrame:
            table = self.table(keys)
            return keystate.keyed(rows, "key").process(Initialized(), OUTPUT, initial_state=table)

        self.run(build, checkpoint, keys)

    def create(self, keys: int, checkpoint: Path) -> None:
        table = self.table(keys).select("key", F.struct("n", "total").alias("value"))
        admin.create(str(checkpoint), Totals(), key="key long", states={"totals": table})
        self.run(
            lambda rows: keystate.keyed(rows, "key").process(Totals(), OUTPUT), checkpoint, keys
        )

    def spark_initial_state(self, keys: int, checkpoint: Path) -> None:
        def build(rows: DataFrame) -> DataFrame:
            return rows.groupBy("key").transformWithStateInPandas(
                PandasTotals(),
                OUTPUT,
                "Update",
                "None",
                initialState=self.table(keys).groupBy("key"),
            )

        self.run(build, checkpoint, keys)

    def read(self, keys: int, checkpoint: Path) -> None:
        state = admin.read_state(self._spark, str(checkpoint), state="totals")
        found = state.agg(F.count("*"), F.sum("value.n"), F.sum(F.abs("value.total"))).collect()[0]
        total = sum(range(97)) * (keys // 97) + sum(range(keys % 97))
        assert tuple(found) == (keys, keys + ROWS, total), found

    def regroup(self, keys: int, checkpoint: Path) -> None:
        editor = admin.edit(str(checkpoint.with_name("created")))
        editor.set_max_parallelism(1000)
        editor.write(str(checkpoint))

    def replace(self, keys: int, checkpoint: Path) -> None:
        editor = admin.edit(str(checkpoint.with_name("created")))
        negative = F.struct(F.col("value.n"), (-F.col("value.total")).alias("total"))
        editor.replace("totals", editor.read("totals").withColumn("value", negative))
        editor.write(str(checkpoint))

    def measure(
        self, name: str, step: Callable[[int, Path], None], keys: int, checkpoint: Path
    ) -> Figures:
        """Seconds, µs a key and memory of a step."""
        self.table(keys)
        self._heap.begin()
        start = time.perf_counter()
        step(keys, checkpoint)
        seconds = time.perf_counter() - start
        figures = {
            "name": name,
            "keys": keys,
            "seconds": round(seconds, 2),
            "us_per_key": round(seconds / keys * 1e6, 3),
            "heap_mb": self._heap.most(),
            "worker_mb": round(worker_memory()),
        }
        print(f"# {figures}", flush=True)
        return figures

    def all(self, keys: int, share: float) -> list[Figures]:
        """All that is measured with so many keys."""
        results = []
        folder = Path(tempfile.mkdtemp(dir=self._work))
        for label, backend in BACKENDS.items():
            with configured(self._spark, {PROVIDER: OURS, BACKEND: backend}):
                place = folder / backend
                place.mkdir()
                steps = {
                    "initial_state": (self.initial_state, place / "initial"),
                    "create": (self.create, place / "created"),
                    "read_state": (self.read, place / "created"),
                    "edit: other key groups": (self.regroup, place / "regrouped"),
                    "edit: new values": (self.replace, place / "replaced"),
                }
                for name, (step, checkpoint) in steps.items():
                    results.append(self.measure(f"{name}, {label}", step, keys, checkpoint))
                    self.read(keys, checkpoint)
        with configured(self._spark, STOCK):
            few = max(ROWS, int(keys * share))
            name = "transformWithStateInPandas with initialState"
            results.append(self.measure(name, self.spark_initial_state, few, folder / "spark"))
        shutil.rmtree(folder)
        return results


def print_table(results: list[Figures]) -> None:
    """Prints the figures; the ways to begin against Spark's, by time a key."""
    peer = results[-1]["us_per_key"]
    print("\n| | keys | s | µs a key | times as fast | heap, MB | a worker, MB |")
    print("|---|---|---|---|---|---|---|")
    for r in results:
        begins = r["name"].startswith(("initial_state", "create"))
        ratio = f"{peer / r['us_per_key']:.0f}" if begins else ""
        print(
            f"| {r['name']} | {r['keys']:,} | {r['seconds']:.1f} | {r['us_per_key']:.2f} | {ratio} "
            f"| {r['heap_mb']:,} | {r['worker_mb']:,} |"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--keys", type=int, default=10_000_000)
    parser.add_argument("--peer-share", type=float, default=0.01, help="of the keys, for Spark")
    parser.add_argument("--lookup-keys", type=int, default=8_000_000)
    parser.add_argument("--lookups", type=int, default=200)
    parser.add_argument("--out", type=Path, help="also write the figures there, as JSON")
    args = parser.parse_args()
    random.seed(1)
    with tempfile.TemporaryDirectory() as logs:
        log = Path(logs) / "gc.log"
        options = {"spark.driver.extraJavaOptions": f"-Xlog:gc:file={log}"}
        with bench_session(options) as (spark, work):
            bench = Bench(spark, work, Heap(spark, log))
            bench.all(WARM_UP, 0.01)
            results = bench.all(args.keys, args.peer_share)
            lookups = [
                lookup.measure(spark, work, name, args.lookup_keys, args.lookups)
                for name in (lookup.BACKENDS if args.lookup_keys else ())
            ]
    print_table(results)
    if lookups:
        lookup.print_table(args.lookup_keys, lookups)
    if args.out:
        args.out.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
