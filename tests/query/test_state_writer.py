"""A checkpoint that is made of DataFrames is one that a query goes on from."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    CheckpointError,
    DeclarationError,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    SortedMapStateDescriptor,
    StateTypeError,
    ValueStateDescriptor,
    admin,
)
from keystate._jvm.session import FORMAT_KEY
from pyspark.sql import functions as F
from pyspark.sql import types as T

ROWS = "number long, key string, sub double, x long"
KEY = "key string, sub double"
OUTPUT = "number long, state string"


class Strict(KeyedProcessFunction):
    """Its states' types say of inner values that they are not null."""

    def open(self, ctx: Any) -> None:
        self.pair = ctx.get_state(ValueStateDescriptor("pair", "a long not null, b long"))
        self.all = ctx.get_list_state(
            ListStateDescriptor("all", T.ArrayType(T.LongType(), containsNull=False))
        )
        self.maps = ctx.get_state(
            ValueStateDescriptor("maps", T.MapType(T.StringType(), T.LongType(), False))
        )

    def process_element(self, row: Any, ctx: Any) -> None: ...

    def on_timer(self, timestamp: int, ctx: Any) -> None: ...


class Everything(KeyedProcessFunction):
    """Emits what is in all states of the key after each row."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "long", default=0))
        self.pair = ctx.get_state(ValueStateDescriptor("pair", "least long, last struct<x: long>"))
        self.all = ctx.get_list_state(ListStateDescriptor("all", "string"))
        self.by_x = ctx.get_map_state(MapStateDescriptor("by_x", "long", "a long, b string"))
        self.sorted = ctx.get_sorted_map_state(SortedMapStateDescriptor("sorted", "long", "double"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.total.update(self.total.value() + row.x)
        least = min(row.x, self.pair.value().least if self.pair.value() else row.x)
        self.pair.update((least, (row.x,)))
        self.all.add(f"{row.x} " * 20)
        self.by_x[row.x % 5] = (row.x, None if row.x % 3 else "three")
        self.sorted[-row.x] = row.x / 2
        ctx.timer_service().register_processing_time_timer(4_000_000_000_000 + row.x % 3)
        state = [
            self.total.value(),
            repr(self.pair.value()),
            list(self.all),
            sorted((k, tuple(v)) for k, v in self.by_x.items()),
            list(self.sorted.items()),
        ]
        yield row.number, json.dumps(state)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield from ()


def build(df: Any) -> Any:
    return keystate.keyed(df, "key", "sub").process(Everything(), OUTPUT)


def history(count: int) -> list[Any]:
    subs = [0.0, -0.0, float("nan"), None, 1.5]
    return [(i, f"k{i % 7}" if i % 11 else None, subs[i % 5], i * 7919 % 100) for i in range(count)]


def states_of(spark: Any, checkpoint: Path) -> dict[str, Any]:
    return {
        name: admin.read_state(spark, str(checkpoint), state=name)
        for name in ("total", "pair", "all", "by_x", "sorted")
    }


def contents(spark: Any, checkpoint: Path) -> dict[str, list[str]]:
    frames = states_of(spark, checkpoint)
    frames["$timers"] = admin.read_state(spark, str(checkpoint), state="$timers")
    return {
        name: sorted(map(str, df.drop("partition_id").collect())) for name, df in frames.items()
    }


@pytest.mark.turns
@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_query_goes_on_from_what_another_had(
    backend: str,
    checkpoint_format: str,
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
    tmp_path: Path,
) -> None:
    settings(**{"spark.keystate.backend": backend, FORMAT_KEY: checkpoint_format})
    rows = history(400)
    whole, half = stream(ROWS), stream(ROWS)
    whole.feed(rows[:300], rows[300:])
    expected = sorted(whole.run(build))
    half.feed(rows[:300])
    half.run(build)

    target = tmp_path / "created"
    admin.create(
        str(target),
        Everything(),
        key=KEY,
        states=states_of(spark, half.checkpoint),
        timers=admin.read_state(spark, str(half.checkpoint), state="$timers"),
        max_parallelism=77,
        partitions=3,
    )
    assert contents(spark, target) == contents(spark, half.checkpoint)
    assert admin.verify(str(target)) == []
    (operator,) = admin.inspect(str(target))["operators"]
    assert operator["max_parallelism"] == 77
    assert len(operator["partitions"]) == 3
    assert sorted(path.name for path in tmp_path.iterdir()) == ["created", "stream1", "stream2"]

    rest = stream(ROWS)
    rest.checkpoint = target
    rest.feed(rows[300:350])
    settings(**{"spark.sql.shuffle.partitions": "5"})
    emitted = rest.run(build)
    rest.feed(rows[350:])
    emitted += rest.run(build)
    assert sorted(emitted) == expected[300:]


def test_from_computed_columns(spark: Any, stream: Callable[..., Any], tmp_path: Path) -> None:
    """Keys as columns, positions, states and partitions that have no rows."""

    class Lists(KeyedProcessFunction):
        def open(self, ctx: Any) -> None:
            self.seen = ctx.get_list_state(ListStateDescriptor("seen", "long"))
            self.other = ctx.get_state(ValueStateDescriptor("other", "long"))

        def process_element(self, row: Any, ctx: Any) -> Any:
            yield row.key, str([list(self.seen), self.other.value()])

    numbers = spark.range(20_000).select(
        F.lit("a").alias("key"),
        (F.lit(20_000) - F.col("id")).alias("list_element"),
        F.col("id").alias("position"),
    )
    target = tmp_path / "created"
    admin.create(str(target), Lists(), key="key string", states={"seen": numbers.repartition(4)})
    rows = stream("key string")
    rows.checkpoint = target
    rows.feed([("a",), ("b",)])
    found = dict(
        rows.run(lambda df: keystate.keyed(df, "key").process(Lists(), "key string, what string"))
    )
    assert found == {"a": str([list(range(20_000, 0, -1)), None]), "b": "[[], None]"}


def test_nulls_where_a_type_says_not_null(spark: Any, tmp_path: Path) -> None:
    key = "key struct<part: long not null, sub: string> not null, other double"
    one = spark.sql(
        "SELECT named_struct('part', 1L, 'sub', string(null)) key, cast(null as double) other"
    )
    good = {
        "pair": one.selectExpr("*", "named_struct('a', 1L, 'b', cast(null as long)) value"),
        "all": one.selectExpr("*", "array(1L, 2L) list_element"),
        "maps": one.selectExpr("*", "map('x', 1L) value"),
        "$timers": one.selectExpr("*", "'EVENT_TIME' time_domain", "1L expiration_timestamp_ms"),
    }

    def create(path: str, **changed: Any) -> None:
        states = {**good, **changed}
        timers = states.pop("$timers")
        admin.create(
            str(tmp_path / path), Strict(), key=key, states=states, timers=timers,
            time_mode="processing_time",
        )  # fmt: skip

    create("made")
    assert admin.read_state(spark, str(tmp_path / "made"), state="all").count() == 1
    no_key = "cast(null as struct<part: long, sub: string>)"
    no_part = "struct(cast(null as long) part, 'a' sub)"
    for state, where, column, value in (
        ("pair", "key.key", "key", no_key),
        ("$timers", "key.key", "key", no_key),
        ("all", "key.key.part", "key", no_part),
        ("pair", "value.a", "value", "named_struct('a', cast(null as long), 'b', 1L)"),
        ("all", "list_element.element", "list_element", "array(1L, null)"),
        ("maps", "value.value", "value", "map('x', cast(null as long))"),
    ):
        rows = good[state].withColumn(column, F.expr(value))
        told = rf"State '{re.escape(state)}', row .*: its {where} is null, .* without 'not null'"
        with pytest.raises(CheckpointError, match=told) as error:
            create("refused", **{state: rows})
        assert error.value.code == "KEYSTATE_STATE_ROW"
    assert [path.name for path in tmp_path.iterdir()] == ["made"]


def test_what_can_not_be_state(spark: Any, tmp_path: Path) -> None:
    target = tmp_path / "created"

    def refused(kind: type, code: str, match: str, df: Any = None, **others: Any) -> None:
        states = {"total": df} if df is not None else {}
        arguments: dict[str, Any] = {"key": KEY, "states": states, **others}
        with pytest.raises(kind, match=match) as error:
            admin.create(str(target), Everything(), **arguments)
        assert error.value.code == code
        assert not list(tmp_path.iterdir())

    good = spark.createDataFrame([("a", 1.0, 5), ("b", 1.0, 6)], f"{KEY}, value long")
    declaration = (DeclarationError, "KEYSTATE_DECLARATION")
    row = (CheckpointError, "KEYSTATE_STATE_ROW")
    refused(StateTypeError, "KEYSTATE_STATE_TYPE", "'total': column 'value' is string, not bigint",
            good.withColumn("value", F.lit("x")))  # fmt: skip
    refused(StateTypeError, "KEYSTATE_STATE_TYPE", "'total': column 'sub' is int, not double",
            good.withColumn("sub", F.lit(1)))  # fmt: skip
    refused(*declaration, "'total' lack the column 'value'", good.drop("value"))
    refused(*declaration, "lack the key: .* no 'sub' among", good.drop("sub"))
    refused(*declaration, "expected a batch DataFrame", "rows")
    refused(*declaration, "has no state 'none', it has total, pair", states={"none": good})
    refused(*declaration, "time_mode must be one of", good, time_mode="clock")
    twice = good.withColumn("key", F.lit(None).cast("string"))
    refused(*row, r"State 'total', row \[null,1.0\]: this key is there twice", twice)
    refused(*row, r"State 'total', row \[\[a,1.0\],null\]: its value is null",
            good.where("key = 'a'").withColumn("value", F.lit(None).cast("long")))  # fmt: skip
    no_key = good.select(F.when(F.col("key") == "a", F.struct("key", "sub")).alias("key"), "value")
    refused(*row, r"State 'total', row \[null,6\]: its key is null", no_key)
    entries = good.selectExpr("key", "sub", "if(value = 5, 1L, null) user_map_key",
                              "0D user_map_value")  # fmt: skip
    refused(*row, "State 'sorted', row .* its map key is null", states={"sorted": entries})
    same = good.selectExpr("'a' key", "sub", "1L user_map_key", "0D user_map_value")
    refused(*row, r"State 'sorted', row \[a,1.0\]: one of its map keys is there twice",
            states={"sorted": same})  # fmt: skip
    timers = good.selectExpr("key", "sub", "'NO_TIME' time_domain", "1L expiration_timestamp_ms")
    refused(*row, r"State '\$timers', row .*'NO_TIME' is not EVENT_TIME", timers=timers)

    (tmp_path / "created").mkdir()
    (tmp_path / "created" / "file").touch()
    with pytest.raises(CheckpointError) as error:
        admin.create(str(target), Everything(), key=KEY, states={"total": good})
    assert error.value.code == "KEYSTATE_TARGET_EXISTS"
    assert [path.name for path in tmp_path.rglob("*")] == ["created", "file"]
