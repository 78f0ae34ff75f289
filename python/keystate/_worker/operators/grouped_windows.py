"""Windows at work in a subtask whose rows are grouped: a message's by key and window at once.

Windows, keys and timers of a message's rows are found by columns; the user's function is called for
each row, where it takes single ones, and for each window that fires. What is late, when windows
fire, what is emitted and what is stored is as if the rows came one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keystate._compiled import collect
from keystate._spec.protocol import EVENT_TIME, PROCESSING_TIME, Control, Message
from keystate._spec.specs import StateSpec
from keystate._worker.calls.function_spec import FunctionSpec
from keystate._worker.contexts.row_context import RowContext
from keystate._worker.messages.columns import Columns
from keystate._worker.operators.batches import ArrowKeys, BatchOperator
from keystate._worker.operators.task_spec import TaskSpec
from keystate._worker.operators.windows import NO_WATERMARK, WindowsContext, times_of
from keystate._worker.state.timers import WorkerTimers
from keystate._worker.state.worker_state import WorkerState
from keystate._worker.windows.entries import Entries
from keystate._worker.windows.folded import FoldedRows
from keystate._worker.windows.folded_columns import FoldedColumns
from keystate._worker.windows.grouped_timers import GroupedTimers
from keystate._worker.windows.groups import Numbers
from keystate._worker.windows.listed_columns import ListedColumns, narrowed
from keystate._worker.windows.parts import Parts, taken
from keystate._worker.windows.row_numbers import RowNumbers
from keystate._worker.windows.window_columns import Timers, WindowColumns

_LAST = 2**63 - 1

#: So many rows become Python's at a time, or those of one window; and so many windows of rows whose
#: maps stay with the JVM are read at a time.
_DECODED_AT_ONCE = 10_000
_FAR_AT_ONCE = 50


class GroupedWindowsOperator(BatchOperator):
    """Tumbling and sliding windows with their default trigger."""

    _context: WindowsContext
    _timers: GroupedTimers
    _state: WindowColumns
    _folded_class = FoldedColumns

    def __init__(
        self, function_spec: FunctionSpec, declared: TaskSpec, control: dict[str, Any]
    ) -> None:
        self._windows = function_spec.function
        self._domain = EVENT_TIME if self._windows.by_event_time else PROCESSING_TIME
        self._open_state = self._open_columns
        super().__init__(function_spec, declared, control)
        self._context.take = self._results.take
        if isinstance(self._state, ListedColumns):
            self._state.numbers = self._numbers

    def _open_columns(self, spec: StateSpec, index: int, cursor: Any, told: Any) -> WorkerState:
        windows = self._windows
        if spec.name == windows.contents.name:
            if windows.contents.fold is None:
                self._state = ListedColumns(spec, index, cursor)
            else:
                at = (spec, index, cursor, windows.lateness)
                self._state = self._folded_class(*at, windows.contents.fold, self._copy())
            return self._state
        self._numbers = RowNumbers(spec, index, cursor)
        return self._numbers

    def _copy(self) -> Callable[[Any], Any] | None:
        """Copies a row that several windows are given; ``None`` if there is no need."""
        assigner = self._windows.assigner
        copy: Callable[[Any], Any] | None = self._windows.row_copy
        return copy if assigner.slide < assigner.size else None

    def _make_context(self) -> RowContext:
        return WindowsContext()

    def _make_timers(self) -> WorkerTimers:
        return GroupedTimers(self._state, self._domain)

    def _new_keys(self) -> Any:
        return _Keys(self._keys, self._bare_key)

    def _encode(self, results: list[Any]) -> pa.Array:
        return self._results.encode(results)

    # -- rows -----------------------------------------------------------------------------------

    def _run(self, slots: pa.Array, rows: pa.RecordBatch, results: list[Any]) -> None:
        if len(slots) == 0:
            return
        assigner, lateness = self._windows.assigner, self._windows.lateness
        times, closed = self._times(slots, rows)
        # Windows that end by then are gone.
        gone = max(closed - lateness, NO_WATERMARK)
        size, slide = assigner.size, assigner.slide
        first_end = times - (times - assigner.offset) % slide + size
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
        for chosen, add in ((late, partial(self._add_late, results)), (fits & ~late, self._add)):
            if chosen.all() and len(each) == 1:
                add(of_keys, ends, parts)
            elif chosen.any():
                places = of_rows[chosen]
                add(of_keys[places], ends[chosen], taken(parts, places))

    def _lift(self, rows: pa.RecordBatch) -> Parts:
        """What the entries of rows hold."""
        if isinstance(self._state, FoldedColumns):
            return FoldedRows.of_rows(self._decoded(rows))
        times = pa.nulls(rows.num_rows, pa.int64())
        if self._windows.time_column is not None:
            micros = times_of(rows.column(self._windows.time_column)).cast(pa.int64())
            millis = micros.fill_null(0).to_numpy() // 1000
            times = pa.array(millis, mask=micros.is_null().to_numpy(zero_copy_only=False))
        return [pa.StructArray.from_arrays([rows.to_struct_array(), times], ["row", "time"])]

    def _add(self, slots: Numbers, ends: Numbers, parts: Parts) -> None:
        self._state.add(slots, ends, ends - self._windows.assigner.size, parts)

    def _add_late(self, results: list[Any], slots: Numbers, ends: Numbers, parts: Parts) -> None:
        assert isinstance(self._state, FoldedColumns)
        self._learn(slots)
        starts = ends - self._windows.assigner.size
        self._state.add_late(slots, ends, starts, parts, partial(self._fire_with, results))

    def _times(self, slots: pa.Array, rows: pa.RecordBatch) -> tuple[Numbers, int]:
        """The rows' times in ms, and the time by which windows that end have ended."""
        context, windows = self._context, self._windows
        if not windows.by_event_time:
            return np.full(rows.num_rows, context.current_processing_time()), NO_WATERMARK
        times = times_of(rows.column(windows.time_column))
        if times.null_count:
            place = pc.index(times.is_null(), True).as_py()
            context.slot = slots[place].as_py()
            context.row = self._decoded(rows.slice(place, 1))[0]
            raise ValueError(
                "the row has no event time, so it is in no window: filter such rows out before "
                "window()"
            )
        millis = times.cast(pa.int64()).to_numpy() // 1000
        self._state.watermark = context.late_watermark
        return millis, min(context.late_watermark, _LAST - 1) + 1

    def _take_late(self, rows: pa.RecordBatch, late: Numbers, results: list[Any]) -> None:
        """Emits or counts the rows that are too late for all of their windows."""
        count = int(np.count_nonzero(late))
        output = self._windows.late_output
        if count and output is None:
            self._windows.calls.dropped.inc(count)
        elif count:
            late_rows = [(output, row) for row in self._decoded(rows.filter(pa.array(late)))]
            collect(late_rows, self._results.take, results)

    def _decoded(self, rows: pa.RecordBatch) -> list[Any]:
        decoded: list[Any] = self._rows.decode(rows.to_struct_array())
        return decoded

    def _flush(self) -> Iterator[pa.RecordBatch]:
        self._guard(self._state.settle)
        yield from super()._flush()

    # -- timers ---------------------------------------------------------------------------------

    def _fire(self, message: Columns, results: list[Any]) -> None:
        timers = _due(message, self._domain)
        step, state = max(len(timers[0]), 1), self._state
        if isinstance(state, ListedColumns) and state.is_far(timers[0]):
            step = _FAR_AT_ONCE  # their rows are many
        for first in range(0, len(timers[0]), step):
            slots, times, ends, starts = (column[first : first + step] for column in timers)
            last = int(times.max())
            here = self._due_here()
            due = state.due_by((slots, times, ends, starts))
            if len(here) < len(due):  # entries were read of maps that stay with the JVM
                here = self._due_here()
            if self._left:
                # Timers of keys that are not here may come before them: the JVM gets them again,
                # and sends all in order.
                continue
            # Those that are set here come in their turn.
            due |= here & (state.timers <= last)
            self._end(due, max(self._clock(), last), results)

    def _clock(self) -> int:
        """Until when windows end in this micro-batch."""
        context = self._context
        if not context.control[Control.STREAMING]:
            return _LAST
        if not self._windows.by_event_time:
            return context.current_processing_time()
        watermark = context.current_watermark()
        return NO_WATERMARK if watermark is None else watermark

    def _due_here(self) -> Numbers:
        """The entries whose timers fire here: the JVM does not have them."""
        return self._state.due_here(self._until())

    def _until(self) -> int:
        """Until when timers that the JVM does not have fire here."""
        return NO_WATERMARK if self._context.control.get(Control.TIMERS_SENT) else self._clock()

    def _leaves_timers(self) -> bool:
        return bool(self._state.pending(self._until()).any())

    def _fire_here(self) -> Iterator[pa.RecordBatch]:
        results: list[Any] = []
        self._guard(lambda: self._end(self._due_here(), self._clock(), results))
        if results:
            yield self._batch(results)

    def _end(self, due: Numbers, until: int, results: list[Any]) -> None:
        """Fires the windows of entries that are due."""
        if due.any():
            self._emit(self._state.take_due(due, until), results, by_timer=True)

    def _emit(self, entries: Entries, results: list[Any], by_timer: bool) -> None:
        """Fires windows, whose rows come one after the other."""
        if len(entries) == 0:
            return
        context = self._context
        context.row = None
        self._learn(entries.slots)
        for (slot, *window), held in self._held(entries):
            context.slot = slot
            if by_timer:
                context.timer = self._domain, window[0] - 1, *window
            self._fire_with(results, (window[0], window[1]), held)

    def _fire_with(self, results: list[Any], window: tuple[int, int], held: Any) -> None:
        """Fires a window that holds this."""
        windows, context = self._windows, self._context
        if windows.contents.fold is None:
            windows.fire(window, held, context, results)
        elif held is not None:
            codec = windows.contents.fold.codec
            if windows.lateness and codec.mutable:
                held = codec.copy(held)
            windows.fire_with(window, held, context, results)

    def _held(self, entries: Entries) -> Iterator[tuple[tuple[int, int, int], Any]]:
        """Slot, end and start of windows, and what they hold."""
        columns = [entries.slots, entries.ends, entries.starts]
        if isinstance(self._state, FoldedColumns):
            yield from zip(zip(*(c.tolist() for c in columns)), entries.parts[1].tolist())
            return
        assert isinstance(self._state, ListedColumns)
        stored = self._state.rows_of(entries)
        differs = np.logical_or.reduce([np.diff(column) != 0 for column in columns])
        heads = np.concatenate([[0], np.flatnonzero(differs) + 1])
        windows = zip(*(column[heads].tolist() for column in columns))
        rows: list[Any] = []
        first = 0  # the place of the first of them
        for window, (low, high) in zip(windows, pairwise([*heads.tolist(), len(entries)])):
            if high > first + len(rows):
                first, count = low, max(high - low, _DECODED_AT_ONCE)
                rows = self._rows.decode(narrowed(stored.slice(first, count), self._rows.arrow))
            yield window, rows[low - first : high - first]

    def _learn(self, slots: Numbers) -> None:
        if self._windows.calls.function is not None:
            keys: _Keys = self._context.keys  # type: ignore[assignment]
            keys.learn(slots)


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


def _due(message: Columns, domain: int) -> Timers:
    """The timers of a clock that are due, without those that are gone."""
    mine = message.elements(Message.TIMER_DOMAINS).to_numpy() == domain
    slots, times, ends, starts = (
        message.elements(name).to_numpy()[mine].astype(np.int64)
        for name in (
            Message.TIMER_KEY_INDEXES,
            Message.TIMER_TIMES,
            Message.TIMER_WINDOW_ENDS,
            Message.TIMER_WINDOW_STARTS,
        )
    )
    return slots, times, ends, starts
