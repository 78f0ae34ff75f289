"""A query over two keyed inputs with every kind of state and timers, and what it should emit.

Run as a script it is the driver that a test kills: python two_inputs_query.py FOLDER FORMAT BACKEND
"""

from __future__ import annotations

import datetime
import json
import random
import sys
from pathlib import Path
from typing import Any

import keystate
import pyarrow as pa
from keystate import (
    KeyedCoProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from keystate._jvm.session import FORMAT_KEY
from pyspark.sql import SparkSession

from tests.fault import batch_files, sessions

FILES, ROWS, KEYS = 12, 40, 9
SCHEMAS = (
    "number long, time timestamp, key long, x long",
    "id long, number long, time timestamp, text string",
)
#: Timers fire when the watermark, of the batch before, is this far.
WAIT_MS = 2500
START = datetime.datetime(2024, 5, 1, tzinfo=datetime.timezone.utc)


class Ledger(KeyedCoProcessFunction):
    """Emits what is in all states of the key after each row of either input."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "long", default=0))
        self.texts = ctx.get_list_state(ListStateDescriptor("texts", "string"))
        self.counts = ctx.get_map_state(MapStateDescriptor("counts", "string", "long"))

    def process_element1(self, row: Any, ctx: Any) -> Any:
        self.total.update(self.total.value() + row.x)
        self.counts["one"] = (self.counts["one"] or 0) + 1
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + WAIT_MS)
        yield row.number, row.key, self.told()

    def process_element2(self, row: Any, ctx: Any) -> Any:
        self.texts.add(row.text)
        self.counts["two"] = (self.counts["two"] or 0) + self.total.value()
        yield row.number, row.id, self.told()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        self.texts.clear()
        self.counts["timers"] = (self.counts["timers"] or 0) + 1
        yield -timestamp, ctx.get_current_key(), self.told()

    def told(self) -> str:
        return json.dumps([self.total.value(), list(self.texts), sorted(self.counts.items())])


def make_input(folder: Path, seed: int) -> None:
    """Writes random rows, a file of each input a micro-batch: within it a second goes by."""
    rng = random.Random(seed)
    number = 0
    for i in range(FILES):
        first, second = [], []
        for at in range(ROWS):
            number += 1
            time = START + datetime.timedelta(milliseconds=1000 * i + 20 * at + rng.randrange(20))
            key, x = rng.randrange(KEYS), rng.randrange(100)
            first.append({"number": number, "time": time, "key": key, "x": x})
            number += 1
            second.append({"id": key, "number": number, "time": time, "text": f"t{x}"})
        for side, rows in (("first", first), ("second", second)):
            batch_files.write(folder / side, i, pa.Table.from_pylist(rows))


def start(spark: SparkSession, folder: Path, out: Path | None = None) -> Any:
    """Starts the query, a file of each input a micro-batch; it ends with the input."""
    first, second = (
        spark.readStream.schema(schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / side))
        .withWatermark("time", "0 seconds")
        for side, schema in zip(("first", "second"), SCHEMAS)
    )
    out = out or folder
    out.mkdir(exist_ok=True)
    return (
        keystate.keyed(first, "key")
        .connect(keystate.keyed(second, "id"))
        .process(Ledger(), "number long, key long, state string", ordered_by="time")
        .writeStream.foreachBatch(batch_files.saver(out))
        .option("checkpointLocation", str(out / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def main() -> None:
    settings = {FORMAT_KEY: sys.argv[2], "spark.keystate.backend": sys.argv[3]}
    start(sessions.create("local[2]", 2, **settings), Path(sys.argv[1])).awaitTermination()


if __name__ == "__main__":
    main()
