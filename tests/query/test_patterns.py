"""Patterns: against plain models on streams and tables, and what they keep, refuse and pass on."""

from __future__ import annotations

import datetime
import itertools
import random
from collections.abc import Callable
from typing import Any

import keystate
import pytest
from keystate import AfterMatchSkipStrategy, OutputTag, Pattern
from keystate.errors import DeclarationError
from keystate.windows import TumblingEventTimeWindows
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

EVENTS = "user string, kind string, amount long, ts timestamp"
ZONE = datetime.timezone.utc
LATE = OutputTag("late", EVENTS)
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
END = 10**7

Rows = list[tuple[Any, ...]]


def at(millis: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(millis / 1000, ZONE)


def millis(time: datetime.datetime) -> int:
    return round(time.timestamp() * 1000)


def drawn(chance: random.Random, begin: int, span: int, count: int = 60) -> Rows:
    """Events of a span, in no order, no two at one time."""
    times = chance.sample(range(begin, begin + span), count)
    return [(chance.choice("abc"), chance.choice("lfsx"), chance.randrange(10), t) for t in times]


def kind(name: str) -> Any:
    return F.col("kind") == name


def given(rows: Rows) -> Rows:
    return [(u, k, a, at(t)) for u, k, a, t in rows]


# Three patterns, each with all matches among the rows of a key, by trying all of them. A row is
# (user, kind, amount, time).


def strict() -> Pattern:
    return Pattern.begin("l").where(kind("l")).next("f").where(kind("f")).next("s").where(kind("s"))


def strict_matches(rows: Rows) -> list[tuple[int, int, int]]:
    return [
        (a[3], 1, c[2])
        for a, b, c in zip(rows, rows[1:], rows[2:], strict=False)
        if (a[1], b[1], c[1]) == ("l", "f", "s")
    ]


def failures() -> Pattern:
    """A login, failures, and a success of more than their average, without an x since the last."""
    return (
        Pattern.begin("l").where(kind("l"))
        .followed_by("f").where(kind("f")).one_or_more()
        .not_followed_by("x").where(kind("x"))
        .followed_by("s").where(kind("s") & (F.col("amount") > F.avg("f.amount")))
        .within(seconds=3)
    )  # fmt: skip


def failures_matches(rows: Rows) -> list[tuple[int, int, int]]:
    found = []
    for i, first in enumerate(rows):
        if first[1] != "l":
            continue
        later = [row for row in rows[i + 1 :] if row[3] - first[3] < 3000]
        fails = [j for j, row in enumerate(later) if row[1] == "f"]
        for n in range(1, len(fails) + 1):
            last = fails[n - 1]
            if any(row[1] == "x" for row in later[fails[0] : last]):
                break  # what must be absent after a loop is absent within it
            mean = sum(later[j][2] for j in fails[:n]) / n
            for row in later[last + 1 :]:
                if row[1] == "x":
                    break
                if row[1] == "s" and row[2] > mean:
                    found.append((first[3], n, row[2]))
                    break
    return found


def any_two() -> Pattern:
    return (
        Pattern.begin("l").where(kind("l")).or_(kind("x"))
        .followed_by_any("f").where(kind("f")).times(2).allow_combinations()
        .followed_by_any("s").where(kind("s"))
        .within(seconds=2)
    )  # fmt: skip


def any_two_matches(rows: Rows) -> list[tuple[int, int, int]]:
    return [
        (a[3], 2, d[2])
        for a, b, c, d in itertools.combinations(rows, 4)
        if a[1] in "lx" and (b[1], c[1], d[1]) == ("f", "f", "s") and d[3] - a[3] < 2000
    ]


CASES = {
    "strict": (strict, strict_matches),
    "failures": (failures, failures_matches),
    "any": (any_two, any_two_matches),
}


def results(pattern: Any) -> Any:
    return pattern.select(
        F.first("l.ts").alias("began"),
        F.count("f.*").alias("n"),
        F.last("s.amount").alias("amount"),
    )


def seen(rows: Any) -> list[tuple[Any, ...]]:
    return sorted((row.user, millis(row.began), row.n, row.amount) for row in rows)


def expected(rows: Rows, matches: Callable[[Rows], list[tuple[int, int, int]]]) -> Rows:
    ordered = sorted(rows, key=lambda row: row[3])
    return sorted(
        (user, *match)
        for user in "abc"
        for match in matches([row for row in ordered if row[0] == user])
    )


def matched(df: Any, pattern: Pattern, **settings: Any) -> Any:
    keyed = keystate.keyed(df.withWatermark("ts", "1 second") if df.isStreaming else df, "user")
    return keyed.pattern(pattern, order_by="ts", **settings)


@pytest.mark.parametrize("name", CASES)
def test_tables_are_matched(name: str, spark: Any) -> None:
    pattern, matches = CASES[name]
    rows = drawn(random.Random(name), 1000, 20_000, 300)
    df = spark.createDataFrame(given(rows), EVENTS)
    found = results(matched(df, pattern()))
    assert found.columns == ["user", "match_time", "began", "n", "amount"]
    wanted = expected(rows, matches)
    assert seen(found.collect()) == wanted
    assert len(wanted) > 5


@pytest.mark.turns
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize(
    ("backends", "checkpoints"), [(("hashmap", "rocksdb"), "1"), (("auto", "hashmap"), "2")]
)
def test_streams_are_matched(
    name: str,
    backends: tuple[str, str],
    checkpoints: str,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    """Each match once, over restarts with other partitions and backends."""
    pattern, matches = CASES[name]
    chance = random.Random(f"{name} {backends}")
    events = stream(EVENTS)
    settings(**{FORMAT: checkpoints})
    rows: Rows = []
    found: list[Any] = []
    begin = 5000
    for partitions, backend in (("2", backends[0]), ("3", backends[1]), ("1", backends[0])):
        settings(**{"spark.sql.shuffle.partitions": partitions, "spark.keystate.backend": backend})
        for _ in range(3):
            some = drawn(chance, begin, 1500)
            rows += some
            events.feed(given(some))
            begin += 1500  # all later ones are at most a second late
        if partitions == "1":
            events.feed(given([("end", "e", 0, END)]), given([("end", "e", 0, 2 * END)]))
        found += events.run(lambda df: results(matched(df, pattern())))
    assert seen(found) == expected(rows, matches)


def test_results_of_conditions_in_python(spark: Any) -> None:
    """A condition that needs Python is a UDF; it may stand beside one that looks back."""
    rows = [("a", "l", 1, 1), ("a", "f", 3, 2), ("a", "f", 5, 3), ("a", "f", 6, 4)]
    odd = F.udf(lambda amount: amount % 2 == 1, "boolean")
    pattern = (
        Pattern.begin("l").where(kind("l"))
        .followed_by("f").where(odd("amount") & (F.col("amount") > F.last("l.amount") + 2))
        .within(seconds=1)
    )  # fmt: skip
    found = matched(spark.createDataFrame(given(rows), EVENTS), pattern).select(
        F.last("f.amount").alias("f"), (F.sum("amount") + F.length("user")).alias("all")
    )
    assert [(row.f, row["all"]) for row in found.collect()] == [(5, 7)]


def test_the_row_at_hand_does_not_count_yet(spark: Any) -> None:
    rows = [("a", "f", amount, i) for i, amount in enumerate([1, 2, 4, 5])]
    grows = F.col("amount") > F.coalesce(F.sum("f.amount"), F.lit(0))
    pattern = Pattern.begin("f").where(grows).times_or_more(2).consecutive().within(seconds=1)
    found = matched(spark.createDataFrame(given(rows), EVENTS), pattern)
    amounts = found.select(F.collect_list("f.amount").alias("f")).collect()
    assert sorted(row.f for row in amounts) == [[1, 2], [1, 2, 4], [2, 4], [4, 5]]


def test_all_rows_and_skips(spark: Any) -> None:
    rows = [("a", k, i, i) for i, k in enumerate("lffsls")]
    df = spark.createDataFrame(given(rows), EVENTS)

    def found(skip: AfterMatchSkipStrategy) -> list[list[tuple[int, str]]]:
        pattern = (
            Pattern.begin("l", skip).where(kind("l"))
            .followed_by("m").one_or_more().followed_by_any("s").where(kind("s"))
            .within(seconds=1)
        )  # fmt: skip
        rows = sorted(matched(df, pattern).all_rows().collect(), key=lambda row: row.match_number)
        groups = itertools.groupby(rows, key=lambda row: row.match_number)
        return [[(row.amount, row.match_part) for row in group] for _, group in groups]

    everything = found(AfterMatchSkipStrategy.no_skip())
    assert everything[0] == [(0, "l"), (1, "m"), (3, "s")]
    assert len(everything) == 6
    first = [[(0, "l"), (1, "m"), (3, "s")]]
    assert found(AfterMatchSkipStrategy.skip_to_next()) == first
    assert found(AfterMatchSkipStrategy.skip_past_last_event()) == first
    assert len(found(AfterMatchSkipStrategy.skip_to_first("l"))) == 6
    assert found(AfterMatchSkipStrategy.skip_to_last("s")) == first


def test_rows_of_a_time_come_by_the_tie_breaker(spark: Any) -> None:
    rows = given([("a", "s", 2, 5), ("a", "f", 1, 5), ("a", "l", 0, 5)])
    df = spark.createDataFrame(rows, EVENTS).repartition(3)
    for order, expected in (("amount", 1), (F.desc("amount"), 0)):
        found = keystate.keyed(df, "user").pattern(strict(), order_by=["ts", order])
        assert results(found).count() == expected


def test_time_is_over_for_silent_keys_too(stream: Callable[..., Any]) -> None:
    """Partial matches and absences are decided by timers, at their own times."""
    timeouts = OutputTag("timeouts", "user string, match_time timestamp, l long, f long")
    events = stream(EVENTS)
    events.feed(given([("a", "l", 1, 1000), ("b", "l", 2, 1000), ("a", "f", 3, 2000)]))
    events.feed(given([("c", "e", 0, 20_000)]), given([("c", "e", 0, 30_000)]))
    pattern = begun().followed_by("f").where(kind("f")).next("s").where(kind("s")).within(seconds=5)

    def build(df: Any) -> Any:
        found = matched(df, pattern, timeout_output=timeouts)
        return found.select(F.first("l.amount").alias("l"), F.first("f.amount").alias("f"))

    rows = events.run(lambda df: build(df).with_side_outputs(timeouts))
    told = [(r.timeouts.user, millis(r.timeouts.match_time), r.timeouts.f) for r in rows]
    assert sorted(told, key=str) == [("a", 6000, 3), ("b", 6000, None)]
    absent = begun().not_followed_by("f").where(kind("f")).within(seconds=5)
    other = stream(EVENTS)
    other.feed(given([("a", "l", 1, 1000), ("b", "l", 2, 1000), ("a", "f", 3, 2000)]))
    other.feed(given([("c", "e", 0, 20_000)]), given([("c", "e", 0, 30_000)]))
    found = other.run(lambda df: matched(df, absent).select(F.first("l.amount").alias("l")))
    assert [(row.user, row.l, millis(row.match_time)) for row in found] == [("b", 2, 6000)]


def test_late_rows_go_to_a_side_output(stream: Callable[..., Any]) -> None:
    events = stream(EVENTS)
    events.feed(given([("a", "l", 1, 5000)]), given([("a", "f", 2, 9000)]))
    events.feed(given([("a", "x", 3, 100), ("a", "s", 4, 9500)]), given([("b", "e", 0, 20_000)]))
    rows = events.run(
        lambda df: results(matched(df, strict(), late_output=LATE)).with_side_outputs(LATE)
    )
    assert [(row.late.kind, row.late.amount) for row in rows if row.late] == [("x", 3)]
    assert [row.main.amount for row in rows if row.main] == [4]


def test_windows_behind_lose_nothing(stream: Callable[..., Any]) -> None:
    """A result's time is when it was decided."""
    events = stream(EVENTS)
    rows: Rows = []
    for begin in range(1000, 20_000, 2000):
        some = drawn(random.Random(begin), begin, 2000)
        rows += some
        events.feed(given(some))
    for end in (END, 2 * END, 3 * END):
        events.feed(given([("end", "e", 0, end)]))

    def build(df: Any) -> Any:
        made = results(matched(df, failures()))
        windows = keystate.keyed(made, "user").window(TumblingEventTimeWindows.of(1000))
        return windows.aggregate(F.count("*").alias("n"))

    counted = sum(row.n for row in events.run(build))
    assert counted == len(expected(rows, failures_matches)) > 5


def test_what_is_kept_is_what_may_be_returned(spark: Any, stream: Callable[..., Any]) -> None:
    """Without within, and with functions whose buffers don't grow, no rows are kept."""
    endless = Pattern.begin("l").where(kind("l")).followed_by("f").where(kind("f")).one_or_more()
    endless = endless.followed_by("s").where(kind("s"))
    pattern = endless.within(seconds=3)

    def sizes(pattern: Pattern, rows: bool) -> dict[str, int]:
        events = stream(EVENTS)
        for batch in range(8):
            base = 10_000 * (batch + 1)
            some = [("a", "f", i, base + 100 * i) for i in range(1, 50)]
            events.feed(given([("a", "l", 0, base), *some] if batch == 0 or rows else some))

        def build(df: Any) -> Any:
            found = matched(df, pattern)
            return found.all_rows() if rows else found.select(F.sum("f.amount").alias("n"))

        with_warning = pattern.longest is None
        if with_warning:
            with pytest.warns(UserWarning, match="part 'f' .* has no within"):
                events.run(build)
        else:
            events.run(build)
        states = ("_pattern", "_waiting", "_matches", "_taken", "_rows")
        place = str(events.checkpoint)
        return {s: keystate.admin.read_state(spark, place, state=s).count() for s in states}

    kept = sizes(pattern, rows=True)
    assert kept["_rows"] <= 2 and kept["_matches"] <= 2 and kept["_taken"] <= 2
    ended = sizes(pattern, rows=False)
    assert ended["_matches"] == ended["_rows"] == ended["_taken"] == ended["_pattern"] == 0
    flat = sizes(endless, rows=False)
    assert flat["_rows"] == flat["_taken"] == 0
    assert flat["_matches"] > 300  # each number of failures may be followed by a success


def test_there_is_a_limit_of_partial_matches(stream: Callable[..., Any]) -> None:
    rows = given([("a", "l", i, 1000 + i) for i in range(20)] + [("a", "f", 99, 2000)])
    pattern = Pattern.begin("l").where(kind("l")).followed_by_any("f").where(kind("f"))
    for on_limit in ("fail", "drop"):
        events = stream(EVENTS)
        events.feed(rows, given([("b", "e", 0, 9000)]))

        def build(df: Any, on_limit: Any = on_limit) -> Any:
            found = matched(df, pattern, max_partial_matches=5, on_limit=on_limit)
            return found.select(F.first("l.amount").alias("l"))

        if on_limit == "fail":
            with pytest.raises(Exception, match=r"KEYSTATE_STATE_LIMIT.*more than 5"):
                events.run(build)
        else:
            assert [row.l for row in events.run(build)] == [15, 16, 17, 18, 19]


def test_another_pattern_does_not_go_on(spark: Any, stream: Callable[..., Any]) -> None:
    events = stream(EVENTS)
    events.feed(given([("a", "l", 1, 1000), ("a", "f", 2, 2000), ("b", "e", 0, 9000)]))
    assert events.run(lambda df: results(matched(df, failures()))) == []
    other = failures().within(seconds=2)
    events.feed(given([("b", "e", 0, 10_000)]))
    with pytest.raises(Exception, match=r"KEYSTATE_STATE_CHANGED.*within was 3000000.*now 2000000"):
        events.run(lambda df: results(matched(df, other)))
    # A condition on a row alone may change.
    assert events.run(lambda df: results(matched(df, failures()))) == []


def begun() -> Pattern:
    return Pattern.begin("l").where(kind("l"))


@pytest.mark.parametrize(
    ("build", "told"),
    [
        (lambda: begun().next("l"), "Part 'l' of the pattern is there twice"),
        (lambda: begun().greedy(), "'l' of the pattern is greedy, but comes once"),
        (lambda: begun().until(kind("x")), "'l' of the pattern has until, but no loop"),
        (lambda: begun().times(2).until(kind("x")), "'l' of the pattern has until, but no loop"),
        (lambda: begun().consecutive(), "part 'l' of the pattern is consecutive, but comes once"),
        (
            lambda: begun().times(2).one_or_more(),
            "'l' of the pattern has two numbers of times",
        ),
        (lambda: Pattern.begin(begun()).greedy(), "a group of a pattern can't be greedy"),
        (lambda: Pattern.begin(begun()).where(kind("x")), "a group of a pattern has no condition"),
        (lambda: Pattern.begin(begun().within(seconds=1)), "a group of a pattern has no within"),
        (
            lambda: begun().optional().not_next("x").where(kind("x")).next("y"),
            "Part 'x' of the pattern is absent after 'l', which is optional",
        ),
        (
            lambda: begun().one_or_more().greedy().next("y").optional(),
            "Part 'y' of the pattern is optional after 'l', which is greedy",
        ),
        (
            lambda: begun().not_followed_by("x").where(kind("x")),
            "'x' of the pattern is not_followed_by at the end",
        ),
        (lambda: begun().not_next("x").next("y"), "part 'x' of the pattern is absent, but has no"),
        (lambda: begun().next("amount"), "'amount' of the pattern is named as a column is"),
        (lambda: begun().where(F.col("l.amount") > 1), "'l.amount' is a column of many rows"),
        (lambda: begun().next("y").where(F.col("amount") + F.sum("l.amount")), "is BIGINT, not"),
        (
            lambda: Pattern.begin("l", AfterMatchSkipStrategy.skip_to_first("z")),
            "no part 'z' to skip to",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(
    build: Callable[[], Pattern], told: str, spark: Any
) -> None:
    df = spark.createDataFrame([], EVENTS)
    with pytest.raises(DeclarationError, match=told):
        matched(df, build()).select(F.count("l.*"))


def test_what_does_not_fit_is_refused(spark: Any, stream: Callable[..., Any]) -> None:
    df = spark.createDataFrame([], EVENTS)
    with pytest.raises(DeclarationError, match="'amount' in result 'x' is a column of many"):
        matched(df, begun()).select(F.col("amount").alias("x"))
    with pytest.raises(DeclarationError, match="'match_time'"):
        matched(df, begun()).select(F.count("l.*").alias("match_time"))
    with pytest.raises(DeclarationError, match="over rows of 'l' and 'm'"):
        matched(df, begun().next("m")).select(F.sum(F.col("l.amount") + F.col("m.amount")))
    with pytest.raises(AnalysisException, match="nothing"):
        matched(df, begun()).select(F.sum("l.nothing"))
    with pytest.raises(DeclarationError, match="begins with the column of the time"):
        keystate.keyed(df, "user").pattern(begun(), order_by="amount").select(F.count("*"))
    with pytest.raises(DeclarationError, match="has no watermark"):
        keyed = keystate.keyed(stream(EVENTS).source(), "user")
        keyed.pattern(begun(), order_by="ts").select(F.count("*"))
    with pytest.raises(DeclarationError, match="no side output 'x'"):
        results(matched(df, strict())).side_output(OutputTag("x", EVENTS))
