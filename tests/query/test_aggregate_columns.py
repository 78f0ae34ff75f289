"""What columns with aggregate functions may be, and what they may not."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import keystate
import pandas as pd
import pyspark.sql.functions as F
import pytest
from keystate import DeclarationError
from keystate.windows import TumblingEventTimeWindows
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.sql.window import Window

from tests.aggregate_functions import REFUSED

SCHEMA = "k int, n long, s string, b boolean, t timestamp"


@F.udf(T.LongType())
def doubled(value: Any) -> Any:
    return None if value is None else 2 * value


@F.pandas_udf(T.BooleanType())
def is_even(values: pd.Series) -> pd.Series:
    return values % 2 == 0


@F.pandas_udf(T.DoubleType())
def mean(values: pd.Series) -> float:
    return values.mean()


def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([], SCHEMA)


@pytest.mark.parametrize("name", REFUSED)
def test_functions_that_are_refused(name: str, spark: SparkSession) -> None:
    """By Spark or by Keystate, but not by an error that tells of neither."""
    try:
        spark.sql(f"DESCRIBE FUNCTION {name.partition('_distinct')[0]}").collect()
    except AnalysisException:
        pytest.skip("this Spark has no such function")
    if "(DISTINCT" in REFUSED[name]:
        error, told = DeclarationError, r"'c' can't be aggregated.*DISTINCT needs all values"
    elif name == "measure":
        error, told = DeclarationError, "'c' can't be aggregated.*measure has no buffers"
    else:
        error, told = AnalysisException, r"grouping\(\)/grouping_id\(\)"
    columns = [F.expr(REFUSED[name]).alias("c")]
    if hasattr(F, name):
        argument = () if name == "grouping_id" else ("k",)
        columns.append(getattr(F, name)(*argument).alias("c"))
    for column in columns:
        with pytest.raises(error, match=told):
            keystate.keyed(rows(spark), "k").aggregate(column)


WRONG: dict[str, tuple[Callable[[], list[Column]], str]] = {
    "in Python": (lambda: [mean("n").alias("c")], "'c' can't be.*mean is an aggregate function in"),
    "a window function": (
        lambda: [F.sum(F.sum("n")).over(Window.partitionBy("k")).alias("c")],
        "there is a window function in it",
    ),
    "a rank": (
        lambda: [F.row_number().over(Window.partitionBy("k").orderBy("k")).alias("c")],
        "there is a window function in it",
    ),
    "rows": (
        lambda: [F.explode(F.collect_list("n")).alias("c")],
        "a function that makes rows, such as explode",
    ),
    "one name": (
        lambda: [F.sum("n").alias("c"), F.max("n").alias("C")],
        "Two aggregates are named 'C'",
    ),
    "one call": (lambda: [F.sum("n"), F.sum("n")], r"Two aggregates are named 'sum\(n\)'"),
    "the key": (lambda: [F.sum("n").alias("K")], "An aggregate is named 'K', as a column of the"),
    "a literal": (lambda: [F.lit(1).alias("c")], "'c' has no aggregate function in it"),
    "a key": (lambda: [(F.col("k") + 1).alias("c")], "'c' has no aggregate function in it"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_is_refused(case: str, spark: SparkSession) -> None:
    made, told = WRONG[case]
    with pytest.raises(DeclarationError, match=told):
        keystate.keyed(rows(spark), "k").aggregate(*made())


@pytest.mark.parametrize("name", ["window_start", "WINDOW_END"])
def test_names_of_bounds(name: str, spark: SparkSession) -> None:
    keyed = keystate.keyed(rows(spark), "k")
    windows = keyed.window(TumblingEventTimeWindows.of(1000), event_time="t")
    with pytest.raises(DeclarationError, match=f"An aggregate is named '{name}'"):
        windows.aggregate(F.sum("n").alias(name))
    assert keyed.aggregate(F.sum("n").alias(name)).columns == ["k", name]


@pytest.mark.parametrize(
    ("column", "told"),
    [
        ("sum(n) + s", "MISSING_AGGREGATION"),
        ("sum(sum(n))", "NESTED_AGGREGATE_FUNCTION"),
        ("sum(rand())", "NONDETERMINISTIC"),
        ("sum(missing)", "UNRESOLVED_COLUMN"),
        ("sum(n) OVER (PARTITION BY k)", "MISSING_AGGREGATION"),
    ],
)
def test_what_spark_refuses(column: str, told: str, spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match=told):
        keystate.keyed(rows(spark), "k").aggregate(F.expr(column).alias("c"))


def test_names_without_an_alias(spark: SparkSession) -> None:
    """They are Spark's."""
    columns = [
        F.sum("n"),
        F.expr("sum(n) FILTER (WHERE b)"),
        F.max("n") + F.col("k"),
        F.count("*"),
        F.percentile_approx("n", 0.5),
        F.struct(F.max("n").alias("most"), F.min("s")),
    ]
    told = rows(spark).groupBy("k").agg(*columns)
    assert keystate.keyed(rows(spark), "k").aggregate(*columns).schema.names == told.schema.names


def in_batches(made: DataFrame, source: Any) -> dict[Any, Any]:
    """The last result of each key."""
    return {row["k"]: row for batch in source.micro_batches(made) for row in batch}


def fed(stream: Callable[..., Any]) -> tuple[Any, list[Any]]:
    source = stream(SCHEMA)
    batches = [
        [(k, n * (k + 1) + batch, f"s{n}", n % 3 == 0, None) for k in range(3) for n in range(5)]
        for batch in range(3)
    ]
    source.feed(*batches)
    return source, [row for batch in batches for row in batch]


def test_python_functions(spark: SparkSession, stream: Callable[..., Any]) -> None:
    """In arguments and filters, and of results."""
    columns = [
        F.sum(doubled("n")).alias("below"),
        F.sum(F.when(is_even("n"), F.col("n"))).alias("pandas"),
        doubled(F.sum("n")).alias("above"),
        doubled(F.sum(doubled("n")) + F.col("k")).alias("both"),
        F.max_by("s", doubled("n")).alias("by"),
        F.count_if(is_even(doubled("n"))).alias("all"),
    ]
    source, given = fed(stream)
    told = spark.createDataFrame(given, SCHEMA).groupBy("k").agg(*columns).collect()
    found = in_batches(keystate.keyed(source.source(), "k").aggregate(*columns), source)
    assert found == {row["k"]: row for row in told}


def test_python_functions_in_a_filter(spark: SparkSession, stream: Callable[..., Any]) -> None:
    spark.udf.register("is_even", is_even)
    columns = [
        F.expr("sum(n) FILTER (WHERE is_even(n))").alias("some"),
        F.expr("collect_set(s) FILTER (WHERE is_even(n) AND b)").alias("set"),
        F.sum("n").alias("all"),
    ]
    source, given = fed(stream)
    even = [row for row in given if row[1] % 2 == 0]
    found = in_batches(keystate.keyed(source.source(), "k").aggregate(*columns), source)
    assert {k: (row["some"], set(row["set"]), row["all"]) for k, row in found.items()} == {
        k: (
            sum(row[1] for row in even if row[0] == k),
            {row[2] for row in even if row[0] == k and row[3]},
            sum(row[1] for row in given if row[0] == k),
        )
        for k in range(3)
    }


TOO_LARGE = {
    "sum": "9223372036854775000L - n",
    "avg of decimals": "cast('99999999999999999999999999999999999000' AS decimal(38, 0)) - n",
    "sum of decimals": "cast('99999999999999999999999999999999999000' AS decimal(38, 0)) - n",
    "sum of times": "make_dt_interval(106751991, 0, 0, n)",
    "avg of times": "make_dt_interval(106751991, 0, 0, n)",
    "sum of months": "make_ym_interval(178956970, n)",
    "avg of months": "make_ym_interval(178956970, n)",
    "sum of doubles": "1.7e308D * (1 + n * 0)",
}


@pytest.mark.parametrize("ansi", ["true", "false"])
def test_overflow(
    ansi: str, spark: SparkSession, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """Of sums in the state: a row of a key in each micro-batch. An error of Spark's is one here."""
    settings(**{"spark.sql.ansi.enabled": ansi})
    given = [[(k, n, "", True, None) for k in range(2)] for n in range(3)]
    whole = spark.createDataFrame([row for batch in given for row in batch], SCHEMA)
    good, bad = {}, {}
    for name, argument in TOO_LARGE.items():
        for tried in ("", "try_"):
            call = f"string({tried}{name.partition(' ')[0]}({argument}))"
            try:
                whole.groupBy("k").agg(F.expr(call)).collect()
                good[tried + name] = call
            except Exception as error:
                assert is_overflow(error)
                bad[tried + name] = call
    assert {"try_sum", "try_sum of times", "try_avg of decimals"} <= good.keys()
    assert ("sum" in bad, "sum of decimals" in bad) == (ansi == "true", ansi == "true")
    assert "sum of times" in bad

    columns = [F.expr(call).alias(name) for name, call in good.items()]
    source = stream(SCHEMA)
    source.feed(*given)
    found = in_batches(keystate.keyed(source.source(), "k").aggregate(*columns), source)
    told = whole.groupBy("k").agg(*columns).collect()
    assert [found[row["k"]] for row in told] == told
    for call in bad.values():
        source = stream(SCHEMA)
        source.feed(*given)
        made = keystate.keyed(source.source(), "k").aggregate(F.expr(call).alias("c"))
        with pytest.raises(Exception) as raised:
            source.micro_batches(made)
        assert is_overflow(raised.value), call


def is_overflow(error: Exception) -> bool:
    return bool(re.search(r"ARITHMETIC_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE", str(error)))


def test_more_keys_than_are_held(
    spark: SparkSession, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """The buffers of the first keys are written before their last rows come."""
    settings(**{"spark.sql.shuffle.partitions": "1"})
    keys = 10_000
    source = stream("k int, n long")
    batches = [
        [(n % keys, n * 7 % 1000 + batch) for n in range(2 * keys + batch)] for batch in range(2)
    ]
    source.feed(*batches)
    columns = [
        F.sort_array(F.collect_list("n")).alias("all"),
        F.sum("n").alias("total"),
        F.median("n").alias("middle"),
    ]
    made = keystate.keyed(source.source(), "k", order_by="n").aggregate(*columns)
    for i, found in enumerate(source.micro_batches(made)):
        so_far = [row for batch in batches[: i + 1] for row in batch]
        told = spark.createDataFrame(so_far, "k int, n long").groupBy("k").agg(*columns).collect()
        assert sorted(map(tuple, found)) == sorted(map(tuple, told))
