"""Keys are what groupBy makes them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import keystate
import pytest
from keystate import DeclarationError, KeyedProcessFunction, ValueStateDescriptor
from pyspark.sql import functions as sf
from pyspark.sql import types as T

NAN, ONE = float("nan"), Decimal(1)
SCHEMA = (
    "name string, x double, pair struct<a int, b float>, list array<double>, price decimal(9,2)"
)
ROWS: list[Any] = [
    ("a", 0.0, (1, 0.0), [0.0], ONE),
    ("A", -0.0, (1, -0.0), [-0.0], ONE),
    ("", NAN, (1, NAN), [NAN], 2 * ONE),
    (None, -NAN, (1, -NAN), [-NAN], None),
    (None, None, None, None, None),
    ("a", 1.5, (None, None), [None], ONE),
    ("a", 1.5, (None, None), [], ONE),
    ("b", float("inf"), (2, None), [1.0, None], -ONE),
]

KEYS = [
    ["name"],
    ["x"],
    ["pair"],
    ["list"],
    ["price"],
    ["name", "x", "pair"],
    ["lower(name) AS lower"],
    ["pair.a", "price % 2 AS odd"],
    ["1 AS one"],
]


class Count(KeyedProcessFunction):
    """Emits the key's columns and how many rows there were so far."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        key = ctx.get_current_key()
        yield (*(key if self.several else (key,)), self.count.value())

    def __init__(self, several: bool) -> None:
        self.several = several


@pytest.mark.parametrize("sql", KEYS, ids=str)
def test_keys_are_those_of_group_by(spark: Any, sql: list[str]) -> None:
    df = spark.createDataFrame(ROWS * 2, SCHEMA).repartition(3)
    keys: list[Any] = [name if name in df.columns else sf.expr(name) for name in sql]
    key_fields = df.select(*keys).schema.fields
    names = [field.name for field in key_fields]
    schema = T.StructType([*key_fields, T.StructField("count", T.LongType())])
    out = keystate.keyed(df, *keys).process(Count(len(keys) > 1), schema)
    got = out.groupBy(*names).agg(sf.max("count").alias("count"), sf.count("*").alias("rows"))
    expected = df.groupBy(*keys).count().withColumn("rows", sf.col("count"))
    assert got.count() == expected.count()
    assert got.exceptAll(expected).collect() == []


def test_what_can_not_be_a_key(spark: Any) -> None:
    df = spark.createDataFrame([("a", 1)], "name string, x long")
    lower = df.select(sf.expr("name COLLATE utf8_lcase AS name"), "x")
    for refused, keys, code in (
        (lower, ["name"], "KEYSTATE_KEY_TYPE"),
        (lower.select(sf.struct("name").alias("s")), ["s"], "KEYSTATE_KEY_TYPE"),
        (df, [sf.sum("x")], "KEYSTATE_KEY_NOT_A_COLUMN"),
        (df, [sf.explode(sf.array("x"))], "KEYSTATE_KEY_NOT_A_COLUMN"),
        (df, [sf.try_parse_json("name")], "KEYSTATE_KEY_TYPE|not supported"),
    ):
        with pytest.raises(DeclarationError, match=code):
            keystate.keyed(refused, *keys).filter(lambda row: True)


def test_rows_of_a_key_keep_their_order(spark: Any) -> None:
    """From one partition, over messages and evictions."""

    class Ascending(KeyedProcessFunction):
        def open(self, ctx: Any) -> None:
            self.last = ctx.get_state(ValueStateDescriptor("last", "long", default=-1))

        def process_element(self, row: Any, ctx: Any) -> Any:
            yield self.last.value() < row.id
            self.last.update(row.id)

    df = spark.range(0, 20_000, 1, 1).withColumn("key", sf.col("id") % 1000)
    out = keystate.keyed(df, "key").process(Ascending(), "ascending boolean")
    assert out.groupBy("ascending").count().collect() == [(True, 20_000)]
