"""Aggregates that Spark begins before the shuffle are those of rows that come one by one."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import keystate
import pyspark.sql.functions as F
import pytest
from keystate import DeclarationError, OutputTag, agg
from keystate.windows import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
    with_window_time,
)

from tests.contract.aggregated import SCHEMA, at, batch

AGGREGATES = (
    agg.count().alias("n"),
    agg.count("value").alias("known"),
    agg.sum("value").alias("total"),
    agg.min("value").alias("least"),
    agg.max("time").alias("latest"),
    agg.avg("value").alias("mean"),
)


#: Numbers of different values, of which not all hashes are kept.
DIFFERENT = (
    agg.approx_count_distinct("value", rsd=0.3).alias("values"),
    agg.approx_count_distinct("time").alias("times"),
)


def is_begun(df: Any) -> bool:
    plan = df._jdf.queryExecution().analyzed().toString()
    return "PartialAggregate" in plan or "DistinctHashes" in plan


def is_without_repeats(df: Any) -> bool:
    return "WithoutRepeats" in df._jdf.queryExecution().analyzed().toString()


@pytest.mark.parametrize(
    ("backend", "assigner", "aggregates"),
    [
        ("hashmap", TumblingEventTimeWindows.of(1000, 300), AGGREGATES),
        ("rocksdb", SlidingEventTimeWindows.of(1000, 400), AGGREGATES),
        ("hashmap", SlidingEventTimeWindows.of(1000, 400), DIFFERENT),
    ],
)
def test_windows(
    backend: str,
    assigner: Any,
    aggregates: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    """In each micro-batch, with rows that are too late, and restarts that change it."""
    settings(**{"spark.keystate.backend": backend})
    chance, watermark = random.Random(backend), 2000
    fed = {combined: stream(SCHEMA) for combined in (True, False)}
    dropped = dict.fromkeys(fed, 0)
    found: dict[bool, list[Any]] = {combined: [] for combined in fed}
    for partitions, changes in (("2", True), ("3", False), ("1", True)):
        settings(**{"spark.sql.shuffle.partitions": partitions})
        batches = []
        for _ in range(3):
            batches.append([*batch(chance, watermark, 40), ("a", 1, at(watermark + 3000))])
            watermark += chance.randint(500, 4000)
        for combined, each in fed.items():
            each.feed(*batches)
            rows = each.source().repartition(3).withWatermark("time", "500 milliseconds")
            out = (
                keystate.keyed(rows, "key")
                .window(assigner)
                .aggregate(*aggregates, combine=None if combined and changes else False)
            )
            assert is_begun(out) == (combined and changes)
            emitted = each.micro_batches(out)
            found[combined] += [sorted(map(repr, rows)) for rows in emitted]
            operators = [p.stateOperators[0] for p in each.progress if p.stateOperators]
            dropped[combined] += sum(o.customMetrics["numLateRecordsDropped"] for o in operators)
    assert found[True] == found[False]
    assert dropped[True] == dropped[False] > 0
    assert sum(map(len, found[True])) > 30


def test_windows_by_a_clock(stream: Callable[..., Any]) -> None:
    fed = stream(SCHEMA)
    fed.feed([("a", 1, at(0)), ("a", None, at(0)), ("b", 3, at(0))])
    rows = keystate.keyed(fed.source(), "key")
    out = rows.window(TumblingProcessingTimeWindows.of(86_400_000)).aggregate(*AGGREGATES)
    assert is_begun(out)
    fed.micro_batches(out)
    state = keystate.admin.read_state(rows._input.df.sparkSession, str(fed.checkpoint))
    held = state.select("key.key", "user_map_value.n", "user_map_value.total").collect()
    assert sorted(map(tuple, held)) == [("a", 2, 1), ("b", 1, 3)]


def test_a_row_without_a_time(stream: Callable[..., Any]) -> None:
    fed = stream(SCHEMA)
    fed.feed([("a", 1, at(0)), ("b", 3, None)])
    rows = keystate.keyed(fed.source().withWatermark("time", "0 seconds"), "key")
    out = rows.window(TumblingEventTimeWindows.of(1000)).aggregate(agg.count())
    with pytest.raises(Exception, match="the row has no event time"):
        fed.micro_batches(out)


def test_windows_of_windows(stream: Callable[..., Any]) -> None:
    """The event time is a struct of start and end: the end counts."""
    found = []
    for combine in (None, False):
        fed = stream(SCHEMA)
        fed.feed(
            *([("a", 1, at(t)) for t in (t, t + 400, t + 1900)] for t in range(0, 20_000, 4000))
        )
        first = fed.source().withWatermark("time", "0 seconds")
        counted = first.groupBy("key", F.window("time", "1 second").alias("w")).agg(
            F.count("*").alias("n")
        )
        out = (
            keystate.keyed(counted, "key")
            .window(TumblingEventTimeWindows.of(5000))
            .aggregate(agg.sum("n").alias("rows"), agg.count().alias("windows"), combine=combine)
        )
        assert is_begun(out) == (combine is None)
        found.append([[tuple(row) for row in rows] for rows in fed.micro_batches(out)])
    assert found[0] == found[1]
    assert any(("a", at(0), at(5000), 3, 2) in rows for rows in found[0])


@pytest.mark.parametrize("time", ["time", "window_end"])
def test_the_watermark_goes_on(time: str, stream: Callable[..., Any]) -> None:
    """By the column of the results that has the name of the input's time."""
    found = []
    for combine in (None, False):
        fed = stream(SCHEMA)
        fed.feed(*([("a", 1, at(t)), ("a", 1, at(t + 100))] for t in (0, 1200, 9000, 19_000)))
        first = fed.source().withWatermark("time", "0 seconds").withColumnRenamed("time", time)
        results = [agg.count().alias("n"), agg.max(time).alias("time")]
        windows = keystate.keyed(first, "key").window(TumblingEventTimeWindows.of(1000))
        counted = windows.aggregate(*results, combine=combine)
        assert is_begun(counted) == (combine is None)
        out = (
            keystate.keyed(counted, "key")
            .window(TumblingEventTimeWindows.of(5000))
            .aggregate(agg.sum("n"), combine=combine)
        )
        found.append([[tuple(row) for row in rows] for rows in fed.micro_batches(out)])
    assert found[0] == found[1]
    assert any(("a", at(0), at(5000), 4) in rows for rows in found[0])


def test_results_of_windows_are_never_late(stream: Callable[..., Any]) -> None:
    """Wherever the watermark stands in a window before it ends: at its last millisecond, too."""
    times = [0, 300, 999, 1000, 1999, 2500, 3100, 3998, 4999, 5000, 6998, 6999, 7000, 9999, 10_000]
    found = []
    for combine in (None, False):
        fed = stream(SCHEMA)
        for t in [*times, 20_000, 40_000]:
            fed.feed([(key, 1, at(t)) for key in "ab"[: 1 + t % 2]])
        first = keystate.keyed(fed.source().withWatermark("time", "0 seconds"), "key")
        counted = first.window(TumblingEventTimeWindows.of(1000)).aggregate(
            agg.count().alias("n"), combine=combine
        )
        out = (
            keystate.keyed(with_window_time(counted, "at"), "key")
            .window(TumblingEventTimeWindows.of(5000))
            .aggregate(agg.sum("n"), combine=combine)
        )
        emitted = sorted(tuple(row) for rows in fed.micro_batches(out) for row in rows)
        found.append([row for row in emitted if row[1] < at(20_000)])
    assert found[0] == found[1]
    wanted = Counter((key, t // 5000 * 5000) for t in times for key in "ab"[: 1 + t % 2])
    assert found[0] == [
        (key, at(start), at(start + 5000), n) for (key, start), n in sorted(wanted.items())
    ]


def test_columns_whose_names_differ_by_case(spark: Any) -> None:
    rows = spark.createDataFrame([("a", 1, 10), ("a", 2, 20)], "key string, value int, VALUE int")
    counted = keystate.keyed(rows, "key").aggregate(agg.sum("value"), agg.max("VALUE").alias("m"))
    assert [tuple(row) for row in counted.collect()] == [("a", 3, 20)]
    windows = keystate.keyed(rows.withColumn("time", F.lit(at(0))), "key").window(
        TumblingEventTimeWindows.of(1000), event_time="time"
    )
    found = windows.aggregate(agg.sum("value"), agg.max("VALUE").alias("m")).collect()
    assert [tuple(row)[3:] for row in found] == [(3, 20)]


def test_times_before_the_epoch(spark: Any) -> None:
    times = [at(t) for t in (-5001, -5000, -4999, -1, 0, 1)]
    rows = spark.createDataFrame([("a", 1, time) for time in times], SCHEMA)
    windows = keystate.keyed(rows, "key").window(
        SlidingEventTimeWindows.of(5000, 2000, 700), event_time="time"
    )
    found = [
        sorted(map(tuple, windows.aggregate(*AGGREGATES, combine=c).collect()))
        for c in (None, False)
    ]
    assert found[0] == found[1] and len(found[0]) == 5


def test_keys_of_streams(stream: Callable[..., Any], settings: Callable[..., None]) -> None:
    """With restarts that change it, and keys that are null."""
    chance = random.Random(5)
    fed = {combined: stream(SCHEMA) for combined in (True, False)}
    for backend, changes in (("hashmap", True), ("rocksdb", False), ("hashmap", True)):
        settings(**{"spark.keystate.backend": backend})
        batches = [batch(chance, 5000, 60) for _ in range(2)]
        found = {}
        for combined, each in fed.items():
            each.feed(*batches)
            out = keystate.keyed(each.source().repartition(3), "key", "value").aggregate(
                *AGGREGATES, combine=None if combined and changes else False
            )
            assert is_begun(out) == (combined and changes)
            found[combined] = [
                sorted(map(repr, rows)) for rows in each.micro_batches(out, "update")
            ]
        assert found[True] == found[False]


def test_all_types(spark: Any) -> None:
    """Nulls, NaN, both zeros, and the ends of each type."""
    rows = spark.sql(
        """
        SELECT * FROM VALUES
          (1, 127Y, 32767S, 2147483647, 9L, float('nan'), 0.0D, true, date'2020-01-01'),
          (1, -128Y, 1S, -2147483648, 8L, float('inf'), -0.0D, false, date'1900-01-01'),
          (2, null, null, null, null, null, null, null, null),
          (3, 1Y, 1S, 1, -5L, float('nan'), double('nan'), true, null),
          (3, 1Y, 1S, 1, 7L, null, 5.5D, null, date'2999-12-31')
        AS rows(key, b, s, i, l, f, d, yes, day)
        """
    ).selectExpr("*", "timestamp(day) AS at", "cast(day AS timestamp_ntz) AS naive", "'x' AS text")
    numbers = [name for name in rows.columns[1:] if name in "bsilfd"]
    every = [
        agg.count(),
        *(agg.count(name) for name in rows.columns),
        *(build(name) for name in numbers for build in (agg.sum, agg.mean)),
        *(build(name) for name in rows.columns[1:-1] for build in (agg.min, agg.max)),
    ]
    stream = keystate.keyed(rows.repartition(2), "key")
    begun, plain = (stream.aggregate(*every, combine=combine) for combine in (None, False))
    assert is_begun(begun) and not is_begun(plain) and begun.schema == plain.schema
    shown = [
        sorted(repr(tuple(row)).replace("-0.0", "0.0") for row in df.collect())
        for df in (begun, plain)
    ]
    assert shown[0] == shown[1] and len(shown[0]) == 3


def test_repeated_rows_are_left_out(spark: Any) -> None:
    """Where they change nothing; with more values than hashes are kept, and of any type."""
    rows = spark.range(200_000).selectExpr(
        "if(id % 5 = 0, null, id % 3) AS key",
        "id % 1999 AS x",
        "nullif(cast(id % 401 AS string), '7') AS text",
        "CASE id % 4 WHEN 0 THEN 0.0D WHEN 1 THEN -0.0D WHEN 2 THEN double('nan') END AS f",
        "cast(id % 17 AS decimal(9, 2)) AS d",
        "array(id) AS others",
    )
    keyed = keystate.keyed(rows.repartition(3), "key")
    of = (
        *map(agg.approx_count_distinct, ("x", "text", "f", "d")),
        agg.approx_count_distinct("x", rsd=0.2).alias("rough"),
        agg.max("text"),
        agg.min("d"),
    )
    less, plain, combined = (keyed.aggregate(*of, combine=each) for each in (None, False, True))
    assert is_without_repeats(less)
    assert not is_without_repeats(plain) and not is_without_repeats(combined)
    found = [sorted(map(repr, df.collect())) for df in (less, plain, combined)]
    assert found[0] == found[1] == found[2] and len(found[0]) == 4


@pytest.mark.parametrize("keys", [3, 30_000])
def test_numbers_of_different_values(spark: Any, keys: int) -> None:
    """Of all types whose hashes the JVM tells; of few keys, and of more than it puts together."""
    rows = spark.range(90_000).selectExpr(
        f"nullif(id % {keys}, 1) AS key",
        "cast(id % 256 - 128 AS byte) AS b",
        "cast(id % 999 AS short) AS s",
        "cast(id * 7 AS int) AS i",
        "(id % 5000) * -1800000000000000 AS l",
        "CASE id % 4 WHEN 0 THEN float(0) WHEN 1 THEN float('nan') WHEN 2 THEN float(id) END AS f",
        "CASE id % 4 WHEN 0 THEN 0.0D WHEN 1 THEN -0.0D WHEN 2 THEN id / 3D END AS d",
        "nullif(id % 7 = 0, false) AS yes",
        "date_add(date'1900-01-01', cast(id % 3000 AS int)) AS day",
        "timestamp_micros(id * 1000003 - 1000000000) AS at",
        "cast(timestamp_micros(id % 700) AS timestamp_ntz) AS naive",
    )
    of = [
        *map(agg.approx_count_distinct, rows.columns[1:]),
        agg.approx_count_distinct("i", rsd=0.02).alias("fine"),
        agg.approx_count_distinct("key").alias("keys"),
    ]
    keyed = keystate.keyed(rows.repartition(2), "key")
    begun, plain = (keyed.aggregate(*of, combine=each) for each in (None, False))
    assert is_begun(begun) and not is_begun(plain) and begun.schema == plain.schema
    assert sorted(map(repr, begun.collect())) == sorted(map(repr, plain.collect()))


@pytest.mark.parametrize(
    ("aggregates", "begun"),
    [(DIFFERENT, True), ((agg.approx_count_distinct("key"), agg.max("value")), False)],
)
def test_a_stream_without_repeated_rows(
    stream: Callable[..., Any],
    settings: Callable[..., None],
    aggregates: Any,
    begun: bool,
) -> None:
    """With restarts that change it."""
    chance = random.Random(8)
    fed = {less: stream(SCHEMA) for less in (True, False)}
    for backend, changes in (("hashmap", True), ("rocksdb", False), ("hashmap", True)):
        settings(**{"spark.keystate.backend": backend})
        batches = [[row for row in batch(chance, 5000, 60) for _ in range(3)] for _ in range(2)]
        found = {}
        for less, each in fed.items():
            each.feed(*batches)
            out = keystate.keyed(each.source(), "key").aggregate(
                *aggregates, combine=None if less and changes else False
            )
            is_less = is_begun(out) if begun else is_without_repeats(out)
            assert is_less == (less and changes)
            emitted = each.micro_batches(out, "update")
            found[less] = [sorted(map(repr, rows)) for rows in emitted]
        assert found[True] == found[False] and any(found[True])


@pytest.mark.parametrize("combine", [True, None, False])
def test_keys_with_names_of_columns_that_are_made(spark: Any, combine: bool | None) -> None:
    names = ["_AGGREGATE0", "_aggregate1", "_aggregate_rows", "_aggregate_time", "in0", "_0"]
    rows = spark.createDataFrame([(*range(6), 1, at(0))], [*names, "x", "time"])
    keyed = keystate.keyed(rows, *names)
    aggregates = (agg.count(), agg.sum("x"))
    found = keyed.aggregate(*aggregates, combine=combine).collect()
    windows = keyed.window(TumblingEventTimeWindows.of(1000), event_time="time")
    found += windows.aggregate(*aggregates, combine=combine).collect()
    assert [(*row[:6], *row[-2:]) for row in found] == [(*range(6), 1, 1)] * 2
    if combine:
        other = keyed.aggregate(agg.first("x"), agg.last("x"), combine=True)
        assert [tuple(row) for row in other.collect()] == [(*range(6), 1, 1)]


@pytest.mark.parametrize("combine", [None, False])
@pytest.mark.parametrize("moved", [False, True])
def test_two_operators_of_one_stream(
    stream: Callable[..., Any], combine: bool | None, moved: bool
) -> None:
    """Each has its watermark, also where both could read one shuffle."""
    fed = stream(SCHEMA)
    fed.feed(*([(key, 1, at(t)) for key in "ab"] for t in range(100, 6000, 400)))
    rows = fed.source().withWatermark("time", "0 seconds")
    keyed = keystate.keyed(rows.repartition(3) if moved else rows, "key")
    one, other = (
        keyed.window(TumblingEventTimeWindows.of(size)).aggregate(
            agg.count().alias("n"), combine=combine, name=f"of {size}"
        )
        for size in (500, 1000)
    )
    emitted = [row for rows in fed.micro_batches(one.union(other)) for row in rows]
    counts = {
        size: sum(row.n for row in emitted if row.window_end - row.window_start == size)
        for size in (timedelta(milliseconds=500), timedelta(milliseconds=1000))
    }
    assert min(counts.values()) > 20 and len(emitted) == 32


def test_a_sum_that_does_not_fit_fails(spark: Any, settings: Callable[..., None]) -> None:
    """In whichever mode the session is."""
    settings(**{"spark.sql.ansi.enabled": "false"})
    rows = spark.range(4).selectExpr("0 AS key", "9223372036854775807 AS n").coalesce(1)
    out = keystate.keyed(rows, "key").aggregate(agg.sum("n"))
    assert is_begun(out)
    with pytest.raises(Exception, match="ARITHMETIC_OVERFLOW"):
        out.collect()


def test_what_is_not_begun(spark: Any, stream: Callable[..., Any]) -> None:
    rows = spark.createDataFrame([(1, 2, 0.5, at(0))], "key long, x long, f double, time timestamp")
    of = keystate.keyed
    for out in (
        of(rows, "key").aggregate(agg.first("x")),
        of(rows, "key").aggregate(agg.count(), agg.top_n("x", 2)),
        of(rows, "f").aggregate(agg.count()),
        of(rows, F.col("key") % 2).aggregate(agg.count()),
        of(rows, "key", order_by="x").aggregate(agg.count()),
        of(rows, "key").aggregate(agg.approx_count_distinct("x"), agg.sum("x"), agg.first("x")),
    ):
        assert not is_begun(out) and not is_without_repeats(out) and len(out.collect()) == 1
    timed = stream(SCHEMA).source().withWatermark("time", "1 second")
    late = OutputTag("late", timed.schema)
    tumbling = of(timed, "key").window(TumblingEventTimeWindows.of(1000))
    refused = (
        tumbling.allowed_lateness(10),
        tumbling.side_output_late_data(late),
        of(timed, "key").window(SlidingEventTimeWindows.of(1000, 2000)),
        of(timed, "key").window(EventTimeSessionWindows.with_gap(1000)),
        of(timed, "key").window(TumblingProcessingTimeWindows.of(1000)),
    )
    for windows in refused:
        assert not is_begun(windows.aggregate(agg.count()))
        with pytest.raises(DeclarationError, match="combine=True of windows is for"):
            windows.aggregate(agg.count(), combine=True)
    assert is_begun(tumbling.aggregate(agg.count(), combine=True))
    assert not is_begun(tumbling.aggregate(agg.count(), agg.last("value")))
    for mode in (None, "none"):
        assert not is_begun(of(timed, "key").aggregate(agg.count(), time_mode=mode))
    assert is_begun(of(timed, "key").aggregate(agg.count(), time_mode="none", combine=True))
