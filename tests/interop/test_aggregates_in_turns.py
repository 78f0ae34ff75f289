"""Aggregates of columns whose query changes its language at a restart."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from typing import Any

import keystate
import pytest
from keystate import OutputTag, Time
from keystate.windows import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from tests.window_sums import Row, WindowSums

SCHEMA = "key string, value long, time timestamp"
LATE = OutputTag("late", SCHEMA)
PARTITIONS = ["2", "5", "3"]
LATENESS, DELAY = 700, 300
WINDOWS = {
    "tumbling": (TumblingEventTimeWindows.of(1000), (1000, 1000)),
    "sliding": (SlidingEventTimeWindows.of(1500, 400), (1500, 400)),
    "sessions": (EventTimeSessionWindows.with_gap(250), (250, None)),
}


def aggregates() -> list[Column]:
    """Those of ColumnAggregates.scala."""
    return [
        F.sum("value").alias("total"),
        F.size(F.collect_list("value")).alias("n"),
        F.sort_array(F.collect_set("value")).alias("values"),
        F.max_by("value", F.struct("time", "value")).alias("last"),
        F.expr("sum(value) FILTER (WHERE value > 50)").alias("great"),
        F.approx_count_distinct("value").alias("different"),
        (F.sum("value") / F.count(F.lit(1))).alias("mean"),
    ]


def in_python(kind: str) -> Callable[[Any], DataFrame]:
    def build(df: Any) -> DataFrame:
        if kind == "keys":
            return keystate.keyed(df, "key").aggregate(*aggregates())
        rows = keystate.keyed(df.withWatermark("time", f"{DELAY} milliseconds"), "key")
        windows = rows.window(WINDOWS[kind][0]).allowed_lateness(Time.milliseconds(LATENESS))
        if kind != "sessions":
            return windows.aggregate(*aggregates())
        made = windows.side_output_late_data(LATE).aggregate(*aggregates())
        return made.with_side_outputs(LATE)

    return build


def at(millis: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(millis / 1000, datetime.timezone.utc)


def millis(time: datetime.datetime) -> int:
    return round(time.timestamp() * 1000)


def turns_of(kind: str) -> list[list[list[Row]]]:
    """Two micro-batches for each turn, with rows up to five seconds out of order."""
    chance, begin, turns = random.Random(kind), 5000, []
    for _ in PARTITIONS:
        turns.append([])
        for _ in range(2):
            times = (max(0, begin + chance.randint(-3500, 1500)) for _ in range(30))
            turns[-1].append([(chance.choice("abcde"), chance.randrange(99), t) for t in times])
            begin += chance.randint(200, 2500)
    return turns


def check(values: list[tuple[int, int]], found: Any) -> None:
    """That a result's aggregates are those of values with their times."""
    numbers = [value for value, _ in values]
    assert (found.total, found.n, found.values) == (
        sum(numbers),
        len(numbers),
        sorted(set(numbers)),
    )
    assert found.last == max((time, value) for value, time in values)[1]
    assert found.great == (sum(value for value in numbers if value > 50) or None)
    assert found.different == pytest.approx(len(set(numbers)), rel=0.1)
    assert found.mean == pytest.approx(sum(numbers) / len(numbers))


def check_keys(turns: list[list[list[Row]]], emitted: list[list[list[Any]]]) -> None:
    """That each micro-batch emits its keys, with the aggregates of all of their rows."""
    seen: dict[str, list[tuple[int, int]]] = {}
    for batches, results in zip(turns, emitted):
        for batch, found in zip(batches, results):
            for key, value, time in batch:
                seen.setdefault(key, []).append((value, time))
            assert sorted(row.key for row in found) == sorted({key for key, *_ in batch})
            for row in found:
                check(seen[row.key], row)


def check_windows(kind: str, turns: list[list[list[Row]]], emitted: list[list[list[Any]]]) -> None:
    """That each micro-batch emits what a model says, with the aggregates of the windows' rows."""
    model = WindowSums(*WINDOWS[kind][1], lateness=LATENESS, delay=DELAY)
    rows = [row for batches in turns for batch in batches for row in batch]
    late = checked = 0
    for batches, results in zip(turns, emitted):
        expected = model.run(batches)
        assert len(results) == len(expected)
        for found, (windows, too_late) in zip(results, expected):
            main = found
            if kind == "sessions":
                main = [row.main for row in found if row.main is not None]
                assert len(found) - len(main) == too_late
                assert all(tuple(row.late) in set(stored(rows)) for row in found if row.late)
            bounds = [(r.key, millis(r.window_start), millis(r.window_end)) for r in main]
            assert sorted(zip(bounds, ((r.total, r.n) for r in main))) == [
                (window[:3], window[3:]) for window in windows
            ]
            late += too_late
            for (key, start, end), row in zip(bounds, main):
                inside = [(v, t) for k, v, t in rows if k == key and start <= t < end]
                if row.n == len(inside):  # else some rows are to come, or were too late
                    check(inside, row)
                    checked += 1
    assert late > 2 and checked > 15


def stored(rows: list[Row]) -> list[tuple[str, int, datetime.datetime]]:
    return [(key, value, at(time).replace(tzinfo=None)) for key, value, time in rows]


@pytest.mark.turns
@pytest.mark.parametrize("kind", ["keys", *WINDOWS])
def test_aggregates_in_turns(
    kind: str, stream: Callable[..., Any], jvm: Any, spark: Any, settings: Callable[..., None]
) -> None:
    """Python, Scala and Python, each with other partitions, emit and store what each of them does.

    Buffers are compared as they are stored.
    """
    python = in_python(kind)

    def scala(df: Any) -> DataFrame:
        return DataFrame(getattr(jvm.ColumnAggregates, kind)(df._jdf), spark)

    turns, checkpoints = turns_of(kind), []
    for builds in ([python, scala, python], [python] * 3, [scala] * 3):
        fed, emitted = stream(SCHEMA), []
        for build, partitions, batches in zip(builds, PARTITIONS, turns):
            settings(**{"spark.sql.shuffle.partitions": partitions})
            fed.feed(*([(key, value, at(t)) for key, value, t in batch] for batch in batches))
            emitted.append(fed.micro_batches(build(fed.source())))
        if kind == "keys":
            check_keys(turns, emitted)
        else:
            check_windows(kind, turns, emitted)
        checkpoints.append(str(fed.checkpoint))
    for other in checkpoints[1:]:
        (found, *timers) = keystate.admin.diff(checkpoints[0], other)
        assert found["same"] > 2 and len(timers) == (kind != "keys")
        for state in (found, *timers):
            assert state["added"] == state["removed"] == state["changed"] == 0, state
