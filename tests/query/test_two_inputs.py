"""Two keyed inputs: what a query can connect, and what is wrong."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    CoMapFunction,
    DeclarationError,
    KeyedCoProcessFunction,
    OutputTag,
    StateTtlConfig,
    Time,
    ValueStateDescriptor,
)
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from tests.two_streams import TwoStreams

FIRST = "k string, sub int, x long"
SECOND = "text string, id string, part int"
OUTPUT = "key string, what string"
ODD = OutputTag("odd", "text string")


class Count(KeyedCoProcessFunction):
    """Counts the rows of both; emits odd texts of the second to a side output."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def counted(self) -> int:
        self.count.update(self.count.value() + 1)
        return int(self.count.value())

    def process_element1(self, row: Any, ctx: Any) -> Any:
        yield str(ctx.get_current_key()), f"{row.x} {self.counted()}"

    def process_element2(self, row: Any, ctx: Any) -> Any:
        yield str(ctx.get_current_key()), f"{row.text} {self.counted()}"
        if len(row.text) % 2:
            yield ODD, row.text


def counts(first: Any, second: Any, **options: Any) -> Any:
    connected = keystate.keyed(first, "k").connect(keystate.keyed(second, "id"))
    return connected.process(Count(), OUTPUT, **options)


def by_key(rows: list[Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, what in rows:
        found.setdefault(key, []).append(what)
    return found


def test_several_key_columns_and_expressions(spark: Any) -> None:
    first = spark.createDataFrame([("a", 1, 5), ("A", 2, 6)], FIRST)
    second = spark.createDataFrame([("x", "a", 1), ("y", "b", 2)], SECOND)
    out = keystate.keyed(first, F.lower("k").alias("low"), "sub").connect(
        keystate.keyed(second, "id", "part")
    )
    assert by_key(out.process(Count(), OUTPUT).collect()) == {
        "Row(low='a', sub=1)": ["5 1", "x 2"],
        "Row(low='a', sub=2)": ["6 1"],
        "Row(low='b', sub=2)": ["y 1"],
    }


def test_a_data_frame_with_itself(spark: Any, stream: Callable[..., Any]) -> None:
    rows = [("a", 1, 5), ("b", 2, 6)]
    expected = {"a": ["5 1", "t5 2"], "b": ["6 1", "t6 2"]}

    def build(df: Any) -> Any:
        texts = df.withColumn("text", F.concat(F.lit("t"), "x")).withColumn("id", F.col("k"))
        return counts(texts, texts)

    assert by_key(build(spark.createDataFrame(rows, FIRST)).collect()) == expected
    fed = stream(FIRST)
    fed.feed(rows)
    assert by_key(fed.run(build)) == expected


@pytest.mark.parametrize("table_is", ["first", "second"])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_table_is_read_once_before_the_stream(
    table_is: str,
    backend: str,
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
    tmp_path: Path,
) -> None:
    settings(**{"spark.keystate.backend": backend})
    read = tmp_path / "read"
    read.mkdir()

    def noted(rows: Any) -> Any:
        (read / str(len(list(read.iterdir())))).touch()
        yield from rows

    schema = SECOND if table_is == "second" else FIRST
    rows: list[Any] = [("x", "a", 1), ("y", "b", 2)] if table_is == "second" else [("a", 1, 0)]
    table = spark.createDataFrame(rows, schema).coalesce(1).mapInPandas(noted, schema)
    fed = stream(FIRST if table_is == "second" else SECOND)
    fed.feed(*([[("a", 1, 5)], [("a", 1, 6)]] if table_is == "second" else [[("p", "a", 1)], []]))

    def build(df: Any) -> Any:
        pair = (df, table) if table_is == "second" else (table, df)
        return counts(*pair, ordered_by=None if table_is == "first" else ("k", "text"))

    if table_is == "second":
        assert by_key(fed.run(build)) == {"a": ["x 1", "5 2", "6 3"], "b": ["y 1"]}
    else:
        assert by_key(fed.run(build)) == {"a": ["0 1", "p 2"]}
    times = len(list(read.iterdir()))
    assert times == 1
    # Neither a later micro-batch nor a restart with other partitions reads it again.
    settings(**{"spark.sql.shuffle.partitions": "3"})
    fed.feed([("a", 1, 7)] if table_is == "second" else [("q", "a", 1)])
    assert by_key(fed.run(build)) == {"a": ["7 4"] if table_is == "second" else ["q 3"]}
    assert len(list(read.iterdir())) == times


class Times(KeyedCoProcessFunction):
    """Emits the event times of the rows of both, in seconds, and how long a value lives."""

    def open(self, ctx: Any) -> None:
        hour = ValueStateDescriptor("seen", "string")
        ttl = StateTtlConfig.new_builder(Time.hours(1)).use_event_time().build()
        hour.enable_time_to_live(ttl)
        self.seen = ctx.get_state(hour)

    def told(self, name: str, ctx: Any) -> Any:
        seconds = None if ctx.timestamp() is None else ctx.timestamp() // 1000
        yield ctx.get_current_key(), f"{name} {seconds} {self.seen.value()}"
        self.seen.update(name)

    def process_element1(self, row: Any, ctx: Any) -> Any:
        yield from self.told("first", ctx)

    def process_element2(self, row: Any, ctx: Any) -> Any:
        yield from self.told("second", ctx)


def seconds(number: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(number, datetime.timezone.utc)


@pytest.mark.parametrize("table_is", ["first", "second"])
def test_a_table_has_event_times(table_is: str, spark: Any, stream: Callable[..., Any]) -> None:
    table = spark.createDataFrame([("a", seconds(50_000))], "id string, since timestamp")
    fed = stream("k string, time timestamp")
    fed.feed([("a", seconds(50_100))], [("a", seconds(53_500))])

    def build(df: Any) -> Any:
        inputs = [(df.withWatermark("time", "0 seconds"), "k", "time"), (table, "id", "since")]
        if table_is == "first":
            inputs.reverse()
        (first, key1, time1), (second, key2, time2) = inputs
        connected = keystate.keyed(first, key1).connect(keystate.keyed(second, key2))
        return connected.process(Times(), OUTPUT, event_time=(time1, time2))

    other = "second" if table_is == "first" else "first"
    assert by_key(fed.run(build)) == {
        "a": [f"{table_is} 50000 None", f"{other} 50100 {table_is}", f"{other} 53500 {other}"]
    }


def test_a_table_lives_by_its_event_times(spark: Any, stream: Callable[..., Any]) -> None:
    """What its row wrote is no older and no younger than the row."""
    table = spark.createDataFrame([("a", seconds(50_000))], "id string, since timestamp")
    fed = stream("k string, time timestamp")
    fed.feed([("b", seconds(50_100))], [("a", seconds(50_200))])

    def build(df: Any) -> Any:
        connected = keystate.keyed(df.withWatermark("time", "0 seconds"), "k").connect(
            keystate.keyed(table, "id")
        )
        return connected.process(Times(), OUTPUT, event_time=("time", "since"))

    assert by_key(fed.run(build))["a"] == ["second 50000 None", "first 50200 second"]


def test_side_outputs(spark: Any) -> None:
    first = spark.createDataFrame([("a", 1, 5)], FIRST)
    second = spark.createDataFrame([("odd", "a", 1), ("even", "b", 2)], SECOND)
    assert counts(first, second).side_output(ODD).collect() == [("odd",)]


def test_more_keys_than_a_worker_knows(
    stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """Keys come again in the second input after the worker has forgotten them."""
    settings(
        **{
            "spark.keystate.worker.maxCachedKeys": "100",
            "spark.sql.execution.arrow.maxRecordsPerBatch": "150",
        }
    )
    streams = TwoStreams(stream, FIRST, SECOND)
    keys = [f"key{i % 1000}" for i in range(2500)]
    first = [(key, 1, i) for i, key in enumerate(keys)]
    second = [(str(i), key, 1) for i, key in enumerate(keys)]
    streams.feed((first, second), ([], [("last", key, 1) for key in dict.fromkeys(keys)]))
    for options in ({}, {"ordered_by": ("x", F.col("text").try_cast("long"))}):
        emitted = streams.run(lambda a, b, options=options: counts(a, b, **options))
        last = dict(what.split() for _, what in emitted[1])
        assert set(last) == {"last"}
        found = sorted(int(what.split()[1]) for _, what in emitted[1])
        assert found == [5] * 500 + [7] * 500
        streams.checkpoint = streams.checkpoint.with_name("merged")


def test_what_can_not_be_connected(spark: Any) -> None:
    first = spark.createDataFrame([("a", 1, 5)], FIRST)
    second = spark.createDataFrame([("x", "a", 1)], SECOND)
    with pytest.raises(
        DeclarationError, match=r"those of the first are <k:string>, of the second <part:int>"
    ) as error:
        keystate.keyed(first, "k").connect(keystate.keyed(second, "part"))
    assert error.value.code == "KEYSTATE_DECLARATION"
    with pytest.raises(DeclarationError, match="the same types"):
        keystate.keyed(first, "k", "sub").connect(keystate.keyed(second, "id"))
    with pytest.raises(DeclarationError, match="the same max_parallelism, got 8 and 9"):
        keystate.keyed(first, "k", max_parallelism=8).connect(
            keystate.keyed(second, "id", max_parallelism=9)
        )
    with pytest.raises(DeclarationError, match="connects a keyed stream to another keyed stream"):
        keystate.keyed(first, "k").connect(second)
    with pytest.raises(DeclarationError, match="connects a keyed stream to another keyed stream"):
        keystate.stream(first).connect(keystate.keyed(second, "id"))
    connected = keystate.keyed(first, "k").connect(keystate.keyed(second, "id"))
    with pytest.raises(DeclarationError, match="expected a KeyedCoProcessFunction"):
        connected.process(lambda row, ctx: None, OUTPUT)
    with pytest.raises(DeclarationError, match="expected a CoMapFunction"):
        connected.map(Count(), OUTPUT)
    with pytest.raises(DeclarationError, match=r"can't be merged by x .* of type BIGINT and text"):
        connected.process(Count(), OUTPUT, ordered_by=("x", "text"))
    with pytest.raises(DeclarationError, match="or a pair of the first input's and the second's"):
        connected.process(Count(), OUTPUT, ordered_by=("x", "text", "id"))


class Failing(CoMapFunction):
    def map1(self, row: Any) -> Any:
        return "fine", "fine"

    def map2(self, row: Any) -> Any:
        raise ValueError("mine")


def test_an_error_names_the_input(stream: Callable[..., Any]) -> None:
    streams = TwoStreams(stream, FIRST, SECOND)
    streams.feed(([("a", 1, 1)], [("x", "a", 1)]))

    def connected(first: Any, second: Any) -> Any:
        streams = keystate.keyed(first, "k").connect(keystate.keyed(second, "id"))
        return streams.map(Failing(), OUTPUT)

    with pytest.raises(StreamingQueryException, match=r"ValueError: mine[\s\S]*key 'a'"):
        streams.run(
            lambda a, b: (
                keystate.keyed(a, "k").connect(keystate.keyed(b, "id")).map(Failing(), OUTPUT)
            )
        )


def test_a_watermark_of_one_input(stream: Callable[..., Any]) -> None:
    """The other one's rows are never late."""
    streams = TwoStreams(stream, FIRST + ", time timestamp", SECOND + ", time timestamp")

    def at(seconds: int) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)

    streams.feed(
        ([("a", 1, 1, at(100))], [("x", "a", 1, at(100))]),
        ([("a", 1, 2, at(101))], []),
        ([("a", 1, 3, at(5))], [("y", "a", 1, at(5))]),
    )
    emitted = streams.run(lambda a, b: counts(a.withWatermark("time", "0 seconds"), b))
    assert [by_key(rows) for rows in emitted[:3]] == [
        {"a": ["1 1", "x 2"]}, {"a": ["2 3"]}, {"a": ["y 4"]},
    ]  # fmt: skip
