"""Cards are watched in windows of ten minutes: many payments, or much money, are an alert.

Payments can come late. A window is kept for an hour after its end, and a late payment can still
raise its alert. What comes even later belongs to no window any more, and goes to a side output for
someone to look at.

python examples/fraud.py
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keystate
from keystate import AggregateFunction, OutputTag, Time, ValueStateDescriptor
from keystate.windows import ProcessWindowFunction, TumblingEventTimeWindows
from pyspark.sql import DataFrame, SparkSession

MOST_PAYMENTS, MOST_MONEY = 3, 1000
PAYMENTS = "card string, time timestamp, amount long"
TOO_LATE = OutputTag("too late", PAYMENTS)


class Spending(AggregateFunction[Any, tuple[int, int], tuple[int, int]]):
    """The number of payments and their sum."""

    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: Any, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value.amount

    def get_result(self, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator


class Rules(ProcessWindowFunction):
    """Raises each alert once a window, though a window fires again for each late payment."""

    def open(self, ctx: Any) -> None:
        flag = ValueStateDescriptor[bool]("alerted", "boolean", default=False)
        self.alerted = ctx.window_state().get_state(flag)

    def process(self, key: Any, context: Any, elements: Any) -> Iterator[tuple[str, int, int]]:
        ((payments, amount),) = elements
        broken = payments > MOST_PAYMENTS or amount > MOST_MONEY
        if broken and not self.alerted.value():
            self.alerted.update(True)
            yield key, payments, amount

    def clear(self, context: Any) -> None:
        self.alerted.clear()


def alerts(payments: DataFrame) -> Any:
    """The alerts: card, payments and money of a window."""
    return (
        keystate.keyed(payments.withWatermark("time", "1 minute"), "card")
        .window(TumblingEventTimeWindows.of(Time.minutes(10)))
        .allowed_lateness(Time.hours(1))
        .side_output_late_data(TOO_LATE)
        .aggregate(
            Spending(),
            "payments long, amount long",
            "card string, payments long, amount long",
            Rules(),
        )
    )


MICRO_BATCHES = [
    [("4711", "10:01", 10), ("4711", "10:02", 20), ("4712", "10:03", 900), ("4711", "10:08", 5)],
    [("4713", "10:15", 1500)],
    [("4712", "10:31", 50)],
    # The window that ends at 10:10 is over, but not forgotten: both raise an alert.
    [("4711", "10:09", 15), ("4714", "10:05", 2000)],
    [("4713", "12:30", 1)],
    [("4713", "12:31", 1)],
    # Now it is forgotten.
    [("4712", "10:04", 500)],
]


def main() -> None:
    """Prints the alerts, and what is too late for them."""
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
    )
    spark = keystate.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "payments")
        stream = spark.readStream.schema(PAYMENTS).option("maxFilesPerTrigger", 1)
        query = (
            alerts(stream.json(str(folder / "payments")))
            .write_outputs(show("alert"), {TOO_LATE: show("too late")})
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    spark.stop()


def show(what: str) -> Callable[[DataFrame, int], None]:
    """Prints the rows of an output."""

    def write(rows: DataFrame, batch_id: int) -> None:
        for row in sorted(rows.collect()):
            print((what, row.card, row.amount))

    return write


def write(folder: Path) -> None:
    """A file for each micro-batch. Spark takes files in the order of their times."""
    folder.mkdir()
    for number, payments in enumerate(MICRO_BATCHES):
        rows = [
            {"card": card, "time": f"2024-05-01T{time}:00", "amount": amount}
            for card, time, amount in payments
        ]
        file = folder / f"{number}.json"
        file.write_text("\n".join(map(json.dumps, rows)))
        os.utime(file, (1e9 + number, 1e9 + number))


if __name__ == "__main__":
    main()
