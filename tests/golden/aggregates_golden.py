"""A query of aggregates of columns, whose checkpoints are kept here."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import keystate
from keystate import Time
from keystate.windows import EventTimeSessionWindows, SlidingEventTimeWindows
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

INPUT = "key string, x long, at timestamp"
KEYS = 16
#: Of the operators, in the order of their numbers.
NAMES = ("keys", "sliding", "sessions")


def aggregates() -> list[Column]:
    """With buffers of fixed size, with others, and with objects; several ones in a column."""
    return [
        F.sum("x").alias("total"),
        (F.avg("x") + F.count("*")).alias("mean"),
        F.expr("sum(x) FILTER (WHERE x > 100)").alias("great"),
        F.approx_count_distinct("x").alias("different"),
        F.max_by(F.col("x").cast("string"), F.struct("at", "x")).alias("last"),
        F.sum(F.col("x").cast("decimal(20,2)")).alias("exact"),
        F.sort_array(F.collect_set("x")).alias("set"),
        F.sort_array(F.collect_list(F.col("x") % 3)).alias("list"),
        F.percentile_approx("x", 0.5).alias("median"),
        F.round(F.stddev("x"), 6).alias("deviation"),
    ]


def batches() -> list[list[Any]]:
    """Three micro-batches, with late rows; a checkpoint that is kept had the first two.

    Windows are then open, and others have fired and are kept for late rows.
    """
    start = datetime.fromtimestamp(1_700_000_000)

    def rows(batch: int) -> list[Any]:
        return [
            (
                f"key {key}",
                7 * key + 11 * n - 50 * batch,
                start + timedelta(seconds=8 * batch + n - (7 if (key + n) % 4 == 0 else 0)),
            )
            for key in range(0, KEYS, batch + 1)
            for n in range(3)
        ]

    return [rows(batch) for batch in range(3)]


def build(df: DataFrame) -> DataFrame:
    """Aggregates of keys, of windows that are begun before the shuffle, and of sessions."""
    keyed = keystate.keyed(df.withWatermark("at", "0 seconds"), "key")
    sliding = keyed.window(SlidingEventTimeWindows.of(4000, 2000))
    sessions = keyed.window(EventTimeSessionWindows.with_gap(1500))
    made = [
        keyed.aggregate(*aggregates(), name=NAMES[0]),
        *(
            windows.allowed_lateness(Time.seconds(20)).aggregate(*aggregates(), name=name)
            for windows, name in zip((sliding, sessions), NAMES[1:])
        ),
    ]
    first, *others = (told(name, results) for name, results in zip(NAMES, made))
    for other in others:
        first = first.union(other)
    return first


def told(name: str, results: DataFrame) -> DataFrame:
    """An operator's results in two columns."""
    columns = [
        F.unix_millis(column).alias(column) if column.startswith("window_") else F.col(column)
        for column in results.columns
    ]
    return results.select(F.lit(name), F.to_json(F.struct(*columns)))
