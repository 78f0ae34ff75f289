"""Aggregates of the columns of keys at work in a subtask, without windows.

A key's aggregates are emitted once in a micro-batch, with all its rows: when the input has ended. A
key can be in several generations, so the results of each are kept until then, and the last one of a
key counts. In a batch query there can be more keys than a worker may keep: there timers emit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from keystate._spec.protocol import Control
from keystate._worker.aggregates.key_groups import key_numbers
from keystate._worker.calls.function_spec import FunctionSpec
from keystate._worker.messages.columns import Columns
from keystate._worker.operators.columns import ColumnOperator, due_arrays
from keystate._worker.operators.task_spec import TaskSpec
from keystate._worker.state.aggregate_columns import AggregateColumns
from keystate._worker.state.column_timers import ColumnTimers
from keystate._worker.state.timers import WorkerTimers
from keystate.functions import TimeDomain

#: The most rows of an answer.
_ROWS = 50_000


class ColumnAggregateOperator(ColumnOperator):
    """Aggregates of the columns of keys."""

    _timers: ColumnTimers

    def __init__(
        self, function_spec: FunctionSpec, declared: TaskSpec, control: dict[str, Any]
    ) -> None:
        #: What a micro-batch emits: of each generation keys and results.
        self._emitted: list[tuple[pa.Array, pa.Array]] = []
        self._open_state = lambda spec, index, cursor, _: AggregateColumns(
            spec, index, cursor, self._aggregation
        )
        self._streaming = bool(control[Control.STREAMING])
        super().__init__(function_spec, declared, control)

    def _make_timers(self) -> WorkerTimers:
        return ColumnTimers(self._state, TimeDomain.EVENT_TIME.value)

    def begin_task(self, control: dict[str, Any]) -> None:
        self._emitted = []
        super().begin_task(control)
        self._left = self._fires_all

    def _run(self, slots: pa.Array, rows: pa.RecordBatch, results: list[Any]) -> None:
        if len(slots):
            self._state.add(slots.to_numpy().astype(np.int64), self._lift(rows))

    def _fire(self, message: Columns, results: list[Any]) -> None:
        slots, domains, times = due_arrays(message)
        if len(slots) == 0:
            return
        self._timers.fired(slots, domains, times)
        results.append((0, self._made(self._state.of(slots))))

    def _flush(self) -> Iterator[pa.RecordBatch]:
        changed = self._state.changed()
        if self._streaming and len(changed):
            self._emitted.append((self._keys_of(changed.slots), self._made(changed)))
        yield from super()._flush()

    def end_task(self) -> Iterator[pa.RecordBatch]:
        yield from super().end_task()
        rows = _last_of_each_key(self._emitted)
        self._emitted = []
        for start in range(0, len(rows), _ROWS):
            yield self._batch([(0, rows.slice(start, _ROWS))])


def _last_of_each_key(emitted: list[tuple[pa.Array, pa.Array]]) -> pa.Array:
    """The rows of all, without those whose key comes again."""
    if len(emitted) < 2:
        return emitted[0][1] if emitted else pa.array([])
    keys = pa.concat_arrays([key for key, _ in emitted])
    rows = pa.concat_arrays([row for _, row in emitted])
    numbers = key_numbers(keys.flatten())
    last = np.zeros(numbers.max() + 1, np.int64)
    last[numbers] = np.arange(len(rows))  # where a number comes again, NumPy keeps the last
    return rows.take(pa.array(last))
