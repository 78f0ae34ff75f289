"""Windows by columns whose map stays with the JVM, over generations of keys."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
from keystate import agg
from keystate._spec.specs import StateSpec
from keystate._worker.aggregates.computing import Aggregation
from keystate._worker.aggregates.declared import accumulator_type, resolve
from keystate._worker.state.window_columns import WindowColumns
from keystate.state.kinds import StateKind
from pyspark.sql import types as T

COUNT = resolve([agg.count().alias("n")], T.StructType([]))
KEY = T.StructType([T.StructField(name, T.LongType()) for name in ("open", "end", "start")])


class Stored:
    """The map of a key, as the JVM has it and answers questions of it."""

    def __init__(self, spec: StateSpec) -> None:
        self._types = spec.key_codec().arrow, spec.value_codec().arrow
        self.entries: dict[tuple[int, ...], dict[str, int]] = {}

    def get(self, state: int, slot: int, keys: pa.Array) -> pa.Array:
        found = [self.entries.get(tuple(key.values())) for key in keys.to_pylist()]
        return pa.array([value for value in found if value], self._types[1])

    def scan(self, *_: Any) -> Iterator[Any]:
        keys = [dict(zip(("open", "end", "start"), key)) for key in self.entries]
        values = list(self.entries.values())
        yield (pa.array(keys, self._types[0]), pa.array(values, self._types[1])), None, None


def numbers(*values: int) -> Any:
    return np.array(values, np.int64)


def test_a_window_that_has_ended_is_not_read_again_in_the_next_generation() -> None:
    spec = StateSpec(
        "window-contents", StateKind.SORTED_MAP, "sorted map", accumulator_type(COUNT), KEY
    )
    stored = Stored(spec)
    state = WindowColumns(spec, 0, SimpleNamespace(client=stored), Aggregation(COUNT), 10_000)
    state._size, state._remote = 1, {0: set()}
    window = numbers(0), numbers(2000), numbers(1000), [pa.array([1])]
    state.add(*window)
    assert state.take_due(numbers(0), 5500).parts == [pa.array([1])]
    (keys,), (values,) = _changes(state)
    stored.entries[keys] = values
    state.new_generation()
    state._size, state._away = 1, numbers(0)
    state._loaded(0, numbers(0))
    state._append(state._carried(0, numbers(0)))
    assert state.take_due(numbers(0), 6000).parts == [pa.array([], pa.int64())]
    assert state.add_late(*window).parts == [pa.array([2])]


def _changes(state: WindowColumns) -> tuple[list[tuple[int, ...]], list[dict[str, int]]]:
    """The keys and values of windows that the JVM is to have."""
    put = state._take_changed(0, 1)
    keys = zip(*(each.tolist() for each in (put.opens, put.ends, put.starts)))
    return list(keys), [{"n": n} for n in put.parts[0].to_pylist()]
