"""Windows against W5: what it costs to count in windows rather than in the states of a key.

python -m bench.windows [--rows 1000000] [--repeat 3]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
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
from bench.session import Build, bench_session, in_turns, print_compared, write
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
        table = rows(args.rows)
        plain = write(work / "plain", table.drop_columns("time"))
        timed = write(work / "timed", table)
        stream = spark.readStream.schema(f"{SCHEMA}, time timestamp").parquet(str(timed))
        contenders: dict[str, Callable[[], DataFrame]] = {
            "W5": lambda: keystate.keyed(
                spark.readStream.schema(SCHEMA).parquet(str(plain)), "key"
            ).process(Statistics(), OUTPUT),
            "W5, rows with a time": lambda: _keyed(stream).process(Statistics(), OUTPUT),
            **{name: partial(build, stream) for name, build in WINDOWS.items()},
        }
        print_compared(in_turns(work, contenders, args.repeat), args.rows)


def rows(count: int) -> pa.Table:
    """So many rows of keys by chance, in the order of their times."""
    chance = np.random.default_rng(7)
    micros = np.sort(chance.integers(0, SPAN * 1_000_000, count)) + 10**15
    columns = {
        "key": chance.integers(0, KEYS, count),
        "value": chance.integers(0, 1000, count),
        "time": pa.array(micros).cast(pa.timestamp("us", tz="UTC")),
    }
    return pa.table(columns)


def _keyed(df: DataFrame) -> Any:
    return keystate.keyed(df.withWatermark("time", "0 seconds"), "key")


def _of(assigner: Any, apply: Callable[[Any], DataFrame]) -> Build:
    return lambda df: apply(_keyed(df).window(assigner))


def _counted(windows: Any) -> DataFrame:
    counts: DataFrame = windows.aggregate(Count(), "long", "n long")
    return counts


_TUMBLING = TumblingEventTimeWindows.of(Time.minutes(5))

#: Windows by functions.
WINDOWS: dict[str, Build] = {
    "tumbling, aggregate": _of(_TUMBLING, _counted),
    "tumbling, aggregate, late firings": _of(
        _TUMBLING, lambda windows: _counted(windows.allowed_lateness(1000))
    ),
    "tumbling, list of rows": _of(_TUMBLING, lambda windows: windows.apply(Length(), "n long")),
    "sliding, 5 windows a row, aggregate": _of(
        SlidingEventTimeWindows.of(Time.minutes(5), Time.minutes(1)), _counted
    ),
    "sessions, aggregate": _of(EventTimeSessionWindows.with_gap(Time.minutes(1)), _counted),
}


if __name__ == "__main__":
    main()
