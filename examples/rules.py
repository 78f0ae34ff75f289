"""Payments are checked by rules that change while the query runs.

The rules are a stream of their own, which every subtask gets. A rule without a limit is withdrawn;
the rule `*` resets what all customers have spent.

python examples/rules.py
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keystate
from keystate import (
    KeyedBroadcastProcessFunction,
    MapStateDescriptor,
    RuntimeContext,
    ValueStateDescriptor,
)
from pyspark.sql import DataFrame, SparkSession

LIMITS: MapStateDescriptor[str, int] = MapStateDescriptor("limits", "string", "long")
SPENT: ValueStateDescriptor[int] = ValueStateDescriptor("spent", "long", default=0)


class CheckLimits(KeyedBroadcastProcessFunction):
    """Emits the payments by which a customer spends more than the shop's limit."""

    def open(self, ctx: RuntimeContext) -> None:
        self.spent = ctx.get_state(SPENT)

    def process_broadcast_element(self, rule: Any, ctx: Any) -> None:
        if rule.shop == "*":
            ctx.apply_to_keyed_state(SPENT, lambda customer, spent: spent.clear())
        elif rule.limit is None:
            ctx.get_broadcast_state(LIMITS).remove(rule.shop)
        else:
            ctx.get_broadcast_state(LIMITS).put(rule.shop, rule.limit)

    def process_element(self, payment: Any, ctx: Any) -> Iterator[tuple[str, str, int]]:
        limit = ctx.get_broadcast_state(LIMITS).get(payment.shop)
        spent = self.spent.value() + payment.amount
        self.spent.update(spent)
        if limit is not None and spent > limit:
            yield payment.customer, payment.shop, spent


DAYS = [
    # (rules, payments)
    ([("toys", 100)], [("ann", "toys", 90), ("bob", "books", 500)]),
    ([], [("ann", "toys", 20)]),
    ([("books", 600)], [("bob", "books", 200), ("ann", "toys", 1)]),
    ([("*", None), ("toys", None)], [("ann", "toys", 500), ("bob", "books", 599)]),
]


def stream(spark: SparkSession, folder: Path, schema: str) -> DataFrame:
    """A file a micro-batch."""
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(folder))


def main() -> None:
    """Prints, day by day, who spent too much."""
    builder = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
    )
    spark = keystate.configure(builder).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "rules").mkdir()
        (folder / "payments").mkdir()
        rules = stream(spark, folder / "rules", "shop string, limit long")
        payments = stream(spark, folder / "payments", "customer string, shop string, amount long")
        over = (
            keystate.keyed(payments, "customer")
            .connect(keystate.broadcast(rules, LIMITS))
            .process(CheckLimits(), "customer string, shop string, spent long")
        )
        for day, (new_rules, new_payments) in enumerate(DAYS):
            write(folder / "rules" / f"{day}.json", ["shop", "limit"], new_rules)
            write(folder / "payments" / f"{day}.json", ["customer", "shop", "amount"], new_payments)
            print(f"day {day}")
            # A query that is stopped every night: its state is there the next day.
            query = (
                over.writeStream.foreachBatch(
                    lambda batch, _: [print(tuple(row)) for row in sorted(batch.collect())]
                )
                .option("checkpointLocation", str(folder / "checkpoint"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
    spark.stop()


def write(file: Path, columns: list[str], rows: list[Any]) -> None:
    """One JSON object a line."""
    file.write_text("".join(json.dumps(dict(zip(columns, row))) + "\n" for row in rows))


if __name__ == "__main__":
    main()
