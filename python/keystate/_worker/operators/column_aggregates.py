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

from keystate._protocol import Control, Message
from keystate._worker.calls.plan import FunctionPlan
from keystate._worker.messages.columns import Columns
from keystate._worker.operators.columns import ColumnOperator
from keystate._worker.operators.declared import Declared
from keystate._worker.state.aggregate_columns import AggregateColumns
from keystate._worker.state.column_timers import ColumnTimers
from keystate._worker.state.timers import WorkerTimers
from keystate.functions import TimeDomain

#: The most rows of an answer.
_ROWS = 50_000


class ColumnAggregateOperator(ColumnOperator):
    """Aggregates of the columns of keys."""

    _timers: ColumnTimers

    def __init__(self, plan: FunctionPlan, declared: Declared, control: dict[str, Any]) -> None:
        #: What a micro-batch emits: of each generation keys and results.
        self._emitted: list[tuple[pa.Array, pa.Array]] = []
        self._open_state = lambda spec, index, cursor, _: AggregateColumns(
            spec, index, cursor, self._aggregation
        )
        self._streaming = bool(control[Control.STREAMING])
        super().__init__(plan, declared, control)

    @property
    def _state(self) -> AggregateColumns:
        (state,) = self._states
        assert isinstance(state, AggregateColumns)
        return state

    def _make_timers(self) -> WorkerTimers:
        return ColumnTimers(self._state, TimeDomain.EVENT_TIME.value)

    def begin_task(self, control: dict[str, Any]) -> None:
        self._emitted = []
        super().begin_task(control)

    def _run(self, slots: pa.Array, rows: pa.RecordBatch, results: list[Any]) -> None:
        if len(slots):
            self._state.add(slots.to_numpy().astype(np.int64), self._aggregation.lift(rows))

    def _fire(self, message: Columns, results: list[Any]) -> None:
        slots = message.elements(Message.TIMER_SLOTS).to_numpy().astype(np.int64)
        if len(slots) == 0:
            return
        domains = message.elements(Message.TIMER_DOMAINS).to_numpy()
        self._timers.fired(slots, domains, message.elements(Message.TIMER_TIMES).to_numpy())
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
    names = [str(i) for i in range(keys.type.num_fields)]
    columns = [_comparable(column) for column in keys.flatten()]
    table = pa.table([*columns, pa.array(np.arange(len(rows)))], [*names, "place"])
    last = table.group_by(names, use_threads=False).aggregate([("place", "max")])
    return rows.take(last["place_max"].combine_chunks())


def _comparable(column: pa.Array) -> pa.Array:
    """A key's column as Arrow groups it, with each NaN the same, and nested values as text."""
    if pa.types.is_float64(column.type):
        return column.view(pa.int64())
    if pa.types.is_float32(column.type):
        return column.view(pa.int32())
    if pa.types.is_nested(column.type):
        return pa.array([None if each is None else repr(each) for each in column.to_pylist()])
    return column
