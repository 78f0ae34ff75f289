"""Orders are joined with their payments, which come in a stream of their own.

Whichever comes first waits for the other, but not for ever: ten minutes of event time after it, an
order without a payment, or a payment without an order, is told as such, and its state is gone.

python examples/enrichment.py
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keystate
from keystate import KeyedCoProcessFunction, RuntimeContext, ValueStateDescriptor
from pyspark.sql import DataFrame, SparkSession

WAIT_MS = 10 * 60 * 1000


class JoinOrders(KeyedCoProcessFunction):
    """Emits an order with its payment, or what came alone.

    What it emits does not depend on which comes first, nor on what is in one micro-batch: times are
    compared, because a timer fires only when the watermark has passed it.
    """

    def open(self, ctx: RuntimeContext) -> None:
        self.order = ctx.get_state(ValueStateDescriptor("order", "item string, time long"))
        self.payment = ctx.get_state(ValueStateDescriptor("payment", "amount long, time long"))

    def process_element1(self, order: Any, ctx: Any) -> Iterator[tuple[str, str]]:
        self.order.update((order.item, ctx.timestamp()))
        return self.match(ctx)

    def process_element2(self, payment: Any, ctx: Any) -> Iterator[tuple[str, str]]:
        self.payment.update((payment.amount, ctx.timestamp()))
        return self.match(ctx)

    def match(self, ctx: Any) -> Iterator[tuple[str, str]]:
        """Emits the order with its payment, if both are there and near enough."""
        order, payment = self.order.value(), self.payment.value()
        timers = ctx.timer_service()
        if order and payment and abs(order.time - payment.time) <= WAIT_MS:
            yield ctx.get_current_key(), f"{order.item} for {payment.amount}"
            for state in (self.order, self.payment):
                timers.delete_event_time_timer(state.value().time + WAIT_MS)
                state.clear()
        else:
            timers.register_event_time_timer(ctx.timestamp() + WAIT_MS)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[tuple[str, str]]:
        order, payment = self.order.value(), self.payment.value()
        if order and order.time + WAIT_MS <= timestamp:
            yield ctx.get_current_key(), f"{order.item}, not paid"
            self.order.clear()
        if payment and payment.time + WAIT_MS <= timestamp:
            yield ctx.get_current_key(), f"{payment.amount} for nothing"
            self.payment.clear()


HOURS = [
    # (orders, payments)
    (
        [("10:00", "o1", "apples"), ("10:01", "o2", "pears"), ("10:02", "o3", "plums")],
        [("10:01", "o1", 20), ("10:03", "o4", 50)],
    ),
    ([("10:05", "o4", "figs")], [("10:06", "o2", 30), ("10:07", "o5", 70)]),
    ([("10:30", "o6", "nuts")], [("10:30", "o6", 10)]),
    ([("10:31", "o7", "dates")], [("10:31", "o7", 5)]),
]


def stream(spark: SparkSession, folder: Path, schema: str) -> DataFrame:
    """A file a micro-batch."""
    rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(folder))
    return rows.withWatermark("time", "1 minute")


def main() -> None:
    """Prints what is joined, and what is not."""
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
    )
    spark = keystate.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for i, (orders, payments) in enumerate(HOURS):
            write(folder / "orders", i, ["time", "order", "item"], orders)
            write(folder / "payments", i, ["time", "id", "amount"], payments)
        orders = stream(spark, folder / "orders", "time timestamp, order string, item string")
        payments = stream(spark, folder / "payments", "time timestamp, id string, amount long")
        joined = (
            keystate.keyed(orders, "order")
            .connect(keystate.keyed(payments, "id"))
            .process(JoinOrders(), "order string, what string", ordered_by="time")
        )
        query = (
            joined.writeStream.foreachBatch(
                lambda batch, _: [print(tuple(row)) for row in sorted(batch.collect())]
            )
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    spark.stop()


def write(folder: Path, number: int, columns: list[str], rows: list[Any]) -> None:
    """A file with one JSON object a line. Spark takes files in the order of their times."""
    folder.mkdir(exist_ok=True)
    file = folder / f"{number}.json"
    days = [(f"2024-05-01T{time}:00", *rest) for time, *rest in rows]
    file.write_text("".join(json.dumps(dict(zip(columns, row))) + "\n" for row in days))
    os.utime(file, (1e9 + number, 1e9 + number))


if __name__ == "__main__":
    main()
