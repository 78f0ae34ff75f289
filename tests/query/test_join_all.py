"""Joins of many streams with one state: against SQL over the same rows, on streams and tables."""

from __future__ import annotations

import datetime
import itertools
import random
import sqlite3
from collections.abc import Callable, Sequence
from typing import Any

import keystate
import pytest
from keystate import OutputTag, Time
from keystate.errors import DeclarationError
from keystate.windows import TumblingEventTimeWindows
from pyspark.sql import functions as F

ZONE = datetime.timezone.utc
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
END = 10**7
SCHEMA = "id string, n long, time timestamp"

#: A key, a number that no two rows of a stream have, and a time in ms.
Row = tuple[str | None, int, int]


def at(millis: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(millis / 1000, ZONE)


def drawn(chance: random.Random, count: int, begin: int, span: int) -> list[Row]:
    """Rows of a span, in no order; some have the time of another one."""
    return [
        (chance.choice(["a", "b", "c", "d", None]), chance.randrange(10**9), time)
        for time in (begin + 10 * chance.randrange(span // 10) for _ in range(count))
    ]


def feed_drawn(chance: random.Random, into: Any, count: int, begin: int) -> list[Row]:
    """Feeds rows of two seconds in two micro-batches; returns them."""
    rows = drawn(chance, count, begin, 2000)
    cut = chance.randrange(1, count)
    for part in (rows[:cut], rows[cut:]):
        into.feed([(key, n, at(time)) for key, n, time in part])
    return rows


def feed_ends(fed: Sequence[Any], *times: int) -> None:
    for time in times:
        for into in fed:
            into.feed([("end", time, at(time))])


def of_sql(streams: Sequence[list[Row]], within: int, how: str) -> list[tuple[Any, ...]]:
    """The numbers of each result's rows: of all sets of streams that a result could have."""
    sql = sqlite3.connect(":memory:")
    for i, rows in enumerate(streams):
        sql.execute(f"CREATE TABLE s{i} (id TEXT, n INTEGER, time INTEGER)")
        sql.executemany(f"INSERT INTO s{i} VALUES (?, ?, ?)", rows)
        sql.execute(f"CREATE INDEX i{i} ON s{i} (id, time)")
    everything = range(len(streams))
    sets = [everything] if how == "inner" else subsets(everything)
    found: list[tuple[Any, ...]] = []
    for there in sets:
        first = there[0]
        times = [f"s{i}.time" for i in there]
        latest, least = (
            f"{f}({', '.join(times)})" if len(times) > 1 else times[0] for f in ("MAX", "MIN")
        )
        conditions = [f"s{i}.id IS s{first}.id" for i in there]
        conditions.append(f"{latest} - {least} <= {within}")
        conditions += [
            f"NOT EXISTS (SELECT 1 FROM s{i} more WHERE more.id IS s{first}.id AND more.time "
            f"BETWEEN {latest} - {within} AND {least} + {within})"
            for i in everything
            if i not in there
        ]
        columns = [f"s{i}.n" if i in there else "NULL" for i in everything]
        found += sql.execute(
            f"SELECT s{first}.id, {', '.join(columns)} FROM {', '.join(f's{i}' for i in there)} "
            f"WHERE {' AND '.join(conditions)}"
        ).fetchall()
    return sorted(found, key=repr)


def subsets(of: Sequence[int]) -> list[tuple[int, ...]]:
    return [each for size in of for each in itertools.combinations(of, size + 1)]


def seen(rows: list[Any], streams: int) -> list[tuple[Any, ...]]:
    names = ["n", *(f"n_{i}" for i in range(2, streams + 1))]
    found = [(row.id, *(row[name] for name in names)) for row in rows if row.id != "end"]
    return sorted(found, key=repr)


@pytest.mark.parametrize("how", ["inner", "outer"])
@pytest.mark.parametrize(("count", "rows"), [(2, 60), (3, 40), (5, 20)])
def test_tables_are_joined_as_sql_does(how: Any, count: int, rows: int, spark: Any) -> None:
    chance = random.Random(f"{how} {count}")
    within = 200 * (count - 1)
    streams = [drawn(chance, rows, 0, 3000) for _ in range(count)]
    frames = [
        spark.createDataFrame([(key, n, at(t)) for key, n, t in each], SCHEMA) for each in streams
    ]
    joined = keystate.join_all(
        [keystate.keyed(df, "id") for df in frames],
        within=Time.milliseconds(within),
        on="time",
        how=how,
    )
    assert joined.columns[:5] == ["id", "n", "time", "n_2", "time_2"]
    expected = of_sql(streams, within, how)
    assert seen(joined.collect(), count) == expected
    assert len(expected) > 3


def test_an_outer_join_of_two_is_that_of_sql() -> None:
    """The rule of results that nothing could be added to, which the other tests go by."""
    chance = random.Random(7)
    one, two = drawn(chance, 50, 0, 3000), drawn(chance, 50, 0, 3000)
    sql = sqlite3.connect(":memory:")
    for name, rows in (("a", one), ("b", two)):
        sql.execute(f"CREATE TABLE {name} (id TEXT, n INTEGER, time INTEGER)")
        sql.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", rows)
    full = sql.execute(
        "SELECT COALESCE(a.id, b.id), a.n, b.n FROM a FULL JOIN b "
        "ON a.id IS b.id AND ABS(a.time - b.time) <= 200"
    ).fetchall()
    assert sorted(full, key=repr) == of_sql([one, two], 200, "outer")


@pytest.mark.turns
@pytest.mark.parametrize("how", ["inner", "outer"])
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize(
    ("backends", "checkpoints"), [(("hashmap", "rocksdb"), "1"), (("auto", "hashmap"), "2")]
)
def test_streams_are_joined_as_sql_does(
    how: Any,
    count: int,
    backends: tuple[str, str],
    checkpoints: str,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    """In micro-batches of any rows; over restarts with other partitions."""
    chance = random.Random(f"{how} {count} {backends}")
    settings(**{FORMAT: checkpoints})
    fed = [stream(SCHEMA) for _ in range(count)]
    streams: list[list[Row]] = [[] for _ in fed]
    found: list[Any] = []
    begin = 5000
    for partitions, backend in (("2", backends[0]), ("3", backends[1]), ("1", backends[0])):
        settings(**{"spark.sql.shuffle.partitions": partitions, "spark.keystate.backend": backend})
        for _ in range(3):
            for rows, into in zip(streams, fed):
                rows += feed_drawn(chance, into, 14, begin)
            begin += 1700
        if partitions == "1":
            feed_ends(fed, END, 2 * END)
        joined = keystate.join_all(
            [
                keystate.keyed(into.source().withWatermark("time", "2 seconds"), "id")
                for into in fed
            ],
            within=Time.milliseconds(300),
            how=how,
        )
        found += fed[0].run(lambda _, joined=joined: joined)
    assert seen(found, count) == of_sql(streams, 300, how)


LATE = OutputTag("late", "id string, n long, time timestamp, n_2 long, time_2 timestamp")


def joined(*fed: Any, **settings: Any) -> Any:
    inputs = [keystate.keyed(s.source().withWatermark("time", "0 seconds"), "id") for s in fed]
    return keystate.join_all(inputs, **{"within": Time.milliseconds(500), **settings})


def test_late_rows_go_to_a_side_output(stream: Callable[..., Any]) -> None:
    left, right = stream(SCHEMA), stream(SCHEMA)
    left.feed([("a", 1, at(5000))], [("a", 2, at(9000))], [("a", 3, at(100)), ("a", 4, at(9500))])
    right.feed([("a", 5, at(5200))], [("a", 6, at(9000))], [("a", 7, at(9600)), ("a", 8, at(200))])
    made = joined(left, right, how="outer", late_output=LATE)
    rows = left.run(lambda _: made.with_side_outputs(LATE))
    late = sorted((row.late.n or 0, row.late.n_2 or 0) for row in rows if row.late)
    assert late == [(0, 8), (3, 0)]
    assert {(row.late.time or row.late.time_2).timestamp() for row in rows if row.late} == {
        0.1,
        0.2,
    }
    main = [row.main for row in rows if row.main]
    assert seen(main, 2) == [("a", 1, 5), ("a", 2, 6), ("a", 4, 6), ("a", 4, 7)]
    right.feed([("a", 9, at(9550)), ("a", 10, at(300))])
    assert seen(left.run(lambda _: joined(left, right, how="outer")), 2) == [("a", 4, 9)]
    with pytest.raises(DeclarationError, match="takes struct"):
        joined(left, right, late_output=OutputTag("late", SCHEMA))


@pytest.mark.parametrize("how", ["inner", "outer"])
def test_windows_behind_lose_nothing(how: Any, stream: Callable[..., Any]) -> None:
    """The earliest times of results are behind the watermark, by at most `within`."""
    chance = random.Random(how)
    fed = [stream(SCHEMA) for _ in range(3)]
    streams: list[list[Row]] = [[] for _ in fed]
    for begin in range(1000, 13_000, 2000):
        for rows, into in zip(streams, fed):
            some = drawn(chance, 25, begin, 2000)
            rows += some
            into.feed([(key, n, at(time)) for key, n, time in some])
    for end in (END, 2 * END, 3 * END):
        for into in fed:
            into.feed([("end", end, at(end))])
    made = keystate.join_all(
        [keystate.keyed(s.source().withWatermark("time", "2 seconds"), "id") for s in fed],
        within=Time.milliseconds(500),
        how=how,
        earliest="begun",
    )
    assert made.columns[:2] == ["id", "begun"]
    windows = keystate.keyed(made, "id").window(TumblingEventTimeWindows.of(1000))
    found = fed[0].run(lambda _: windows.aggregate(F.count("*").alias("n")))
    times = {n: time for rows in streams for _, n, time in rows}
    expected: dict[Any, int] = {}
    for key, *numbers in of_sql(streams, 500, how):
        window = (key, min(times[n] for n in numbers if n is not None) // 1000)
        expected[window] = expected.get(window, 0) + 1
    assert {
        (row.id, int(row.window_start.timestamp())): row.n for row in found if row.id != "end"
    } == expected


@pytest.mark.parametrize("how", ["inner", "outer"])
def test_rows_are_kept_as_long_as_they_are_needed(
    how: Any, spark: Any, stream: Callable[..., Any]
) -> None:
    """Nothing is left of a key once the watermark has passed all that its rows could match."""
    fed = [stream(SCHEMA) for _ in range(3)]
    for batch in range(8):
        for i, into in enumerate(fed):
            times = range(1000 * batch + i, 1000 * batch + 1000, 100)
            into.feed([(key, t, at(t)) for t in times for key in ("a", f"only {batch}")])
    fed[0].run(lambda _: joined(*fed, how=how))
    # The watermark is 7,900 ms.
    kept = keystate.admin.read_state(spark, str(fed[0].checkpoint), state="_rows")
    rows = {row.key.id: row.value for row in kept.collect()}
    assert set(rows) == {"a", "only 7"} if how == "inner" else {"a", "only 6", "only 7"}
    for key in ("a", "only 7"):
        for stored in (rows[key]["_1"], rows[key]["_2"], rows[key]["_3"]):
            assert len(stored) in (5, 6)
            assert all(row.time.timestamp() * 1000 == row.n > 7400 for row in stored)
        assert (rows[key]["_gone"] is not None) == (how == "outer")
    if how == "outer":
        assert rows["only 6"]["_1"] is None


def test_rows_without_a_time_and_streams_of_key_and_time(stream: Callable[..., Any]) -> None:
    """A row without a time is joined with none; a stream may have no other columns."""
    one, two = stream("id string, time timestamp"), stream("key string, at timestamp, n long")
    one.feed([("a", at(1000)), ("b", None)])
    two.feed([("a", at(1200), 1), ("b", None, 2), ("c", at(1000), 3)])
    one.feed([("end", at(END))])
    two.feed([("end", at(END), 0)])

    def build(how: Any) -> Any:
        return keystate.join_all(
            [
                keystate.keyed(one.source().withWatermark("time", "0 seconds"), "id"),
                keystate.keyed(
                    two.source().withWatermark("at", "0 seconds"), F.col("key").alias("other")
                ),
            ],
            within=datetime.timedelta(seconds=1),
            how=how,
        )

    rows = [row for row in one.run(lambda _: build("outer")) if row.id != "end"]
    assert rows[0].__fields__ == ["id", "time", "key", "at", "n"]
    assert sorted([(row.id, row.time, row.at, row.n) for row in rows], key=repr) == [
        ("a", at(1000).replace(tzinfo=None), at(1200).replace(tzinfo=None), 1),
        ("b", None, None, 2),
        ("b", None, None, None),
        ("c", None, at(1000).replace(tzinfo=None), 3),
    ]
    one.feed([("end", at(END + 10))])
    two.feed([("d", None, 3), ("end", at(END + 10), 0)])
    assert {row.id for row in one.run(lambda _: build("inner"))} == {"end"}


def test_a_stream_is_joined_with_itself(spark: Any) -> None:
    df = spark.createDataFrame([("a", 1, at(0)), ("a", 2, at(100)), ("b", 3, at(0))], SCHEMA)
    keyed = keystate.keyed(df, "id")
    both = keystate.join_all([keyed, keyed], within=50, on=("time", "time"), suffixes=("", "_b"))
    found = sorted((row.id, row.n, row.n_b) for row in both.collect())
    assert found == [("a", 1, 1), ("a", 2, 2), ("b", 3, 3)]


#: Bounds in ms, whether each is exclusive, and how rows are joined.
INTERVALS = [
    (-300, 200, (False, False), "inner"),
    (-300, 200, (True, True), "left"),
    (100, 400, (False, True), "left"),
    (-400, -100, (True, False), "left"),
    (0, 0, (False, False), "left"),
]


def interval_of_sql(one: list[Row], two: list[Row], case: Any) -> list[tuple[Any, ...]]:
    lower, upper, (above, below), how = case
    sql = sqlite3.connect(":memory:")
    for name, rows in (("a", one), ("b", two)):
        sql.execute(f"CREATE TABLE {name} (id TEXT, n INTEGER, time INTEGER)")
        sql.executemany(f"INSERT INTO {name} VALUES (?, ?, ?)", rows)
    found = sql.execute(
        f"SELECT a.id, a.n, b.n FROM a {how} JOIN b ON a.id IS b.id AND "
        f"b.time - a.time {'>' if above else '>='} {lower} AND "
        f"b.time - a.time {'<' if below else '<='} {upper}"
    ).fetchall()
    return sorted(found, key=repr)


def interval(left: Any, right: Any, case: Any, **settings: Any) -> Any:
    lower, upper, (above, below), how = case
    join = keystate.keyed(left, "id").interval_join(keystate.keyed(right, "id"))
    return join.between(
        Time.milliseconds(lower),
        Time.milliseconds(upper),
        lower_exclusive=above,
        upper_exclusive=below,
        how=how,
        suffix="_2",
        **settings,
    )


@pytest.mark.parametrize("case", INTERVALS)
def test_tables_are_joined_within_an_interval_as_sql_does(case: Any, spark: Any) -> None:
    chance = random.Random(repr(case))
    streams = [drawn(chance, 80, 0, 3000) for _ in range(2)]
    left, right = (
        spark.createDataFrame([(key, n, at(t)) for key, n, t in each], SCHEMA) for each in streams
    )
    joined = interval(left, right, case, on="time")
    assert joined.columns == ["id", "n", "time", "n_2", "time_2"]
    expected = interval_of_sql(*streams, case)
    assert seen(joined.collect(), 2) == expected
    assert sum(None not in row[1:] for row in expected) > 2


@pytest.mark.turns
@pytest.mark.parametrize("case", INTERVALS)
@pytest.mark.parametrize(
    ("backends", "checkpoints"), [(("hashmap", "rocksdb"), "1"), (("auto", "hashmap"), "2")]
)
def test_streams_are_joined_within_an_interval_as_sql_does(
    case: Any,
    backends: tuple[str, str],
    checkpoints: str,
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    """Over restarts with other partitions; windows behind lose nothing; nothing is left behind."""
    chance = random.Random(repr((case, backends)))
    settings(**{FORMAT: checkpoints})
    fed = [stream(SCHEMA), stream(SCHEMA)]
    streams: list[list[Row]] = [[], []]
    found: list[Any] = []
    begin = 5000
    for partitions, backend in (("2", backends[0]), ("3", backends[1])):
        settings(**{"spark.sql.shuffle.partitions": partitions, "spark.keystate.backend": backend})
        for _ in range(3):
            for rows, into in zip(streams, fed):
                rows += feed_drawn(chance, into, 20, begin)
            begin += 1700
        if partitions == "3":
            feed_ends(fed, END, 2 * END, 3 * END)
        joined = interval(*(s.source().withWatermark("time", "2 seconds") for s in fed), case)
        windows = keystate.keyed(joined, "id").window(TumblingEventTimeWindows.of(1000))
        found += fed[0].run(lambda _, windows=windows: windows.aggregate(F.count("*").alias("n")))
    times = {n: time for _, n, time in streams[0]}
    expected: dict[Any, int] = {}
    for key, n, _ in interval_of_sql(*streams, case):
        window = (key, times[n] // 1000)
        expected[window] = expected.get(window, 0) + 1
    assert {
        (row.id, int(row.window_start.timestamp())): row.n for row in found if row.id != "end"
    } == expected
    operators = keystate.admin.inspect(str(fed[0].checkpoint), spark=spark)["operators"]
    [number] = [one["id"] for one in operators if "_rows" in repr(one)]
    left = keystate.admin.read_state(spark, str(fed[0].checkpoint), state="_rows", operator=number)
    assert {row.id for row in left.select("key.id").collect()} <= {"end"}


def test_intervals_that_do_not_fit_are_refused(spark: Any) -> None:
    table = spark.createDataFrame([], SCHEMA)
    with pytest.raises(DeclarationError, match="nothing is between 200000 and 100000 us"):
        interval(table, table, (200, 100, (False, False), "inner"))
    with pytest.raises(DeclarationError, match="how must be one of left, inner"):
        interval(table, table, (0, 100, (False, False), "outer"))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"how": "left"}, "how must be one of inner, outer"),
        ({"within": -1}, "negative"),
        ({"on": "n"}, "of type BIGINT"),
        ({"on": "when"}, "no column 'when'"),
        ({"on": ("time",)}, "on has one for each of the 2 streams"),
        ({"suffixes": ("", "")}, "named 'n'"),
        ({"earliest": "id"}, "named 'id'"),
    ],
)
def test_what_does_not_fit_is_refused(
    settings: dict[str, Any], told: str, stream: Callable[..., Any]
) -> None:
    left, right = stream(SCHEMA), stream(SCHEMA)
    with pytest.raises(DeclarationError, match=told):
        joined(left, right, **settings)


def test_inputs_that_do_not_fit_are_refused(
    spark: Any, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    df = stream(SCHEMA).source()
    marked = df.withWatermark("time", "0 seconds")
    table = spark.createDataFrame([], SCHEMA)

    def refused(told: str, *inputs: Any) -> None:
        with pytest.raises(DeclarationError, match=told):
            keystate.join_all(inputs, within=10)

    one = keystate.keyed(marked, "id")
    refused("two streams or more", one)
    refused("what keyed", one, df)
    refused("2. input has no watermark", one, keystate.keyed(df, "id"))
    refused("1. input has no watermark", *[keystate.keyed(table, "id")] * 2)
    refused("same types", one, keystate.keyed(marked, "n"))
    with pytest.raises(DeclarationError, match="all inputs are streams, or all are tables"):
        keystate.join_all([one, keystate.keyed(table, "id")], within=10, on="time")
    settings(**{"spark.sql.streaming.multipleWatermarkPolicy": "max"})
    refused("Set it to min", one, one)
