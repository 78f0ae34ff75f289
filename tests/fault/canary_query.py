"""A query whose code is compared and promoted again and again, to be killed.

python canary_query.py FOLDER FORMAT BACKEND SEED [WAITS]

With WAITS the first promotion of a changed copy waits to be killed, `before` the copy has the place
of the checkpoint or `after` that, and makes the file FOLDER/waits.
"""

from __future__ import annotations

import json
import random
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pyarrow as pa
from keystate import KeyedProcessFunction, ValueStateDescriptor, admin
from keystate._jvm.session import FORMAT_KEY
from keystate.live.canary import promotion
from pyspark.sql import SparkSession

from tests.fault import batch_files, sessions

FILES, ROWS, KEYS = 40, 12, 5


class Count(KeyedProcessFunction):
    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor(self.name, "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        yield row.key, self.count.value()


def make_input(folder: Path, seed: int) -> list[tuple[int, int]]:
    """Writes random rows; returns what should be emitted for them, in any order."""
    rng = random.Random(seed)
    expected: list[tuple[int, int]] = []
    for i in range(FILES):
        keys = [rng.randrange(KEYS) for _ in range(ROWS)]
        batch_files.write(folder / "input", i, pa.table({"key": keys}))
        for key in keys:
            expected.append((key, 1 + sum(key == k for k, _ in expected)))
    return sorted(expected)


def place(folder: Path, number: int) -> str:
    return str(folder / str(number) / "checkpoint")


def number_of(checkpoint: str) -> int:
    return int(Path(checkpoint).parent.name)


def current(spark: SparkSession, folder: Path) -> str:
    """Where the query goes on."""
    first = place(folder, 0)
    return (admin.moved_to(first, spark=spark) or first).removeprefix("file:")


def starter(spark: SparkSession, folder: Path, output: str, change: int = 0, **trigger: Any) -> Any:
    """Starts the query where it is told, with the state's name that fits there."""

    def save(df: Any, batch: int) -> None:
        target = folder / output / f"{batch}.json"
        rows = [list(row) for row in df.collect()]  # always: else the stores do not commit
        if not target.exists():  # a sink that knows the micro-batches that it has had
            part = target.with_name(f"{uuid.uuid4()}.part")
            part.write_text(json.dumps(rows))
            part.rename(target)

    def start(checkpoint: str) -> Any:
        # A fork has the code of the place that is to come.
        at = checkpoint.removesuffix(".canary")
        number = number_of(at) + (change if at != checkpoint else 0)
        name = "count" if number % 2 == 0 else "total"
        rows = spark.readStream.schema("key long").option("maxFilesPerTrigger", 1)
        counted = keystate.keyed(rows.parquet(str(folder / "input")), "key").process(
            Count(name), "key long, count long"
        )
        writer = counted.writeStream.foreachBatch(save).trigger(**trigger)
        return writer.option("checkpointLocation", checkpoint).start()

    (folder / output).mkdir(exist_ok=True)
    return start


def renamed(number: int) -> Callable[[Any], None]:
    """What is to be done to the state of one place for the next."""
    names = ["count", "total"]
    return lambda editor: editor.rename(names[number % 2], names[1 - number % 2])


def last_batch(folder: Path) -> int:
    """The last micro-batch that the sink has had."""
    return max((int(path.stem) for path in (folder / "output").glob("*.json")), default=-1)


def wait_in_promotion(folder: Path, waits: str) -> None:
    exchange = promotion.Promotion._exchange

    def waiting(self: Any, method: str) -> None:
        if waits == "after":
            exchange(self, method)
        (folder / "waits").touch()
        time.sleep(600)

    promotion.Promotion._exchange = waiting  # type: ignore[method-assign, assignment]


def main(folder: Path, checkpoint_format: str, backend: str, seed: int, waits: str = "") -> None:
    if waits:
        wait_in_promotion(folder, waits)
    rng = random.Random(seed)
    settings = {FORMAT_KEY: checkpoint_format, "spark.keystate.backend": backend}
    spark = sessions.create("local[2]", 2, **settings)
    pace = {"processingTime": "0.4 seconds"}
    at = current(spark, folder)
    production = starter(spark, folder, "output", **pace)
    query = production(at)
    while query.lastProgress is None:
        time.sleep(0.05)
    while last_batch(folder) < FILES - 1:
        edits = bool(waits) or rng.random() < 0.6
        number = number_of(at)
        start_new = starter(spark, folder, f"canary-{uuid.uuid4()}", 1 if edits else 0, **pace)
        (folder / "at-work").touch()
        canary = keystate.canary(
            query, start_new, edit=renamed(number) if edits else None, spark=spark
        )
        if rng.random() < 0.5:
            assert canary.compare(1, alone=0, timeout_seconds=60).error is None
        (folder / "promotes").touch()
        to = place(folder, number + 1) if edits else None
        query = canary.promote(
            production, start_old=production, to=to, timeout_seconds=rng.choice((0, 60))
        )
        (folder / "promotes").unlink()
        (folder / "at-work").unlink()
        at = current(spark, folder)
        time.sleep(rng.uniform(0, 0.3))
    query.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]), *sys.argv[5:])
