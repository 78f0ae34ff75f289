"""How long a running query pauses when new code takes its place: python -m bench.canary.

[--keys 1000000] [--promotions 6] [--rate 1000] [--backend auto] [--edit] [--out FILE]

A query builds its state in batches over two partitions; then files with a tenth of a second's rows
come ten times a second, and new code is promoted, again and again. A pause is the time from the
last row before a promotion until the first row after it, as a sink sees them. With --edit the new
code has another name for the state, so each promotion writes a changed copy of the checkpoint.
Beside it: the time between two micro-batches without a promotion. What came out is checked: each
row once.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keystate
from keystate import KeyedProcessFunction, ValueStateDescriptor
from pyspark.sql import SparkSession

from bench.running import Feeder, Sink, arguments, end, tell

NAMES = ("count", "total")


class Count(KeyedProcessFunction):
    """The rows of a key, in a state of this name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor(self.name, "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[int, int]]:
        self.count.update(self.count.value() + 1)
        yield row.key, self.count.value()


def measured(
    spark: SparkSession, folder: Path, keys: int, promotions: int, rate: int, edits: bool
) -> dict[str, list[float]]:
    """The pauses of a query."""
    inputs = folder / "input"
    inputs.mkdir(parents=True)
    feeder = Feeder(inputs, keys, rate)
    sink = Sink()
    name = NAMES[0]

    def start(checkpoint: str) -> Any:
        rows = spark.readStream.schema("key long, value long").parquet(str(inputs))
        counted = keystate.keyed(rows, "key").process(Count(name), "key long, n long")
        writer = counted.writeStream.foreachBatch(sink)
        return writer.option("checkpointLocation", checkpoint).start()

    query = start(str(folder / "checkpoint"))
    feeder.build(query)
    feeder.start()
    time.sleep(5)
    found: dict[str, list[float]] = {"gap_s": sink.gaps, "pause_s": [], "promote_s": []}
    for i in range(promotions):
        edit = to = None
        if edits:
            old, name = name, NAMES[(i + 1) % 2]
            edit = lambda editor, old=old, new=name: editor.rename(old, new)  # noqa: E731
            to = str(folder / f"checkpoint-{i}")
        canary = keystate.canary(query, start, edit=edit, spark=spark)
        began = time.monotonic()
        query = canary.promote(start, to=to)
        ended = time.monotonic()
        found["promote_s"].append(ended - began)
        found["pause_s"].append(sink.pause(began, ended))
        time.sleep(2)
    end(query, feeder, sink)
    return found


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--promotions", type=int, default=6)
    parser.add_argument("--edit", action="store_true", help="the new code needs a changed state")
    args = parser.parse_args()

    def run(
        spark: SparkSession, folder: Path, keys: int, promotions: int
    ) -> dict[str, list[float]]:
        return measured(spark, folder, keys, promotions, args.rate, args.edit)

    tell(args, args.promotions, run)


if __name__ == "__main__":
    main()
