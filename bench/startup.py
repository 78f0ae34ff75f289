"""What a session takes until its first micro-batch is done, with Keystate and without.

python -m bench.startup [--repeat 7]

Each round starts a process for each query, in turns: Spark's own count by key with Spark's RocksDB
provider and with Keystate's, PySpark's `transformWithState`, and `keystate.keyed(...).process`; and
the last one once more after `keystate warm-up`. The input is one small file.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from bench.processes import cpu_seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
SPARK_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
SQL, TWS, OURS_SQL, OURS = (
    "Spark, `groupBy().count()`",
    "Spark, `transformWithState`",
    "Keystate, `groupBy().count()`",
    "Keystate, `process`",
)
QUERIES = (SQL, OURS_SQL, TWS, OURS)
WARM = "the same after `keystate warm-up`"
ROWS, KEYS = 1_000, 100


def run(name: str, folder: Path) -> dict[str, float]:
    """Seconds of each step of a query, and CPU seconds of all, in this process."""
    steps = {}
    last = time.perf_counter()

    def end(step: str) -> None:
        nonlocal last
        now = time.perf_counter()
        steps[step], last = now - last, now

    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.sql.shuffle.partitions", "2").config("spark.log.level", "ERROR")
    if name in (OURS_SQL, OURS):
        import keystate

        builder = keystate.configure(builder)
    else:
        builder = builder.config(PROVIDER, SPARK_ROCKSDB)
    end("imports")
    spark = builder.getOrCreate()
    end("session")
    counts = COUNTS[name](spark.readStream.schema("id long, key long").parquet(f"{folder}/input"))
    writer = counts.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
    query = writer.option("checkpointLocation", tempfile.mkdtemp(dir=folder)).start()
    query.awaitTermination()
    end("first micro-batch")
    assert query.lastProgress["numInputRows"] == ROWS
    steps["CPU"] = cpu_seconds(os.getpid())
    return steps


# The functions are made where they are used: an import of Keystate is part of what is measured.


def sql_count(rows: DataFrame) -> DataFrame:
    """What Spark counts itself."""
    return rows.groupBy("key").count()


def spark_count(rows: DataFrame) -> DataFrame:
    """The same in Spark's own operator for functions with state."""
    from pyspark.sql import Row
    from pyspark.sql.streaming import StatefulProcessor

    class Count(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self.n = handle.getValueState("n", "n long")

        def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
            n = (self.n.get()[0] if self.n.exists() else 0) + sum(1 for _ in rows)
            self.n.update((n,))
            yield Row(key=key[0], n=n)

        def close(self) -> None: ...

    return rows.groupBy("key").transformWithState(Count(), "key long, n long", "update", "none")


def keystate_count(rows: DataFrame) -> DataFrame:
    """The same in Keystate."""
    import keystate

    class Count(keystate.KeyedProcessFunction):
        def open(self, context: keystate.RuntimeContext) -> None:
            descriptor = keystate.ValueStateDescriptor("n", "long", default=0)
            self.n = context.get_state(descriptor)

        def process_element(self, row: Any, context: keystate.Context) -> Iterator[Any]:
            self.n.update(self.n.value() + 1)
            yield row.key, self.n.value()

    return keystate.keyed(rows, "key").process(Count(), "key long, n long")


COUNTS = {SQL: sql_count, OURS_SQL: sql_count, TWS: spark_count, OURS: keystate_count}


def output(cache: Path, *command: str) -> bytes:
    """What a program of Python prints that has a cache folder of its own."""
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "XDG_CACHE_HOME": str(cache)}
    command = (sys.executable, "-m", *command)
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, env=environment).stdout


def measured(name: str, folder: Path, cache: Path) -> dict[str, float]:
    """What a process of its own says."""
    started = time.perf_counter()
    told = output(cache, "bench.startup", "--query", name, "--folder", str(folder))
    steps: dict[str, float] = json.loads(told.splitlines()[-1])
    return {**steps, "whole": time.perf_counter() - started}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--query", choices=QUERIES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.query:
        print(json.dumps(run(args.query, args.folder)))
        return
    with tempfile.TemporaryDirectory(prefix="keystate-startup-") as made:
        folder = Path(made)
        (folder / "input").mkdir()
        ids = range(ROWS)
        table = pa.table({"id": ids, "key": [i % KEYS for i in ids]})
        pq.write_table(table, folder / "input" / "1.parquet")
        results: dict[str, list[dict[str, float]]] = {name: [] for name in (*QUERIES, WARM)}
        output(folder / "warm", "keystate", "warm-up")
        for _ in range(args.repeat):
            for name, rounds in results.items():
                cache = folder / ("warm" if name == WARM else "cold")
                rounds.append(measured(OURS if name == WARM else name, folder, cache))
        columns = list(results[OURS][0])
        print("| | " + " | ".join(columns) + " |")
        print("|---" * (len(columns) + 1) + "|")
        for name, rounds in results.items():
            medians = (statistics.median(one[column] for one in rounds) for column in columns)
            print(f"| {name} | " + " | ".join(f"{median:.2f}" for median in medians) + " |")


if __name__ == "__main__":
    main()
