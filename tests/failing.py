"""A function that fails at random, in every method and with every kind of state."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from keystate import (
    AggregateFunction,
    AggregatingStateDescriptor,
    FoldingStateDescriptor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ReducingStateDescriptor,
    SortedMapStateDescriptor,
    StateTtlConfig,
    Time,
    ValueStateDescriptor,
)

INPUT = "k string, at timestamp, seed long, fails int"
OUTPUT = "k string, text string"
SIDE = OutputTag("side", "text string")
EPOCH = datetime.datetime(1970, 1, 1)


class Concat(AggregateFunction):
    """Changes its accumulator in place, before it fails."""

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: int, accumulator: list[int]) -> list[int]:
        accumulator.append(value)
        return _checked(accumulator)

    def get_result(self, accumulator: list[int]) -> list[int]:
        return accumulator


def _checked(accumulator: list[int]) -> list[int]:
    if accumulator[-1] < 0:
        raise ArithmeticError("a negative number")
    return accumulator


def _concat(a: list[int], b: list[int]) -> list[int]:
    a.extend(b)
    return _checked(a)


def _fold(a: list[int], b: int) -> list[int]:
    a.append(b)
    return _checked(a)


def _ttl(rng: random.Random, by_event_time: bool) -> StateTtlConfig | None:
    if rng.random() < 0.3:
        return None
    builder = StateTtlConfig.new_builder(Time.milliseconds(rng.choice([30, 500])))
    builder.set_update_type(rng.choice(list(StateTtlConfig.UpdateType)[-2:]))
    times = StateTtlConfig.TtlTimeCharacteristic
    clock = rng.choice([times.EventTime, times.ProcessingTime])
    builder.set_ttl_time_characteristic(times.EventTime if by_event_time else clock)
    return builder.build()


class Random(KeyedProcessFunction):
    """Does what a row's seed says to all kinds of state; `skips` those that are to fail."""

    #: Whether nothing depends on the clock.
    by_event_time = False

    def __init__(self, seed: int, skips: bool) -> None:
        self.seed = seed
        self.skips = skips

    def open(self, ctx: Any) -> None:
        rng = random.Random(self.seed)

        def described(descriptor: Any) -> Any:
            ttl = _ttl(rng, self.by_event_time)
            if ttl is not None:
                descriptor.enable_time_to_live(ttl)
            return descriptor

        numbers = "array<long>"
        self.value = ctx.get_state(described(ValueStateDescriptor("value", "long", default=0)))
        self.row = ctx.get_state(described(ValueStateDescriptor("row", "a long, b array<long>")))
        self.list = ctx.get_list_state(described(ListStateDescriptor("list", numbers)))
        self.map = ctx.get_map_state(described(MapStateDescriptor("map", "long", numbers)))
        self.words = ctx.get_map_state(described(MapStateDescriptor("words", "a long", "string")))
        self.sorted = ctx.get_sorted_map_state(
            described(SortedMapStateDescriptor("sorted", "long", "long"))
        )
        self.sum = ctx.get_reducing_state(
            described(ReducingStateDescriptor("sum", lambda a, b: a + b, "long"))
        )
        self.joined = ctx.get_reducing_state(
            described(ReducingStateDescriptor("joined", _concat, numbers))
        )
        self.all = ctx.get_aggregating_state(
            described(AggregatingStateDescriptor("all", Concat(), numbers))
        )
        self.folded = ctx.get_folding_state(
            described(FoldingStateDescriptor("folded", [], _fold, numbers))
        )

    def process_element(self, row: Any, ctx: Any) -> Iterator[Any]:
        return self._do(row.k, row.seed, row.fails, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        fails = timestamp % 7 if timestamp % 3 == 0 else 0
        return self._do(ctx.get_current_key(), timestamp, fails, ctx)

    def _do(self, key: str, seed: int, fails: int, ctx: Any) -> Iterator[Any]:
        if self.skips and fails:
            return
        rng = random.Random(seed)
        try:
            for _ in range(rng.randrange(10)):
                yield from self._step(key, rng, ctx)
            if fails:
                yield from self._fail(fails, key, rng)
        finally:
            if fails:
                self.value.update(-1)
                self.map.put(1, [])

    def _step(self, key: str, rng: random.Random, ctx: Any) -> Iterator[Any]:
        n, k = rng.randrange(100), rng.randrange(4)
        kind = rng.randrange(18)
        if kind == 0:
            self.value.update(self.value.value() + n)
        elif kind == 1:
            self.row.update((n, [n, k]))
        elif kind == 2:
            rng.choice([self.value, self.row, self.list, self.map, self.sorted, self.sum]).clear()
        elif kind == 3:
            self.list.add([n])
        elif kind == 4:
            self.list.update([[n], [k]])
        elif kind == 5:
            self.map.put(k, [n])
        elif kind == 6:
            self.map.remove(k)
        elif kind == 7:
            self.words.put((k,), str(n))
            self.words.remove((n % 4,))
        elif kind == 8:
            self.sorted.put(n % 9, n)
        elif kind == 9:
            yield key, str(self.sorted.pop_first())
        elif kind == 10:
            self.sum.add(n)
            self.joined.add([n])
        elif kind == 11:
            self.all.add(n)
            self.folded.add(n)
        elif kind == 12:
            timers = ctx.timer_service()
            timers.register_event_time_timer(ctx.timestamp() + n)
            if not self.by_event_time:
                timers.register_processing_time_timer(ctx.timestamp() + n)
        elif kind == 13:
            timers = ctx.timer_service()
            for after in range(n):
                timers.delete_event_time_timer(ctx.timestamp() + after)
        elif kind == 14:
            yield SIDE, (f"{key} {n}",)
        elif kind == 15:
            yield key, repr([sorted(self.map.items()), list(self.sorted.items())])
        elif kind == 16:
            yield key, repr([self.value.value(), self.list.get(), self.all.get(), self.sum.get()])
        else:
            self.list.add_all([[n], [n]])
            self.sorted.remove_range(n % 9, n % 9 + 2)

    def _fail(self, how: int, key: str, rng: random.Random) -> Iterator[Any]:
        if how == 1:
            raise ValueError(f"of {key}")
        if how == 2:
            yield key, 1  # no string
        if how == 3:
            self.value.update("no long")
        if how == 4:
            self.joined.add([-1])
        if how == 5:
            self.all.add(-1)
        yield SIDE, (1,)


def batches_of(rng: random.Random) -> list[list[tuple[Any, ...]]]:
    """Rows of micro-batches, two fifths of which are to fail."""
    batches, time = [], 0
    for _ in range(4):
        time += rng.randrange(30)
        batches.append(
            [
                (
                    rng.choice("aab"),
                    EPOCH + timedelta(milliseconds=time + rng.randrange(40)),
                    rng.randrange(1 << 40),
                    rng.randrange(1, 7) if rng.random() < 0.4 else 0,
                )
                for _ in range(rng.randrange(50))
            ]
        )
    return batches
