"""Dataclasses as rows in and out, in queries."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    DeclarationError,
    FlatMapFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    OutputTag,
    ValueStateDescriptor,
)
from pyspark.sql import functions as F

from tests.two_streams import TwoStreams
from tests.typed_functions import STEADY, TRADES, Adjusted, Alert, Place, Rises, Split, Trade


def at(millis: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(millis / 1000, datetime.timezone.utc)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_rows_are_objects_and_the_class_tells_the_output(
    backend: str, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings(**{"spark.keystate.backend": backend})
    # With a column that the class lacks, and in another order.
    fed = stream(
        "other binary, at timestamp, symbol string, place struct<x: int, y: float>, price float"
    )
    fed.feed([(b"", at(1000), "a", (1, 2.0), 1.0)], [(b"", at(1500), "a", None, 3.0)])

    def build(df: Any, side: bool = False) -> Any:
        keyed = keystate.keyed(df.withWatermark("at", "0 seconds"), "symbol", row_type=Trade)
        out = keyed.process(Rises())
        return out.side_output(STEADY) if side else out

    emitted = fed.run(build)
    assert emitted[0].asDict() == {"symbol": "a", "rise": 2.0, "millis": 1500}
    assert {(row.rise, row.millis) for row in emitted[1:]} == {(-3.0, 1010)}
    settings(**{"spark.sql.shuffle.partitions": "5"})
    fed.feed([(b"", at(2000), "a", (5, 6.0), 2.0)])
    steady = fed.run(lambda df: build(df, side=True))
    assert [(row.symbol, row.price, tuple(row.place)) for row in steady] == [("a", 2.0, (5, 6.0))]


@dataclasses.dataclass
class Reading:
    sensor: str
    temp: float

    def __post_init__(self) -> None:
        if self.temp < -459.67:
            raise ValueError(f"there is no {self.temp} F")
        self.temp = round((self.temp - 32) / 1.8, 1)


class Before(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.last = ctx.get_state(ValueStateDescriptor("last", Reading))
        self.all = ctx.get_list_state(ListStateDescriptor("all", Reading))

    def process_element(self, row: Reading, ctx: Any) -> Any:
        before = self.last.value()
        yield row.temp, before.temp if before else None, [each.temp for each in self.all]
        self.last.update(row)
        self.all.add(row)


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_rows_are_made_once(backend: str, stream: Any, settings: Any) -> None:
    settings(**{"spark.keystate.backend": backend})
    fed = stream("sensor string, temp double")
    dead = OutputTag("dead", keystate.dead_letter_schema("sensor string, temp double"))

    def build(df: Any) -> Any:
        keyed, letters = keystate.keyed(df, "sensor", row_type=Reading), keystate.dead_letters(dead)
        output = "now double, before double, all array<double>"
        made = keyed.process(Before(), output, on_error=letters)
        return made.with_side_outputs(dead).selectExpr("main.*", "dead.key", "dead.row")

    emitted = []
    for temps in ([212.0], [32.0, -500.0], [50.0]):
        fed.feed([("s", temp) for temp in temps])
        emitted += [tuple(row) for row in fed.run(build)]
    assert sorted(emitted, key=repr) == sorted(
        [
            (100.0, None, [], None, None),
            (0.0, 100.0, [100.0], None, None),
            (None, None, None, '"s"', ("s", -500.0)),
            (10.0, 0.0, [100.0, 0.0], None, None),
        ],
        key=repr,
    )


class Symbols(FlatMapFunction[Trade, Place]):
    def flat_map(self, value: Trade) -> Any:
        assert isinstance(value, Trade)
        if value.place is not None:
            yield Place(value.place.x + 1, value.place.y)


def test_other_functions(spark: Any) -> None:
    df = spark.createDataFrame([("a", 1.0, at(0), (1, 2.0)), ("a", 2.0, at(1), None)], TRADES)
    trades = keystate.keyed(df.coalesce(1), "symbol", row_type=Trade)
    assert [tuple(row) for row in trades.flat_map(Symbols()).collect()] == [(2, 2.0)]
    assert [row.value for row in trades.map(lambda t: t.price, float).collect()] == [1.0, 2.0]
    assert trades.filter(lambda t: t.place is None).select("price").collect() == [(2.0,)]
    later = trades.reduce(lambda a, b: b if b.price > a.price else a)
    assert later.select("price").collect() == [(2.0,)]


def merged(one: Trade, other: Trade) -> Trade:
    assert type(one) is type(other) is Trade
    return dataclasses.replace(one, price=one.price + other.price)


def test_reduce_is_given_objects(spark: Any, stream: Callable[..., Any]) -> None:
    """The result so far too, of before a restart or of another micro-batch."""
    rows = [("a", float(i), at(i), (i, 1.0)) for i in range(4)]

    def build(df: Any) -> Any:
        trades = keystate.keyed(df.coalesce(1), "symbol", row_type=Trade)
        return trades.reduce(merged, time_mode="none")

    assert build(spark.createDataFrame(rows, TRADES)).select("price").collect() == [(6.0,)]
    fed = stream(TRADES)
    for two in (rows[:2], rows[2:]):
        fed.feed(two)
        last = fed.run(build)[-1]
    assert (last.price, tuple(last.place)) == (6.0, (0, 1.0))


def test_two_inputs(stream: Callable[..., Any]) -> None:
    streams = TwoStreams(stream, TRADES, "name string, factor long")
    streams.feed(
        ([("a", 2.0, at(100), None)], [("a", 10)]), ([("a", 3.0, at(200), None)], [("a", 10)])
    )
    emitted = streams.run(
        lambda first, second: (
            keystate.keyed(first.withWatermark("at", "0 seconds"), "symbol", row_type=Trade)
            .connect(keystate.keyed(second, "name", row_type=Split))
            .process(Adjusted())
        )
    )
    results = [Alert(**row.asDict()) for batch in emitted for row in batch]
    assert results == [Alert("a", 2.0, 100), Alert("a", 30.0, 200)]


def test_the_column_of_the_watermark_can_not_be_left_out(spark: Any, tmp_path: Path) -> None:
    schema = "name string, factor long, at timestamp"
    df = spark.readStream.schema(schema).parquet(str(tmp_path))
    with pytest.raises(DeclarationError, match="needs a field for the column 'at', which the wate"):
        keystate.keyed(df.withWatermark("at", "1 second"), "name", row_type=Split)
    keystate.keyed(df.withColumn("at", F.lit(1)), "name", row_type=Split)
