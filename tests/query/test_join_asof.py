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


def joined(left: Any, right: Any, **settings: Any) -> Any:
    trades = keystate.keyed(left.source().withWatermark("time", "0 seconds"), "symbol")
    quotes = keystate.keyed(right.source().withWatermark("time", "0 seconds"), "symbol")
    return trades.join_asof(quotes, left_on="time", right_on="time", **settings)


def test_without_waiting_rows_go_out_at_once(stream: Callable[..., Any]) -> None:
    """After the quotes of their micro-batch, and are not corrected."""
    left, right = stream(TRADES), stream(QUOTES)
    left.feed([("a", 1, at(1500))], [("a", 2, at(1700))])
    right.feed([("a", at(1000), 10)], [("a", at(1400), 11), ("a", at(1600), 12)])
    emitted = left.micro_batches(joined(left, right, wait="none"))
    assert [seen(rows) for rows in emitted][:2] == [[("a", 1, 1500, 10)], [("a", 2, 1700, 12)]]


def test_rows_that_wait_go_out_after_a_restart_without_waiting(stream: Callable[..., Any]) -> None:
    left, right = stream(TRADES), stream(QUOTES)
    left.feed([("a", 1, at(1500)), ("a", 2, at(2500))])
    right.feed([("a", at(1000), 10), ("a", at(2000), 20)])
    assert seen(left.run(lambda _: joined(left, right))) == [("a", 1, 1500, 10)]
    left.feed([("a", 3, at(5000))])
    right.feed([("a", at(2200), 30), ("a", at(5000), 40)])
    found = left.run(lambda _: joined(left, right, wait="none"))
    assert seen(found) == [("a", 2, 2500, 30), ("a", 3, 5000, 40)]


def test_what_a_changelog_deletes_matches_nothing(stream: Callable[..., Any]) -> None:
    left, right = stream(TRADES), stream(f"{QUOTES}, gone boolean")
    left.feed([("a", n, at(n)) for n in (100, 200, 300)])
    right.feed([("a", at(50), 1, False), ("a", at(150), 1, True), ("a", at(250), 2, None)])
    left.feed([("end", 0, at(END))])
    right.feed([("end", at(END), 0, False)])
    found = left.run(lambda _: joined(left, right, deleted="gone"))
    assert seen(found) == [("a", 100, 100, 1), ("a", 200, 200, None), ("a", 300, 300, 2)]
    assert found[0].__fields__ == ["symbol", "n", "time", "price"]


def test_of_quotes_of_one_time_the_last_by_their_order_counts(spark: Any) -> None:
    trades = spark.createDataFrame([("a", 1, at(100)), ("b", 2, at(100))], TRADES)
    prices = [5, 7, 6, 1]
    quotes = spark.createDataFrame([("a", at(100), price) for price in prices], QUOTES)
    for order, expected in (("price", 7), (F.desc("price"), 1)):
        right = keystate.keyed(quotes.repartition(3), "symbol", order_by=order)
        found = keystate.keyed(trades, "symbol").join_asof(right, left_on="time", right_on="time")
        assert seen(found.collect()) == [("a", 1, 100, expected), ("b", 2, 100, None)]
        inner = keystate.keyed(trades, "symbol").join_asof(
            right, left_on="time", right_on="time", how="inner"
        )
        assert seen(inner.collect()) == [("a", 1, 100, expected)]


def test_a_table_is_read_once(spark: Any, stream: Callable[..., Any]) -> None:
    left = stream(TRADES)
    quotes = spark.createDataFrame([("a", at(100), 1), ("a", at(200), 2)], QUOTES)

    def build(df: Any, right: Any) -> Any:
        trades = keystate.keyed(df.withWatermark("time", "0 seconds"), "symbol")
        return trades.join_asof(
            keystate.keyed(right, "symbol"), left_on="time", right_on="time", suffix="_quoted"
        )

    left.feed([("a", 1, at(150)), ("b", 2, at(150))])
    assert seen(left.run(lambda df: build(df, quotes))) == [("a", 1, 150, 1), ("b", 2, 150, None)]
    left.feed([("a", 3, at(250))])
    assert seen(left.run(lambda df: build(df, quotes.limit(0)))) == [("a", 3, 250, 2)]


def test_late_rows_go_to_a_side_output(stream: Callable[..., Any]) -> None:
    left, right = stream(TRADES), stream(QUOTES)
    left.feed([("a", 1, at(5000))], [("a", 2, at(9000))], [("a", 3, at(100)), ("a", 4, at(9500))])
    right.feed([("a", at(4000), 1)], [("a", at(9000), 2)], [("a", at(9200), 3)])
    made = joined(left, right, late_output=LATE)
    rows = left.run(lambda _: made.with_side_outputs(LATE))
    assert [(row.late.symbol, row.late.n) for row in rows if row.late] == [("a", 3)]
    assert [(row.main.n, row.main.price) for row in rows if row.main] == [(1, 1), (2, 2)]
    assert seen(left.run(lambda _: joined(left, right))) == []  # goes on without it


@pytest.mark.parametrize(("direction", "tolerance"), [("backward", None), ("forward", 3000)])
def test_windows_behind_and_before_lose_nothing(
    direction: Any, tolerance: int | None, stream: Callable[..., Any]
) -> None:
    """The results of a join that looks ahead are behind the watermark by the tolerance."""
    chance = random.Random(direction)
    left, right = stream(TRADES), stream(QUOTES)
    trades: Rows = []
    quotes: Rows = []
    for begin in range(0, 20_000, 2000):
        some, others = drawn(chance, 1000 + begin, 2000)
        trades += some
        quotes += others
        left.feed([(s, n, at(t)) for s, n, t in some])
        right.feed([(s, at(t), p) for s, t, p in others])
    for end in (END, 2 * END, 3 * END):
        left.feed([("end", 0, at(end))])
        right.feed([("end", at(end), 0)])
    ours = tolerances(tolerance)[0]
    counts = keystate.keyed(left.source().withWatermark("time", "2 seconds"), "symbol")
    quoted = keystate.keyed(right.source().withWatermark("time", "2 seconds"), "symbol")
    made = counts.join_asof(quoted, left_on="time", right_on="time", direction=direction, **ours)
    windows = keystate.keyed(made, "symbol").window(TumblingEventTimeWindows.of(1000))
    found = left.run(
        lambda _: windows.aggregate(F.count("*").alias("n"), F.sum("price").alias("s"))
    )
    expected: dict[Any, Any] = {}
    for symbol, _, time, price in of_pandas(
        trades, quotes, direction=direction, **tolerances(tolerance)[1]
    ):
        n, total = expected.get((symbol, time // 1000), (0, None))
        total = total if price is None else (total or 0) + price
        expected[symbol, time // 1000] = (n + 1, total)
    assert {
        (row.symbol, row.window_start.timestamp()): (row.n, row.s)
        for row in found
        if row.symbol != "end"
    } == expected


@pytest.mark.parametrize(
    ("direction", "tolerance"),
    [("backward", None), ("backward", 1000), ("forward", 1000), ("nearest", 1000)],
)
def test_rows_are_kept_as_long_as_they_are_needed(
    direction: Any, tolerance: int | None, spark: Any, stream: Callable[..., Any]
) -> None:
    """Of keys that are gone nothing is kept within a tolerance; without one the newest row."""
    left, right = stream(TRADES), stream(QUOTES)
    for batch in range(12):
        times = range(1000 * batch, 1000 * batch + 1000, 100)
        symbols = ["a", f"only {batch}"]
        right.feed([(s, at(time), time) for time in times for s in symbols])
        left.feed([("a", time, at(time + 50)) for time in times])
    left.run(lambda _: joined(left, right, direction=direction, **tolerances(tolerance)[0]))
    checkpoint = str(left.checkpoint)
    rights = keystate.admin.read_state(spark, checkpoint, state="_right")
    found = [
        (row.symbol, row.time)
        for row in rights.select("key.*", "user_map_key.key").toDF("symbol", "time").collect()
    ]
    waiting = keystate.admin.read_state(spark, checkpoint, state="_left").count()
    # The watermark is 11,900 ms.
    ahead = {"backward": 0, "forward": 1000, "nearest": 1000}[direction]
    assert waiting <= ahead / 100 + 1
    kept = [time for symbol, time in found if symbol == "a"]
    back = {"backward": 100, "forward": 0, "nearest": 1000}[direction]
    assert 0 < len(kept) <= (ahead + back) / 100 + 2
    gone = {symbol for symbol, _ in found if symbol not in ("a", "only 10", "only 11")}
    if tolerance:  # nearest looks two seconds back, from a row that waits for one
        assert gone <= {"only 9"}
    else:
        assert gone == {f"only {batch}" for batch in range(10)}
    assert len([1 for symbol, _ in found if symbol == "only 3"]) == (0 if tolerance else 1)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"direction": "sideways"}, "direction must be one of"),
        ({"left_on": "n"}, "of type BIGINT"),
        ({"right_on": "when"}, "no column 'when'"),
        ({"direction": "forward"}, "needs a tolerance"),
        ({"tolerance": -1}, "negative"),
        ({"suffix": ""}, "named 'n'"),
        ({"deleted": "price"}, "of type BIGINT"),
    ],
)
def test_what_does_not_fit_is_refused(
    settings: dict[str, Any], told: str, stream: Callable[..., Any]
) -> None:
    left = stream(TRADES).source().withWatermark("time", "0 seconds")
    right = stream(f"{QUOTES}, n long").source().withWatermark("time", "0 seconds")
    given = {"left_on": "time", "right_on": "time", **settings}
    with pytest.raises(DeclarationError, match=told):
        keystate.keyed(left, "symbol").join_asof(keystate.keyed(right, "symbol"), **given)


def test_streams_need_watermarks_of_the_least(
    stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    left, right = stream(TRADES), stream(QUOTES)
    plain = keystate.keyed(right.source(), "symbol")
    trades = keystate.keyed(left.source().withWatermark("time", "0 seconds"), "symbol")
    with pytest.raises(DeclarationError, match="no watermark"):
        trades.join_asof(plain, left_on="time", right_on="time")
    settings(**{"spark.sql.streaming.multipleWatermarkPolicy": "max"})
    with pytest.raises(DeclarationError, match="Set it to min"):
        joined(left, right)
