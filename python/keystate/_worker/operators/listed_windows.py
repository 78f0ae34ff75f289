"""Windows at work in a subtask whose rows are kept for a function that takes all of them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from keystate._spec.specs import StateSpec
from keystate._worker.calls.function_spec import FunctionSpec
from keystate._worker.messages.columns import Columns
from keystate._worker.operators.task_spec import TaskSpec
from keystate._worker.operators.windows import times_of
from keystate._worker.operators.windows_by_columns import WindowsByColumnsOperator, due_arrays
from keystate._worker.state.column_entries import Entries
from keystate._worker.state.listed_columns import ListedColumns, narrowed
from keystate._worker.state.noted_timers import NotedTimers
from keystate._worker.state.row_numbers import RowNumbers
from keystate._worker.state.worker_state import WorkerState
from keystate._worker.windows.groups import Numbers
from keystate._worker.windows.parts import Parts

#: So many rows become Python's at a time, or those of one window; and rows of so many keys whose
#: maps stay with the JVM are read at a time.
_DECODED_AT_ONCE = 10_000
_FAR_AT_ONCE = 50


class ListedWindowsOperator(WindowsByColumnsOperator):
    """Tumbling and sliding windows with their default trigger and no lateness, of rows."""

    _state: ListedColumns

    def __init__(
        self, function_spec: FunctionSpec, declared: TaskSpec, control: dict[str, Any]
    ) -> None:
        super().__init__(function_spec, declared, control)
        self._state.numbers = self._numbers

    def _open_contents(self, spec: StateSpec, index: int, cursor: Any) -> ListedColumns:
        return ListedColumns(spec, index, cursor)

    def _open_other(self, spec: StateSpec, index: int, cursor: Any) -> WorkerState:
        windows = self._function
        if spec.name != windows.timers:
            self._numbers = RowNumbers(spec, index, cursor)
            return self._numbers
        bits = windows.for_both, windows.for_operator
        self._noted = NotedTimers(spec, index, cursor, self._domain, *bits)
        return self._noted

    def _add(self, slots: Numbers, ends: Numbers, parts: Parts, results: list[Any]) -> None:
        super()._add(slots, ends, parts, results)
        self._noted.note(slots, ends, ends - self._function.size)

    def _end(self, slots: Numbers, until: int, results: list[Any]) -> None:
        slots = np.unique(slots)
        away = self._state.are_away(slots)
        # Maps that stay with the JVM are large: so many of them are here at a time.
        far = (slots[away][i : i + _FAR_AT_ONCE] for i in range(0, away.sum(), _FAR_AT_ONCE))
        for part in (slots[~away], *far):
            timers = self._noted.take(part, until)
            if self._generation:
                self._delete(timers.slots, timers.ends - 1)
            self._emit(self._state.take(part, timers, until), results)

    def _fire(self, message: Columns, results: list[Any]) -> None:
        slots, domains, _ = due_arrays(message)
        self._noted.adopt(slots[domains != self._domain])
        super()._fire(message, results)

    def _lift(self, rows: pa.RecordBatch) -> Parts:
        times = pa.nulls(rows.num_rows, pa.int64())
        if self._function.time_column is not None:
            micros = times_of(rows.column(self._function.time_column)).cast(pa.int64())
            millis = micros.fill_null(0).to_numpy() // 1000
            times = pa.array(millis, mask=micros.is_null().to_numpy(zero_copy_only=False))
        return [pa.StructArray.from_arrays([rows.to_struct_array(), times], ["row", "time"])]

    def _emit(self, entries: Entries, results: list[Any]) -> None:
        """Fires windows whose rows these are."""
        if len(entries) == 0:
            return
        self._context.row = None
        self._learn(entries.slots)
        stored = self._state.rows_of(entries)
        columns = (entries.slots, entries.ends, entries.starts)
        differs = np.logical_or.reduce([np.diff(column) != 0 for column in columns])
        heads = np.concatenate([[0], np.flatnonzero(differs) + 1])
        firsts = zip(*(column[heads].tolist() for column in columns))
        rows: list[Any] = []
        first = 0  # the place of the first of them
        bounds = pairwise([*heads.tolist(), len(entries)])
        for (slot, end, start), (low, high) in zip(firsts, bounds):
            if high > first + len(rows):
                first, count = low, max(high - low, _DECODED_AT_ONCE)
                rows = self._rows.decode(narrowed(stored.slice(first, count), self._rows.arrow))
            self._emit_one(slot, (end, start), rows[low - first : high - first], results, True)
