"""A query of hundreds of partitions on a cluster, which starts again with other numbers of them.

python many_partitions_query.py FOLDER MASTER KEYS FORMAT PARTITIONS:BATCHES...

For each PARTITIONS it starts the query once and feeds it so many micro-batches; a number counts on
from the batches that were fed before. The first one of all has every key, the others have some.
With a file FOLDER/hold the row of one key waits. It writes what it measured into
FOLDER/measured.json, and the states of the end into FOLDER/states.json.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keystate
import pyarrow as pa
from keystate import (
    CheckpointedFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from keystate._jvm.session import FORMAT_KEY
from keystate.admin import read_state
from pyspark.sql import SparkSession

from tests.fault import batch_files, events, sessions

#: Rows of a micro-batch other than the first, and characters that each key keeps.
ROWS, SIZE = 2_000, 500
HELD_KEY, LONGEST_HOLD = 0, 120


class Account(KeyedProcessFunction, CheckpointedFunction):
    """Keeps a long text and sums by kind for each key, and how many rows its subtask had."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.seen = store.get_list_state(ListStateDescriptor("seen", "long"))
        self.before = store.get_union_list_state(ListStateDescriptor("all", "long"))
        self.rows = sum(self.seen.get())
        # All subtasks' numbers, when the micro-batch began.
        self.total = sum(self.before.get())

    def snapshot_state(self, context: Any) -> None:
        self.seen.update([self.rows])
        self.before.update([self.rows])

    def open(self, ctx: Any) -> None:
        self.text = ctx.get_state(ValueStateDescriptor("text", "string", default=""))
        self.sums = ctx.get_map_state(MapStateDescriptor("sums", "long", "long"))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[int, int, str, int]]:
        self.rows += 1
        if row.key == HELD_KEY:
            wait_while_held(self.folder)
        if not self.text.value():
            self.text.update(text(row.key))
        kind = row.x % 3
        self.sums[kind] = (self.sums[kind] or 0) + row.x
        yield row.key, row.x, json.dumps(sorted(self.sums.items())), self.total


def wait_while_held(folder: Path) -> None:
    """Tells the test which executor it is on: the parent of the daemon that forked this worker."""
    if (folder / "hold").exists():
        daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
        part = folder / f"held.{os.getpid()}"
        part.write_text(daemon.rsplit(")", 1)[1].split()[1])
        part.rename(folder / "held")
        end = time.monotonic() + LONGEST_HOLD
        while (folder / "hold").exists() and time.monotonic() < end:
            time.sleep(0.02)


def text(key: int) -> str:
    return random.Random(key).randbytes(SIZE // 2).hex()


def rows(number: int, keys: int) -> list[tuple[int, int]]:
    """Keys and values of a micro-batch; each key is in it once at most."""
    rng = random.Random(number)
    chosen = range(keys) if number == 0 else [HELD_KEY, *rng.sample(range(1, keys), ROWS - 1)]
    return [(key, rng.randrange(1_000)) for key in chosen]


def start(spark: SparkSession, folder: Path) -> Any:
    stream = (
        spark.readStream.schema("key long, x long")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / "input"))
    )
    return (
        keystate.keyed(stream, "key")
        .process(Account(folder), "key long, x long, sums string, total long")
        .writeStream.foreachBatch(batch_files.saver(folder))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )


def heap(spark: SparkSession) -> int:
    """What is alive in the driver's JVM."""
    for _ in range(3):
        spark._jvm.System.gc()
        time.sleep(0.2)
    beans = spark._jvm.java.lang.management.ManagementFactory
    return int(beans.getMemoryMXBean().getHeapMemoryUsage().getUsed())


def main() -> None:
    place, master, keys, checkpoint_format, *starts = sys.argv[1:]
    folder = Path(place)
    settings = {
        FORMAT_KEY: checkpoint_format,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.ui.showConsoleProgress": "false",
        **events.settings(folder),
    }
    spark = sessions.create(master, 200, **settings)
    (folder / "input").mkdir(exist_ok=True)
    number = len(list((folder / "input").glob("[0-9]*")))
    measured = []
    for partitions, batches in (map(int, each.split(":")) for each in starts):
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
        began, query, seconds = time.monotonic(), None, []
        for _ in range(batches):
            fed = rows(number, int(keys))
            columns = {"key": [key for key, _ in fed], "x": [x for _, x in fed]}
            batch_files.write(folder / "input", number, pa.table(columns))
            query = query or start(spark, folder)
            query.processAllAvailable()
            seconds.append(round(time.monotonic() - began, 2))
            began, number = time.monotonic(), number + 1
        measured.append({"partitions": partitions, "seconds": seconds, "heap": heap(spark)})
        query.stop()
    (folder / "measured.json").write_text(json.dumps(measured))
    checkpoint = str(folder / "checkpoint")
    texts = read_state(spark, checkpoint, state="text").selectExpr("key.key", "crc32(value.value)")
    seen = read_state(spark, checkpoint, state="seen").selectExpr("list_element")
    states = {"texts": sorted(map(list, texts.collect())), "seen": [n for (n,) in seen.collect()]}
    (folder / "states.json").write_text(json.dumps(states))
    spark.stop()


if __name__ == "__main__":
    main()
