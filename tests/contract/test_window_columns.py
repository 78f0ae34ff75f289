"""Windows by columns whose map stays with the JVM, over generations of keys."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
from keystate._spec.specs import StateSpec
from keystate._types.codec import codec
from keystate._worker.windows.folded import FoldedRows
from keystate._worker.windows.folded_columns import FoldedColumns
from keystate.state.kinds import StateKind
from pyspark.sql import types as T

KEY = T.StructType([T.StructField(name, T.LongType()) for name in ("end", "start")])


class Total:
    codec = codec(T.LongType())

    def add(self, row: Any, accumulator: Any) -> int:
        return int(row) + (accumulator or 0)

    def merge(self, a: Any, b: Any) -> int:
        return int(a + b)


class Stored:
    """The map of a key, as the JVM has it and answers questions of it."""

    def __init__(self, spec: StateSpec) -> None:
        self._types = spec.key_codec().arrow, spec.value_codec().arrow
        self.entries: dict[tuple[int, ...], int] = {}

    def get(self, state: int, slot: int, keys: pa.Array) -> pa.Array:
        found = [self.entries.get(tuple(key.values())) for key in keys.to_pylist()]
        return pa.array([value for value in found if value], self._types[1])

    def scan(self, *_: Any) -> Iterator[Any]:
        keys = [dict(zip(("end", "start"), key)) for key in self.entries]
        values = list(self.entries.values())
        yield (pa.array(keys, self._types[0]), pa.array(values, self._types[1])), None, None


def numbers(*values: int) -> Any:
    return np.array(values, np.int64)


def test_a_window_that_has_ended_is_not_read_again_in_the_next_generation() -> None:
    spec = StateSpec("window-contents", StateKind.SORTED_MAP, "sorted map", T.LongType(), KEY)
    stored = Stored(spec)
    cursor = SimpleNamespace(client=stored, slot=None, row=None)
    state = FoldedColumns(spec, 0, cursor, 10_000, Total(), None)
    state._size, state._remote = 1, {0: set()}
    slots, ends, starts = window = numbers(0), numbers(2000), numbers(1000)
    state.add(*window, FoldedRows.of_rows([1]))
    assert state.take_due(state.due_here(5500), 5500).parts[1].tolist() == [1]
    put = state._take_changed(0, 1)
    timers = [column.tolist() for column in state.take_timers()]
    assert timers == [[0], [11_999], [2000], [1000]], "it is kept for late rows"
    ((key, value),) = zip(state._keys_of(put).to_pylist(), state._values(put.parts).to_pylist())
    stored.entries[tuple(key.values())] = value
    state.new_generation()
    state._size, state._away = 1, numbers(0)
    state._loaded(0, numbers(0))
    state._append(state._carried(0, numbers(0)))
    assert not state.due_here(6000).any()
    fired: list[Any] = []
    late = FoldedRows.of_rows([1])
    state.add_late(*window, late, lambda window, accumulator: fired.append((window, accumulator)))
    assert fired == [((2000, 1000), 2)]
    due = state.due_by((slots, numbers(11_999), ends, starts))
    assert len(state.take_due(due, 12_000)) == 0 and len(state._merge()) == 0
