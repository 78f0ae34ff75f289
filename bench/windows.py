"""Windows against W5: what it costs to count in windows rather than in the states of a key.

python -m bench.windows [--rows 1000000] [--repeat 3]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import keystate
import numpy as np
import pyarrow as pa
from keystate import Time
from keystate.windows import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    WindowFunction,
)
from pyspark.sql import DataFrame

from bench.nexmark.queries.windows import Count
from bench.session import bench_session, in_turns, print_compared, write
from bench.workloads.reducing import OUTPUT, Statistics

KEYS = 100_000
SPAN = 600  # seconds that the rows' event times are spread over
SCHEMA = "key long, value long"


class Length(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        return len(inputs)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    with bench_session() as (spark, work):
        chance = np.random.default_rng(7)
        columns = {
            "key": chance.integers(0, KEYS, args.rows),
            "value": chance.integers(0, 1000, args.rows),
        }
        micros = np.sort(chance.integers(0, SPAN * 1_000_000, args.rows)) + 10**15
        time = pa.array(micros).cast(pa.timestamp("us", tz="UTC"))
        plain = write(work / "plain", pa.table(columns))
        timed = write(work / "timed", pa.table({**columns, "time": time}))

        def rows() -> DataFrame:
            source = spark.readStream.schema(f"{SCHEMA}, time timestamp").parquet(str(timed))
            return source.withWatermark("time", "0 seconds")

        def windows(assigner: Any) -> Any:
            return keystate.keyed(rows(), "key").window(assigner)

        tumbling = TumblingEventTimeWindows.of(Time.minutes(5))
        sliding = SlidingEventTimeWindows.of(Time.minutes(5), Time.minutes(1))
        sessions = EventTimeSessionWindows.with_gap(Time.minutes(1))
        contenders: dict[str, Callable[[], DataFrame]] = {
            "W5": lambda: keystate.keyed(
                spark.readStream.schema(SCHEMA).parquet(str(plain)), "key"
            ).process(Statistics(), OUTPUT),
            "W5, rows with a time": lambda: keystate.keyed(rows(), "key").process(
                Statistics(), OUTPUT
            ),
            "tumbling, aggregate": lambda: windows(tumbling).aggregate(Count(), "long", "n long"),
            "tumbling, aggregate, late firings": lambda: (
                windows(tumbling).allowed_lateness(1000).aggregate(Count(), "long", "n long")
            ),
            "tumbling, list of rows": lambda: windows(tumbling).apply(Length(), "n long"),
            "sliding, 5 windows a row, aggregate": lambda: windows(sliding).aggregate(
                Count(), "long", "n long"
            ),
            "sessions, aggregate": lambda: windows(sessions).aggregate(Count(), "long", "n long"),
        }
        print_compared(in_turns(spark, work, contenders, args.repeat), args.rows)


if __name__ == "__main__":
    main()
