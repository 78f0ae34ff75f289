"""Aggregates of columns in queries: as functions of rows, however rows are cut into messages."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import keystate
import pyspark.sql.functions as F
import pytest
from keystate import agg
from keystate.windows import SlidingEventTimeWindows, TumblingEventTimeWindows

from tests.contract.aggregated import LATE, SCHEMA, at, batch, by_columns, by_rows

#: Few rows in a message, few keys in a generation, and maps that stay with the JVM.
SMALL = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "5",
    "spark.keystate.worker.maxCachedKeys": "3",
    "spark.keystate.worker.inlineEntries": "1",
}


@pytest.mark.parametrize(
    ("backend", "messages", "assigner"),
    [
        ("hashmap", SMALL, SlidingEventTimeWindows.of(1000, 400)),
        ("rocksdb", {}, TumblingEventTimeWindows.of(1000)),
    ],
)
def test_windows_as_a_function_of_rows(
    backend: str,
    messages: dict[str, str],
    assigner: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    """With late rows and nulls, and a restart on other partitions before each run but the first."""
    settings(**{"spark.keystate.backend": backend, **messages})
    chance = random.Random(backend)

    def build(by: Any) -> Callable[[Any], Any]:
        def query(df: Any) -> Any:
            rows = keystate.keyed(df.withWatermark("time", "500 milliseconds"), "key")
            made = by(rows.window(assigner).side_output_late_data(LATE))
            return made.with_side_outputs(LATE)

        return query

    fed = {by: stream(SCHEMA) for by in (by_columns, by_rows)}
    emitted, late, watermark = 0, 0, 2000
    for partitions in ("2", "3", "1"):
        settings(**{"spark.sql.shuffle.partitions": partitions})
        batches = []
        for _ in range(3):
            batches.append([*batch(chance, watermark, 40), ("a", 1, at(watermark + 3000))])
            watermark += chance.randint(500, 4000)
        found = []
        for by, each in fed.items():
            each.feed(*batches)
            rows = each.run(build(by))
            found.append(sorted(map(repr, rows)))
        assert found[0] == found[1]
        emitted += sum(row.main is not None for row in rows)
        late += sum(row.late is not None for row in rows)
    assert emitted > 30 and late > 10


def test_a_batch_query_is_as_sql(spark: Any) -> None:
    chance = random.Random(1)
    rows = spark.createDataFrame(batch(chance, 10_000, 200), SCHEMA).coalesce(1)
    windows = keystate.keyed(rows, "key").window(
        TumblingEventTimeWindows.of(500), event_time="time"
    )
    of_sql = rows.groupBy("key", F.window("time", "500 milliseconds")).agg(
        F.count("*"),
        F.count("value"),
        F.sum("value"),
        F.min("value"),
        F.max("value"),
        F.avg("value"),
        F.first("value"),
        F.last("value", ignorenulls=True),
        F.expr("slice(reverse(array_sort(array_compact(collect_list(value)))), 1, 2)"),
    )
    expected = of_sql.select("key", "window.start", "window.end", *of_sql.columns[2:])
    found = by_columns(windows)
    assert sorted(map(tuple, found.collect()), key=repr) == sorted(
        map(tuple, expected.collect()), key=repr
    )


def test_the_state_can_be_read(spark: Any, stream: Any) -> None:
    fed = stream(SCHEMA)
    fed.feed([("a", 1, at(100)), ("a", None, at(200)), ("b", 3, at(1500))])

    def build(df: Any) -> Any:
        rows = keystate.keyed(df.withWatermark("time", "1 hour"), "key")
        windows = rows.window(TumblingEventTimeWindows.of(1000))
        return windows.aggregate(agg.sum("value").alias("total"), agg.mean("value").alias("mean"))

    fed.run(build)
    state = keystate.admin.read_state(spark, str(fed.checkpoint), state="window-contents")
    found = state.select("key.key", "user_map_key.key.*", "user_map_value.*").collect()
    assert sorted(map(tuple, found)) == [
        ("a", 1, 1000, 0, 1, (1.0, 1)),
        ("b", 1, 2000, 1000, 3, (3.0, 1)),
    ]
