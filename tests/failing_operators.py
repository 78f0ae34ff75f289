"""Functions that fail at random, as operators of all kinds."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Any

from keystate import (
    AggregateFunction,
    AsyncKeyedProcessFunction,
    KeyedBatchFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Time,
    ValueStateDescriptor,
)
from keystate.windows import (
    ContinuousEventTimeTrigger,
    CountEvictor,
    CountTrigger,
    DeltaEvictor,
    EventTimeSessionWindows,
    GlobalWindows,
    ProcessWindowFunction,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TimeEvictor,
    TumblingEventTimeWindows,
)

from tests.failing import Random


class AsyncRandom(AsyncKeyedProcessFunction):
    """Does what rows say, with other calls between its steps."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def open(self, ctx: Any) -> None:
        self.random.open(ctx)

    async def process_element(self, value: Any, ctx: Any) -> Any:
        for result in self.random.process_element(value, ctx):
            await asyncio.sleep(0)
            yield result

    async def on_timer(self, timestamp: int, ctx: Any) -> Any:
        for result in self.random.on_timer(timestamp, ctx):
            await asyncio.sleep(0)
            yield result


class Batches(KeyedBatchFunction):
    """Changes its states, and then fails on batches with a row that is to fail."""

    def __init__(self, skips: bool) -> None:
        self.skips = skips

    def open(self, ctx: Any) -> None:
        self.value = ctx.get_state(ValueStateDescriptor("value", "long"))
        self.row = ctx.get_state(ValueStateDescriptor("row", "a long, b array<long>"))

    def process_batch(self, batch: Any, ctx: Any) -> Any:
        fails = batch.rows["fails"].to_pylist()
        values = self.value.value().to_pylist()
        rows = self.row.value().to_pylist()
        texts: list[str | None] = []
        for i, seed in enumerate(batch.rows["seed"].to_pylist()):
            if self.skips and fails[i]:
                texts.append(None)
                continue
            of = batch.key_of_row[i]
            values[of] = (values[of] or 0) * 7 % 1000 + seed % 100
            rows[of] = None if seed % 5 == 0 else {"a": seed, "b": [seed % 3, values[of]]}
            texts.append(f"{seed} {values[of]}")
        self.value.update(values)
        self.row.update(rows)
        if not self.skips:
            how = max(fails, default=0)
            if how > 4:
                raise ValueError("of a row")
            if how > 2:
                self.value.update(["no long"] * len(values))
            if how > 0:
                return {"k": batch.rows["k"], "text": [1] * batch.rows.num_rows}  # no text
        keys = batch.rows["k"].to_pylist()
        made = [(key, text) for key, text in zip(keys, texts) if text is not None]
        return {"k": [key for key, _ in made], "text": [text for _, text in made]}


class Sums(AggregateFunction):
    """Fails on rows, and on a sum that can be divided by 5, which else is left out later."""

    def __init__(self, skips: bool) -> None:
        self.skips = skips

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: Any, accumulator: list[int]) -> list[int]:
        accumulator.append(value.seed % 100)
        if value.fails:
            raise ValueError(value.k)
        return accumulator

    def get_result(self, accumulator: list[int]) -> str:
        if sum(accumulator) % 5 == 0 and not self.skips:
            raise ArithmeticError("of the window")
        return str(accumulator)

    def merge(self, a: list[int], b: list[int]) -> list[int]:
        return a + b


class Windowed(ProcessWindowFunction):
    """Fails likewise on windows whose number of rows can be divided by 3."""

    def __init__(self, skips: bool, own_states: bool) -> None:
        self.skips = skips
        self.own_states = own_states

    def open(self, ctx: Any) -> None:
        self.states = [ctx.global_state().get_state(ValueStateDescriptor("n", "long", default=0))]
        self.list = ctx.global_state().get_list_state(ListStateDescriptor("list", "string"))
        if self.own_states:
            of_window = ctx.window_state()
            self.states.append(of_window.get_state(ValueStateDescriptor("w", "long", default=0)))

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        text = str([getattr(each, "seed", each) for each in elements])
        fails = len(text) % 3 == 0
        if self.skips and (fails or (text.count("[") > 1 and _sum_in(text) % 5 == 0)):
            return
        self.list.add(text)
        for state in self.states:
            state.update(state.value() + 1)
        self.list.add(text)  # the last, and the first of the window that fires next
        yield key, f"{text} {self.states[0].value()}"
        if fails:
            raise KeyError(text)

    def clear(self, context: Any) -> None:
        for state in self.states[1:]:
            state.clear()


def _sum_in(text: str) -> int:
    return sum(map(int, re.findall(r"\d+", text)))


#: Windows, made by `keystate.windows.window` or the `window` of keyed rows.
WINDOWS: dict[str, Callable[[Callable[..., Any]], Any]] = {
    "tumbling": lambda window: window(TumblingEventTimeWindows.of(Time.milliseconds(20))),
    "sliding, late": lambda window: window(
        SlidingEventTimeWindows.of(Time.milliseconds(20), Time.milliseconds(10))
    ).allowed_lateness(Time.milliseconds(15)),
    "sessions": lambda window: window(EventTimeSessionWindows.with_gap(Time.milliseconds(5))),
    "counts": lambda window: window(GlobalWindows.create()).trigger(
        PurgingTrigger.of(CountTrigger.of(3))
    ),
}


#: Windows whose evictors take rows out; all functions of theirs are called when they fire.
EVICTING: dict[str, Callable[[Callable[..., Any]], Any]] = {
    f"{count}, {when}": lambda window, count=count, after=after: (
        window(GlobalWindows.create())
        .trigger(CountTrigger.of(2))
        .evictor(CountEvictor.of(count, after))
    )
    for count in (1, 2)
    for when, after in (("before", False), ("after", True))
} | {
    "delta, late": lambda window: (
        window(SlidingEventTimeWindows.of(Time.milliseconds(20), Time.milliseconds(10)))
        .allowed_lateness(Time.milliseconds(30))
        .evictor(DeltaEvictor.of(300, lambda a, b: abs(a.seed - b.seed)))
    ),
    "times, sessions": lambda window: (
        window(EventTimeSessionWindows.with_gap(Time.milliseconds(9)))
        .trigger(ContinuousEventTimeTrigger.of(Time.milliseconds(4)))
        .evictor(TimeEvictor.of(Time.milliseconds(7), True))
    ),
}


class Both(KeyedCoProcessFunction):
    """Does what rows of both inputs say, and timers."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def open(self, ctx: Any) -> None:
        self.random.open(ctx)

    def process_element1(self, value: Any, ctx: Any) -> Any:
        return self.random.process_element(value, ctx)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return self.random.process_element(value, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return self.random.on_timer(timestamp, ctx)


RULES = MapStateDescriptor("rules", "long", "string")


class Ruled(KeyedBroadcastProcessFunction):
    """Does what rows say, and emits what is broadcast; a row may fail after it has read that."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def open(self, ctx: Any) -> None:
        self.random.open(ctx)

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        rules = ctx.get_broadcast_state(RULES)
        rules.put(value.seed % 5, value.k)
        rules.remove(value.seed % 3)

    def process_element(self, value: Any, ctx: Any) -> Any:
        rules = dict(ctx.get_broadcast_state(RULES).items())
        if self.random.skips and value.fails:
            return
        yield value.k, repr(sorted(rules.items()))
        yield from self.random.process_element(value, ctx)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return self.random.on_timer(timestamp, ctx)
