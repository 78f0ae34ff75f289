"""Aggregates of columns in queries: as functions of rows, however rows are cut into messages."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import keystate
import pyspark.sql.functions as F
import pytest
from keystate import agg
from keystate.windows import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)

from tests.contract.aggregated import (
    AGGREGATES,
    LATE,
    SCHEMA,
    NumberAndFirst,
    at,
    batch,
    by_columns,
    by_rows,
    results,
)

#: Few rows in a message, few keys in a generation, and maps that stay with the JVM.
SMALL = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "5",
    "spark.keystate.worker.maxCachedKeys": "3",
    "spark.keystate.worker.inlineEntries": "1",
}
LARGE = dict.fromkeys(SMALL, "1000")


@pytest.mark.turns
@pytest.mark.parametrize(
    ("backend", "assigner", "lateness"),
    [
        ("hashmap", TumblingEventTimeWindows.of(1000), 0),
        ("rocksdb", SlidingEventTimeWindows.of(1000, 400), 700),
        ("rocksdb", EventTimeSessionWindows.with_gap(300), 400),
    ],
)
def test_windows_as_a_function_of_rows(
    backend: str,
    assigner: Any,
    lateness: int,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    """In each micro-batch, with late rows, nulls, and restarts on other partitions."""
    settings(**{"spark.keystate.backend": backend})
    # In sessions there are no first and last values.
    is_session = isinstance(assigner, EventTimeSessionWindows)
    chance = random.Random(lateness if is_session else backend)
    left_out = {"first", "last"} if is_session else set()

    def build(by: Any) -> Callable[[Any], Any]:
        def query(df: Any) -> Any:
            rows = keystate.keyed(df.withWatermark("time", "500 milliseconds"), "key")
            windows = rows.window(assigner).allowed_lateness(lateness)
            windows = windows.side_output_late_data(LATE)
            if by is by_columns:
                windows = windows.aggregate(*(a for a in AGGREGATES if a.kind not in left_out))
            else:
                windows = by(windows)
            return windows.with_side_outputs(LATE)

        return query

    def shown(row: Any) -> str:
        """Without what sessions don't have."""
        if row.late is not None:
            return repr(row.late)
        return repr([value for name, value in row[0].asDict().items() if name not in left_out])

    fed = {by: stream(SCHEMA) for by in (by_columns, by_rows)}
    found: dict[Any, list[list[str]]] = {by: [] for by in fed}
    late, watermark = 0, 2000
    for partitions in ("2", "3", "1"):
        settings(**{"spark.sql.shuffle.partitions": partitions})
        batches = []
        for _ in range(3):
            batches.append([*batch(chance, watermark, 40), ("a", 1, at(watermark + 3000))])
            watermark += chance.randint(500, 4000)
        for by, each in fed.items():
            settings(**(SMALL if by is by_columns else LARGE))
            each.feed(*batches)
            emitted = each.micro_batches(build(by)(each.source()))
            found[by] += [sorted(map(shown, rows)) for rows in emitted]
            late += sum(row.late is not None for rows in emitted for row in rows)
    assert found[by_columns] == found[by_rows]
    # Half of them each.
    assert late > 20 and sum(map(len, found[by_rows])) > late // 2 + 30


@pytest.mark.parametrize(("backend", "messages"), [("hashmap", {}), ("rocksdb", SMALL)])
def test_each_key_of_a_micro_batch_is_emitted_once(
    backend: str,
    messages: dict[str, str],
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    """Also one that is in several generations of keys; with a restart on other partitions."""
    settings(**{"spark.keystate.backend": backend, **messages})
    chance, fed = random.Random(2), stream("key string, value long, time timestamp, f double")
    seen: dict[Any, list[Any]] = {}
    for partitions in ("2", "1"):
        settings(**{"spark.sql.shuffle.partitions": partitions})
        batches = [[(*row, -0.0) for row in batch(chance, 10_000, 60)] for _ in range(2)]
        fed.feed(*batches)
        query = fed.source()
        made = by_columns(keystate.keyed(query, "key", "f", F.struct("key").alias("nested")))
        for rows, emitted in zip(batches, fed.micro_batches(made, "update"), strict=True):
            for key, value, _, _ in rows:
                seen.setdefault(key, []).append(value)
            expected = ((key, 0.0, (key,), *results(seen[key])) for key in {row[0] for row in rows})
            assert sorted(map(tuple, emitted), key=repr) == sorted(expected, key=repr)


def test_a_batch_query_is_as_sql(spark: Any, settings: Callable[..., None]) -> None:
    settings(**SMALL)
    chance = random.Random(1)
    rows = spark.createDataFrame(batch(chance, 10_000, 200), SCHEMA).coalesce(1)
    greatest = "slice(reverse(array_sort(array_compact(collect_list(value)))), 1, 2)"
    of_sql = (
        *(F.count("*"), F.count("value"), F.sum("value"), F.min("value"), F.max("value")),
        *(F.avg("value"), F.first("value"), F.last("value", ignorenulls=True), F.expr(greatest)),
        F.count_distinct("value"),
    )

    def same(found: Any, expected: Any) -> None:
        each = [sorted(map(tuple, df.collect()), key=repr) for df in (found, expected)]
        assert each[0] == each[1]

    keyed, span = keystate.keyed(rows, "key"), F.window("time", "500 milliseconds")
    windows = rows.groupBy("key", span).agg(*of_sql)
    tumbling = keyed.window(TumblingEventTimeWindows.of(500), event_time="time")
    same(by_columns(tumbling), windows.select("key", "window.*", *windows.columns[2:]))
    same(by_columns(keyed), rows.groupBy("key").agg(*of_sql))

    gap = keyed.window(EventTimeSessionWindows.with_gap(20), event_time="time")
    sessions = rows.groupBy("key", F.session_window("time", "20 milliseconds"))
    same(
        gap.aggregate(agg.count(), agg.sum("value"), agg.max("value")),
        sessions.agg(F.count("*"), F.sum("value"), F.max("value")).select(
            "key", "session_window.*", "count(1)", "sum(value)", "max(value)"
        ),
    )


@pytest.mark.parametrize("added", ["first", "renamed"])
def test_a_first_value_begins_where_it_is_added_and_else_goes_on(added: str, stream: Any) -> None:
    fed = stream(SCHEMA)
    columns = agg.count().alias("n"), agg.first("value").alias(added)
    kinds = "n long, first long"

    def build(*aggregate: Any) -> Any:
        def query(df: Any) -> Any:
            rows = keystate.keyed(df.withWatermark("time", "0 seconds"), "key")
            return rows.window(TumblingEventTimeWindows.of(1000)).aggregate(*aggregate)

        return query

    for aggregate, values in (
        ((NumberAndFirst(), kinds, kinds), (1, None, None)),
        (columns, (2, 3, None)),
        (columns, (None, 4, 5)),
    ):
        fed.feed([(key, value, at(1)) for key, value in zip("abc", values)])
        fed.run(build(*aggregate))
    fed.feed([("end", 0, at(5000))])
    rows = {row.key: (row.n, row[-1]) for row in fed.run(build(*columns)) if row.key != "end"}
    expected = (1, None, None) if added == "first" else (2, 3, None)
    assert rows == dict(zip("abc", ((3, first) for first in expected)))


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
