"""A query with every kind of state, whose checkpoints are kept here."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import keystate
from keystate import (
    CheckpointedFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    SortedMapStateDescriptor,
    StateTtlConfig,
    Time,
    ValueStateDescriptor,
)
from pyspark.sql import DataFrame

INPUT, OUTPUT = "key string, x long, at timestamp", "key string, found string"
BACKEND = "spark.keystate.backend"
FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
PARTITIONS = "spark.sql.shuffle.partitions"
KEYS = 300  # so many that a batch's changes do not fit into a version file


class Everything(KeyedProcessFunction, CheckpointedFunction):
    """Emits what is in all states of a key after each row, and when its timer fires."""

    def __init__(self, repeats: int) -> None:
        self.repeats = repeats

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.rows = store.get_union_list_state(ListStateDescriptor("rows", "long"))
        self.before, self.new = sum(self.rows.get()), 0

    def snapshot_state(self, context: Any) -> None:
        self.rows.update([*self.own, self.new])

    def open(self, ctx: Any) -> None:
        # Of a union list all get everything, and one is to keep it.
        self.own = list(self.rows.get()) if ctx.get_index_of_this_subtask() == 0 else []
        self.value = ctx.get_state(ValueStateDescriptor("value", "n long, text string"))
        self.list = ctx.get_list_state(ListStateDescriptor("list", "double"))
        self.map = ctx.get_map_state(MapStateDescriptor("map", "string", "n long, x long"))
        self.sorted = ctx.get_sorted_map_state(SortedMapStateDescriptor("sorted", "long", "string"))
        total = ReducingStateDescriptor("total", lambda a, b: a + b, "long")
        total.enable_time_to_live(StateTtlConfig.new_builder(Time.days(36500)).build())
        self.total = ctx.get_reducing_state(total)

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.new += 1
        n = 1 if self.value.value() is None else self.value.value().n + 1
        self.value.update((n, f"{row.x} " * self.repeats))
        self.list.add(row.x / 4)
        self.map.put(f"k{row.x % 3}", (n, row.x))
        self.sorted.put(-row.x, str(row.x))
        if n == 2:
            self.sorted.pop_first()
        self.total.add(row.x)
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10_000)
        yield row.key, self.found(f"{self.before} rows before")

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), self.found(f"timer {timestamp}")

    def found(self, why: str) -> str:
        value = self.value.value()
        text = "" if value is None else value.text[:9]
        entries = sorted((key, *each) for key, each in self.map.items())
        states = [text, list(self.list), entries, list(self.sorted.items()), self.total.get()]
        return json.dumps([why, states])


def batches() -> list[list[Any]]:
    """Three micro-batches; a checkpoint that is kept had the first two."""

    def rows(keys: range, batch: int) -> list[Any]:
        at = datetime.fromtimestamp(1_700_000_000 + 8 * batch)
        return [(f"key {key}", 7 * key - 500 * batch, at) for key in keys]

    return [rows(range(KEYS), 0), rows(range(0, KEYS, 2), 1), rows(range(0, KEYS, 3), 2)]


def move(checkpoint: Path, place: str, to: str) -> None:
    """Spark's operator metadata say where they are, absolutely."""
    for path in (checkpoint / "state").glob("*/_metadata/v2/*"):
        path.write_text(path.read_text().replace(place, to))
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def build(df: DataFrame, repeats: int = 50) -> DataFrame:
    """The query; with more `repeats` its values are longer."""
    keyed = keystate.keyed(df.withWatermark("at", "0 seconds"), "key")
    return keyed.process(Everything(repeats), OUTPUT)
