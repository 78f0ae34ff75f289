"""Async functions and functions of batches whose query changes its language at a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Any

import keystate
import numpy as np
import pyarrow as pa
import pytest
from keystate import (
    AsyncKeyedProcessFunction,
    KeyedBatchFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from pyspark.sql import DataFrame

PARTITIONS = ["2", "5", "3"]


class _Told:
    """Tells what is in all states of a key."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))
        self.asked = ctx.get_list_state(ListStateDescriptor("asked", "long"))
        self.by_rest = ctx.get_map_state(MapStateDescriptor("by_rest", "long", "long"))

    def told(self) -> str:
        rests = ",".join(sorted(f"{rest}={n}" for rest, n in self.by_rest.items()))
        return f"{self.count.value()} {','.join(map(str, self.asked.get()))} {rests}"


class Asking(_Told, AsyncKeyedProcessFunction):
    """Emits what is in its states after each row and timer, between which it waits."""

    async def process_element(self, row: Any, ctx: Any) -> Any:
        n = self.count.value() + 1
        await asyncio.sleep(row.x % 3 / 1000)
        self.asked.add(row.x)
        await asyncio.sleep(row.x % 2 / 1000)
        self.count.update(n)
        self.by_rest.put(row.x % 3, n)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1000)
        return ctx.get_current_key(), self.told()

    async def on_timer(self, timestamp: int, ctx: Any) -> Any:
        await asyncio.sleep(0)
        return ctx.get_current_key(), f"timer {timestamp} {self.told()}"


class Asked(_Told, KeyedProcessFunction):
    """The same without a wait."""

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        self.asked.add(row.x)
        self.by_rest.put(row.x % 3, self.count.value())
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 1000)
        yield ctx.get_current_key(), self.told()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), f"timer {timestamp} {self.told()}"


@pytest.mark.turns
def test_async_functions_in_turns(
    stream: Callable[..., Any], jvm: Any, spark: Any, settings: Callable[..., None]
) -> None:
    """Python, Scala and Python, each with other partitions, do what a plain function does."""

    def in_python(fn: Any) -> Callable[[Any], Any]:
        def build(df: Any) -> Any:
            keyed = keystate.keyed(df.withWatermark("time", "0 seconds"), "key")
            return keyed.process(fn, "key string, told string")

        return build

    def in_scala(df: Any) -> Any:
        return DataFrame(jvm.OverlappingFunctions.asking(df._jdf), spark)

    plain = in_python(Asked())
    emitted: list[list[Any]] = []
    for builds in ([plain] * 3, [in_python(Asking()), in_scala, in_python(Asking())]):
        fed = stream("key string, x long, time timestamp")
        emitted.append([])
        for turn, (build, partitions) in enumerate(zip(builds, PARTITIONS)):
            settings(**{"spark.sql.shuffle.partitions": partitions})
            at = datetime.fromtimestamp(1 + turn)
            fed.feed([(f"key {i % 7}", 10 * turn + i // 7, at) for i in range(40)])
            emitted[-1].append(sorted(map(tuple, fed.run(build))))
    assert emitted[1] == emitted[0]
    timers = [[told for _, told in turn if told.startswith("timer")] for turn in emitted[0]]
    assert all(timers[1:]), "no timer fired"


class Totals(AsyncKeyedProcessFunction):
    """Adds twice each number."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "long", default=0))

    async def process_element(self, row: Any, ctx: Any) -> Any:
        await asyncio.sleep(0)
        self.total.update(self.total.value() + 2 * row.x)
        return row.key, self.total.value()


class Doubles(KeyedBatchFunction):
    """Adds twice each number, by columns; emits what a key has after the batch."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "long", default=0))

    def process_batch(self, batch: Any, ctx: Any) -> Any:
        added = np.zeros(batch.keys.num_rows, np.int64)
        np.add.at(added, batch.key_of_row, batch.rows["x"])
        totals = self.total.value().to_numpy() + 2 * added
        self.total.update(totals)
        return pa.table({"key": batch.keys["key"], "total": totals})


@pytest.mark.turns
@pytest.mark.parametrize("kind", ["async", "batches"])
def test_totals_in_turns(
    kind: str,
    stream: Callable[..., Any],
    jvm: Any,
    spark: Any,
    settings: Callable[..., None],
) -> None:
    """What one language has added up the other goes on with, after each a rescale."""
    fed = stream("key string, x long")

    def in_python(df: Any) -> Any:
        keyed, schema = keystate.keyed(df, "key"), "key string, total long"
        if kind == "async":
            return keyed.process(Totals(), schema)
        return keyed.process_batches(Doubles(), schema)

    def in_scala(df: Any) -> Any:
        functions = jvm.OverlappingFunctions
        build = functions.total if kind == "async" else functions.doubles
        return DataFrame(build(df._jdf), spark)

    totals: dict[str, int] = {}
    expected: dict[str, int] = {}
    for turn, (build, partitions) in enumerate(zip([in_python, in_scala, in_python], PARTITIONS)):
        settings(**{"spark.sql.shuffle.partitions": partitions})
        rows = [(f"key {i % 7}", 100 * turn + i) for i in range(40)]
        fed.feed(rows)
        for key, x in rows:
            expected[key] = expected.get(key, 0) + 2 * x
        totals = {}
        for key, total in map(tuple, fed.run(build)):
            totals[key] = max(total, totals.get(key, 0))
        assert totals == expected
