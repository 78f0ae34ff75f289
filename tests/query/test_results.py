"""What a function may return, and what becomes of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import keystate
import pytest
from keystate import KeyedProcessFunction, OutputTypeError, ValueStateDescriptor
from pyspark.errors import PythonException
from pyspark.sql import Row
from pyspark.sql import functions as sf


@dataclass
class Pair:
    a: int
    b: str


@dataclass
class Holder:
    value: Any


def emitted(spark: Any, results: list[Any], schema: Any) -> list[Any]:
    """What a function that yields these emits."""
    df = spark.createDataFrame([(1,)], "key long")
    out = keystate.keyed(df, "key").flat_map(lambda row: results, schema).collect()
    return [row[0] if len(row) == 1 else tuple(row) for row in out]


def test_one_column_takes_bare_values_and_rows(spark: Any) -> None:
    rows = [5, (5,), Row(value=5), {"value": 5}, Holder(5)]
    assert emitted(spark, rows, "value long") == [5] * 5
    assert emitted(spark, [None, (None,), {}], "value long") == [None] * 3
    assert emitted(spark, ["ab", ("ab",)], "string") == ["ab"] * 2
    lists = [[1, 2], ([1, 2],), {"value": [1, 2]}]
    assert emitted(spark, lists, "value array<int>") == [[1, 2]] * 3


def test_one_column_whose_values_look_like_rows(spark: Any) -> None:
    pair = "value struct<a: long, b: string>"
    pairs = [(1, "x"), {"a": 1, "b": "x"}, Pair(1, "x"), ((1, "x"),), {"value": (1, "x")}]
    assert emitted(spark, [*pairs, Holder(Pair(1, "x"))], pair) == [Row(a=1, b="x")] * 6
    maps = [{"a": 1}, ({"a": 1},), {"value": {"a": 1}}, Holder({"a": 1})]
    assert emitted(spark, maps, "value map<string, long>") == [{"a": 1}] * 4
    assert emitted(spark, [{"value": 1}], "value map<string, long>") == [{"value": 1}]


def test_fields_by_name(spark: Any) -> None:
    rows = [Row(b="x", a=1), {"b": "x", "a": 1}, Pair(1, "x"), (1, "x"), Row(c=1, d="x")]
    assert emitted(spark, rows, "a long, b string") == [(1, "x")] * 5
    assert emitted(spark, [{"b": "x"}], Pair) == [(None, "x")]


@pytest.mark.parametrize(
    "result, schema, message",
    [
        ("x", "a long, b string", "expected struct<a:bigint,b:string>, got str 'x'"),
        (None, "a long, b string", "got NoneType None"),
        ((1, 2), "a long, b string", "expected string at field 'b', got int 2"),
        ((1,), "a long, b string", "(2 fields), got tuple (1,)"),
        ({"a": 1, "c": 2}, "a long, b string", "which has no field 'c'"),
        (True, "value long", "expected bigint at field 'value', got bool True"),
        ((None,), "value long not null", "expected bigint, not null, at field 'value'"),
        ((1, {"k": None}), "a int, m map<string, struct<x: int not null>>", None),
        ((1, {"k": (None,)}), "a int, m map<string, struct<x: int not null>>", "not null, at"),
    ],
)
def test_results_that_do_not_fit(spark: Any, result: Any, schema: str, message: str | None) -> None:
    if message is None:
        assert emitted(spark, [result], schema) == [result]
        return
    with pytest.raises(PythonException) as failure:
        emitted(spark, [result], schema)
    assert OutputTypeError.__name__ in str(failure.value)
    assert message in str(failure.value)


def test_reduce_of_one_column(spark: Any) -> None:
    df = spark.createDataFrame([(2,), (3,), (2,)], "x long").coalesce(1)
    largest = keystate.keyed(df, sf.lit(1)).reduce(lambda a, b: max(a.x, b.x))
    assert largest.collect() == [(3,)]
    with pytest.raises(PythonException, match=r"reduce\(\) returned None"):
        keystate.keyed(df, sf.lit(1)).reduce(lambda a, b: None).collect()


class Numbers(KeyedProcessFunction):
    """Emits the row's number among those of its key, and the row."""

    def open(self, ctx: Any) -> None:
        self.last = ctx.get_state(ValueStateDescriptor("last", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.last.update(self.last.value() + 1)
        yield row.id % 10, self.last.value()


def test_what_spark_does_with_the_result(spark: Any) -> None:
    df = spark.range(0, 1000, 1, 2)
    out = keystate.keyed(df, sf.col("id") % 10).process(Numbers(), "key long, n long")
    # A task that is not read to its end.
    assert len(out.limit(3).collect()) == 3
    assert out.first() is not None
    # Key by key in one stage, without a shuffle between the two.
    again = keystate.keyed(out, "key").filter(lambda row: row.n <= 2)
    assert again.count() == 20
    assert out.union(out).count() == 2000
    cached = out.cache()
    assert cached.count() == cached.distinct().count() == 1000
    cached.unpersist()
    best = out.groupBy("key").agg(sf.max("n").alias("n"))
    assert out.join(best, ["key", "n"]).count() == 10
    assert "KeyedProcess" in out._jdf.queryExecution().toString()
