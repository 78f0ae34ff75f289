"""A query with broadcast state over two stateful sources, and what must be true of its output.

Run as a script it is the driver that a test kills:
python broadcast_query.py FOLDER PARTITIONS MASTER
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import keystate
from keystate import KeyedBroadcastProcessFunction, MapStateDescriptor, ValueStateDescriptor
from pyspark.sql import SparkSession

from examples.counter_source import CounterSource
from tests.fault import batch_files, sessions

BATCHES, ROWS, RULES, KEYS = 20, 30, 3, 10
FACTORS = MapStateDescriptor("factors", "long", "long")
SEEN = MapStateDescriptor("seen", "string", "long")
TOTAL = ValueStateDescriptor("total", "count long, total long", default=(0, 0))


def kind_of(row: int) -> int:
    return row * 7 // 3 % 4


def factors_after(rules: int) -> dict[int, int]:
    """Rule n adds to the factor of a kind, or removes it."""
    factors: dict[int, int] = {}
    for n in range(rules):
        change(factors, n)
    return factors


def change(factors: Any, rule: int) -> None:
    kind = rule * 5 // 3 % 4
    if rule % 7 == 6:
        if kind in factors:
            del factors[kind]
    else:
        factors[kind] = (factors.get(kind) or 0) + rule % 5 + 1


class Weigh(KeyedBroadcastProcessFunction):
    """Adds up rows, each with the factor of its kind."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(TOTAL)

    def process_broadcast_element(self, rule: Any, ctx: Any) -> None:
        seen = ctx.get_broadcast_state(SEEN)
        assert rule.n == (seen.get("rules") or 0), "rules come in their order, each once"
        seen.put("rules", rule.n + 1)
        change(ctx.get_broadcast_state(FACTORS), rule.n)

    def process_element(self, row: Any, ctx: Any) -> Any:
        factor = ctx.get_broadcast_state(FACTORS).get(kind_of(row.n)) or 0
        count, total = self.total.value()
        count, total = count + 1, total + factor * row.n
        self.total.update((count, total))
        yield row.n, row.key, count, total, ctx.get_broadcast_state(SEEN).get("rules") or 0


def check(folder: Path) -> None:
    """Every row came once, after all rows of its key before it, with the rules known by then."""
    rows = batch_files.emitted(folder)
    assert [n for n, *_ in rows] == list(range(BATCHES * ROWS))
    for key in range(KEYS):
        total = rules = 0
        of_key = [row for row in rows if row[1] == key]
        for i, (n, _, count, emitted, seen) in enumerate(of_key):
            total += factors_after(seen).get(kind_of(n), 0) * n
            assert (count, emitted) == (i + 1, total)
            assert seen >= rules
            rules = seen
        assert rules == BATCHES * RULES


def start(spark: SparkSession, folder: Path) -> Any:
    def source(rows: int) -> Any:
        counter = CounterSource(BATCHES * rows)
        return keystate.source(spark, counter, "n long", max_rows_per_batch=rows)

    return (
        keystate.keyed(source(ROWS).selectExpr("n", f"n % {KEYS} AS key"), "key")
        .connect(keystate.broadcast(source(RULES), FACTORS, SEEN))
        .process(Weigh(), "n long, key long, count long, total long, rules long")
        .writeStream.foreachBatch(batch_files.saver(folder))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )


def main() -> None:
    folder, partitions, master = sys.argv[1:]
    spark = sessions.create(master, partitions, **{"spark.keystate.broadcast.check": "true"})
    start(spark, Path(folder)).awaitTermination()


if __name__ == "__main__":
    main()
