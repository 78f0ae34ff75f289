"""Three keyed inputs that share state."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import DeclarationError, KeyedProcessFunction, ValueStateDescriptor
from pyspark.sql import functions as F

from tests.two_streams import TwoStreams


def at(seconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)


class Count(KeyedProcessFunction):
    """Counts the rows of all inputs; a timer tells the count."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        assert [name for name in ("a", "b", "c") if row[name] is not None] == [row.input]
        self.count.update(self.count.value() + 1)
        yield str(ctx.get_current_key()), f"{row.input} {row[row.input][0]} {self.count.value()}"
        if ctx.timestamp() is not None:
            ctx.timer_service().register_event_time_timer(ctx.timestamp() + 5000)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield str(ctx.get_current_key()), f"timer {self.count.value()}"


OUTPUT = "key string, what string"


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_streams_with_watermarks(
    backend: str, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings(**{"spark.keystate.backend": backend})
    streams = TwoStreams(
        stream, "x long, key long, time timestamp", "y string, id long, time timestamp"
    )

    def build(first: Any, second: Any) -> Any:
        first, second = (df.withWatermark("time", "0 seconds") for df in (first, second))
        inputs = {
            "a": keystate.keyed(first.where("x < 100"), "key"),
            "b": keystate.keyed(second, "id"),
            "c": keystate.keyed(first.where("x >= 100"), "key"),
        }
        whole = keystate.union_keyed(inputs, event_time="time", order_by=["time", "input"])
        return whole.process(Count(), OUTPUT)

    streams.feed(
        ([(1, 7, at(10)), (100, 7, at(5)), (2, 8, at(1))], [("p", 7, at(7))]),
        ([(3, 9, at(20))], [("q", 9, at(20))]),
    )
    emitted = [tuple(row) for batch in streams.run(build) for row in batch]
    rows = [row for row in emitted if "timer" not in row[1]]
    assert [what for key, what in rows if key == "7"] == ["c 100 1", "b p 2", "a 1 3"]
    assert [what for key, what in rows if key == "8"] == ["a 2 1"]
    assert [what for key, what in rows if key == "9"] == ["a 3 1", "b q 2"]
    assert ("7", "timer 3") in emitted
    # Behind the watermark; with other partitions.
    settings(**{"spark.sql.shuffle.partitions": "5"})
    streams.feed(([(4, 7, at(3)), (5, 8, at(30))], [("r", 7, at(40))]))
    emitted = [tuple(row) for batch in streams.run(build) for row in batch]
    assert sorted(row for row in emitted if "timer" not in row[1]) == [
        ("7", "b r 4"),
        ("8", "a 5 2"),
    ]


def test_batches_and_keys_of_several_columns(spark: Any) -> None:
    a = spark.createDataFrame([(1, 2, "x")], "n long, sub int, text string")
    b = spark.createDataFrame([(1, 2), (1, 3)], "k long, part int")
    streams = {
        "a": keystate.keyed(a, "n", "sub"),
        "b": keystate.keyed(b, F.col("k") + 0, "part"),
        "c": keystate.keyed(b.where("part = 3"), "k", "part"),
    }
    found = keystate.union_keyed(streams).process(Count(), OUTPUT).collect()
    by_key: dict[str, int] = {}
    for key, _ in found:
        by_key[key] = by_key.get(key, 0) + 1
    assert by_key == {"Row(n=1, sub=2)": 2, "Row(n=1, sub=3)": 2}


def test_what_does_not_fit(spark: Any, tmp_path: Path) -> None:
    df = spark.readStream.schema("k long, time timestamp, s string").parquet(str(tmp_path))
    keyed = keystate.keyed(df, "k")
    marked = keystate.keyed(df.withWatermark("time", "1 second"), "k")

    def refused(inputs: Any, message: str, **options: Any) -> None:
        with pytest.raises(DeclarationError, match=message):
            keystate.union_keyed(inputs, **options)

    refused({"a": keyed}, "needs two inputs or more")
    refused({"a": keyed, "b": df}, "input 'b': expected what keyed")
    refused({"a": keyed, "K": keyed}, "can't be named 'K'")
    refused({"a": keyed, "input": keyed}, "can't be named 'input'")
    refused({"a": keyed, "b": keyed, "A": keyed}, "'a' and 'A' differ only in upper and lower case")
    refused({"a": keyed, "b": keystate.keyed(df, "s")}, "same types, in the same order")
    refused({"a": keyed, "b": keystate.keyed(df, "k", order_by="s")}, "'b' has an order_by")
    refused({"a": keyed, "b": marked}, "'b' has a watermark by its column 'time'")
    refused({"a": keyed, "b": keyed}, "input 'a' has no column 'ts'", event_time="ts")
    partly = r"\['b'\] have a watermark and \['a'\] have none: call withWatermark\('time', delay\)"
    for order in ("ab", "ba"):
        inputs = {"a": keyed, "b": marked}
        refused({name: inputs[name] for name in order}, partly, event_time="time")
    groups = {"a": keystate.keyed(df, "k", max_parallelism=8), "b": keyed}
    assert keystate.union_keyed(groups)._input.max_parallelism == 8
    groups["b"] = keystate.keyed(df, "k", max_parallelism=16)
    refused(groups, r"the same max_parallelism, got \[8, 16\]")
