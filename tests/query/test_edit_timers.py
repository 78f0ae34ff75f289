"""Operators that have timers and no keyed state are edited: the checkpoint tells their keys."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    KeyedProcessFunction,
    ValueStateDescriptor,
    admin,
)
from keystate._jvm.session import FORMAT_KEY
from pyspark.sql import functions as F

from tests.drawn import drawn

ROWS = "time timestamp, name string, n long"
OUTPUT = "name string, n long, time long"
START = 1_700_000_000


class Alarm(KeyedProcessFunction):
    """Sets an alarm for each row, and keeps nothing else."""

    def process_element(self, row: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer((START + 10 * row.n) * 1000)
        yield from ()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        name, n = ctx.get_current_key()
        yield name, n, timestamp // 1000 - START


class CountedAlarm(Alarm):
    """Likewise, with a state."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        name, n = ctx.get_current_key()
        yield f"{name} {self.count.value()}", n, timestamp // 1000 - START


def alarms(fn: Any, *keys: Any) -> Callable[[Any], Any]:
    """The key has a column that is an expression: its name is not one for a checkpoint."""

    def build(df: Any) -> Any:
        watermarked = df.withWatermark("time", "0 seconds")
        return keystate.keyed(watermarked, *(keys or ("name", F.col("n") % 7))).process(
            fn, OUTPUT, time_mode="event_time"
        )

    return build


def rows(time: int, *numbers: int) -> list[Any]:
    return [(START + time, f"k{n % 3}" if n % 5 else None, n) for n in numbers]


def fired(numbers: range) -> list[Any]:
    return sorted(
        ((f"k{n % 3}" if n % 5 else None, n % 7, 10 * n) for n in numbers), key=lambda row: row[2]
    )


@pytest.fixture(
    params=drawn("edited timers", [("hashmap", "1"), ("rocksdb", "2")], 1),
    ids=lambda pair: pair[0],
)
def half(request: Any, stream: Callable[..., Any], settings: Callable[..., None]) -> Any:
    """A query with alarms at 100, 110 ... 390."""
    backend, checkpoint_format = request.param
    settings(**{"spark.keystate.backend": backend, FORMAT_KEY: checkpoint_format})
    made = stream(ROWS)
    made.feed(timed(rows(0, *range(10, 40))))
    assert made.run(alarms(Alarm())) == []
    return made


def timed(fed: list[Any]) -> list[Any]:
    return [(datetime.fromtimestamp(time, timezone.utc), *row) for time, *row in fed]


def timers(spark: Any, checkpoint: Path) -> list[Any]:
    found = admin.read_state(spark, str(checkpoint), state="$timers").drop("partition_id")
    return sorted(map(str, found.collect()))


def test_key_groups_and_partitions(
    half: Any, spark: Any, settings: Callable[..., None], tmp_path: Path
) -> None:
    before = timers(spark, half.checkpoint)
    assert len(before) == 30
    editor = admin.edit(str(half.checkpoint))
    assert editor.operators == {0: ["$timers"]}
    editor.set_max_parallelism(300)
    target = tmp_path / "edited"
    editor.write(str(target))
    assert admin.verify(str(target)) == []
    assert admin.inspect(str(target))["operators"][0]["max_parallelism"] == 300
    assert timers(spark, target) == before
    half.checkpoint = target
    settings(**{"spark.sql.shuffle.partitions": "3"})
    half.feed(timed(rows(255, 1000)))
    emitted = half.run(alarms(Alarm()))
    assert sorted(map(tuple, emitted), key=lambda row: row[2]) == fired(range(10, 26))
    assert len(timers(spark, target)) == 15


def test_a_state_is_added(half: Any, spark: Any, tmp_path: Path) -> None:
    editor = admin.edit(str(half.checkpoint))
    counts = editor.read("$timers").groupBy("key").agg(F.count("*").alias("value"))
    editor.add(ValueStateDescriptor("count", "long"), counts)
    editor.replace("$timers", editor.read("$timers").where("expiration_timestamp_ms % 20000 = 0"))
    target = tmp_path / "edited"
    editor.write(str(target))
    half.checkpoint = target
    half.feed(timed(rows(5000, 1000)))
    emitted = half.run(alarms(CountedAlarm()))
    found = {row.time: row.name for row in emitted}
    assert sorted(found) == list(range(100, 400, 20))
    alike = [n for n in range(10, 40) if fired(range(n, n + 1))[0][:2] == ("k1", 2)]
    assert len(alike) == 2 and found[100] == "None 1" and found[10 * alike[0]] == f"k1 {len(alike)}"


def test_another_key_and_states_that_go(half: Any, spark: Any, tmp_path: Path) -> None:
    editor = admin.edit(str(half.checkpoint))
    editor.rekey(
        "name string, n int",
        lambda df: df.select(
            F.coalesce("key.name", F.lit("none")).alias("name"),
            F.lit(4).alias("n"),
            "*",
        ).drop("key").distinct(),
    )  # fmt: skip
    editor.add(
        ValueStateDescriptor("count", "long"),
        spark.sql("select named_struct('name', 'k1', 'n', 4) as key, 9L as value"),
    )
    first, second = tmp_path / "first", tmp_path / "second"
    editor.write(str(first))
    # Without its keyed state the operator still tells its new key.
    editor = admin.edit(str(first))
    editor.drop("count")
    editor.write(str(second))
    assert timers(spark, second) == timers(spark, first)
    half.checkpoint = second
    half.feed(timed(rows(5000, 1000)))
    build = alarms(
        Alarm(), F.coalesce("name", F.lit("none")).alias("name"), F.lit(4).cast("int").alias("n")
    )
    emitted = half.run(build)
    assert sorted(row.time for row in emitted) == list(range(100, 400, 10))
    assert {row.name for row in emitted} == {"none", "k0", "k1", "k2"}
