"""Functions with dataclasses as rows and results."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import dataclass

from keystate import (
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    OutputTag,
    RuntimeContext,
    ValueStateDescriptor,
)
from keystate.functions import Context, OnTimerContext


@dataclass(frozen=True)
class Place:
    x: int
    y: float


@dataclass(frozen=True)
class Trade:
    symbol: str
    price: float
    at: datetime.datetime
    place: Place | None = None


@dataclass(frozen=True)
class Alert:
    symbol: str
    rise: float
    millis: int


STEADY = OutputTag("steady", Trade)

TRADES = "symbol string, price double, at timestamp, place struct<x: bigint, y: double>"


class Rises(KeyedProcessFunction[str, Trade, Alert]):
    """Emits by how much a price rose; a timer tells the last price."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Trade))

    def process_element(
        self, value: Trade, ctx: Context[str]
    ) -> Iterator[Alert | tuple[OutputTag, Trade]]:
        before = self.last.value()
        if before is not None and before.price < value.price:
            yield Alert(ctx.get_current_key(), value.price - before.price, ctx.timestamp() or 0)
        else:
            yield STEADY, value
        self.last.update(value)
        if ctx.timestamp() is not None:
            ctx.timer_service().register_event_time_timer((ctx.timestamp() or 0) + 10)

    def on_timer(self, timestamp: int, ctx: OnTimerContext[str]) -> Alert | None:
        last = self.last.value()
        return None if last is None else Alert(last.symbol, -last.price, timestamp)


@dataclass(frozen=True)
class Split:
    name: str
    factor: int


class Adjusted(KeyedCoProcessFunction[str, Trade, Split, Alert]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.factor = runtime_context.get_state(ValueStateDescriptor("factor", int, default=1))

    def process_element1(self, value: Trade, ctx: Context[str]) -> Alert:
        return Alert(value.symbol, value.price * self.factor.value(), ctx.timestamp() or 0)

    def process_element2(self, value: Split, ctx: Context[str]) -> None:
        assert isinstance(value, Split)
        self.factor.update(self.factor.value() * value.factor)
