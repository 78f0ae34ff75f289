"""Rules in broadcast state against the same rules captured in a closure.

python -m bench.broadcast [--rows 1000000] [--rules 10000] [--repeat 3]
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pyarrow as pa
from keystate import (
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from pyspark.sql import DataFrame

from bench.session import bench_session, in_turns, write

RULES: MapStateDescriptor[int, int] = MapStateDescriptor("rules", "long", "long")
KEYS = 100_000
SCHEMA = "key long, total long"


class FromBroadcast(KeyedBroadcastProcessFunction):
    """Sums a key's values, each times the factor of its rule."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "long", default=0))

    def process_broadcast_element(self, rule: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES).put(rule.rule, rule.factor)

    def process_element(self, row: Any, ctx: Any) -> Any:
        factor = ctx.get_broadcast_state(RULES).get(row.rule)
        total = self.total.value() + row.value * factor
        self.total.update(total)
        if total % 100 == 0:
            yield row.key, total


class FromClosure(KeyedProcessFunction):
    """The same; the rules can't change."""

    def __init__(self, rules: dict[int, int]) -> None:
        self.rules = rules

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        factor = self.rules.get(row.rule)
        total = self.total.value() + row.value * factor
        self.total.update(total)
        if total % 100 == 0:
            yield row.key, total


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--rules", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    rules = {i: i % 7 for i in range(args.rules)}
    with bench_session() as (spark, work):
        n = range(args.rows)
        table = pa.table(
            {
                "key": [i * 7919 % KEYS for i in n],
                "rule": [i * 104729 % args.rules for i in n],
                "value": [i % 1000 for i in n],
            }
        )
        rows = write(work / "rows", table)
        side = pa.table({"rule": list(rules), "factor": list(rules.values())})
        rules_folder = write(work / "rules", side, files=1)

        def stream(folder: Path, schema: str) -> DataFrame:
            return spark.readStream.schema(schema).parquet(str(folder))

        def keyed() -> keystate.KeyedStream:
            return keystate.keyed(stream(rows, "key long, rule long, value long"), "key")

        def broadcast() -> DataFrame:
            side = keystate.broadcast(stream(rules_folder, "rule long, factor long"), RULES)
            return keyed().connect(side).process(FromBroadcast(), SCHEMA)

        contenders: dict[str, Callable[[], DataFrame]] = {
            "broadcast state": broadcast,
            "closure": lambda: keyed().process(FromClosure(rules), SCHEMA),
        }
        both = in_turns(work, contenders, args.repeat)
        times = {name: [seconds for seconds, _ in each] for name, each in both.items()}
        for name, took in times.items():
            best = statistics.median(took)
            print(f"{name:16} {best:6.2f} s  {args.rows / best:10,.0f} rows/s  {sorted(took)}")
        ratio = statistics.median(times["broadcast state"]) / statistics.median(times["closure"])
        print(f"broadcast state takes {ratio:.2f} times as long as the closure")


if __name__ == "__main__":
    main()
