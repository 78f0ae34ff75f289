"""Windows of column aggregates at work in a subtask.

What is late, when windows fire, and what is stored is as for the same windows of functions of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keystate._spec.protocol import Control
from keystate._spec.specs import StateSpec
from keystate._worker.aggregates.accumulators import Parts, taken
from keystate._worker.aggregates.groups import Numbers
from keystate._worker.calls.function_spec import FunctionSpec
from keystate._worker.contexts.row_context import RowContext
from keystate._worker.messages.columns import Columns
from keystate._worker.operators.columns import ColumnOperator, due_arrays
from keystate._worker.operators.task_spec import TaskSpec
from keystate._worker.operators.windows import NO_WATERMARK, WindowsContext, times_of
from keystate._worker.state.column_entries import Entries
from keystate._worker.state.column_timers import ColumnTimers
from keystate._worker.state.emptied_maps import EmptiedMap
from keystate._worker.state.timers import WorkerTimers
from keystate._worker.state.window_columns import WindowColumns
from keystate._worker.state.worker_state import WorkerState
from keystate.functions import TimeDomain

_LAST = 2**63 - 1


class ColumnWindowsOperator(ColumnOperator):
    """Tumbling and sliding windows with their default trigger, of column aggregates."""

    _context: WindowsContext
    _timers: ColumnTimers
    _state_class: type[WindowColumns] = WindowColumns

    def __init__(
        self, function_spec: FunctionSpec, declared: TaskSpec, control: dict[str, Any]
    ) -> None:
        self._open_state = self._open_columns
        super().__init__(function_spec, declared, control)

    def _open_columns(self, spec: StateSpec, index: int, cursor: Any, told: Any) -> WorkerState:
        if spec.name != self._function.contents:
            return EmptiedMap(spec, index, cursor)  # of timers: those of windows are told by them
        return self._state_class(spec, index, cursor, self._aggregation, self._function.lateness)

    def _make_context(self) -> RowContext:
        return WindowsContext()

    @cached_property
    def _domain(self) -> int:
        by_event_time = self._function.by_event_time
        clock = TimeDomain.EVENT_TIME if by_event_time else TimeDomain.PROCESSING_TIME
        return clock.value

    def _make_timers(self) -> WorkerTimers:
        return ColumnTimers(self._state, self._domain)

    # -- rows -----------------------------------------------------------------------------------

    def _run(self, slots: pa.Array, rows: pa.RecordBatch, results: list[Any]) -> None:
        if len(slots) == 0:
            return
        windows = self._function
        times, closed = self._times(slots, rows)
        # Windows that end by then are gone.
        gone = max(closed - windows.lateness, NO_WATERMARK)
        size, slide = windows.size, windows.slide
        first_end = times - (times - windows.offset) % slide + size
        each = np.arange(-(-size // slide))
        # By row and then by window, so that the rows of a window are in their order.
        ends = (first_end[:, None] - each[None, :] * slide).ravel()
        of_rows = np.repeat(np.arange(len(times)), len(each))
        fits = (ends > times[of_rows]) & (ends > gone)
        too_late = times < gone
        too_late[of_rows[fits]] = False
        self._take_late(rows, too_late, results)
        of_keys = slots.to_numpy().astype(np.int64)
        parts = self._lift(rows)
        late = fits & (ends <= closed)
        for chosen, add in ((late, self._add_late), (fits & ~late, self._add)):
            if chosen.all() and len(each) == 1:
                add(of_keys, ends, parts, results)
            elif chosen.any():
                places = of_rows[chosen]
                add(of_keys[places], ends[chosen], taken(parts, places), results)

    def _add(self, slots: Numbers, ends: Numbers, parts: Parts, results: list[Any]) -> None:
        self._state.add(slots, ends, ends - self._function.size, parts)

    def _add_late(self, slots: Numbers, ends: Numbers, parts: Parts, results: list[Any]) -> None:
        late = self._state.add_late(slots, ends, ends - self._function.size, parts)
        self._emit(late, results)

    def _times(self, slots: pa.Array, rows: pa.RecordBatch) -> tuple[Numbers, int]:
        """The rows' times in ms, and the time by which windows that end have ended."""
        context, windows = self._context, self._function
        if not windows.by_event_time:
            return np.full(rows.num_rows, context.current_processing_time()), NO_WATERMARK
        times = times_of(rows.column(windows.time_column))
        if times.null_count:
            place = pc.index(times.is_null(), True).as_py()
            context.slot = slots[place].as_py()
            context.row = self._rows.decode(rows.slice(place, 1).to_struct_array())[0]
            raise ValueError(
                "the row has no event time, so it is in no window: filter such rows out before "
                "window()"
            )
        millis = times.cast(pa.int64()).to_numpy() // 1000
        return millis, min(context.late_watermark, 2**63 - 2) + 1

    def _take_late(self, rows: pa.RecordBatch, late: Numbers, results: list[Any]) -> None:
        """Emits or counts the rows that are too late for all of their windows."""
        count = int(np.count_nonzero(late))
        windows = self._function
        if count and windows.late_output is None:
            if windows.combined:
                numbers = rows.column(rows.num_columns - self._aggregation.stored - 1)
                count = pc.sum(numbers.filter(pa.array(late))).as_py()
            windows.dropped.inc(count)
        elif count:
            self._emit_late(rows.filter(pa.array(late)), results)

    def _emit_late(self, rows: pa.RecordBatch, results: list[Any]) -> None:
        """Adds rows to the output of those that are too late."""
        output = self._outputs.get_field_index(self._function.late_output.tag_id)
        if self._tagged and output > 0:
            results.append((output, rows.to_struct_array()))

    # -- timers ---------------------------------------------------------------------------------

    def _fire(self, message: Columns, results: list[Any]) -> None:
        slots, domains, times = due_arrays(message)
        if len(slots) == 0:
            return
        self._timers.fired(slots, domains, times)
        mine = domains == self._domain
        # The others are of a trigger, or of windows by the other clock, before a restart.
        if not mine.all():
            self._state.adopt(slots[~mine])
        if mine.any():
            # By an earlier lateness a timer may be later than all clocks.
            until = max(int(times[mine].max()), self._clock())
            self._state.rearm(slots[mine])
            self._end(slots[mine], until, results)

    def _clock(self) -> int:
        """Until when windows end in this micro-batch."""
        context = self._context
        if not context.control[Control.STREAMING]:
            return _LAST
        if not self._function.by_event_time:
            return context.current_processing_time()
        watermark = context.current_watermark()
        return NO_WATERMARK if watermark is None else watermark

    def _due_here(self) -> Numbers:
        """The slots that have windows that end in this micro-batch."""
        if self._context.control.get(Control.TIMERS_SENT):
            return np.empty(0, np.int64)
        slots: Numbers = self._state.due_slots(self._clock())
        return slots

    def _leaves_timers(self) -> bool:
        return len(self._due_here()) > 0

    def _fire_here(self) -> Iterator[pa.RecordBatch]:
        results: list[Any] = []
        self._guard(lambda: self._end_here(results))
        if results:
            yield self._batch(results)

    def _end_here(self, results: list[Any]) -> None:
        slots = self._due_here()
        if len(slots):
            self._end(slots, self._clock(), results)

    def _end(self, slots: Numbers, until: int, results: list[Any]) -> None:
        """Fires the windows of these keys that end by then."""
        if self._generation:
            self._delete(*self._state.due_timers(slots, until))
        self._emit(self._state.take_due(slots, until), results)

    def _delete(self, slots: Numbers, times: Numbers) -> None:
        """Deletes timers of windows that are over.

        Those that the JVM has sent are gone. But one of a window that began in an earlier
        generation of keys is set.
        """
        self._timers.fired(slots, np.full(len(times), self._domain), times)

    def _emit(self, entries: Entries, results: list[Any]) -> None:
        """Adds what is emitted of windows."""
        if len(entries):
            results.append((0, self._of_windows(entries)))

    def _of_windows(self, entries: Entries) -> pa.Array:
        """What is emitted of windows: key, start, end, and results."""
        bounds = [pa.array(each * 1000) for each in (entries.starts, entries.ends)]
        times = [each.cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC")) for each in bounds]
        return self._made(entries, *times)
