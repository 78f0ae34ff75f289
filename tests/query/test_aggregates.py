"""Aggregates of columns in queries: windows, late rows, restarts, what may change, their tables."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from typing import Any

import keystate
import pytest
from keystate import OutputTag, Time
from keystate.errors import DeclarationError
from keystate.testing import rows_of
from keystate.windows import (
    CountTrigger,
    EventTimeSessionWindows,
    GlobalWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    with_window_time,
)
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from tests.window_sums import WindowSums

SCHEMA = "key string, value long, time timestamp"
LATE = OutputTag("late", SCHEMA)
ZONE = datetime.timezone.utc
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"


def at(millis: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(millis / 1000, ZONE)


def millis(time: datetime.datetime) -> int:
    return round(time.timestamp() * 1000)


def sums() -> tuple[Any, ...]:
    """The sum, by a buffer of fixed size, and the number of rows, by an object."""
    return F.sum("value").alias("total"), F.size(F.collect_list("value")).alias("n")


def random_rows(chance: random.Random, begin: int, count: int) -> list[tuple[str, int, int]]:
    """Rows that are up to five seconds out of order, in no order."""
    return [
        (chance.choice("abcde"), chance.randrange(100), max(0, begin + chance.randint(-3500, 1500)))
        for _ in range(count)
    ]


def stored(rows: list[tuple[str, int, int]]) -> list[tuple[str, int, datetime.datetime]]:
    return [(key, value, at(time)) for key, value, time in rows]


def seen(row: Any) -> tuple[Any, ...]:
    return row.key, millis(row.window_start), millis(row.window_end), row.total, row.n


def without_end(batches: list[Any]) -> list[Any]:
    while batches and not batches[-1]:
        batches.pop()
    return batches


WINDOWS = {
    "tumbling": (TumblingEventTimeWindows.of(1000), (1000, 1000)),
    "sliding": (SlidingEventTimeWindows.of(1500, 400), (1500, 400)),
    "sessions": (EventTimeSessionWindows.with_gap(250), (250, None)),
}


@pytest.mark.turns
@pytest.mark.parametrize("kind", WINDOWS)
@pytest.mark.parametrize(
    ("backends", "checkpoints", "lateness", "reads_late"),
    [
        (("hashmap", "rocksdb"), "1", 0, False),
        (("rocksdb", "auto"), "2", 700, False),
        (("auto", "hashmap"), "1", 1200, True),
        (("hashmap", "hashmap"), "2", 0, True),
    ],
)
def test_windows_are_as_a_model_says(
    kind: str,
    backends: tuple[str, str],
    checkpoints: str,
    lateness: int,
    reads_late: bool,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    """In each micro-batch, with rows out of order, over restarts with other partitions."""
    assigner, bounds = WINDOWS[kind]
    chance = random.Random(f"{kind} {lateness} {reads_late}")
    model = WindowSums(*bounds, lateness=lateness, delay=300)
    fed, found, expected, late = stream(SCHEMA), [], [], []
    settings(**{FORMAT: checkpoints})
    begin = 5000
    for partitions, backend in (("2", backends[0]), ("3", backends[1]), ("1", backends[0])):
        settings(**{"spark.sql.shuffle.partitions": partitions, "spark.keystate.backend": backend})
        batches = []
        for _ in range(3):
            batches.append(random_rows(chance, begin, 25))
            begin += chance.randint(200, 2500)
        fed.feed(*map(stored, batches))
        rows = fed.source().withWatermark("time", "300 milliseconds")
        windows = keystate.keyed(rows, "key").window(assigner).allowed_lateness(lateness)
        if reads_late:
            windows = windows.side_output_late_data(LATE)
        made = windows.aggregate(*sums())
        emitted = fed.micro_batches(made.with_side_outputs(LATE) if reads_late else made)
        if reads_late:
            late += [sum(row.late is not None for row in batch) for batch in emitted]
            emitted = [[row.main for row in batch if row.main is not None] for batch in emitted]
        else:
            late += [
                progress.stateOperators[0].customMetrics["numLateRecordsDropped"]
                for progress in fed.progress
                if progress.stateOperators
            ][: len(emitted)]
        of_model = model.run(batches)
        assert len(emitted) == len(of_model)
        found += [sorted(map(seen, batch)) for batch in emitted]
        expected += of_model
    assert found == [results for results, _ in expected]
    assert late == [count for _, count in expected]
    assert sum(late) > 2 and sum(map(len, found)) > 15


@pytest.mark.parametrize("kind", WINDOWS)
def test_windows_fire_in_the_micro_batch_in_which_sql_emits_them(
    kind: str, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    assigner, (size, slide) = WINDOWS[kind]
    span = f"{size} milliseconds"
    if slide is None:
        window = F.session_window("time", span)
    else:
        window = F.window("time", span, f"{slide} milliseconds")
    chance, ours, sql = random.Random(kind), stream(SCHEMA), stream(SCHEMA)
    begin, batches = 5000, []
    for _ in range(6):
        batches.append(stored(random_rows(chance, begin, 20)))
        begin += chance.randint(200, 2500)

    def rows(fed: Any) -> Any:
        fed.feed(*batches)
        return fed.source().withWatermark("time", "6 seconds")  # none is late

    made = keystate.keyed(rows(ours), "key").window(assigner).aggregate(*sums())
    grouped = rows(sql).groupBy("key", window.alias("w")).agg(*sums())
    bounds = (F.col("w.start").alias("window_start"), F.col("w.end").alias("window_end"))
    expected = sql.micro_batches(grouped.select("key", *bounds, "total", "n"))
    found = ours.micro_batches(made)
    assert [sorted(map(seen, each)) for each in found] == [
        sorted(map(seen, each)) for each in expected
    ]
    assert sum(map(len, found)) > 15


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_keys_emit_once_a_micro_batch_as_in_sql(
    backend: str, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """Also with more keys than a task holds in memory."""
    settings(**{"spark.keystate.backend": backend})
    ours, sql = stream("key long, value long"), stream("key long, value long")
    chance = random.Random(backend)
    many = [(key % 20_000, chance.randrange(100)) for key in range(40_000)]
    few = [(chance.randrange(20), chance.randrange(100)) for _ in range(50)]
    totals = (F.sum("value").alias("total"), F.sort_array(F.collect_list("value")).alias("values"))
    found: list[Any] = []
    for partitions, batches in (("2", [few, many]), ("3", [few])):
        settings(**{"spark.sql.shuffle.partitions": partitions})
        ours.feed(*batches)
        found += ours.micro_batches(keystate.keyed(ours.source(), "key").aggregate(*totals))
    settings(**{"spark.sql.shuffle.partitions": "2"})
    sql.feed(few, many, few)
    grouped = sql.source().groupBy("key").agg(*totals)
    expected = sql.micro_batches(grouped, "update")
    assert [sorted(map(tuple, each)) for each in found] == [
        sorted(map(tuple, each)) for each in expected
    ]


def test_windows_of_windows_lose_nothing(stream: Callable[..., Any]) -> None:
    chance, fed = random.Random(3), stream(SCHEMA)
    rows = [random_rows(chance, 5000 + 1300 * i, 25) for i in range(5)]
    fed.feed(*map(stored, rows), [("end", 0, at(10**6))], [("end", 0, at(2 * 10**6))])
    timed = fed.source().withWatermark("time", "6 seconds")
    seconds = keystate.keyed(timed, "key").window(TumblingEventTimeWindows.of(1000))
    parts = with_window_time(seconds.aggregate(F.sum("value").alias("part")))
    five = keystate.keyed(parts, "key").window(TumblingEventTimeWindows.of(5000))
    found = fed.run(lambda _: five.aggregate(F.sum("part").alias("total"), F.max("window_end")))
    expected: dict[Any, int] = {}
    for key, value, time in (row for batch in rows for row in batch):
        window = (key, time - time % 5000)
        expected[window] = expected.get(window, 0) + value
    assert {(r.key, millis(r.window_start)): r.total for r in found if r.key != "end"} == expected


def test_first_and_last_go_by_event_time_in_windows(stream: Callable[..., Any]) -> None:
    fed = stream(SCHEMA)
    times = [500, 100, 900, 300]
    fed.feed([("a", time if time != 100 else None, at(time)) for time in times])
    fed.feed([("a", 200, at(200)), ("a", 950, at(950)), ("end", 0, at(5000))])
    values = (
        F.first("value").alias("first"),
        F.first("value", ignorenulls=True).alias("not_null"),
        F.last("value").alias("last"),
    )
    rows = fed.source().withWatermark("time", "0 seconds")
    windows = keystate.keyed(rows, "key").window(TumblingEventTimeWindows.of(1000))
    (row,) = (row for row in fed.run(lambda _: windows.aggregate(*values)) if row.key == "a")
    assert (row.first, row.not_null, row.last) == (None, 200, 950)


def test_rows_without_a_time_belong_to_no_window(stream: Callable[..., Any]) -> None:
    fed = stream(SCHEMA)
    fed.feed([("a", 1, at(100)), ("a", 2, None), ("b", 3, None), ("end", 0, at(5000))])
    rows = fed.source().withWatermark("time", "0 seconds")
    windows = keystate.keyed(rows, "key").window(TumblingEventTimeWindows.of(1000))
    assert [seen(row)[:4] for row in fed.run(lambda _: windows.aggregate(*sums()))] == [
        ("a", 0, 1000, 1)
    ]


def test_windows_by_the_clock_fire_when_it_has_passed(spark: Any, stream: Any) -> None:
    """A batch query has one time, and fires all."""
    rows = spark.createDataFrame([("a", 1), ("a", 2), ("b", 3)], "key string, value long")
    windows = keystate.keyed(rows, "key").window(TumblingProcessingTimeWindows.of(Time.hours(1)))
    found = windows.aggregate(F.sum("value").alias("total")).collect()
    assert sorted((row.key, row.total) for row in found) == [("a", 3), ("b", 3)]
    assert all(millis(r.window_end) - millis(r.window_start) == 3_600_000 for r in found)

    fed = stream("key string, value long")
    for values in ((1, 2), (4,)):
        fed.feed([("a", value) for value in values])
        timed = keystate.keyed(fed.source(), "key")
        short = timed.window(TumblingProcessingTimeWindows.of(1))
        emitted = fed.run(lambda _, short=short: short.aggregate(F.sum("value").alias("total")))
    # A window of 1 ms has ended by the next micro-batch.
    fed.feed([("b", 0)])
    emitted += fed.run(lambda _: short.aggregate(F.sum("value").alias("total")))
    assert ("a", 4) in [(row.key, row.total) for row in emitted]


def test_columns_come_and_go_at_a_restart(stream: Callable[..., Any], settings: Any) -> None:
    fed = stream("key string, value long, other double")

    def run(*aggregates: Any) -> dict[str, tuple[Any, ...]]:
        fed.feed([("a", 1, 0.5), ("a", 2, None), ("b", 3, 1.5)])
        emitted = fed.run(lambda df: keystate.keyed(df, "key").aggregate(*aggregates))
        return {row.key: tuple(row)[1:] for row in emitted}

    total = F.sum("value").alias("total")
    assert run(total, F.count("other").alias("n")) == {"a": (3, 1), "b": (3, 1)}
    settings(**{"spark.sql.shuffle.partitions": "3", "spark.sql.ansi.enabled": "false"})
    several = (
        F.count("*").alias("rows"),
        total,
        F.sort_array(F.collect_set("value")).alias("values"),
        F.approx_count_distinct("value").alias("distinct"),
        F.max("key").alias("greatest"),
    )
    assert run(*several) == {"a": (2, 6, [1, 2], 2, "a"), "b": (1, 6, [3], 1, "b")}
    assert run(*several) == {"a": (4, 9, [1, 2], 2, "a"), "b": (2, 9, [3], 1, "b")}
    # One that was left out begins anew.
    assert run(F.count("other").alias("n"), total) == {"a": (1, 12), "b": (1, 12)}


@pytest.mark.parametrize(
    ("now", "told"),
    [
        (lambda: F.max("value").alias("total"), ["sum(value)", "max(value)"]),
        (lambda: F.sum("other").alias("total"), ["sum(value)", "sum(other)"]),
        (
            lambda: F.expr("sum(value) FILTER (WHERE other > 1)").alias("total"),
            ["sum(value)", "other > 1"],
        ),
    ],
)
def test_another_aggregate_under_a_name_is_refused(
    now: Any, told: list[str], stream: Callable[..., Any]
) -> None:
    fed = stream("key string, value long, other double")
    fed.feed([("a", 1, 0.5)])
    fed.run(lambda df: keystate.keyed(df, "key").aggregate(F.sum("value").alias("total")))
    fed.feed([("a", 1, 0.5)])
    with pytest.raises(PySparkException, match="KEYSTATE_STATE_CHANGED") as error:
        fed.run(lambda df: keystate.keyed(df, "key").aggregate(now()))
    assert all(text in str(error.value) for text in ["'total'", *told])


def test_other_windows_and_functions_are_refused(stream: Callable[..., Any]) -> None:
    fed = stream(SCHEMA)

    def windows(df: Any, assigner: Any) -> Any:
        return keystate.keyed(df.withWatermark("time", "0 seconds"), "key").window(assigner)

    fed.feed([("a", 1, at(100))])
    fed.run(lambda df: windows(df, TumblingEventTimeWindows.of(1000)).aggregate(*sums()))
    fed.feed([("a", 1, at(200))])
    with pytest.raises(PySparkException, match=r"(?s)KEYSTATE_STATE_CHANGED.*sessions by event"):
        fed.run(lambda df: windows(df, EventTimeSessionWindows.with_gap(10)).aggregate(*sums()))
    with pytest.raises(PySparkException, match="KEYSTATE_STATE"):
        fed.run(lambda df: keystate.keyed(df, "key").aggregate(*sums()))
    with pytest.raises(PySparkException, match="KEYSTATE_STATE"):
        fed.run(lambda df: keystate.keyed(df, "key").reduce(lambda a, b: a))
    # Another size is none of these: an open window keeps its bounds.
    fed.feed([("a", 5, at(1200)), ("end", 0, at(60_000))])
    found = fed.run(lambda df: windows(df, TumblingEventTimeWindows.of(500)).aggregate(*sums()))
    assert sorted(map(seen, found)) == [
        ("a", 0, 500, 1, 1),
        ("a", 0, 1000, 1, 1),
        ("a", 1000, 1500, 5, 1),
    ]


def test_tables_show_aggregates_beside_their_buffers(
    spark: Any, stream: Callable[..., Any]
) -> None:
    fed = stream(SCHEMA)
    fed.feed([("a", 1, at(100)), ("a", 4, at(200)), ("b", None, at(300))])
    spark.udf.register("doubled", lambda n: n and 2 * n, "long")
    fed.run(
        lambda df: keystate.keyed(df, F.upper("key").alias("Key 1")).aggregate(
            (F.sum("value") / F.count("*")).alias("mean"), F.max_by("value", "time").alias("last")
        )
    )
    state = keystate.admin.read_state(spark, str(fed.checkpoint))
    found = state.select("key.*", "aggregates.*", "value.mean.*").collect()
    assert sorted(map(tuple, found)) == [("A", 2.5, 4, 5, 2), ("B", None, None, None, 1)]

    windows = stream(SCHEMA)
    windows.feed([("a", 1, at(900)), ("a", 4, at(200)), ("b", 3, at(1300))])

    def last(df: Any) -> Any:
        rows = keystate.keyed(df.withWatermark("time", "1 hour"), "key")
        tumbling = rows.window(TumblingEventTimeWindows.of(1000))
        return tumbling.aggregate(F.last("value").alias("last"), F.sum("value"))

    windows.run(last)
    state = keystate.admin.read_state(spark, str(windows.checkpoint))
    found = state.select("key.key", "user_map_key.key.*", "aggregates.*").collect()
    assert sorted((row[0], row[1], millis(row[2]), *row[4:]) for row in found) == [
        ("a", True, 1000, 1, 5),
        ("b", True, 2000, 3, 3),
    ]
    (version, *_) = reversed(keystate.admin.history(str(windows.checkpoint), key="a"))
    (row,) = version.states["aggregates"].values()
    assert row.asDict() == {"last": 1, "sum(value)": 5}
    assert set(version.states) == {"_aggregate", "aggregates"}


def test_buffers_alone_are_shown_where_a_function_is_not_known(
    spark: Any, stream: Callable[..., Any]
) -> None:
    fed = stream("key string, value long")
    fed.feed([("a", 1), ("a", 2)])
    doubled = F.udf(lambda n: 2 * n, "long")
    totals = F.sum(doubled("value")).alias("total")
    (row,) = fed.run(lambda df: keystate.keyed(df, "key").aggregate(totals))
    assert row.total == 6
    state = keystate.admin.read_state(spark, str(fed.checkpoint))
    assert state.columns == ["key", "value", "partition_id"]
    assert [row.total.sum for row in state.select("value.*").collect()] == [6]


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda w: w.trigger(CountTrigger.of(2)).aggregate(F.sum("value")), "CountTrigger"),
        (lambda w: w.aggregate(F.sum("value"), on_error=keystate.dead_letters(LATE)), "on_error"),
        (lambda w: w.aggregate("value"), "acc"),
        (lambda w: w.aggregate(F.sum("value"), "n"), "got 'n'"),
        (lambda w: w.aggregate(F.sum("value")).side_output(LATE), "no side output 'late'"),
    ],
)
def test_what_windows_of_columns_have_not(build: Any, told: str, spark: Any) -> None:
    rows = spark.createDataFrame([("a", 1, at(0))], SCHEMA)
    windows = keystate.keyed(rows, "key").window(
        TumblingEventTimeWindows.of(1000), event_time="time"
    )
    with pytest.raises(DeclarationError, match=told):
        build(windows)
    with pytest.raises(DeclarationError, match="GlobalWindows"):
        keystate.keyed(rows, "key").window(GlobalWindows.create()).aggregate(F.sum("value"))


def test_the_harness_names_what_needs_a_session(spark: Any) -> None:
    rows = keystate.keyed(rows_of(SCHEMA, event_time="time"), "key")
    tumbling = rows.window(TumblingEventTimeWindows.of(1000))
    for aggregated in (rows, tumbling):
        with pytest.raises(DeclarationError, match=r"'sum\(value\)'.* need a session"):
            aggregated.aggregate(F.sum("value"))


def test_results_joined_with_themselves(spark: Any) -> None:
    rows = spark.createDataFrame([("a", 1), ("a", 2), ("b", 3)], "key string, value long")
    totals = keystate.keyed(rows, "key").aggregate(
        F.sum("value").alias("total"), F.approx_count_distinct("value").alias("n")
    )
    both = totals.alias("l").join(totals.alias("r"), F.col("l.total") == F.col("r.total"))
    assert sorted(map(tuple, both.collect())) == [
        (*("a", 3, 2), *("a", 3, 2)),
        (*("a", 3, 2), *("b", 3, 1)),
        (*("b", 3, 1), *("a", 3, 2)),
        (*("b", 3, 1), *("b", 3, 1)),
    ]


def test_an_edited_checkpoint_goes_on(
    spark: Any, stream: Callable[..., Any], settings: Callable[..., None], tmp_path: Any
) -> None:
    """With other rows in the state, and with another key; what is recorded of it stays."""
    totals = [F.sum("value").alias("total"), F.collect_set("value").alias("values")]
    for edit in ("replace", "rekey"):
        fed = stream("key string, value long")
        fed.feed([("a", 1), ("a", 2), ("b", 3)])
        fed.run(lambda df: keystate.keyed(df, "key").aggregate(*totals))
        editor = keystate.admin.edit(str(fed.checkpoint))
        if edit == "replace":
            rows = editor.read("_aggregate")
            editor.replace("_aggregate", rows.where("key.key != 'a'"))
        else:
            editor.rekey("key string", lambda df: df.withColumn("key", F.upper("key.key")))
        fed.checkpoint = tmp_path / edit
        editor.write(str(fed.checkpoint))
        fed.feed([("a", 4), ("b", 5), ("B", 6)])
        found = fed.run(lambda df: keystate.keyed(df, "key").aggregate(*totals))
        assert sorted((row.key, row.total, sorted(row["values"])) for row in found) == (
            [("B", 6, [6]), ("a", 4, [4]), ("b", 8, [3, 5])]
            if edit == "replace"
            else [("B", 9, [3, 6]), ("a", 4, [4]), ("b", 5, [5])]
        )
