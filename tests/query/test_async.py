"""Functions whose calls overlap, in queries."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from datetime import timedelta
from itertools import product
from typing import Any

import keystate
import pytest
from keystate import (
    AsyncKeyedProcessFunction,
    FixedDelayRetryStrategy,
    MapStateDescriptor,
    OutputTag,
    ValueStateDescriptor,
)
from pyspark.errors import StreamingQueryException

from tests.all_states import INPUT, OUTPUT, Overlapping, Plain
from tests.drawn import drawn


@pytest.mark.parametrize(
    ("backend", "small"), drawn("overlap", product(["hashmap", "rocksdb"], [False, True]), 2)
)
def test_results_are_as_without_overlap(
    backend: str, small: bool, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """Also where the worker asks the JVM for pages, and where it forgets keys and has them anew."""
    settings(**{"spark.keystate.backend": backend})
    if small:
        worker = {"inlineEntries": "2", "maxCachedKeys": "5"}
        settings(**{f"spark.keystate.worker.{name}": value for name, value in worker.items()})
    rng = random.Random(7)
    batches = [[(rng.randrange(25), rng.randrange(100)) for _ in range(150)] for _ in range(3)]
    emitted: dict[str, list[Any]] = {}
    for name, fn in (("plain", Plain()), ("overlapping", Overlapping(3))):
        fed = stream(INPUT)
        emitted[name] = []
        # Each batch in a run of its own, with another number of partitions. All timers are due.
        for rows, partitions in zip([*batches, []], ("2", "3", "1", "4")):
            settings(**{"spark.sql.shuffle.partitions": partitions})
            fed.feed(rows)
            # One partition, so that a key's rows keep their order.
            emitted[name] += fed.run(
                lambda df, fn=fn: keystate.keyed(df.coalesce(1), "key").process(
                    fn, OUTPUT, time_mode="processing_time"
                )
            )
    assert len(emitted["plain"]) > 450
    for kind in ("row", "timer"):
        of_kind = {
            name: [tuple(row) for row in rows if row.kind == kind] for name, rows in emitted.items()
        }
        assert sorted(of_kind["overlapping"]) == sorted(of_kind["plain"])


class Count(AsyncKeyedProcessFunction):
    """Counts around a call of 20 ms; emits what the key saw, and big values to a side output."""

    big = OutputTag("big", "x long")

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    async def process_element(self, row: Any, ctx: Any) -> Any:
        n = self.count.value()
        await self.call(row)
        self.count.update(n + 1)
        yield row.key, n + 1
        if row.x > 90:
            yield self.big, row.x

    async def call(self, row: Any) -> None:
        await asyncio.sleep(0.02)


class CountWithTimers(Count):
    async def process_element(self, row: Any, ctx: Any) -> Any:
        ctx.timer_service().register_processing_time_timer(0)
        async for result in super().process_element(row, ctx):
            yield result

    async def on_timer(self, timestamp: int, ctx: Any) -> Any:
        await asyncio.sleep(0.01)
        return ctx.get_current_key(), -self.count.value()


class Meet(Count):
    """Calls wait until so many are in flight; emits the most that were."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.now = self.most = 0

    async def process_element(self, row: Any, ctx: Any) -> Any:
        await self.call(row)
        yield row.key, self.most

    async def call(self, row: Any) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        for _ in range(60 * 1000):
            if self.most >= self.number:
                break
            await asyncio.sleep(0.001)
        self.now -= 1


@pytest.mark.parametrize("capacity", [10, 100])
def test_as_many_calls_as_the_capacity_are_in_flight(
    capacity: int, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings(**{"spark.sql.shuffle.partitions": "1"})
    fed = stream(INPUT)
    fed.feed([(key, 0) for key in range(1000)])
    emitted = fed.run(
        lambda df: keystate.keyed(df, "key").process(
            Meet(capacity), "key long, n long", capacity=capacity
        )
    )
    assert sorted(emitted) == [(key, capacity) for key in range(1000)]


def test_a_batch_query_with_timers(spark: Any) -> None:
    rows = [(key, x) for x in range(3) for key in range(20)]
    df = spark.createDataFrame(rows, INPUT)
    out = keystate.keyed(df, "key").process(CountWithTimers(), "key long, n long", capacity=50)
    expected = [(key, n) for key in range(20) for n in (1, 2, 3, -3)]
    assert sorted(tuple(row) for row in out.collect()) == sorted(expected)


def test_side_outputs(spark: Any) -> None:
    df = spark.createDataFrame([(1, 91), (2, 5), (1, 92)], INPUT)
    out = keystate.keyed(df, "key").process(Count(), "key long, n long")
    assert sorted(row.x for row in out.side_output(Count.big).collect()) == [91, 92]


class Fails(Count):
    async def call(self, row: Any) -> None:
        await asyncio.sleep(0.01)
        if row.x < 0:
            raise ConnectionError("no route to the service")


def test_an_error_fails_the_query_and_a_mended_one_goes_on(stream: Callable[..., Any]) -> None:
    fed = stream(INPUT)

    def build(fn: Any, **options: Any) -> Any:
        return lambda df: keystate.keyed(df, "key").process(fn, "key long, n long", **options)

    fed.feed([(1, 1), (2, 1)])
    assert sorted(fed.run(build(Fails()))) == [(1, 1), (2, 1)]
    fed.feed([(1, 1), (7, -5), (2, 1)])
    with pytest.raises(StreamingQueryException) as error:
        fed.run(build(Fails(), retry=FixedDelayRetryStrategy(2, 1)))
    text = str(error.value)
    assert "ConnectionError: no route to the service\nTraceback" in text
    assert "while processing key 7, row Row(key=7, x=-5)" in text
    assert sorted(fed.run(build(Count()))) == [(1, 2), (2, 2), (7, 1)]


class Late(Count):
    async def call(self, row: Any) -> None:
        await asyncio.sleep(600 if row.x == 1 else 0)

    async def timeout(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1000)
        return row.key, -1


def test_timeouts(stream: Callable[..., Any]) -> None:
    fed = stream(INPUT)
    fed.feed([(1, 1), (1, 0), (2, 0)])
    began = time.monotonic()
    emitted = fed.run(
        lambda df: keystate.keyed(df.coalesce(1), "key").process(
            Late(), "key long, n long", timeout=timedelta(milliseconds=100)
        )
    )
    assert sorted(emitted) == [(1, -1), (1, 1001), (2, 1)]
    assert time.monotonic() - began < 300


class Large(AsyncKeyedProcessFunction):
    """Puts into a large map, and sums what it has."""

    def open(self, ctx: Any) -> None:
        self.seen = ctx.get_map_state(MapStateDescriptor("seen", "long", "long"))

    async def process_element(self, row: Any, ctx: Any) -> Any:
        if row.x < 0:
            total = 0
            for key, value in self.seen.items():
                if key % 100 == 0:
                    await asyncio.sleep(0)
                total += value
            return row.key, total
        await asyncio.sleep(0)
        self.seen.put(row.x, row.key)
        return None


def test_pages_of_large_maps_are_those_of_their_keys(
    stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings(**{"spark.keystate.worker.inlineEntries": "10"})
    fed = stream(INPUT)
    fed.feed([(key, x) for key in range(4) for x in range(2500)], [(key, -1) for key in range(4)])
    build = lambda df: keystate.keyed(df, "key").process(Large(), "key long, total long")  # noqa: E731
    assert sorted(fed.run(build)) == [(key, key * 2500) for key in range(4)]
