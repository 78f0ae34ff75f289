"""Aggregates of columns against Spark SQL's of the same, functions in Python, and W5.

python -m bench.aggregates [--rows 1000000] [--keys 100000] [--repeat 3] [--only tumbling]

Each form is compared with SQL's of the same one, which has its state in the same backend. SQL's
windows emit in append mode, its keys in update mode, as Keystate does. CPU is the time of the JVM
and its workers, which differs less.
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
)
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bench.nexmark.queries.windows import Count
from bench.session import bench_session, in_turns, print_compared, write
from bench.workloads.reducing import OUTPUT, Statistics

SPAN = 600  # seconds that the rows' event times are spread over
SCHEMA = "key long, value long"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--only", default="", help="forms whose names begin so, beside W5")
    args = parser.parse_args()
    with bench_session() as (spark, work):
        count = F.count("*").alias("n")
        objects = F.approx_count_distinct("value"), F.percentile_approx("value", 0.5)
        six = [count, F.sum("value"), F.min("value"), F.max("value"), *objects]
        chance = np.random.default_rng(7)
        columns = {
            "key": chance.integers(0, args.keys, args.rows),
            "value": chance.integers(0, 1000, args.rows),
        }
        micros = np.sort(chance.integers(0, SPAN * 1_000_000, args.rows)) + 10**15
        time = pa.array(micros).cast(pa.timestamp("us", tz="UTC"))
        plain = write(work / "plain", pa.table(columns))
        timed = write(work / "timed", pa.table({**columns, "time": time}))

        def rows() -> DataFrame:
            source = spark.readStream.schema(f"{SCHEMA}, time timestamp").parquet(str(timed))
            return source.withWatermark("time", "0 seconds")

        def read() -> DataFrame:
            return spark.readStream.schema(SCHEMA).parquet(str(plain))

        def windows(assigner: Any) -> Any:
            return keystate.keyed(rows(), "key").window(assigner)

        def sql(window: Any, *aggregates: Column) -> DataFrame:
            return rows().groupBy("key", window).agg(*aggregates or [count])

        tumbling = TumblingEventTimeWindows.of(Time.minutes(5))
        sliding = SlidingEventTimeWindows.of(Time.minutes(5), Time.minutes(1))
        sessions = EventTimeSessionWindows.with_gap(Time.seconds(30))
        few = F.col("key") % 100
        contenders: dict[str, Callable[[], DataFrame]] = {
            "W5": lambda: keystate.keyed(read(), "key").process(Statistics(), OUTPUT),
            "tumbling, SQL": lambda: sql(F.window("time", "5 minutes")),
            "tumbling, columns": lambda: windows(tumbling).aggregate(count),
            "tumbling, columns, late firings": lambda: (
                windows(tumbling).allowed_lateness(1000).aggregate(count)
            ),
            "tumbling, function": lambda: windows(tumbling).aggregate(Count(), "long", "n long"),
            "sliding, SQL": lambda: sql(F.window("time", "5 minutes", "1 minute")),
            "sliding, columns": lambda: windows(sliding).aggregate(count),
            "sliding, function": lambda: windows(sliding).aggregate(Count(), "long", "n long"),
            "sessions, SQL": lambda: sql(F.session_window("time", "30 seconds")),
            "sessions, columns": lambda: windows(sessions).aggregate(count),
            "sessions, function": lambda: windows(sessions).aggregate(Count(), "long", "n long"),
            "six aggregates, two of them objects, SQL": lambda: sql(
                F.window("time", "5 minutes"), *six
            ),
            "six aggregates, two of them objects, columns": lambda: windows(tumbling).aggregate(
                *six
            ),
        }
        keys: dict[str, Callable[[], DataFrame]] = {
            "W5": contenders["W5"],
            "keys, SQL": lambda: read().groupBy("key").agg(count, F.sum("value")),
            "keys, columns": lambda: keystate.keyed(read(), "key").aggregate(count, F.sum("value")),
            "distinct, SQL": lambda: read().groupBy("key").agg(F.approx_count_distinct("value")),
            "distinct, columns": lambda: keystate.keyed(read(), "key").aggregate(
                F.approx_count_distinct("value")
            ),
            "distinct of few keys, SQL": lambda: (
                read().groupBy(few.alias("key")).agg(F.approx_count_distinct("value"))
            ),
            "distinct of few keys, columns": lambda: keystate.keyed(
                read().withColumn("key", few), "key"
            ).aggregate(F.approx_count_distinct("value")),
        }
        for each, mode in ((contenders, "append"), (keys, "update")):
            chosen = {
                name: build
                for name, build in each.items()
                if name == "W5" or name.startswith(args.only)
            }
            if len(chosen) > 1:
                print_compared(in_turns(work, chosen, args.repeat, mode), args.rows)


if __name__ == "__main__":
    main()
