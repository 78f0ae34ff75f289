"""A driver that runs a query as often as a test says, on disks that the test fills.

python full_disk_query.py FOLDER LOCAL

LOCAL is where the session keeps its local files. The Nth run is in a file FOLDER/N.run: a JSON
object with the query's folder, the folder of its checkpoint and its backend. What went wrong is
then in FOLDER/N.done; nothing, if all was well.
"""

from __future__ import annotations

import json
import random
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keystate
import pyarrow as pa
from keystate import KeyedProcessFunction, ListStateDescriptor
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from tests.fault import batch_files, sessions

KEYS, SIZE = 20, 50_000


def element(key: int, n: int) -> bytes:
    """What no compression makes smaller."""
    return random.Random(f"{key} {n}").randbytes(SIZE)


class Grows(KeyedProcessFunction):
    """Adds a megabyte of all keys in a micro-batch; tells length and checksum of a key's list."""

    def open(self, ctx: Any) -> None:
        self.all = ctx.get_list_state(ListStateDescriptor("all", "binary"))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[int, int, int]]:
        self.all.add(element(row.key, row.n))
        elements = self.all.get()
        yield row.key, len(elements), zlib.crc32(b"".join(elements))


def expected(batches: int) -> list[tuple[int, int, int]]:
    """What comes out of this number of batches."""
    rows = []
    for key in range(KEYS):
        crc = 0
        for n in range(batches):
            crc = zlib.crc32(element(key, n), crc)
            rows.append((key, n + 1, crc))
    return sorted(rows)


def feed(folder: Path, *numbers: int) -> None:
    for n in numbers:
        rows = pa.table({"key": list(range(KEYS)), "n": [n] * KEYS})
        batch_files.write(folder / "input", n, rows)


def run(spark: SparkSession, folder: Path, checkpoint: str, backend: str) -> None:
    spark.conf.set("spark.keystate.backend", backend)
    stream = (
        spark.readStream.schema("key long, n long")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / "input"))
    )
    (
        keystate.keyed(stream, "key")
        .process(Grows(), "key long, n int, crc long")
        .writeStream.foreachBatch(batch_files.saver(folder))
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
        .awaitTermination()
    )


def main() -> None:
    folder, local = map(Path, sys.argv[1:])
    # The last run's stores stay as they are until Spark unloads them: else the next run has their
    # disk space.
    own = {"spark.local.dir": str(local), "spark.keystate.restart.keepSeconds": "0"}
    spark = sessions.create("local[2]", 2, **own)
    spark.sparkContext.setLogLevel("ERROR")
    number = 0
    while True:
        told = folder / f"{number}.run"
        while not told.exists():
            time.sleep(0.02)
        what = json.loads(told.read_text())
        error = ""
        try:
            run(spark, Path(what["folder"]), what["checkpoint"], what["backend"])
        except StreamingQueryException as e:
            error = str(e)
        (folder / "part").write_text(error)
        (folder / "part").rename(folder / f"{number}.done")
        number += 1


if __name__ == "__main__":
    main()
