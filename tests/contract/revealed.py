"""What type checkers know of functions; test_typed.py compares the comments with what mypy says."""

# ruff: noqa: B018, E501
from collections.abc import Iterator
from typing import Any

import keystate
from keystate import (
    AsyncKeyedProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    RuntimeContext,
    ValueStateDescriptor,
)
from keystate.functions import Context
from pyspark.sql import DataFrame
from typing_extensions import reveal_type

from tests.typed_functions import Alert, Rises, Split, Trade


class Typed(KeyedProcessFunction[str, Trade, Alert]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", int, default=0))
        self.last = runtime_context.get_state(ValueStateDescriptor("last", Trade))
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", Trade))
        self.by_name = runtime_context.get_map_state(MapStateDescriptor("by_name", str, Trade))
        self.ddl = runtime_context.get_state(ValueStateDescriptor("ddl", "long", default=0))

    def process_element(self, value: Trade, ctx: Context[str]) -> Iterator[Alert]:
        reveal_type(value.price)  # float
        reveal_type(ctx.get_current_key())  # str
        reveal_type(self.count.value())  # int
        reveal_type(self.last.value())  # tests.typed_functions.Trade | None
        reveal_type(self.by_name.get("a"))  # tests.typed_functions.Trade | None
        reveal_type([trade.symbol for trade in self.all])  # list[str]
        reveal_type(self.ddl.value())  # int
        value.volume  # "Trade" has no attribute "volume"
        yield Alert(value.symbol, 0.0, 0)


class WrongResult(KeyedProcessFunction[str, Trade, Alert]):
    def process_element(self, value: Trade, ctx: Context[str]) -> Iterator[Alert]:
        yield value.symbol  # Incompatible types in "yield" (actual type "str", expected type "Alert")


class OfSplits(KeyedProcessFunction[str, Split, Alert]):
    def process_element(self, value: Split, ctx: Context[str]) -> Alert:
        return Alert(value.name, 0.0, 0)


class Unparametrised(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Any:
        return value.anything


class Async(AsyncKeyedProcessFunction[str, Trade, Alert]):
    async def process_element(self, value: Trade, ctx: Context[str]) -> Alert:
        return Alert(value.symbol, 0.0, 0)


def streams(df: DataFrame) -> None:
    trades = keystate.keyed(df, "symbol", row_type=Trade)
    reveal_type(trades)  # keystate.streams.keyed.KeyedStream[tests.typed_functions.Trade]
    trades.process(Rises())
    trades.process(Async(), capacity=5)
    trades.process(Unparametrised(), "n long")
    keystate.keyed(df, "symbol").process(Unparametrised(), "n long")
    trades.map(lambda trade: trade.volume, "n long")  # "Trade" has no attribute "volume"
    trades.filter(lambda trade: trade.price > 1)
    trades.process(OfSplits())  # Argument 1 to "process" of "KeyedStream"
