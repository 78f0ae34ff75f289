"""Rows combined before the shuffle: what comes of it in queries is what comes without it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import keystate
import pyspark.sql.functions as F
import pytest
from keystate import DeclarationError, agg

from tests.contract.aggregated import AGGREGATES, at, results

SCHEMA = "key struct<name:string,sub:double>, value long, time timestamp"
NAN = float("nan")
KEYS = [
    *[("a", 0.0), ("a", -0.0), ("a", NAN), ("a", None), ("", 1.5), (None, -NAN), (None, None)],
    None,
]
BACKEND = "spark.keystate.backend"
#: Several messages to combine in a task, and one.
SMALL = {"spark.sql.execution.arrow.maxRecordsPerBatch": "7"}
LARGE = {"spark.sql.execution.arrow.maxRecordsPerBatch": "1000"}


def batch(chance: random.Random, n: int) -> list[Any]:
    """Half of the rows have one key."""
    return [
        (
            chance.choice([KEYS[0], chance.choice(KEYS)]),
            chance.choice([None, chance.randrange(100)]),
            at(chance.randrange(10**9)),
        )
        for _ in range(n)
    ]


def grouped(key: Any) -> str:
    """The key as Spark groups by it: zeros are one, and so are NaNs."""
    if key is None:
        return "None"
    return repr((key[0], None if key[1] is None else str(key[1] + 0.0)))


def added(a: Any, b: Any) -> Any:
    return a.key, a.value + b.value, max(a.time, b.time), a.one


#: For each restart: whether rows are combined, and settings.
LIVES: list[tuple[bool, dict[str, str]]] = [
    (combine, {BACKEND: backend, "spark.sql.shuffle.partitions": partitions, **messages})
    for combine, backend, partitions, messages in [
        (False, "hashmap", "2", LARGE),
        (True, "hashmap", "3", SMALL),
        (False, "rocksdb", "1", SMALL),
        (True, "rocksdb", "2", LARGE),
    ]
]


def test_a_query_that_reduces_may_change_it_at_a_restart(
    stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """With other backends and partitions too. A watermark that nothing goes by is none after it."""
    chance, fed = random.Random(1), stream(SCHEMA)
    whole: dict[str, Any] = {}
    for combine, life in LIVES:
        settings(**life)
        batches = [[(k, v or 0, t) for k, v, t in batch(chance, 60)] for _ in range(2)]
        fed.feed(*batches)
        rows = fed.source().withWatermark("time", "1 second").withColumn("one", F.lit(1))
        out = keystate.keyed(rows, "key").reduce(added, time_mode="none", combine=combine)
        assert [field.metadata == {} for field in out.schema] == [True, True, combine, True]
        for rows, emitted in zip(batches, fed.micro_batches(out), strict=True):
            for key, value, time in rows:
                total, latest = whole.get(grouped(key), (0, time))
                whole[grouped(key)] = total + value, max(latest, time)
            keys = {grouped(row[0]) for row in rows}
            last = {grouped(row.key): (row.value, row.time) for row in emitted}
            assert last == {key: whole[key] for key in keys}
            assert len(emitted) < len(rows) if combine else len(emitted) == len(rows)


def test_a_query_that_aggregates_may_change_it_at_a_restart(
    stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """A column may be key and aggregated."""
    chance, fed = random.Random(1), stream(SCHEMA)
    whole: dict[str, list[Any]] = {}
    for combine, life in LIVES:
        settings(**life)
        batches = [batch(chance, 60) for _ in range(2)]
        fed.feed(*batches)
        rows = fed.source().withColumn("a.b", F.length("key.name") % 2)
        out = keystate.keyed(rows, "key", "`a.b`").aggregate(
            *AGGREGATES, agg.max("a.b").alias("most"), combine=combine
        )
        for rows, emitted in zip(batches, fed.micro_batches(out, "update"), strict=True):
            for key, value, _ in rows:
                whole.setdefault(grouped(key), []).append(value)
            expected = {key: results(whole[key]) for key in {grouped(row[0]) for row in rows}}
            assert all(row["a.b"] == row.most for row in emitted)
            assert {grouped(row[0]): tuple(row)[2:-1] for row in emitted} == expected
            assert len(emitted) == len(expected)


def test_batches_of_all_types(spark: Any, settings: Callable[..., None]) -> None:
    """A column that nobody looks at stays what it is, also in another zone."""
    settings(**{**SMALL, "spark.sql.session.timeZone": "Asia/Tokyo"})
    rows = spark.range(40).selectExpr(
        "id % 3 AS `k.k`",
        "id AS n",
        "array(double('nan'), -0.0D, null) AS `a.b`",
        "timestamp_seconds(1700000000) AS at",
        "map('x', timestamp_seconds(1700000000)) AS map",
        "array(named_struct('q', date'2020-01-01', 'at', timestamp_seconds(0))) AS structs",
        "interval '3' day AS days",
        "1.50BD AS price",
        "binary('x') AS bytes",
        "timestamp_ntz'2020-01-01' AS naive",
        "null AS nothing",
        "true AS yes",
        "float(0.1) AS f",
        "tinyint(4) AS b",
    )

    def total(a: Any, b: Any) -> Any:
        return {**a.asDict(), "n": a.n + b.n}

    stream = keystate.keyed(rows, "`k.k`")
    for build in (
        lambda combine: stream.reduce(total, combine=combine),
        lambda combine: stream.aggregate(
            agg.sum("n"),
            *(agg.first(name) for name in rows.columns if name not in ("n", "k.k")),
            combine=combine,
        ),
    ):
        plain, combined = (sorted(map(repr, build(each).collect())) for each in (False, True))
        assert plain == combined and len(plain) == 3
        assert build(True).schema == build(False).schema


def test_keys_are_told_by_names(spark: Any) -> None:
    rows = spark.createDataFrame([(1, 2)], "key long, x long")
    for key in (F.col("key"), rows.key, F.col("key") % 2, "KEY"):
        stream = keystate.keyed(rows, key)
        with pytest.raises(DeclarationError, match="combine=True needs the key columns by their"):
            stream.reduce(added, combine=True)
        with pytest.raises(DeclarationError, match="combine=True needs the key columns by their"):
            stream.aggregate(agg.count(), combine=True)


def test_functions_fail_with_the_key(spark: Any) -> None:
    rows = spark.createDataFrame([(1, 2), (1, 3), (1, 0)], "key long, x long").coalesce(1)
    out = keystate.keyed(rows, "key").reduce(lambda a, b: (a.key, a.x // b.x), combine=True)
    with pytest.raises(Exception, match=r"KEYSTATE_FUNCTION_FAILED.*ZeroDivision[\s\S]*x=0"):
        out.collect()


def test_a_batch_is_replayed_as_it_was_combined(spark: Any, stream: Callable[..., Any]) -> None:
    fed = stream("key string, value long")
    fed.feed([("a", 1), ("a", 2), ("b", 3)], [("a", 4), ("a", 5)])
    keyed = keystate.keyed(fed.source(), "key")
    out = keyed.reduce(lambda a, b: (a.key, a.value + b.value), combine=True)
    assert [sorted(map(tuple, rows)) for rows in fed.micro_batches(out)] == [
        [("a", 3), ("b", 3)],
        [("a", 12)],
    ]
    made = keystate.replay(out, str(fed.checkpoint), key="a", batch=1)
    assert made.same, str(made)
    assert [row.value for step in made for row in step.emitted] == [12]
