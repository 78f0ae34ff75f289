"""Windows at work in a subtask whose rows are only added, by the user's function.

Windows, keys and timers of a message's rows are found by columns, as for aggregates of columns; the
function is called for each row, and for each window that fires. What is emitted and what is stored
is as if the rows came one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyarrow as pa

from keystate._compiled import collect
from keystate._worker.aggregates.accumulators import Parts
from keystate._worker.aggregates.folded import FoldedRows
from keystate._worker.aggregates.groups import Numbers
from keystate._worker.calls.function_spec import FunctionSpec
from keystate._worker.messages.columns import Columns
from keystate._worker.operators.batches import ArrowKeys
from keystate._worker.operators.column_windows import ColumnWindowsOperator
from keystate._worker.operators.task_spec import TaskSpec
from keystate._worker.state.column_entries import Entries
from keystate._worker.state.folded_columns import FoldedColumns
from keystate._worker.state.window_columns import WindowColumns


class FoldedWindowsOperator(ColumnWindowsOperator):
    """Tumbling and sliding windows with their default trigger, of folds."""

    _state: FoldedColumns
    _state_class: type[WindowColumns] = FoldedColumns

    def __init__(
        self, function_spec: FunctionSpec, declared: TaskSpec, control: dict[str, Any]
    ) -> None:
        self._by_timer = False
        super().__init__(function_spec, declared, control)
        self._context.take = self._results.take

    def _make_function(self, function_spec: FunctionSpec) -> Any:
        return function_spec.function.by_columns()

    def _make_aggregation(self) -> FoldedRows:
        return FoldedRows(self._function.fold, self._function.copy)

    def _new_keys(self) -> Any:
        return _Keys(self._keys, self._bare_key)

    # -- rows -----------------------------------------------------------------------------------

    def _lift(self, rows: pa.RecordBatch) -> Parts:
        return FoldedRows.of_rows(self._decoded(rows))

    def _add_late(self, slots: Numbers, ends: Numbers, parts: Parts, results: list[Any]) -> None:
        context, windows = self._context, self._function
        starts = ends - windows.size
        self._learn(slots)
        self._state.add_late_rows(
            slots,
            ends,
            starts,
            parts,
            lambda window, accumulator: windows.fire(window, accumulator, context, results),
        )

    def _emit_late(self, rows: pa.RecordBatch, results: list[Any]) -> None:
        late = [(self._function.late_output, row) for row in self._decoded(rows)]
        collect(late, self._results.take, results)

    def _decoded(self, rows: pa.RecordBatch) -> list[Any]:
        decoded: list[Any] = self._rows.decode(rows.to_struct_array())
        return decoded

    def _flush(self) -> Iterator[pa.RecordBatch]:
        self._guard(self._state.settle)
        yield from super()._flush()

    # -- windows that fire ----------------------------------------------------------------------

    def _fire(self, message: Columns, results: list[Any]) -> None:
        with self._timers_fire():
            super()._fire(message, results)

    def _end_here(self, results: list[Any]) -> None:
        with self._timers_fire():
            super()._end_here(results)

    @contextmanager
    def _timers_fire(self) -> Iterator[None]:
        self._by_timer = True
        try:
            yield
        finally:
            self._by_timer = False

    def _emit(self, entries: Entries, results: list[Any]) -> None:
        self._context.row = None
        self._learn(entries.slots)
        columns = (entries.slots, entries.ends, entries.starts, entries.parts[1])
        for slot, end, start, accumulator in zip(*(column.tolist() for column in columns)):
            self._emit_one(slot, (end, start), accumulator, results)

    def _emit_one(self, slot: int, window: tuple[int, int], held: Any, results: list[Any]) -> None:
        """Fires a window that holds this."""
        context = self._context
        context.slot = slot
        if self._by_timer:
            context.timer = self._domain, window[0] - 1
        self._function.fire(window, held, context, results)

    def _learn(self, slots: Numbers) -> None:
        if self._function.asks_for_keys:
            keys: _Keys = self._context.keys  # type: ignore[assignment]
            keys.learn(slots)

    def _encode(self, results: list[Any]) -> pa.Array:
        return self._results.encode(results)


class _Keys(ArrowKeys):
    """Keys that are decoded many at a time."""

    def __init__(self, codec: Any, bare: bool) -> None:
        super().__init__(codec, bare)
        self._known: dict[int, Any] = {}

    def learn(self, slots: Numbers) -> None:
        """Decodes the keys of these slots, and forgets others."""
        keys = self._codec.decode(self.take(slots))
        self._known = dict(zip(slots.tolist(), (key[0] for key in keys) if self._bare else keys))

    def __getitem__(self, slot: int) -> Any:
        return self._known[slot] if slot in self._known else super().__getitem__(slot)
