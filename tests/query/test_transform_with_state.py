"""Spark's own transformWithState runs on Keystate's provider as on Spark's."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest
from keystate._jvm.session import FORMAT_KEY, PROVIDER, PROVIDER_KEY
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

SPARK_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
OUTPUT = "key string, result string"


class Everything(StatefulProcessor):
    """Tells what is in its states after each row, and when its timers fire."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.count = handle.getValueState("count", "n long")
        self.all = handle.getListState("all", "x long")
        self.by_parity = handle.getMapState("by_parity", "odd boolean", "n long")
        self.brief = handle.getValueState("brief", "n long", ttlDurationMs=3_600_000)

    def told(self, rows: Any) -> list[str]:
        results = []
        for row in rows:
            count = 1 + (self.count.get()[0] if self.count.exists() else 0)
            self.count.update((count,))
            self.all.appendValue((row.x,))
            odd = (row.x % 2 == 1,)
            before = self.by_parity.getValue(odd)
            self.by_parity.updateValue(odd, (1 if before is None else before[0] + 1,))
            self.brief.update((row.x,))
            if row.x % 10 == 0:
                self.all.clear()
            if row.x % 7 == 0:
                self.by_parity.removeKey(odd)
            pairs = sorted((k[0], v[0]) for k, v in self.by_parity.iterator())
            elements = [e[0] for e in self.all.get()]
            results.append(f"{count} {elements} {pairs} {self.brief.get()[0]}")
        self.handle.registerTimer(self.now() + 1)
        return results

    def now(self) -> int:
        return int(self.times.getCurrentProcessingTimeInMs())

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        self.times = timerValues
        for result in self.told(rows):
            yield Row(key=key[0], result=result)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        yield Row(key=key[0], result=f"timer {self.count.get()[0]}")

    def close(self) -> None:
        pass


class EverythingInPandas(Everything):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        self.times = timerValues
        for pdf in rows:
            results = self.told(pdf.itertuples())
            yield pd.DataFrame({"key": [key[0]] * len(results), "result": results})

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        yield pd.DataFrame({"key": [key[0]], "result": [f"timer {self.count.get()[0]}"]})


def in_rows(df: Any) -> Any:
    return df.groupBy("key").transformWithState(Everything(), OUTPUT, "Update", "ProcessingTime")


def in_pandas(df: Any) -> Any:
    return df.groupBy("key").transformWithStateInPandas(
        EverythingInPandas(), OUTPUT, "Update", "ProcessingTime"
    )


class Latest(StatefulProcessor):
    """Emits the greatest value of a key when the watermark has passed it."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.greatest = handle.getValueState("greatest", "x long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        greatest = max(row.x for row in rows)
        if self.greatest.exists():
            greatest = max(greatest, self.greatest.get()[0])
        self.greatest.update((greatest,))
        self.handle.registerTimer(greatest * 1000)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        yield Row(key=key[0], result=f"{expiredTimerInfo.getExpiryTimeInMs()}")

    def close(self) -> None:
        pass


def by_event_time(df: Any) -> Any:
    timed = df.selectExpr("key", "x", "timestamp_seconds(x) AS time").withWatermark(
        "time", "0 seconds"
    )
    return timed.groupBy("key").transformWithState(Latest(), OUTPUT, "Update", "EventTime")


@pytest.fixture(params=["1", "2"])
def checkpoint_format(request: Any, settings: Callable[..., None]) -> None:
    settings(**{FORMAT_KEY: request.param})


BATCHES: list[list[Any]] = [
    [("a", 1), ("b", 2)],
    [("a", 3)],
    [("a", 10), ("c", 7), ("b", 4)],
    [("b", 5), ("c", 20)],
]


slow = pytest.mark.skipif("not os.environ.get('SLOW')", reason="takes half a minute; set SLOW=1")


@pytest.mark.turns
@pytest.mark.parametrize(
    ("query", "checkpoint_format"),
    [
        pytest.param(in_rows, "1", marks=slow),
        (in_rows, "2"),
        (in_pandas, "1"),
        pytest.param(in_pandas, "2", marks=slow),
    ],
    indirect=["checkpoint_format"],
)
def test_state_over_restarts(
    query: Any, spark: Any, stream: Any, settings: Any, checkpoint_format: None
) -> None:
    # In processing time Spark runs batches without end, so it is stopped when it has told enough.
    # A batch that was not committed by then runs again: it replaces what it told.
    def run(fed: Any, told: dict[int, list[Any]], enough: int) -> None:
        source = (
            spark.readStream.schema("key string, x long")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(fed._input))
        )
        running = (
            query(source)
            .writeStream.outputMode("update")
            .option("checkpointLocation", str(fed.checkpoint))
            .foreachBatch(lambda df, batch: told.update({batch: df.collect()}))
            .start()
        )
        deadline = time.monotonic() + 60
        while sum(map(len, list(told.values()))) < enough and time.monotonic() < deadline:
            assert running.isActive, running.exception()
            time.sleep(0.1)
        running.stop()

    results = {}
    own = PROVIDER
    for provider in (own, SPARK_ROCKSDB):
        settings(**{PROVIDER_KEY: provider})
        fed = stream("key string, x long")
        told: dict[int, list[Any]] = {}
        enough = 0
        for batches in (BATCHES[:2], BATCHES[2:]):
            fed.feed(*batches)
            # A timer goes off for each key after its rows.
            enough += sum(map(len, batches)) + 2
            run(fed, told, enough)
        results[provider] = [tuple(row) for batch in sorted(told) for row in told[batch]]
    rows = {name: [r for r in found if "timer" not in r[1]] for name, found in results.items()}
    assert rows[own] == rows[SPARK_ROCKSDB]
    assert len(rows[own]) == sum(map(len, BATCHES))
    assert any("timer" in result for _, result in results[own])


def test_event_time_timers(stream: Any, checkpoint_format: None) -> None:
    fed = stream("key string, x long")
    fed.feed([("a", 1), ("b", 5)], [("a", 20)])
    assert sorted(tuple(row) for row in fed.run(by_event_time, mode="update")) == [
        ("a", "1000"),
        ("a", "20000"),
        ("b", "5000"),
    ]
