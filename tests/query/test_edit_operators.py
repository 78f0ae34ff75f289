"""Queries of several stateful operators go on from edited and from built checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from keystate import CheckpointError, DeclarationError, ValueStateDescriptor, admin
from keystate._jvm.session import FORMAT_KEY
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.query.test_edit import Count, counts

ROWS = "id long, n long"
FIRST = [(i % 7, i // 2) for i in range(40)]
REST = [(i % 9, i // 3) for i in range(30, 60)]


HEAP = {FORMAT_KEY: "1", "spark.keystate.backend": "hashmap"}
ROCKSDB = {FORMAT_KEY: "2", "spark.keystate.backend": "rocksdb"}


@pytest.fixture
def half(stream: Callable[..., Any]) -> Callable[..., Any]:
    """Runs a query over the first rows; and another one over all, which tells what follows."""

    def made(first: Callable[[Any], Any], then: Callable[[Any], Any]) -> tuple[Any, list[Any]]:
        half, whole = stream(ROWS), stream(ROWS)
        half.feed(FIRST)
        half.run(first)
        whole.feed(FIRST)
        whole.run(then)
        whole.feed(REST)
        return half, sorted(whole.run(then))

    return made


def chain(time_mode: str) -> Callable[[Any], Any]:
    """From the sink to the source: operator 0 counts parities, 1 ids, and 2 is Spark's own."""

    def build(df: Any) -> Any:
        distinct = df.dropDuplicates(["id", "n"])
        ids = counts(distinct, "id", time_mode=time_mode, name="id-counts")
        return counts(ids.select((F.col("count") % 2).alias("parity")), "parity")

    return build


def test_any_operator_is_edited(
    spark: Any, half: Callable[..., Any], settings: Callable[..., None], tmp_path: Path
) -> None:
    settings(**HEAP)
    fed, expected = half(chain("none"), chain("processing_time"))
    editor = admin.edit(str(fed.checkpoint))
    with pytest.raises(CheckpointError, match="tell which operator by operator="):
        editor.read("count")
    assert editor.operators == {0: ["count", "$timers"], 1: ["count", "$timers"]}
    editor.set_max_parallelism(77, operator=1)
    editor.set_time_mode("processing_time", operator=1)
    with pytest.raises(DeclarationError, match="time_mode must be one of"):
        editor.set_time_mode("auto", operator=1)
    target = tmp_path / "edited"
    editor.write(str(target))
    edited = admin.inspect(str(target))["operators"][1]
    assert (edited["name"], edited["max_parallelism"]) == ("id-counts", 77)
    assert admin.verify(str(target)) == []
    before = admin.read_state(spark, str(fed.checkpoint), state="count", operator=1)
    after = admin.read_state(spark, str(target), state="count", operator=1)
    assert sorted(before.drop("partition_id").collect()) == sorted(
        after.drop("partition_id").collect()
    )
    fed.checkpoint = target
    fed.feed(REST)
    assert sorted(fed.run(chain("processing_time"))) == expected


def ids(df: Any) -> Any:
    return counts(df, "id")


def odd(df: Any) -> Any:
    return counts(df, (F.col("n") % 2 == 1).alias("odd"))


def seen(df: Any) -> Any:
    return df.dropDuplicates(["id"]).selectExpr("'seen' as key", "id as count")


def names(df: Any) -> Any:
    return counts(df, F.concat(F.lit("n"), "id").alias("name"))


def union(*made: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The first is operator 0."""
    return lambda df: reduce(DataFrame.union, [one(df) for one in made])


@pytest.mark.parametrize("backend", [HEAP, ROCKSDB], ids=["hashmap", "rocksdb"])
def test_operators_are_moved_dropped_and_added(
    backend: dict[str, str],
    spark: Any,
    half: Callable[..., Any],
    settings: Callable[..., None],
    tmp_path: Path,
) -> None:
    settings(**backend)
    changed = union(odd, names, seen)
    fed, expected = half(union(ids, seen, odd), changed)
    editor = admin.edit(str(fed.checkpoint))
    assert list(editor.operators) == [0, 2]
    rows = spark.createDataFrame(FIRST, ROWS).selectExpr("concat('n', id) as name")
    by_name = rows.groupBy("name").agg(F.count("*").alias("value"))
    named = editor.add_operator(Count(), key="name string")
    with pytest.raises(CheckpointError, match="'count' of operator 3 has no rows yet"):
        editor.read("count", operator=named)
    with pytest.raises(DeclarationError, match=r"each of the operators \[0, 1, 2, 3\] once"):
        editor.order_operators([2, 0])
    with pytest.raises(DeclarationError, match="has no state 'none', it has count"):
        editor.add_operator(Count(), key="id long", states={"none": rows})
    with pytest.raises(DeclarationError, match="has a state 'count' already"):
        editor.add(ValueStateDescriptor("count", "long"), by_name, operator=named)
    editor.replace("count", by_name, operator=named)
    editor.drop_operator(0)
    editor.order_operators([2, named, 1])
    assert list(editor.operators) == [2, named]
    with pytest.raises(CheckpointError, match=r"no operator 0: those in .* are 2, 3, 1"):
        editor.drop_operator(0)
    fed.checkpoint = tmp_path / "edited"
    editor.write(str(fed.checkpoint))
    assert admin.verify(str(fed.checkpoint)) == []
    found = admin.inspect(str(fed.checkpoint))["operators"]
    assert [one["keystate"] for one in found] == [True, True, False]
    fed.feed(REST)
    assert sorted(fed.run(changed)) == expected


def test_a_query_of_several_operators_is_built(
    spark: Any, half: Callable[..., Any], settings: Callable[..., None], tmp_path: Path
) -> None:
    settings(**ROCKSDB)

    def two(df: Any) -> Any:
        return counts(ids(df).select((F.col("count") % 2).alias("parity")), "parity")

    fed, expected = half(two, two)
    builder = admin.build(partitions=3)
    with pytest.raises(DeclarationError, match="one operator at least"):
        builder.write(str(tmp_path / "built"))
    for number, key in enumerate(("parity long", "id long")):
        state = admin.read_state(spark, str(fed.checkpoint), state="count", operator=number)
        assert builder.add_operator(Count(), key=key, states={"count": state}) == number
    built = tmp_path / "built"
    builder.write(str(built))
    assert admin.verify(str(built)) == []
    assert [len(one["partitions"]) for one in admin.inspect(str(built))["operators"]] == [3, 3]
    # A built checkpoint has no offsets: the query reads its source from the start.
    fed.checkpoint = built
    for file in fed._input.iterdir():
        file.unlink()
    fed.feed(REST)
    assert sorted(fed.run(two)) == expected


@pytest.mark.parametrize("mode", ["auto", "processing_time"])
def test_an_operator_takes_the_time_mode_of_the_first_query(
    mode: str, spark: Any, stream: Callable[..., Any], tmp_path: Path
) -> None:
    """One that was made with a time mode keeps it, and so does one that a query has had."""

    def build(time_mode: str) -> Callable[[Any], Any]:
        return lambda df: counts(
            df.selectExpr("*", "timestamp_seconds(n) AS at").withWatermark("at", "0 seconds"),
            "id",
            time_mode=time_mode,
        )

    state = spark.createDataFrame([(1, 10)], "id long, value long")
    for made in ("auto", "none"):
        fed = stream(ROWS)
        fed.checkpoint = tmp_path / made
        options = {} if made == "auto" else {"time_mode": made}
        admin.create(
            str(fed.checkpoint), Count(), key="id long", states={"count": state}, **options
        )
        if made == "auto":  # An edit does not choose one.
            editor = admin.edit(str(fed.checkpoint))
            editor.set_max_parallelism(64)
            fed.checkpoint = tmp_path / "edited"
            editor.write(str(fed.checkpoint))
        fed.feed([(1, 1)])
        if made == "none":
            with pytest.raises(StreamingQueryException, match="KEYSTATE_TIME_MODE_CHANGED"):
                fed.run(build(mode))
            continue
        assert [row["count"] for row in fed.run(build(mode))] == [11]
        fed.feed([(1, 2)])
        with pytest.raises(StreamingQueryException, match="KEYSTATE_TIME_MODE_CHANGED"):
            fed.run(build("none"))
        assert [row["count"] for row in fed.run(build(mode))] == [12]
