"""Rows that come sorted: ``keyed(df, "key", order_by=...)``, in queries and in the harness."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import keystate
import pytest
from keystate import DeclarationError, KeyedProcessFunction, ListStateDescriptor
from keystate.testing import KeyedProcessHarness
from pyspark.sql import functions as F

SCHEMA = "key string, ts long, x double"


class Seen(KeyedProcessFunction):
    """Emits what it has seen of the key so far."""

    def open(self, ctx: Any) -> None:
        self.seen = ctx.get_list_state(ListStateDescriptor("seen", "long"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.seen.add(row.ts)
        yield row.key, list(self.seen)


def shuffled(size: int, seed: int, first: int = 0) -> list[tuple[str, int, float]]:
    rows = [(f"key-{i % 7}", first + i, float(i)) for i in range(size)]
    random.Random(seed).shuffle(rows)
    return rows


def longest(emitted: list[Any]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for key, seen in emitted:
        found[key] = max(found.get(key, []), seen, key=len)
    return found


def test_rows_of_a_micro_batch_are_sorted(stream: Callable[..., Any]) -> None:
    fed = stream(SCHEMA)
    # The second batch has earlier times than the first: the order is that within a batch.
    later, earlier = shuffled(500, 1, first=1000), shuffled(500, 2)
    fed.feed(later, earlier)
    emitted = fed.run(
        lambda df: keystate.keyed(df.repartition(3), "key", order_by="ts").process(
            Seen(), "key string, seen array<long>"
        )
    )
    expected: dict[str, list[int]] = {}
    for batch in (later, earlier):
        for key, time, _ in sorted(batch, key=lambda row: row[1]):
            expected.setdefault(key, []).append(time)
    assert longest(emitted) == expected


@pytest.mark.parametrize(
    "order, expected",
    [
        (lambda: "x", [4, 0, 2, 1, 3]),
        (lambda: ["x", F.desc("ts")], [4, 2, 0, 1, 3]),
        (lambda: F.col("x").desc_nulls_last(), [3, 1, 0, 2, 4]),
        (lambda: [F.col("ts") % 2, "ts"], [0, 2, 4, 1, 3]),
    ],
)
def test_the_order_of_columns_and_expressions(spark: Any, order: Any, expected: list[int]) -> None:
    rows = [("k", 4, None), ("k", 3, float("nan")), ("k", 0, 1.0), ("k", 1, 5.0), ("k", 2, 1.0)]
    # One partition, so that rows that are equal in the order stay as they are: sorting is stable.
    df = spark.createDataFrame(rows, SCHEMA).coalesce(1)
    found = keystate.keyed(df, "key", order_by=order()).map(lambda row: row.ts, "ts long").collect()
    assert [row.ts for row in found] == expected


def test_the_harness_sorts_alike() -> None:
    rows = [("k", 4, None), ("k", 3, float("nan")), ("k", 0, 1.0), ("k", 1, 5.0), ("k", 2, 1.0)]
    cases: list[tuple[Any, list[int]]] = [
        ("x", [4, 0, 2, 1, 3]),
        (["x", "ts"], [4, 0, 2, 1, 3]),
        ("ts", [0, 1, 2, 3, 4]),
    ]
    for order, expected in cases:
        with KeyedProcessHarness(
            Seen(), SCHEMA, "key", "key string, seen array<long>", order_by=order
        ) as harness:
            assert harness.process_batch(rows)[-1].seen == expected
            snapshot = harness.snapshot()
        with KeyedProcessHarness.restore(snapshot, Seen()) as harness:
            assert harness.process_batch(rows)[-1].seen == expected * 2


def test_only_those_who_ask_sort(spark: Any) -> None:
    df = spark.createDataFrame([("k", 1, 1.0)], SCHEMA)

    def plan(**options: Any) -> str:
        out = keystate.keyed(df, "key", **options).map(lambda row: row.ts, "long")
        return str(out._jdf.queryExecution().executedPlan())

    assert "Sort [ts" in plan(order_by="ts")
    assert "Sort" not in plan()


@pytest.mark.parametrize(
    "order, message",
    [
        (F.rand, "can't be sorted by"),
        (F.monotonically_increasing_id, "can't be sorted by"),
        (lambda: 3, "expected the name of a column or a Column, got 3"),
    ],
)
def test_what_is_no_order(spark: Any, order: Any, message: str) -> None:
    df = spark.createDataFrame([("k", 1, 1.0)], SCHEMA)
    with pytest.raises(DeclarationError, match=message) as error:
        keystate.keyed(df, "key", order_by=[order()]).map(lambda row: row.ts, "long")
    assert error.value.code == "KEYSTATE_DECLARATION"
