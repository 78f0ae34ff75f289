"""The base of operators whose states are columns."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from keystate._spec.protocol import Control, Message
from keystate._types.codec import codec
from keystate._worker.aggregates.accumulators import Parts
from keystate._worker.aggregates.computing import Aggregation
from keystate._worker.aggregates.groups import Numbers
from keystate._worker.calls.function_spec import FunctionSpec
from keystate._worker.messages.columns import GONE, Columns
from keystate._worker.operators.batches import ArrowKeys, BatchOperator
from keystate._worker.operators.task_spec import TaskSpec
from keystate._worker.state.column_entries import Entries
from keystate._worker.state.column_state import ColumnState
from keystate.errors import DeclarationError

#: The index of an output and rows of it.
_Emitted = tuple[int, pa.Array]


class ColumnOperator(BatchOperator):
    """An operator of accumulators by columns, which are one of its states."""

    _state_class: Any = ColumnState

    def __init__(
        self, function_spec: FunctionSpec, declared: TaskSpec, control: dict[str, Any]
    ) -> None:
        self._function = self._make_function(function_spec)
        self._aggregation = self._make_aggregation()
        output: pa.StructType = codec(declared.output).arrow
        self._outputs = output if declared.spec.side_outputs else pa.struct([pa.field("", output)])
        self._tagged = declared.spec.side_outputs
        super().__init__(function_spec, declared, control)

    def _make_function(self, function_spec: FunctionSpec) -> Any:
        """Tells what is computed."""
        return function_spec.function

    def _make_aggregation(self) -> Any:
        return Aggregation(self._function.aggregates)

    def _lift(self, rows: pa.RecordBatch) -> Parts:
        """The accumulators of rows."""
        if self._function.combined:
            columns = rows.columns[-self._aggregation.stored :]
            parts: Parts = self._aggregation.unpack_columns(columns)
        else:
            parts = self._aggregation.lift(rows)
        return parts

    @cached_property
    def _state(self) -> Any:
        (state,) = (each for each in self._states if isinstance(each, self._state_class))
        return state

    def begin_task(self, control: dict[str, Any]) -> None:
        if control.get(Control.REAL_TIME):
            raise DeclarationError(
                "aggregates of columns need micro-batches: in real-time mode use an "
                "AggregateFunction, or a function of rows"
            )
        super().begin_task(control)

    def _made(self, entries: Entries, *columns: pa.Array) -> pa.Array:
        """The output rows of entries: keys, these columns, and results."""
        made = [
            *self._keys_of(entries.slots).flatten(),
            *columns,
            *self._aggregation.results(entries.parts),
        ]
        return pa.StructArray.from_arrays(made, names=self._outputs.field(0).type.names)

    def _keys_of(self, slots: Numbers) -> pa.Array:
        all_keys: ArrowKeys = self._context.keys  # type: ignore[assignment]
        return all_keys.take(slots)

    def _encode(self, results: list[_Emitted]) -> pa.Array:
        encoded = [self._output(*each) for each in results]
        kind = self._outputs if self._tagged else self._outputs.field(0).type
        return pa.concat_arrays(encoded) if encoded else pa.array([], kind)

    def _output(self, index: int, rows: pa.Array) -> pa.Array:
        """Rows of an output, with side outputs in the column of it."""
        rows = rows.cast(self._outputs.field(index).type)
        if not self._tagged:
            return rows
        columns = [
            rows if i == index else pa.nulls(len(rows), field.type)
            for i, field in enumerate(self._outputs)
        ]
        return pa.StructArray.from_arrays(columns, fields=list(self._outputs))


def due_arrays(message: Columns) -> tuple[Numbers, Numbers, Numbers]:
    """Slots, domains and times of the timers that are due, without those that are gone."""
    domains = message.elements(Message.TIMER_DOMAINS).to_numpy()
    there = domains < GONE
    slots = message.elements(Message.TIMER_KEY_INDEXES).to_numpy().astype(np.int64)
    times = message.elements(Message.TIMER_TIMES).to_numpy()
    return slots[there], domains[there], times[there]
