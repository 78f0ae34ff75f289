"""Functions with operator state of each kind, whose sum does not depend on subtasks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import keystate
from keystate import (
    CheckpointedFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ProcessFunction,
    ValueStateDescriptor,
)
from pyspark.sql import DataFrame

from tests.matrix.feature import Model, Place, shown
from tests.matrix.flow import OUTPUT, Row, result


class Lists(CheckpointedFunction):
    """Keeps the numbers of rows.

    In an even-split list; in a union list of which each instance goes on with its share; and as a
    count in a union list of which the first subtask goes on with the sum. A broadcast map says of
    all that it is restored.
    """

    def __init__(self, number: int, feature: str) -> None:
        self._number = number
        self._feature = feature

    def initialize_state(self, context: Any) -> None:
        store, n = context.get_operator_state_store(), self._number
        self._kept = store.get_list_state(ListStateDescriptor(f"kept{n}", "long"))
        self._shared = store.get_union_list_state(ListStateDescriptor(f"shared{n}", "long"))
        self._counts = store.get_union_list_state(ListStateDescriptor(f"counts{n}", "long"))
        self._map = store.get_broadcast_state(MapStateDescriptor(f"map{n}", "string", "long"))
        self._numbers = list(self._kept.get())
        self._every, self._sum = sorted(self._shared.get()), sum(self._counts.get())
        held = dict(self._map.items())
        assert held == ({"is restored": 1} if context.is_restored() else {}), held

    def open(self, ctx: Any) -> None:
        index, size = ctx.get_index_of_this_subtask(), ctx.get_number_of_parallel_subtasks()
        assert 0 <= index < size, (index, size)
        self._own = [x for x in self._every if x % size == index]
        self._count = self._sum if index == 0 else 0

    def process_element(self, row: Any, ctx: Any) -> Any:
        self._numbers.append(row.i)
        self._own.append(row.i)
        self._count += 1
        yield result(row, self._feature, row.i)

    def snapshot_state(self, context: Any) -> None:
        self._kept.update(self._numbers)
        self._shared.update(self._own)
        self._counts.update([self._count])
        self._map.put("is restored", 1)


class KeepingKeyed(Lists, KeyedProcessFunction):
    """With keys."""


class Keeping(Lists, ProcessFunction):
    """Without keys."""


class Sketches(KeyedProcessFunction, CheckpointedFunction):
    """Raw keyed state: counts of keys by their key groups."""

    def initialize_state(self, context: Any) -> None:
        self.counts: dict[int, dict[str, int]] = {}
        for provider in context.get_raw_keyed_state_inputs():
            self.counts[provider.get_key_group_id()] = dict(json.load(provider.get_stream()))

    def open(self, ctx: Any) -> None:
        self.group_of = ctx.get_key_group

    def process_element(self, row: Any, ctx: Any) -> Any:
        counts = self.counts.setdefault(self.group_of(row.k), {})
        counts[row.k] = counts.get(row.k, 0) + 1
        yield result(row, "raw keyed state", counts[row.k])

    def snapshot_state(self, context: Any) -> None:
        output = context.get_raw_keyed_operator_state_output()
        for group, counts in self.counts.items():
            output.start_new_key_group(group)
            output.write(json.dumps(list(counts.items())).encode())


class Counting(KeyedProcessFunction):
    """Counts the rows of a key."""

    def open(self, ctx: Any) -> None:
        self._n: Any = ctx.get_state(ValueStateDescriptor("n", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self._n.update(self._n.value() + 1)
        yield result(row, "count", self._n.value())


class ListsModel(Model):
    """Each row's number is once in each list, and in the sum of the counts."""

    def __init__(self, feature: str) -> None:
        super().__init__()
        self._feature = feature
        self._all: list[int] = []

    def row(self, row: Row, state: Any) -> Iterator[Row]:
        self._all.append(row.i)
        yield shown(row, self._feature, row.i)

    def lists(self) -> dict[str, list[int]]:
        every = sorted(self._all)
        return {"kept": every, "shared": every, "counts": [len(every)]}


def no_keys(df: DataFrame, place: Place) -> DataFrame:
    made: DataFrame = keystate.stream(df).process(
        Keeping(place.number, "operator state without keys"), OUTPUT, time_mode="none"
    )
    return made
