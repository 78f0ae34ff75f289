"""Features of several inputs: two keyed ones, and broadcast ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keystate
from keystate import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from pyspark.sql import DataFrame

from tests.matrix.feature import TABLE, Model, Place, shown
from tests.matrix.flow import OUTPUT, Row, result


class Both(KeyedCoProcessFunction):
    """Its inputs take turns: each has every other micro-batch."""

    def open(self, ctx: Any) -> None:
        self.all = ctx.get_list_state(ListStateDescriptor("all", "long"))

    def process_element1(self, row: Any, ctx: Any) -> Any:
        self.all.add(row.i)
        yield result(row, "two inputs", list(self.all.get()))

    def process_element2(self, row: Any, ctx: Any) -> Any:
        self.all.add(-row.i)
        yield result(row, "two inputs", list(self.all.get()))


def two_inputs(df: DataFrame, place: Place) -> DataFrame:
    one, two = (place.keyed(df.where(f"(i div 100) % 2 = {rest}")) for rest in (0, 1))
    made: DataFrame = one.connect(two).process(Both(), OUTPUT, time_mode="none")
    return made


class TwoInputsModel(Model):
    def row(self, row: Row, state: Any) -> Iterator[Row]:
        every = state.setdefault("all", [])
        every.append(row.i if row.i // 100 % 2 == 0 else -row.i)
        yield shown(row, "two inputs", every)


TABLE_STATE: MapStateDescriptor[str, int] = MapStateDescriptor("table", "string", "long")
RULES: MapStateDescriptor[int, int] = MapStateDescriptor("rules", "long", "long")


class Rules(KeyedBroadcastProcessFunction):
    def open(self, ctx: Any) -> None:
        self.n = ctx.get_state(ValueStateDescriptor("n", "long", default=0))

    def process_broadcast_element(self, row: Any, ctx: Any) -> Any:
        rules = ctx.get_broadcast_state(RULES)
        rules.put(row.x % 2, max(rules.get(row.x % 2) or 0, row.i))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.n.update(self.n.value() + 1)
        rule = ctx.get_broadcast_state(RULES).get(row.x % 2)
        yield result(row, "broadcast state", f"{self.n.value()} {rule}")


def broadcast(df: DataFrame, place: Place) -> DataFrame:
    rules = keystate.broadcast(place.source.where("x % 3 = 0"), RULES)
    made: DataFrame = place.keyed(df).connect(rules).process(Rules(), OUTPUT, time_mode="none")
    return made


class BroadcastModel(Model):
    """Its rules are those of the query's source, which `sees` them."""

    def __init__(self) -> None:
        super().__init__()
        self.rules: dict[int, int] = {}

    def sees(self, rows: list[Row]) -> None:
        for row in rows:
            if row.x is not None and row.x % 3 == 0:
                self.rules[row.x % 2] = max(self.rules.get(row.x % 2, 0), row.i)

    def row(self, row: Row, state: Any) -> Iterator[Row]:
        assert row.x is not None
        state["n"] = state.get("n", 0) + 1
        yield shown(row, "broadcast state", f"{state['n']} {self.rules.get(row.x % 2)}")


class Named(KeyedBroadcastProcessFunction):
    """Looks up its key in a table that is broadcast once."""

    def process_broadcast_element(self, row: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(TABLE_STATE).put(row.k, row.n)

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield result(row, "broadcast table", ctx.get_broadcast_state(TABLE_STATE).get(row.k))


def broadcast_table(df: DataFrame, place: Place) -> DataFrame:
    table = keystate.broadcast(place.table(), TABLE_STATE)
    made: DataFrame = place.keyed(df).connect(table).process(Named(), OUTPUT, time_mode="none")
    return made


class NamedModel(Model):
    def row(self, row: Row, state: Any) -> Iterator[Row]:
        yield shown(row, "broadcast table", TABLE.get(row.k))
