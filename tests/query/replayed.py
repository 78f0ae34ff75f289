"""Functions that tests replay, and that a test written by a replay imports."""

from __future__ import annotations

import os
from datetime import datetime
from typing import Any

from keystate import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
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

LARGE = OutputTag("large", "key string, value long")


class Mean(AggregateFunction):
    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: int, accumulator: Any) -> Any:
        return (accumulator[0] + 1, accumulator[1] + value)

    def get_result(self, accumulator: Any) -> float:
        return float(accumulator[1] / accumulator[0])

    def merge(self, a: Any, b: Any) -> Any:
        return (a[0] + b[0], a[1] + b[1])


class Spread(Mean):
    """The least number, beside NaN."""

    def create_accumulator(self) -> Any:
        return (float("inf"), float("nan"))

    def add(self, value: float, accumulator: Any) -> Any:
        return (min(value, accumulator[0]), accumulator[1])


class NotNumbers(KeyedProcessFunction):
    """States of each kind with NaN in them.

    Args:
        more: is added to each number of the list.
    """

    def __init__(self, more: int = 0) -> None:
        self.more = more

    def open(self, ctx: Any) -> None:
        value_type = "struct<x: double, of: map<double, array<double>>>"
        self.last = ctx.get_state(ValueStateDescriptor("last", value_type))
        self.all = ctx.get_list_state(ListStateDescriptor("all", "double"))
        self.by = ctx.get_map_state(MapStateDescriptor("by", "double", "double"))
        self.sorted = ctx.get_sorted_map_state(SortedMapStateDescriptor("sorted", "long", "float"))
        self.spread = ctx.get_aggregating_state(
            AggregatingStateDescriptor("spread", Spread(), "low double, high double")
        )

    def process_element(self, row: Any, ctx: Any) -> Any:
        x = float("nan") if row.value % 2 else -0.0
        self.last.update((x, {x: [x, 1.0], 7.0: [x]}))
        self.all.add(x + self.more)
        self.by.put(x, x)
        self.by.put(float(row.value), x)
        self.sorted.put(row.value, x)
        self.spread.add(x)
        yield row.key, x


class Joins(KeyedCoProcessFunction):
    """Does nothing with two inputs."""

    def process_element1(self, row: Any, ctx: Any) -> None: ...

    def process_element2(self, row: Any, ctx: Any) -> None: ...


class Rich(KeyedCoProcessFunction):
    """A state of every kind, two with a time to live, timers by both clocks, two outputs.

    Args:
        bug: a row with this value is taken for one more than it is.
    """

    def __init__(self, bug: int | None = None) -> None:
        self.bug = bug

    def open(self, ctx: Any) -> None:
        by_event_time = StateTtlConfig.new_builder(Time.seconds(20)).use_event_time().build()
        by_batch = StateTtlConfig.new_builder(Time.milliseconds(700)).build()
        last = ValueStateDescriptor("last", "value long, at timestamp")
        last.enable_time_to_live(by_event_time)
        recent = ListStateDescriptor("recent", "long")
        recent.enable_time_to_live(by_batch)
        seen = MapStateDescriptor("seen", "string", "long")
        seen.enable_time_to_live(by_event_time)
        self.last = ctx.get_state(last)
        self.recent = ctx.get_list_state(recent)
        self.seen = ctx.get_map_state(seen)
        self.all = ctx.get_list_state(ListStateDescriptor("all", "long"))
        self.sorted = ctx.get_sorted_map_state(SortedMapStateDescriptor("sorted", "long", "long"))
        self.sum = ctx.get_reducing_state(
            ReducingStateDescriptor("sum", lambda a, b: a + b, "long")
        )
        self.mean = ctx.get_aggregating_state(
            AggregatingStateDescriptor("mean", Mean(), "n long, sum long")
        )

    def process_element1(self, row: Any, ctx: Any) -> Any:
        value = row.value + (row.value == self.bug)
        if value % 11 == 0:
            for state in (self.all, self.sum, self.mean, self.sorted):
                state.clear()
        self.last.update((value, row.at))
        self.recent.add(value)
        self.all.add(value)
        self.seen.put(str(value % 5), value)
        self.sorted.put(value % 7, value)
        self.sum.add(value)
        self.mean.add(value)
        service = ctx.timer_service()
        service.register_event_time_timer(ctx.timestamp() + 3000)
        if value % 3 == 0:
            service.register_processing_time_timer(service.current_processing_time() + 1)
            service.delete_event_time_timer(ctx.timestamp() + 2000)
        yield row.key, self.sum.get()
        if value > 60:
            yield LARGE, (row.key, value)

    def process_element2(self, row: Any, ctx: Any) -> Any:
        self.sum.add(-row.other)
        self.seen.remove(str(row.other % 5))
        if not self.sorted.is_empty():
            self.sorted.pop_first()
        yield row.key, row.other

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        self.sum.add(1000)
        if timestamp % 2 == 0:
            self.sorted.put(timestamp % 100, timestamp)
        yield f"timer {ctx.get_current_key()}", self.sum.get()


class Totals(KeyedProcessFunction):
    """A total that grows; a variable of the environment stops in the debugger.

    Args:
        fails_at: a row with this value fails.
    """

    def __init__(self, fails_at: int | None = None) -> None:
        self.fails_at = fails_at

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        if os.environ.get("STOP_AT") == str(row.value):
            breakpoint()
        if row.value == self.fails_at:
            raise ValueError(f"{row.value} is too much")
        self.total.update(self.total.value() + row.value)
        yield row.key, self.total.value()


class Opened(Totals):
    """A total that begins with initial state."""

    def process_initial_state(self, row: Any, ctx: Any) -> None:
        self.total.update(self.total.value() + row.balance)


class Stamped(Totals):
    """It looks at a clock of its own."""

    def process_element(self, row: Any, ctx: Any) -> Any:
        for key, total in super().process_element(row, ctx):
            yield f"{key} {datetime.now().year > 2000}", total


RATES = MapStateDescriptor("rates", "string", "long")


class Paid(KeyedBroadcastProcessFunction):
    """What an account has, by rates that are broadcast; a rate 0 takes all it has."""

    def __init__(self, more: int = 0) -> None:
        self.more = more

    def open(self, ctx: Any) -> None:
        self.sum = ValueStateDescriptor("sum", "long", default=0)
        self.held = ctx.get_state(self.sum)

    def process_broadcast_element(self, row: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(RATES)[row.currency] = row.rate
        if row.rate == 0:
            ctx.apply_to_keyed_state(self.sum, lambda key, state: state.clear())

    def process_element(self, row: Any, ctx: Any) -> Any:
        rate = ctx.get_broadcast_state(RATES).get(row.currency) or 1
        self.held.update(self.held.value() + row.value * rate + self.more)
        yield row.key, self.held.value()
