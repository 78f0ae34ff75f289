"""MATCH_RECOGNIZE: against published examples and a plain model, on streams and tables."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from typing import Any

import keystate
import pytest
from keystate.errors import DeclarationError

ORDERS = "customer_id string, order_date timestamp, price long"
ZONE = datetime.timezone.utc
END = 10**6

#: The orders of Trino's page on row patterns, by day, as facts.
TRINO = [
    ("cust_1", "2020-05-11", 100),
    ("cust_1", "2020-05-12", 200),
    ("cust_2", "2020-05-13", 8),
    ("cust_1", "2020-05-14", 100),
    ("cust_2", "2020-05-15", 4),
    ("cust_1", "2020-05-16", 50),
    ("cust_1", "2020-05-17", 100),
    ("cust_2", "2020-05-18", 6),
]


def at(seconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, ZONE)


@pytest.fixture
def orders(spark: Any) -> Any:
    rows = [(c, datetime.datetime.fromisoformat(f"{d}T12:00:00+00:00"), p) for c, d, p in TRINO]
    return spark.createDataFrame(rows, ORDERS)


def rows(df: Any, text: str) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, keystate.match_recognize(df, text).collect()), key=str)


V = """
    PARTITION BY customer_id ORDER BY order_date
    MEASURES A.price AS starting_price, LAST(B.price) AS bottom_price, LAST(U.price) AS top_price
    ONE ROW PER MATCH
    AFTER MATCH SKIP PAST LAST ROW
    PATTERN (A B+ C+ D+)
    SUBSET U = (C, D)
    DEFINE
        B AS price < PREV(price),
        C AS price > PREV(price) AND price <= A.price, -- with a comment
        D AS price > PREV(price)
"""


def test_a_fall_and_a_rise(orders: Any) -> None:
    found = keystate.match_recognize(orders, V.replace("C+ D+", "(C | D)+"))
    assert found.columns == ["customer_id", "starting_price", "bottom_price", "top_price"]
    assert sorted(map(tuple, found.collect())) == [("cust_1", 200, 50, 100), ("cust_2", 8, 4, 6)]


def test_all_rows_with_running_and_final(orders: Any) -> None:
    text = """
        PARTITION BY customer_id ORDER BY order_date
        MEASURES CLASSIFIER() AS cl, MATCH_NUMBER() AS mno, RUNNING LAST(price) AS now,
            FINAL LAST(B.price) AS bottom, count(*) AS n, FINAL count(B.*) AS b, sum(price) AS s,
            PREV(B.price, 1) AS before, FIRST(price, 1) AS second, LAST(price, 1) AS last_but
        ALL ROWS PER MATCH
        PATTERN (A B+) DEFINE B AS price < PREV(price)
    """
    found = keystate.match_recognize(orders.where("customer_id = 'cust_1'"), text)
    assert found.columns[:4] == ["customer_id", "order_date", "cl", "mno"]
    assert found.columns[-1] == "price"
    told = [tuple(row)[2:-1] for row in found.orderBy("order_date").collect()]
    assert told == [
        ("A", 1, 200, 50, 1, 2, 200, None, None, None),
        ("B", 1, 100, 50, 2, 2, 300, 200, 100, 200),
        ("B", 1, 50, 50, 3, 2, 350, 100, 100, 100),
    ]


def test_empty_matches_and_unmatched_rows(orders: Any) -> None:
    text = """
        ORDER BY order_date MEASURES MATCH_NUMBER() AS m, CLASSIFIER() AS c, count(B.*) AS n
        {} PATTERN (B*) DEFINE B AS price >= 100
    """
    df = orders.where("customer_id = 'cust_1'")
    told = [tuple(row) for row in keystate.match_recognize(df, text.format("")).collect()]
    assert told == [(1, "B", 3), (2, None, 0), (3, "B", 1)]
    shown = keystate.match_recognize(df, text.format("ALL ROWS PER MATCH")).collect()
    assert [(row.m, row.c, row.n, row.price) for row in shown] == [
        (1, "B", 1, 100), (1, "B", 2, 200), (1, "B", 3, 100), (2, None, 0, 50), (3, "B", 1, 100),
    ]  # fmt: skip
    left = keystate.match_recognize(df, text.format("ALL ROWS PER MATCH OMIT EMPTY MATCHES"))
    assert [row.m for row in left.collect()] == [1, 1, 1, 3]
    unmatched = text.replace("(B*)", "(B+)").format("ALL ROWS PER MATCH WITH UNMATCHED ROWS")
    found = keystate.match_recognize(df, unmatched).collect()
    assert [(row.m, row.n, row.price) for row in found][3:] == [(None, None, 50), (2, 1, 100)]


DEFINED = {"B": "B AS price < PREV(price)", "C": "C AS price > PREV(price)"}


@pytest.mark.parametrize(
    ("pattern", "skip", "expected"),
    [
        ("A B*", "PAST LAST ROW", ["ABB", "ABB"]),
        ("A B*?", "PAST LAST ROW", ["A", "A", "A", "A", "A", "A"]),
        ("A B*? C", "PAST LAST ROW", ["ABBC"]),
        ("(A | B) B?", "PAST LAST ROW", ["AB", "A", "AB", "A"]),
        ("A B{2}", "TO NEXT ROW", ["ABB", "ABB"]),
        ("A B+", "TO LAST B", ["ABB", "ABB"]),
        ("B{1,}", "PAST LAST ROW", ["BB", "BB"]),
    ],
)
def test_preference(pattern: str, skip: str, expected: list[str], spark: Any) -> None:
    """Of 3 2 1 3 2 1, in which B is less than the row before and C is more."""
    data = [("x", at(i), price) for i, price in enumerate([3, 2, 1, 3, 2, 1])]
    text = f"""
        PARTITION BY customer_id ORDER BY order_date
        MEASURES count(*) AS n AFTER MATCH SKIP {skip} PATTERN ({pattern})
        DEFINE {", ".join(text for name, text in DEFINED.items() if name in pattern)}
    """
    df = spark.createDataFrame(data, ORDERS)
    found = keystate.match_recognize(df, text).collect()
    assert [row.n for row in found] == [len(letters) for letters in expected]


def bursts(data: list[tuple[str, int, int]]) -> list[tuple[str, int, int, int]]:
    """Three or more rows within 5 s, each of more than the average of those before."""
    found = []
    for user in "ab":
        own = sorted((t, p) for u, t, p in data if u == user)
        i = 0
        while i < len(own):
            taken = [own[i]]
            for t, p in own[i + 1 :]:
                if t - own[i][0] >= 5 or p <= sum(q for _, q in taken) / len(taken):
                    break
                taken.append((t, p))
            if len(taken) >= 3:
                found.append((user, own[i][0], len(taken), taken[-1][1]))
                i += len(taken)
            else:
                i += 1
    return sorted(found)


BURST = """
    PARTITION BY customer_id ORDER BY order_date
    MEASURES FIRST(order_date) AS began, count(*) AS n, LAST(up.price) AS price
    PATTERN (first_one up{2,}) WITHIN INTERVAL '5' SECOND
    DEFINE up AS price > (first_one.price + coalesce(sum(up.price) - price, 0)) / count(up.*)
"""


@pytest.mark.parametrize("backends", [("hashmap", "rocksdb"), ("auto", "hashmap")])
def test_streams_are_matched(
    backends: tuple[str, str], spark: Any, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """Each match once, over restarts with other partitions and backends."""
    chance = random.Random(str(backends))
    events = stream(ORDERS)
    data: list[tuple[str, int, int]] = []
    found: list[Any] = []
    begin = 10
    for partitions, backend in (("2", backends[0]), ("3", backends[1]), ("1", backends[0])):
        settings(**{"spark.sql.shuffle.partitions": partitions, "spark.keystate.backend": backend})
        for _ in range(3):
            some = [
                (user, t, chance.randrange(20)) for user in "ab" for t in range(begin, begin + 15)
            ]
            chance.shuffle(some)
            data += some
            events.feed([(u, at(t), p) for u, t, p in some])
            begin += 15
        if partitions == "1":
            events.feed([("end", at(END), 0)], [("end", at(2 * END), 0)])
        found += events.run(
            lambda df: keystate.match_recognize(df.withWatermark("order_date", "20 seconds"), BURST)
        )
    expected = bursts(data)
    told = [(r.customer_id, round(r.began.timestamp()), r.n, r.price) for r in found]
    assert sorted(told) == expected
    assert len(expected) > 10
    table = spark.createDataFrame([(u, at(t), p) for u, t, p in data], ORDERS)
    whole = keystate.match_recognize(table, BURST).collect()
    told = [(r.customer_id, round(r.began.timestamp()), r.n, r.price) for r in whole]
    assert sorted(told) == expected


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("PATTERN (A B+ C+ D+)", ""), "there is no PATTERN"),
        (("A B+ C+ D+", "A B+ (C"), "there is no DEFINE"),
        (("A B+ C+ D+", "A B+ $"), "anchors are not supported"),
        (("A B+ C+ D+", "PERMUTE(A, B)"), "PERMUTE is not supported"),
        (("B AS price", "X AS price"), "DEFINE names 'X'"),
        (("SUBSET U = (C, D)", "SUBSET U = (C, X)"), "SUBSET U names 'X'"),
        (("PREV(price),", "NEXT(price),"), "NEXT looks at rows that have not come"),
        (("PAST LAST ROW", "PAST NEXT ROW"), "AFTER MATCH SKIP PAST NEXT ROW"),
        (("D AS price > PREV(price)", "D AS FINAL LAST(price) > 1"), "FINAL and RUNNING are for"),
        (("A.price AS starting_price", "A.price"), "has no name"),
        (("A.price AS starting_price", "sum(A.price + B.price) AS x"), "over rows of 'A' and 'B'"),
    ],
)
def test_what_makes_no_sense_is_refused(change: tuple[str, str], told: str, orders: Any) -> None:
    with pytest.raises(DeclarationError, match=told):
        keystate.match_recognize(orders, V.replace(*change))
