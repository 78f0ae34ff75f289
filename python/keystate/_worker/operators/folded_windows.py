"""Windows at work in a subtask whose rows the user's function adds to an accumulator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from keystate._spec.specs import StateSpec
from keystate._worker.operators.windows_by_columns import WindowsByColumnsOperator
from keystate._worker.state.column_entries import Entries
from keystate._worker.state.emptied_maps import EmptiedMap
from keystate._worker.state.folded_columns import FoldedColumns, FoldedWindowColumns
from keystate._worker.state.worker_state import WorkerState
from keystate._worker.windows.folded import FoldedRows
from keystate._worker.windows.groups import Numbers
from keystate._worker.windows.parts import Parts


class FoldedOperator(WindowsByColumnsOperator):
    """Windows of folds."""

    _state: FoldedColumns
    _state_class: type[FoldedColumns]

    def _open_contents(self, spec: StateSpec, index: int, cursor: Any) -> FoldedColumns:
        windows = self._function
        return self._state_class(spec, index, cursor, windows.fold, windows.copy, windows.lateness)

    def _open_other(self, spec: StateSpec, index: int, cursor: Any) -> WorkerState:
        return EmptiedMap(spec, index, cursor)  # of timers: those of windows are told by them

    def _lift(self, rows: pa.RecordBatch) -> Parts:
        return FoldedRows.of_rows(self._decoded(rows))

    def _flush(self) -> Iterator[pa.RecordBatch]:
        self._guard(self._state.settle)
        yield from super()._flush()

    def _end(self, slots: Numbers, until: int, results: list[Any]) -> None:
        if self._generation:
            self._delete(*self._state.due_timers(slots, until))
        self._emit(self._state.take_due(slots, until), results, by_timer=True)

    def _emit(self, entries: Entries, results: list[Any], by_timer: bool) -> None:
        """Fires windows."""
        self._context.row = None
        self._learn(entries.slots)
        columns = (entries.slots, entries.ends, entries.starts, entries.parts[1])
        for slot, end, start, accumulator in zip(*(column.tolist() for column in columns)):
            self._emit_one(slot, (end, start), accumulator, results, by_timer)


class FoldedWindowsOperator(FoldedOperator):
    """Tumbling and sliding windows with their default trigger, of folds."""

    _state: FoldedWindowColumns
    _state_class = FoldedWindowColumns

    def _add_late(self, slots: Numbers, ends: Numbers, parts: Parts, results: list[Any]) -> None:
        context, windows = self._context, self._function
        starts = ends - windows.size
        self._learn(slots)
        self._state.add_late(
            slots,
            ends,
            starts,
            parts,
            lambda window, accumulator: windows.fire(window, accumulator, context, results),
        )
