"""Windowed queries and an async one: windows with late rows, and calls that wait.

Run as a script it is the driver that a test kills: python functions_query.py FOLDER KIND FORMAT
BACKEND
"""

from __future__ import annotations

import asyncio
import datetime
import json
import random
import sys
from pathlib import Path
from typing import Any

import keystate
import pyarrow as pa
from keystate import (
    AsyncKeyedProcessFunction,
    ListStateDescriptor,
    OutputTag,
    Time,
    ValueStateDescriptor,
)
from keystate._jvm.session import FORMAT_KEY
from keystate.windows import (
    EventTimeSessionWindows,
    ProcessWindowFunction,
    SlidingEventTimeWindows,
)
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.fault import batch_files, sessions

FILES, ROWS, KEYS = 12, 40, 9
SCHEMA = "number long, time timestamp, key long, x long"
GAP_MS, LATENESS_MS = 150, 1000
SIZE_MS, SLIDE_MS = 500, 200
#: Of late rows: some are too late, some are not.
DELAY_MS = 4000
START = datetime.datetime(2024, 5, 1, tzinfo=datetime.timezone.utc)
LATE = OutputTag("late", SCHEMA)


class Session(ProcessWindowFunction):
    """Tells of a session when it fires, also for late rows, and how often its key has."""

    def open(self, ctx: Any) -> None:
        self.fired = ctx.global_state().get_state(ValueStateDescriptor("fired", "long", default=0))

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        self.fired.update(self.fired.value() + 1)
        window = context.window()
        numbers = sorted(row.number for row in elements)
        yield key, json.dumps([window.start, window.end, self.fired.value(), numbers])


class Asking(AsyncKeyedProcessFunction):
    """Emits what is in all states of the key after each row and timer, between which it waits."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "long", default=0))
        self.asked = ctx.get_list_state(ListStateDescriptor("asked", "long"))

    async def process_element(self, row: Any, ctx: Any) -> Any:
        before = self.total.value()
        await asyncio.sleep(row.x / 20_000)
        self.total.update(before + row.x)
        self.asked.add(row.number)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1500)
        yield row.key, json.dumps([row.number, self.total.value(), list(self.asked)])

    async def on_timer(self, timestamp: int, ctx: Any) -> Any:
        await asyncio.sleep(0.001)
        self.asked.clear()
        yield ctx.get_current_key(), json.dumps([timestamp, self.total.value()])


def make_input(folder: Path, seed: int) -> None:
    """Writes random rows, a file a micro-batch: within it a second goes by."""
    rng = random.Random(seed)
    for i in range(FILES):
        rows = []
        for at in range(ROWS):
            late = rng.randrange(DELAY_MS) if rng.random() < 0.2 else 0
            millis = 1000 * i + 20 * at + rng.randrange(20) - late
            time = START + datetime.timedelta(milliseconds=millis)
            key, x = rng.randrange(KEYS), rng.randrange(100)
            rows.append({"number": i * ROWS + at, "time": time, "key": key, "x": x})
        batch_files.write(folder / "input", i, pa.Table.from_pylist(rows))


def windowed(rows: DataFrame) -> DataFrame:
    result = (
        keystate.keyed(rows, "key")
        .window(EventTimeSessionWindows.with_gap(Time.milliseconds(GAP_MS)))
        .allowed_lateness(Time.milliseconds(LATENESS_MS))
        .side_output_late_data(LATE)
        .process(Session(), "key long, told string")
    )
    both = result.with_side_outputs(LATE)
    return both.selectExpr(
        "coalesce(main.key, late.key)", "coalesce(main.told, string(late.number))"
    )


def aggregates() -> list[Column]:
    """With buffers of fixed size and with objects."""
    return [
        F.sort_array(F.collect_list("number")).alias("numbers"),
        F.sum("x").alias("total"),
        F.approx_count_distinct("x").alias("different"),
        F.max_by("x", "number").alias("last"),
        F.expr("sum(x) FILTER (WHERE x > 50)").alias("great"),
    ]


def told(of: str) -> Column:
    """A window and its aggregates as JSON, whatever the time zone of the session."""
    bounds = (F.unix_millis(F.col(f"{of}window_{end}")).alias(end) for end in ("start", "end"))
    names = ("numbers", "total", "different", "last", "great")
    return F.to_json(F.struct(*bounds, *(f"{of}{name}" for name in names)))


def aggregated(rows: DataFrame) -> DataFrame:
    """Sessions by aggregates of columns, with late output."""
    result = (
        keystate.keyed(rows, "key")
        .window(EventTimeSessionWindows.with_gap(Time.milliseconds(GAP_MS)))
        .allowed_lateness(Time.milliseconds(LATENESS_MS))
        .side_output_late_data(LATE)
        .aggregate(*aggregates())
    )
    both = result.with_side_outputs(LATE)
    return both.select(
        F.coalesce("main.key", "late.key"),
        F.when(F.col("main").isNotNull(), told("main.")).otherwise(F.expr("string(late.number)")),
    )


def begun(rows: DataFrame) -> DataFrame:
    """Sliding windows, whose rows are aggregated by their panes before the shuffle."""
    result = (
        keystate.keyed(rows, "key")
        .window(SlidingEventTimeWindows.of(SIZE_MS, SLIDE_MS))
        .allowed_lateness(Time.milliseconds(LATENESS_MS))
        .aggregate(*aggregates())
    )
    return result.select("key", told(""))


def asking(rows: DataFrame) -> DataFrame:
    return keystate.keyed(rows, "key").process(Asking(), "key long, told string", capacity=20)


QUERIES = {"windows": windowed, "async": asking, "aggregates": aggregated, "begun": begun}


def source(spark: SparkSession, folder: Path) -> DataFrame:
    reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder / "input")).withWatermark("time", "0 seconds")


def start(spark: SparkSession, folder: Path, kind: str, out: Path | None = None) -> Any:
    """Starts a query, a file a micro-batch; it ends with the input."""
    out = out or folder
    out.mkdir(exist_ok=True)
    return (
        QUERIES[kind](source(spark, folder))
        .writeStream.foreachBatch(batch_files.saver(out))
        .option("checkpointLocation", str(out / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def main() -> None:
    settings = {FORMAT_KEY: sys.argv[3], "spark.keystate.backend": sys.argv[4]}
    spark = sessions.create("local[2]", 2, **settings)
    start(spark, Path(sys.argv[1]), sys.argv[2]).awaitTermination()


if __name__ == "__main__":
    main()
