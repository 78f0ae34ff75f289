"""One query with Spark's own stateful operators, for tests of where their state lives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pandas as pd
import pyspark.sql.functions as F
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

SCHEMA = "key string, x long, at timestamp_ntz"


class Totals(StatefulProcessor):
    """Has one state of each kind, one with a time to live, and timers."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.count = handle.getValueState("count", "n long")
        self.all = handle.getListState("all", "x long")
        self.by_rest = handle.getMapState("by_rest", "rest long", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        for pdf in rows:
            for x in pdf["x"].tolist():
                self.count.update((1 + (self.count.get()[0] if self.count.exists() else 0),))
                self.all.appendValue((x,))
                before = self.by_rest.getValue((x % 3,))
                self.by_rest.updateValue((x % 3,), (1 + (before[0] if before else 0),))
        self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 10_000)
        rests = sorted((k[0], v[0]) for k, v in self.by_rest.iterator())
        told = f"{self.count.get()[0]} {sorted(e[0] for e in self.all.get())} {rests}"
        yield pd.DataFrame({"kind": ["transform"], "key": [key[0]], "result": [told]})

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        told = f"timer {self.count.get()[0]}"
        yield pd.DataFrame({"kind": ["timer"], "key": [key[0]], "result": [told]})

    def close(self) -> None:
        pass


def summed(key: Any, frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """For applyInPandasWithState."""
    total = (state.get[0] if state.exists else 0) + sum(int(f["x"].sum()) for f in frames)
    state.update((total,))
    yield pd.DataFrame({"kind": ["apply"], "key": [key[0]], "result": [str(total)]})


def sql_operators(df: DataFrame) -> DataFrame:
    """Aggregation, deduplication, join and session window; on a batch DataFrame too."""
    rows = df.withColumn("at", F.col("at").cast("timestamp")).withWatermark("at", "5 seconds")

    def told(frame: DataFrame, kind: str, key: Any, *what: Any) -> DataFrame:
        return frame.select(F.lit(kind).alias("kind"), key, F.concat_ws(" ", *what).alias("result"))

    key = F.col("key")
    counted = rows.groupBy(F.window("at", "10 seconds"), "key").agg(
        F.count("*").alias("n"), F.sum("x").alias("total")
    )
    sessions = rows.groupBy(F.session_window("at", "8 seconds"), "key").count()
    left = rows.select("key", "x", "at").alias("l")
    right = (
        df.withColumn("time", F.col("at").cast("timestamp"))
        .withWatermark("time", "5 seconds")
        .selectExpr("key AS k", "x AS y", "time")
    )
    joined = left.join(
        right, F.expr("key = k AND time BETWEEN at - INTERVAL 20 SECONDS AND at AND y < x")
    )
    return (
        told(counted, "window", key, F.col("window.start"), F.col("n"), F.col("total"))
        .unionByName(told(sessions, "session", key, F.col("session_window.start"), F.col("count")))
        .unionByName(told(rows.dropDuplicates(["key", "x"]), "dedup", key, F.col("x")))
        .unionByName(told(joined, "join", key, F.col("x"), F.col("y"), F.col("time")))
    )


def python_operators(df: DataFrame) -> DataFrame:
    """Arbitrary state of two kinds."""
    result = "kind string, key string, result string"
    rows = df.withColumn("at", F.col("at").cast("timestamp")).withWatermark("at", "5 seconds")
    return (
        rows.groupBy("key")
        .transformWithStateInPandas(Totals(), result, "Append", "EventTime")
        .unionByName(
            rows.groupBy("key").applyInPandasWithState(
                summed, result, "total long", "append", "NoTimeout"
            )
        )
    )


def python_results(fed: list[list[tuple[str, int, Any]]]) -> list[tuple[str, str, str]]:
    """What the operators above emit for these batches, but for timers."""
    seen: dict[str, list[int]] = {}
    results = []
    for batch in fed:
        for key, x, _ in batch:
            seen.setdefault(key, []).append(x)
        for key in {key for key, _, _ in batch}:
            xs = sorted(seen[key])
            rests = sorted(Counter(x % 3 for x in xs).items())
            results.append(("transform", key, f"{len(xs)} {xs} {rests}"))
            results.append(("apply", key, str(sum(xs))))
    return results


def batches() -> list[list[tuple[str, int, Any]]]:
    """Micro-batches over a minute, with keys and rows that come again; the last two flush."""

    def row(i: int) -> tuple[str, int, Any]:
        at = pd.Timestamp("2024-05-01") + pd.Timedelta(seconds=i // 6)
        return f"key-{i * 7 % 23}", i * 5 % 11, at.to_pydatetime()

    later = [[("last", day, pd.Timestamp(f"2024-05-0{day}").to_pydatetime())] for day in (2, 3)]
    return [[row(i) for i in range(start, start + 120)] for start in (0, 110, 220)] + later


def check_sql(spark: SparkSession, emitted: list[tuple[Any, ...]]) -> None:
    """Whether the first operators emitted what they make of the batches in one go."""
    whole = spark.createDataFrame([row for batch in batches() for row in batch], SCHEMA)
    expected = [tuple(row) for row in sql_operators(whole).collect()]
    # What only a later watermark would close is still in the state.
    expected = [row for row in expected if row[0] in ("dedup", "join") or row[1] != "last"]
    assert {row[0] for row in expected} == {"dedup", "join", "window", "session"}
    assert sorted(row for row in emitted if row in set(expected)) == sorted(expected)
    assert {row[1] for row in emitted if row not in set(expected)} <= {"last"}


def check_python(spark: SparkSession, emitted: list[tuple[Any, ...]]) -> None:
    """Likewise for the others."""
    expected = python_results(batches())
    assert sorted(row for row in emitted if row[0] != "timer") == sorted(expected)
    # Each key's last timer goes off when the watermark has passed everything.
    counts = {row[1]: row[2].split()[0] for row in expected if row[0] == "transform"}
    timers = {row[1]: row[2] for row in emitted if row[0] == "timer"}
    del counts["last"]
    assert {key: timers[key] for key in counts} == {k: f"timer {n}" for k, n in counts.items()}
