"""One function with states of every kind, as a plain one and as one whose calls overlap."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from keystate import (
    AsyncKeyedProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    SortedMapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)

INPUT = "key long, x long"
OUTPUT = "key long, kind string, what string"

#: Where an overlapping call may wait.
PAUSE = object()

_READ_AND_WRITE = (
    StateTtlConfig.new_builder(timedelta(days=999))
    .set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)
    .build()
)


class _States:
    def declare(self, ctx: Any) -> None:
        lasting: ValueStateDescriptor[int] = ValueStateDescriptor("lasting", "long", default=0)
        lasting.enable_time_to_live(_READ_AND_WRITE)
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))
        self.all = ctx.get_list_state(ListStateDescriptor("all", "long"))
        self.by_rest = ctx.get_map_state(MapStateDescriptor("by_rest", "long", "long"))
        self.sorted = ctx.get_sorted_map_state(SortedMapStateDescriptor("sorted", "long", "long"))
        self.most = ctx.get_reducing_state(ReducingStateDescriptor("most", max, "long"))
        self.lasting = ctx.get_state(lasting)

    def of_row(self, row: Any, ctx: Any) -> Iterator[Any]:
        n = self.count.value() + 1
        yield PAUSE
        self.count.update(n)
        self.all.add(row.x)
        before = self.by_rest.get(row.x % 5)
        yield PAUSE
        self.by_rest.put(row.x % 5, (before or 0) + 1)
        rests = []
        for rest in self.by_rest.items():
            rests.append(rest)
            yield PAUSE
        self.sorted.put(row.x, n)
        if n % 3 == 0:
            self.sorted.pop_first()
        yield PAUSE
        tail = []
        for entry in self.sorted.tail_iterator(50):
            tail.append(entry)
            yield PAUSE
        self.most.add(row.x)
        self.lasting.update(self.lasting.value() + row.x)
        ctx.timer_service().register_processing_time_timer(row.x)
        yield PAUSE
        read = (self.count.value(), sum(self.all.get()), self.most.get(), self.lasting.value())
        key = ctx.get_current_key()
        yield key, "row", f"{row.x} {read} {sorted(rests)} {tail} {self.sorted.first_entry()}"
        if row.x % 10 == 0:
            self.by_rest.clear()
            self.all.update([n])

    def of_timer(self, time: int, ctx: Any) -> Iterator[Any]:
        n = self.count.value()
        yield PAUSE
        self.count.update(n + 1)
        self.by_rest.remove(time % 5)
        yield PAUSE
        yield ctx.get_current_key(), "timer", f"{time} {n} {len(list(self.all))}"


class Plain(_States, KeyedProcessFunction):
    """Never waits."""

    def open(self, ctx: Any) -> None:
        self.declare(ctx)

    def process_element(self, row: Any, ctx: Any) -> Any:
        return [each for each in self.of_row(row, ctx) if each is not PAUSE]

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return [each for each in self.of_timer(timestamp, ctx) if each is not PAUSE]


class Overlapping(_States, AsyncKeyedProcessFunction):
    """Waits for random times."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def open(self, ctx: Any) -> None:
        self.declare(ctx)
        self.rng = random.Random(self.seed)

    async def process_element(self, row: Any, ctx: Any) -> Any:
        for each in self.of_row(row, ctx):
            if each is PAUSE:
                await asyncio.sleep(self.rng.choice([0, 0, 0.0005]))
            else:
                yield each

    async def on_timer(self, timestamp: int, ctx: Any) -> Any:
        for each in self.of_timer(timestamp, ctx):
            if each is PAUSE:
                await asyncio.sleep(0)
            else:
                yield each
