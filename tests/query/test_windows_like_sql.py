"""Windows of functions fire in the micro-batch in which Spark's own windows do."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import keystate
import pytest
from keystate import Time
from keystate.windows import (
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
)
from pyspark.sql import functions as F

from tests.contract.window_cases import Sum
from tests.drawn import drawn
from tests.query.test_windows import OUTPUT, SCHEMA, Total, at

DELAY = "3 seconds"
#: Columns are made where there is a session.
TUMBLING = TumblingEventTimeWindows.of(Time.seconds(10)), lambda: F.window("time", "10 seconds")
SLIDING = (
    SlidingEventTimeWindows.of(Time.seconds(10), Time.seconds(5)),
    lambda: F.window("time", "10 seconds", "5 seconds"),
)


class Opened(Total):
    """Rows come to it one by one."""

    def open(self, ctx: Any) -> None:
        pass


def program(seed: int) -> list[list[Any]]:
    """Rows out of order, some of them late. No watermark is at the last ms of a window.

    There Keystate's fire, as Flink's do, and Spark's one micro-batch later.
    """
    chance = random.Random(seed)
    now, batches = 20_000, []
    for _ in range(12):
        rows = []
        for _ in range(chance.choice([1, 1, 3, 8])):
            time = max(3, now + chance.randint(-15_000, 2_000)) // 10 * 10 + 3
            rows.append((chance.choice("abc"), chance.randint(1, 9), at(time / 1000)))
        now += chance.choice([0, 500, 4_000, 25_000])
        batches.append(rows)
    return batches


def fired(fed: Any, build: Callable[[Any], Any]) -> list[list[Any]]:
    return [sorted(map(tuple, rows)) for rows in fed.micro_batches(build(fed.source()), "append")]


@pytest.mark.parametrize("kind", ["grouped", "one by one", "list"])
@pytest.mark.parametrize("windows", [TUMBLING, SLIDING], ids=["tumbling", "sliding"])
@pytest.mark.parametrize("seed", drawn("windows like SQL's", range(20), 1))
def test_pairs_of_micro_batch_and_row_are_those_of_sql(
    seed: int, windows: Any, kind: str, stream: Callable[..., Any]
) -> None:
    assigner, column = windows

    def by_function(df: Any) -> Any:
        over = keystate.keyed(df.withWatermark("time", DELAY), "key").window(assigner)
        if kind == "list":
            return over.process(Total(), OUTPUT)
        return over.aggregate(Sum(), "long", OUTPUT, Total() if kind == "grouped" else Opened())

    def by_sql(df: Any) -> Any:
        grouped = df.withWatermark("time", DELAY).groupBy("key", column().alias("w"))
        start = F.floor(F.unix_millis("w.start") / 1000).alias("start")
        return grouped.agg(F.sum("value").alias("total")).select("key", start, "total")

    ours, theirs = stream(SCHEMA), stream(SCHEMA)
    for fed in (ours, theirs):
        fed.feed(*program(seed))
    found = fired(ours, by_function)
    assert found == fired(theirs, by_sql)
    assert sum(map(len, found)) > 5
