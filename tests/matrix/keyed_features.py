"""Features of keyed state: its kinds, side outputs, dead letters, initial state, limits."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import keystate
from keystate import (
    AsyncKeyedProcessFunction,
    KeyedBatchFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ReducingStateDescriptor,
    SortedMapStateDescriptor,
    ValueStateDescriptor,
)
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.matrix.feature import TABLE, Model, Place, shown
from tests.matrix.flow import INPUT, OUTPUT, Batch, Row, result

SIDE = OutputTag("side", OUTPUT)
DEAD = OutputTag("dead", keystate.dead_letter_schema(INPUT))


class States(KeyedProcessFunction):
    def __init__(self, number: int) -> None:
        self._number = number

    def open(self, ctx: Any) -> None:
        self.value = ctx.get_state(ValueStateDescriptor("value", "long", default=0))
        self.list = ctx.get_list_state(ListStateDescriptor("list", "long"))
        self.map = ctx.get_map_state(MapStateDescriptor("map", "long", "long"))
        self.sorted = ctx.get_sorted_map_state(SortedMapStateDescriptor("sorted", "long", "long"))
        self.most = ctx.get_reducing_state(ReducingStateDescriptor("most", max, "long"))
        self.counter = ctx.get_metrics_group().counter(f"seen{self._number}")

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.counter.inc()
        self.value.update(self.value.value() + row.x)
        yield result(row, "value state", self.value.value())
        self.list.add(row.i)
        yield result(row, "list state", list(self.list.get()))
        self.map.put(row.x % 3, (self.map.get(row.x % 3) or 0) + 1)
        yield result(row, "map state", sorted(self.map.items()))
        self.sorted.put(row.x % 5, row.i)
        if len(list(self.sorted.keys())) > 3:
            self.sorted.pop_first()
        yield result(row, "sorted map state", list(self.sorted.items()))
        self.most.add(row.x)
        yield result(row, "reducing state", self.most.get())


class StatesModel(Model):
    def row(self, row: Row, state: Any) -> Iterator[Row]:
        assert row.x is not None
        state["value"] = state.get("value", 0) + row.x
        yield shown(row, "value state", state["value"])
        state["list"] = [*state.get("list", []), row.i]
        yield shown(row, "list state", state["list"])
        counts = state.setdefault("map", {})
        counts[row.x % 3] = counts.get(row.x % 3, 0) + 1
        yield shown(row, "map state", sorted(counts.items()))
        order = state.setdefault("sorted", {})
        order[row.x % 5] = row.i
        if len(order) > 3:
            del order[min(order)]
        yield shown(row, "sorted map state", sorted(order.items()))
        state["most"] = max(state.get("most", row.x), row.x)
        yield shown(row, "reducing state", state["most"])

    def counters(self) -> dict[str, int]:
        return {"seen": self.rows}


class Letters(KeyedProcessFunction):
    """Fails on some rows after it has changed its state and emitted."""

    def open(self, ctx: Any) -> None:
        self.n = ctx.get_state(ValueStateDescriptor("n", "long", default=0))
        self.all = ctx.get_list_state(ListStateDescriptor("all", "long"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.n.update(self.n.value() + 1)
        self.all.add(row.i)
        yield result(row, "rows beside dead letters", f"{self.n.value()} {list(self.all.get())}")
        if row.x % 2:
            yield SIDE, result(row, "side output", self.n.value())
        if row.x % 5 == 3:
            raise ValueError(f"row {row.i}")


def letters(df: DataFrame, place: Place) -> DataFrame:
    made: Any = place.keyed(df).process(
        Letters(), OUTPUT, time_mode="none", on_error=keystate.dead_letters(DEAD)
    )
    dead = [F.col(f"dead.row.{name}") for name in ("k", "i", "x", "at")]
    dead += [F.lit("dead letters").alias("feature"), F.col("dead.message").alias("what")]
    letter = F.struct(*dead, F.col("dead.id").alias("id"))
    one = F.coalesce("main", "side", letter)
    both: DataFrame = made.with_side_outputs(SIDE, DEAD).select(one.alias("one"))
    return both.select("one.*")


class LettersModel(Model):
    def row(self, row: Row, state: Any) -> Iterator[Row]:
        assert row.x is not None
        if row.x % 5 == 3:
            yield shown(row, "dead letters", f"row {row.i}")
            return
        every = state.setdefault("all", [])
        every.append(row.i)
        yield shown(row, "rows beside dead letters", f"{len(every)} {every}")
        if row.x % 2:
            yield shown(row, "side output", len(every))


class Awaits(AsyncKeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.all = ctx.get_list_state(ListStateDescriptor("all", "long"))

    async def process_element(self, row: Any, ctx: Any) -> Any:
        await asyncio.sleep(0.001 * (row.i % 3))
        self.all.add(row.i)
        yield result(row, "async", list(self.all.get()))


def columns(df: DataFrame, place: Place) -> DataFrame:
    sums: DataFrame = place.keyed(df).aggregate(
        F.sum("x").alias("total"), F.count("*").alias("n"), F.max("i").alias("i")
    )
    return sums.selectExpr(
        "k", "i", "CAST(NULL AS BIGINT) x", "CAST(NULL AS TIMESTAMP) at", "'columns' feature",
        "concat_ws(' ', total, n) what", "CAST(NULL AS STRING) id",
    )  # fmt: skip


class ColumnsModel(Model):
    def batch(self, batch: Batch) -> list[Row]:
        last = {row.k: row for row in super().batch(batch)}
        return list(last.values())

    def row(self, row: Row, state: Any) -> Iterator[Row]:
        state["total"] = state.get("total", 0) + row.x
        state["n"] = state.get("n", 0) + 1
        state["i"] = max(state.get("i", 0), row.i)
        what = f"{state['total']} {state['n']}"
        yield Row(row.k, state["i"], None, None, "columns", what)


class Sums(KeyedBatchFunction):
    def open(self, ctx: Any) -> None:
        self.sum = ctx.get_state(ValueStateDescriptor("sum", "long", default=0))

    def process_batch(self, batch: Any, ctx: Any) -> Any:
        sums, told = self.sum.value().to_pylist(), []
        for at, x in zip(batch.key_of_row.to_pylist(), batch.rows["x"].to_pylist()):
            sums[at] += x
            told.append(str(sums[at]))
        self.sum.update(sums)
        rows = {name: batch.rows[name] for name in ("k", "i", "x", "at")}
        size = batch.rows.num_rows
        return {**rows, "feature": ["batches"] * size, "what": told, "id": [None] * size}


class SumsModel(Model):
    def row(self, row: Row, state: Any) -> Iterator[Row]:
        state["sum"] = state.get("sum", 0) + row.x
        yield shown(row, "batches", state["sum"])


class Begun(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.n = ctx.get_state(ValueStateDescriptor("n", "long", default=0))

    def process_initial_state(self, row: Any, ctx: Any) -> None:
        self.n.update(self.n.value() + row.n)

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.n.update(self.n.value() + 1)
        yield result(row, "initial state", self.n.value())


def initial(df: DataFrame, place: Place) -> DataFrame:
    made: DataFrame = place.keyed(df).process(
        Begun(), OUTPUT, time_mode="none", initial_state=place.table()
    )
    return made


class InitialModel(Model):
    def row(self, row: Row, state: Any) -> Iterator[Row]:
        state["n"] = state.get("n", TABLE.get(row.k, 0)) + 1
        yield shown(row, "initial state", state["n"])


class Limited(KeyedProcessFunction):
    def __init__(self, number: int, limit: int) -> None:
        self._described: Any = MapStateDescriptor(f"pages{number}", "long", "long")
        self._described.set_max_entries(limit)

    def open(self, ctx: Any) -> None:
        self.pages = ctx.get_map_state(self._described)

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.pages.put(row.i, row.x)
        yield result(row, "limits", sorted(self.pages.keys()))
