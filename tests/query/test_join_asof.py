"""As-of joins: against pandas' on streams and tables, and what they keep, refuse and pass on."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from typing import Any

import keystate
import pandas as pd
import pytest
from keystate import OutputTag, Time
from keystate.errors import DeclarationError
from keystate.windows import TumblingEventTimeWindows
from pyspark.sql import functions as F

TRADES = "symbol string, n long, time timestamp"
QUOTES = "symbol string, time timestamp, price long"
ZONE = datetime.timezone.utc
LATE = OutputTag("late", TRADES)
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
END = 10**7

Rows = list[tuple[Any, ...]]


def at(millis: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(millis / 1000, ZONE)


def drawn(chance: random.Random, begin: int, span: int) -> tuple[Rows, Rows]:
    """Trades and quotes of a span, in no order; no two quotes of a symbol at one time."""
    trades = [
        (chance.choice("abcdef"), chance.randrange(10**6), begin + chance.randrange(span))
        for _ in range(30)
    ]
    times = {(chance.choice("abcdeg"), begin + chance.randrange(span)) for _ in range(30)}
    return trades, [(symbol, time, chance.randrange(1000)) for symbol, time in sorted(times)]


def of_pandas(trades: Rows, quotes: Rows, **settings: Any) -> list[tuple[Any, ...]]:
    left = pd.DataFrame(trades, columns=["symbol", "n", "time"]).sort_values("time")
    right = pd.DataFrame(quotes, columns=["symbol", "quoted", "price"]).sort_values("quoted")
    joined = pd.merge_asof(left, right, left_on="time", right_on="quoted", by="symbol", **settings)
    return sorted(
        (row.symbol, row.n, row.time, None if pd.isna(row.price) else int(row.price))
        for row in joined.itertuples()
    )


def seen(rows: list[Any]) -> list[tuple[Any, ...]]:
    return sorted(
        (row.symbol, row.n, round(row.time.timestamp() * 1000), row.price)
        for row in rows
        if row.symbol != "end"
    )


CASES = [
    ("backward", None, True),
    ("backward", None, False),
    ("backward", 300, True),
    ("forward", 400, True),
    ("forward", 400, False),
    ("nearest", 500, True),
    ("nearest", 250, False),
]


def tolerances(tolerance: int | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """The setting of Keystate, and that of pandas."""
    if tolerance is None:
        return {}, {}
    return {"tolerance": Time.milliseconds(tolerance)}, {"tolerance": tolerance}


@pytest.mark.parametrize(("direction", "tolerance", "exact"), [*CASES, ("forward", None, True)])
def test_tables_are_joined_as_pandas_does(
    direction: Any, tolerance: int | None, exact: bool, spark: Any
) -> None:
    chance = random.Random(f"{direction} {tolerance}")
    trades, quotes = drawn(chance, 1000, 5000)
    left = spark.createDataFrame([(s, n, at(t)) for s, n, t in trades], TRADES)
    right = spark.createDataFrame([(s, at(t), p) for s, t, p in quotes], QUOTES)
    ours, pandas = tolerances(tolerance)
    joined = keystate.keyed(left, "symbol").join_asof(
        keystate.keyed(right, "symbol"),
        left_on="time",
        right_on="time",
        direction=direction,
        allow_exact_matches=exact,
        **ours,
    )
    assert joined.columns == ["symbol", "n", "time", "price"]
    expected = of_pandas(trades, quotes, direction=direction, allow_exact_matches=exact, **pandas)
    assert seen(joined.collect()) == expected
    assert sum(price is not None for *_, price in expected) > 5


@pytest.mark.turns
@pytest.mark.parametrize(("direction", "tolerance", "exact"), CASES)
@pytest.mark.parametrize(
    ("backends", "checkpoints"), [(("hashmap", "rocksdb"), "1"), (("auto", "hashmap"), "2")]
)
def test_streams_are_joined_as_pandas_does(
    direction: Any,
    tolerance: int | None,
    exact: bool,
    backends: tuple[str, str],
    checkpoints: str,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    """Each row once, when it is complete; over restarts with other partitions."""
    chance = random.Random(f"{direction} {tolerance} {exact} {backends}")
    left, right, ours = stream(TRADES), stream(QUOTES), tolerances(tolerance)[0]
    settings(**{FORMAT: checkpoints})
    trades: Rows = []
    quotes: Rows = []
    found: list[Any] = []
    begin = 5000
    for partitions, backend in (("2", backends[0]), ("3", backends[1]), ("1", backends[0])):
        settings(**{"spark.sql.shuffle.partitions": partitions, "spark.keystate.backend": backend})
        for _ in range(3):
            some, others = drawn(chance, begin, 2000)
            trades += some
            quotes += others
            left.feed([(s, n, at(t)) for s, n, t in some])
            right.feed([(s, at(t), p) for s, t, p in others])
            begin += 1700
        if partitions == "1":
            for end in (END, 2 * END):
                left.feed([("end", 0, at(end))])
                right.feed([("end", at(end), 0)])
        joined = keystate.keyed(
            left.source().withWatermark("time", "2 seconds"), "symbol"
        ).join_asof(
            keystate.keyed(right.source().withWatermark("time", "2 seconds"), "symbol"),
            left_on="time",
            right_on="time",
            direction=direction,
            allow_exact_matches=exact,
            **ours,
        )
        found += left.run(lambda _, joined=joined: joined)
    pandas = tolerances(tolerance)[1]
    quotes = list({(s, t): (s, t, p) for s, t, p in quotes}.values())
    expected = of_pandas(trades, quotes, direction=direction, allow_exact_matches=exact, **pandas)
    assert [row[:3] for row in seen(found)] == [row[:3] for row in expected]
    # Of quotes of one time, from two micro-batches, either may be the one that came last.
    several = {(s, t) for s, t, _ in quotes}
    assert len(several) == len(quotes)
    assert seen(found) == expected
