"""Windows of column aggregates at work in a subtask: columns in, columns out, no Python values.

What is late, when windows fire, and what is stored is as for the same windows of functions of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

from keystate._codec import codec
from keystate._protocol import Message
from keystate._spec import OperatorSpec
from keystate._worker.aggregates.computing import Aggregation
from keystate._worker.aggregates.groups import Numbers
from keystate._worker.calls.plan import FunctionPlan
from keystate._worker.contexts.row_context import RowContext
from keystate._worker.messages.columns import Columns
from keystate._worker.operators.batches import ArrowKeys, BatchOperator
from keystate._worker.operators.windows import NO_WATERMARK, WindowsContext
from keystate._worker.state.timers import WorkerTimers
from keystate._worker.state.window_column_timers import WindowColumnTimers
from keystate._worker.state.window_columns import WindowColumns
from keystate._worker.state.window_entries import Entries
from keystate.functions import TimeDomain

#: The index of an output and rows of it.
_Emitted = tuple[int, pa.Array]


class ColumnWindowsOperator(BatchOperator):
    """Tumbling and sliding windows with their default trigger, of column aggregates."""

    _context: WindowsContext
    _timers: WindowColumnTimers

    def __init__(
        self,
        plan: FunctionPlan,
        spec: OperatorSpec,
        key_type: T.StructType,
        row_type: T.StructType,
        output_type: T.StructType,
        control: dict[str, Any],
    ) -> None:
        self._windows_of = plan.function
        aggregation = self._aggregation = Aggregation(plan.function.aggregates)
        self._open_state = lambda spec, index, cursor, _: WindowColumns(
            spec, index, cursor, aggregation
        )
        by_event_time = plan.function.by_event_time
        clock = TimeDomain.EVENT_TIME if by_event_time else TimeDomain.PROCESSING_TIME
        self._domain: int = clock.value
        output: pa.StructType = codec(output_type).arrow
        self._outputs = output if spec.side_outputs else pa.struct([pa.field("", output)])
        self._tagged = spec.side_outputs
        super().__init__(plan, spec, key_type, row_type, output_type, control)

    @property
    def _state(self) -> WindowColumns:
        (state,) = self._states
        assert isinstance(state, WindowColumns)
        return state

    def _make_context(self) -> RowContext:
        return WindowsContext()

    def _make_timers(self) -> WorkerTimers:
        return WindowColumnTimers(self._state, self._domain)

    # -- rows -----------------------------------------------------------------------------------

    def _run(self, slots: pa.Array, rows: pa.RecordBatch, results: list[Any]) -> None:
        if len(slots) == 0:
            return
        windows = self._windows_of
        times, closed = self._times(rows)
        size, slide = windows.size, windows.slide
        first_end = times - (times - windows.offset) % slide + size
        each = np.arange(-(-size // slide))
        # By row and then by window, so that the rows of a window are in their order.
        ends = (first_end[:, None] - each[None, :] * slide).ravel()
        of_rows = np.repeat(np.arange(len(times)), len(each))
        taken = (ends > times[of_rows]) & (ends > closed)
        self._take_late(rows, times, closed, of_rows[taken], results)
        if not taken.all():
            ends, of_rows = ends[taken], of_rows[taken]
        if len(ends) == 0:
            return
        parts = self._aggregation.lift(rows)
        if len(each) > 1 or len(ends) < len(times):
            places = pa.array(of_rows)
            parts = [part.take(places) for part in parts]
        of_keys = slots.to_numpy().astype(np.int64)[of_rows]
        self._state.add(of_keys, ends, ends - size, parts)

    def _times(self, rows: pa.RecordBatch) -> tuple[Numbers, int]:
        """The rows' times in ms, and the time up to which windows are closed."""
        context, windows = self._context, self._windows_of
        if not windows.by_event_time:
            return np.full(rows.num_rows, context.current_processing_time()), NO_WATERMARK
        times = rows.column(windows.time_column)
        if pa.types.is_struct(times.type):
            times = pc.struct_field(times, 1)
        if times.null_count:
            raise ValueError(
                "a row has no event time, so it is in no window: filter such rows out before "
                "window()"
            )
        millis = times.cast(pa.int64()).to_numpy() // 1000
        return millis, min(context.late_watermark, 2**63 - 2) + 1

    def _take_late(
        self,
        rows: pa.RecordBatch,
        times: Numbers,
        closed: int,
        taken: Numbers,
        results: list[Any],
    ) -> None:
        """Emits or counts the rows that are too late for all of their windows."""
        late = times < closed
        if not late.any():
            return
        late[taken] = False
        count = int(np.count_nonzero(late))
        windows = self._windows_of
        if count and windows.late_output is None:
            windows.dropped.inc(count)
        elif count:
            output = self._outputs.get_field_index(windows.late_output.tag_id)
            if self._tagged and output > 0:
                found = rows.filter(pa.array(late)).to_struct_array()
                results.append((output, found))

    # -- timers ---------------------------------------------------------------------------------

    def _fire(self, message: Columns, results: list[Any]) -> None:
        slots = message.elements(Message.TIMER_SLOTS).to_numpy().astype(np.int64)
        if len(slots) == 0:
            return
        domains = message.elements(Message.TIMER_DOMAINS).to_numpy()
        times = message.elements(Message.TIMER_TIMES).to_numpy()
        self._timers.fired(slots, domains, times)
        mine = domains == self._domain
        if not mine.any():
            return  # of a trigger that there was before a restart
        context = self._context
        clock = (
            context.current_watermark()
            if self._windows_of.by_event_time
            else context.current_processing_time()
        )
        until = int(times[mine].max())
        due = self._state.take_due(slots[mine], until if clock is None else max(until, clock))
        if len(due):
            results.append((0, self._made(due)))

    def _made(self, entries: Entries) -> pa.Array:
        """What is emitted of windows: key, start, end, and results."""
        all_keys: ArrowKeys = self._context.keys  # type: ignore[assignment]
        bounds = [pa.array(each * 1000) for each in (entries.starts, entries.ends)]
        columns = [
            *all_keys.take(entries.slots).flatten(),
            *(each.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")) for each in bounds),
            *self._aggregation.results(entries.parts),
        ]
        return pa.StructArray.from_arrays(columns, names=self._outputs.field(0).type.names)

    # -- results --------------------------------------------------------------------------------

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
