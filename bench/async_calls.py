"""A call of some milliseconds for each row: what a micro-batch takes, by the capacity.

python -m bench.async_calls [--rows 1000] [--ms 20] [--capacities 1,10,100,1000]
"""

from __future__ import annotations

import argparse
import asyncio
import math
from typing import Any

import keystate
import pyarrow as pa
from keystate import AsyncKeyedProcessFunction, ValueStateDescriptor

from bench.session import bench_session, write


class Ask(AsyncKeyedProcessFunction):
    """Counts the rows of a key, each after a call that takes its time."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    async def process_element(self, row: Any, ctx: Any) -> Any:
        await asyncio.sleep(self.seconds)
        self.count.update(self.count.value() + 1)
        return row.key, self.count.value()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--ms", type=float, default=20)
    parser.add_argument("--capacities", default="1,10,100,1000")
    args = parser.parse_args()
    with bench_session() as (spark, work):
        spark.conf.set("spark.sql.shuffle.partitions", 1)
        for capacity in map(int, args.capacities.split(",")):
            numbers = pa.table({"key": list(range(3 * args.rows))})
            source = write(work / f"rows-{capacity}", numbers, files=3)
            rows = (
                spark.readStream.schema("key long")
                .option("maxFilesPerTrigger", 1)
                .parquet(str(source))
            )
            out = keystate.keyed(rows, "key").process(
                Ask(args.ms / 1000), "key long, n long", capacity=capacity
            )
            query = (
                out.writeStream.format("noop")
                .option("checkpointLocation", str(work / f"checkpoint-{capacity}"))
                .trigger(availableNow=True)
                .start()
            )
            query.awaitTermination()
            # The first batch starts the worker.
            took = min(p["durationMs"]["addBatch"] for p in query.recentProgress[1:])
            waves = math.ceil(args.rows / capacity) * args.ms
            print(f"capacity {capacity}: {took} ms a batch; {waves:.0f} ms of it are calls")


if __name__ == "__main__":
    main()
