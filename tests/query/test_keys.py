"""Keys are what groupBy makes them."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

import keystate
import pytest
from keystate import DeclarationError, KeyedProcessFunction, ValueStateDescriptor
from keystate._jvm.session import FORMAT_KEY
from pyspark.errors import AnalysisException
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
    two = df.select(sf.struct("x").alias("s"), sf.struct("x").alias("t"), "*")
    for refused, keys, code in (
        (lower, ["name"], "KEYSTATE_KEY_TYPE"),
        # Spark's own stateful operators refuse it too: its equal strings may have other bytes.
        (df.select(sf.expr("name COLLATE unicode AS name")), ["name"], "KEYSTATE_KEY_TYPE"),
        (two, ["s.x", "t.x"], "KEYSTATE_DECLARATION.*2 key columns are called 'x'"),
        (df, ["name", "x", "name"], "KEYSTATE_DECLARATION.*2 key columns are called 'name'"),
        (df, [sf.rand()], r"KEYSTATE_KEY_NOT_A_COLUMN.*rand\(.*another value each time"),
        (df, ["x", sf.col("x") + sf.rand()], "KEYSTATE_KEY_NOT_A_COLUMN.*each time"),
        (lower.select(sf.struct("name").alias("s")), ["s"], "KEYSTATE_KEY_TYPE"),
        (df, [sf.sum("x")], "KEYSTATE_KEY_NOT_A_COLUMN"),
        (df, [sf.explode(sf.array("x"))], "KEYSTATE_KEY_NOT_A_COLUMN"),
        (df, [sf.try_parse_json("name")], "KEYSTATE_KEY_TYPE|not supported"),
    ):
        with pytest.raises(DeclarationError, match=code):
            keystate.keyed(refused, *keys).filter(lambda row: True)


def test_names_with_dots_and_backticks(spark: Any) -> None:
    """As they are, or as SQL takes them; a field of a struct is Spark's to find."""
    schema = "`a.b c` string, s struct<k: string>, `s.k` string, `é``ß` long, `x.y` long, x string"
    rows = [("a", ("k",), "no", 1, 5, "x"), ("a", ("k",), "no", 2, 6, "x")]
    df = spark.createDataFrame(rows, schema)
    for told, name, value in (
        ("a.b c", "a.b c", "a"),
        ("`a.b c`", "a.b c", "a"),
        ("s.k", "k", "k"),
        ("`s.k`", "s.k", "no"),
    ):
        summed = keystate.keyed(df, told).aggregate(sf.sum("`x.y`"), sf.max("`é``ß`"))
        assert summed.columns == [name, "sum(x.y)", "max(é`ß)"]
        assert [tuple(row) for row in summed.collect()] == [(value, 11, 2)], told
    assert keystate.keyed(df, "é`ß").filter(lambda row: True).count() == 2
    for wrong in ("nope", "a.b", "s.no", "q.z"):
        for key in (wrong, sf.col(wrong)):
            with pytest.raises((DeclarationError, AnalysisException)) as error:
                keystate.keyed(df, key).filter(lambda row: True)
            said = str(error.value)
            assert "INVALID_ATTRIBUTE_NAME_SYNTAX" not in said and wrong.split(".")[-1] in said


def test_a_hidden_column_of_a_file_source(spark: Any, tmp_path: Any) -> None:
    spark.range(3).write.parquet(str(tmp_path / "rows"))
    rows = spark.read.parquet(str(tmp_path / "rows"))
    hidden = sf.col("_metadata.file_name")
    with pytest.raises(DeclarationError, match=r"For '_metadata' make a column of it first"):
        keystate.keyed(rows, hidden).filter(lambda row: True)
    named = rows.select("*", hidden)
    assert keystate.keyed(named, "file_name").filter(lambda row: True).count() == 3


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


# What looks alike and is another key, and what looks different and is the same one.
TEXTS = [
    "",
    "\0",
    "a",
    "a\0",
    "a\0b",
    "\0a",
    "A",
    "a ",
    "\u00e9",  # one character
    "e\u0301",  # the same in two
    "\ufb01",  # a ligature
    "fi",
    "\U0001f600",
    "x" * 100_000,
    "x" * 99_999 + "y",
    None,
]
NUMBERS = [0.0, -0.0, NAN, -NAN, float("inf"), -float("inf"), 5e-324, -5e-324, 0.1, None]
DAYS = [
    datetime.date(1, 1, 1),
    datetime.date(1582, 10, 4),
    datetime.date(1582, 10, 15),
    datetime.date(1899, 12, 31),
    datetime.date(1969, 12, 31),
    datetime.date(9999, 12, 31),
    None,
]
MOMENTS = [
    datetime.datetime(2024, 7, 1, 12, tzinfo=datetime.timezone.utc),
    datetime.datetime(2024, 7, 1, 14, tzinfo=ZoneInfo("Europe/Berlin")),
    datetime.datetime(2024, 7, 1, 8, tzinfo=ZoneInfo("America/New_York")),
    # The hour that a change of clocks repeats.
    datetime.datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin")),
    datetime.datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
    datetime.datetime(1883, 11, 18, 12, 3, 58, tzinfo=datetime.timezone.utc),
    datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=datetime.timezone.utc),
    None,
]
PRICES = [Decimal(text) for text in ("1", "1.0", "1.000", "1E+1", "10", "-0", "0.00", "1E-9")]
BLOBS = [b"", b"\0", b"\0\0", b"a", b"a\0", b"\xff", b"\xc3\xa9", None]
NESTED: list[Any] = [
    None,
    (None, None),
    ((None, None), None),
    ((0.0, ["a"]), "\0"),
    ((-0.0, ["a"]), "\0"),
    ((NAN, []), ""),
    ((-NAN, []), ""),
    ((NAN, [None]), ""),
    ((NAN, [""]), ""),
    ((1.0, ["a", "\0"]), "e\u0301"),
    ((1.0, ["a\0"]), "\u00e9"),
]
STREAMED = {
    "text": ("string", TEXTS),
    "x": ("double", NUMBERS),
    "y": ("float", NUMBERS),
    "day": ("date", DAYS),
    "moment": ("timestamp", MOMENTS),
    "plain": ("timestamp_ntz", [m and m.replace(tzinfo=None) for m in MOMENTS]),
    "price": ("decimal(20,9)", [*PRICES, None]),
    "blob": ("binary", BLOBS),
    "nested": ("struct<a: struct<b: double, c: array<string>>, d: string>", NESTED),
}


class Numbers(KeyedProcessFunction):
    """Emits the number of the key's first row, the row's own, and how many rows there were."""

    def __init__(self, name: str) -> None:
        self.name = name

    def open(self, ctx: Any) -> None:
        self.first = ctx.get_state(ValueStateDescriptor("first", "long"))
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[str, int, int, int]]:
        if self.first.value() is None:
            self.first.update(row.i)
        self.count.update(self.count.value() + 1)
        yield self.name, self.first.value(), row.i, self.count.value()


@pytest.mark.parametrize(
    ("checkpoint_format", "keys"),
    [
        ("1", [["text"], ["y"], ["moment"], ["blob"], ["blob", "day", "price"]]),
        ("2", [["x"], ["day"], ["plain"], ["price"], ["nested"], ["text", "x", "nested"]]),
    ],
)
def test_keys_of_a_stream_over_restarts(
    checkpoint_format: str,
    keys: list[list[str]],
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    """Each run has another number of partitions, and finds every key's state."""
    settings(**{FORMAT_KEY: checkpoint_format})
    fed = stream("i long, " + ", ".join(f"{name} {kind}" for name, (kind, _) in STREAMED.items()))
    size = max(len(values) for _, values in STREAMED.values())

    def rows(n: int) -> list[Any]:
        """The same keys in each run."""
        return [
            (n * size + i, *(values[i % len(values)] for _, values in STREAMED.values()))
            for i in range(size)
        ]

    def build(df: Any) -> Any:
        outputs = [
            keystate.keyed(df, *names).process(
                Numbers(" ".join(names)), "name string, first long, i long, count long"
            )
            for names in keys
        ]
        union = outputs[0]
        for other in outputs[1:]:
            union = union.union(other)
        return union

    emitted = []
    for n, partitions in enumerate((2, 3, 1)):
        settings(**{"spark.sql.shuffle.partitions": str(partitions)})
        fed.feed(rows(n))
        emitted += fed.run(build)
    whole = spark.read.schema(fed._schema).parquet(str(fed._input))
    for names in keys:
        groups: dict[int, list[int]] = {}
        for name, first, i, count in emitted:
            if name == " ".join(names):
                group = groups.setdefault(first, [])
                group.append(i)
                assert count == len(group), (name, first)
        found = whole.groupBy(*names).agg(sf.collect_list("i")).collect()
        expected = sorted(sorted(row[-1]) for row in found)
        assert sorted(sorted(group) for group in groups.values()) == expected, names
        assert all(len(group) >= 3 for group in expected)
