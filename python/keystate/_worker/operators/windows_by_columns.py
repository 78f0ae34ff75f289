"""Windows at work in a subtask whose rows are only added.

Windows, keys and timers of a message's rows are found by columns; the user's function is called for
each row, where it takes single ones, and for each window that fires. What is late, when windows
fire, what is emitted and what is stored is as if the rows came one by one.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keystate._compiled import collect
from keystate._spec.protocol import Control, Message
from keystate._spec.specs import StateSpec
from keystate._worker.calls.function_spec import FunctionSpec
from keystate._worker.contexts.row_context import RowContext
from keystate._worker.messages.columns import GONE, Columns
from keystate._worker.operators.batches import ArrowKeys, BatchOperator
from keystate._worker.operators.task_spec import TaskSpec
from keystate._worker.operators.windows import NO_WATERMARK, WindowsContext, times_of
from keystate._worker.state.column_timers import ColumnTimers
from keystate._worker.state.timers import WorkerTimers
from keystate._worker.state.window_columns import WindowColumns
from keystate._worker.state.worker_state import WorkerState
from keystate._worker.windows.groups import Numbers
from keystate._worker.windows.parts import Parts, taken
from keystate.functions import TimeDomain

_LAST = 2**63 - 1


class WindowsByColumnsOperator(BatchOperator):
    """Tumbling and sliding windows with their default trigger."""

    _context: WindowsContext
    _timers: ColumnTimers
    _state: WindowColumns

    def __init__(
        self, function_spec: FunctionSpec, declared: TaskSpec, control: dict[str, Any]
    ) -> None:
        self._function = function_spec.function.by_columns()
        self._open_state = self._open_columns
        super().__init__(function_spec, declared, control)
        self._context.take = self._results.take

    def _open_columns(self, spec: StateSpec, index: int, cursor: Any, told: Any) -> WorkerState:
        if spec.name != self._function.contents:
            return self._open_other(spec, index, cursor)
        self._state = self._open_contents(spec, index, cursor)
        return self._state

    @abstractmethod
    def _open_contents(self, spec: StateSpec, index: int, cursor: Any) -> WindowColumns:
        """The state with what windows hold."""

    @abstractmethod
    def _open_other(self, spec: StateSpec, index: int, cursor: Any) -> WorkerState:
        """Another state."""

    def _make_context(self) -> RowContext:
        return WindowsContext()

    @cached_property
    def _domain(self) -> int:
        by_event_time = self._function.by_event_time
        clock = TimeDomain.EVENT_TIME if by_event_time else TimeDomain.PROCESSING_TIME
        return clock.value

    def _make_timers(self) -> WorkerTimers:
        return ColumnTimers(self._state, self._domain)

    def _new_keys(self) -> Any:
        return _Keys(self._keys, self._bare_key)

    def _encode(self, results: list[Any]) -> pa.Array:
        return self._results.encode(results)

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

    @abstractmethod
    def _lift(self, rows: pa.RecordBatch) -> Parts:
        """What the entries of rows hold."""

    def _add(self, slots: Numbers, ends: Numbers, parts: Parts, results: list[Any]) -> None:
        self._state.add(slots, ends, ends - self._function.size, parts)

    def _add_late(self, slots: Numbers, ends: Numbers, parts: Parts, results: list[Any]) -> None:
        raise NotImplementedError("without lateness a window is gone when its end has passed")

    def _times(self, slots: pa.Array, rows: pa.RecordBatch) -> tuple[Numbers, int]:
        """The rows' times in ms, and the time by which windows that end have ended."""
        context, windows = self._context, self._function
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
        return millis, min(context.late_watermark, 2**63 - 2) + 1

    def _take_late(self, rows: pa.RecordBatch, late: Numbers, results: list[Any]) -> None:
        """Emits or counts the rows that are too late for all of their windows."""
        count = int(np.count_nonzero(late))
        output = self._function.late_output
        if count and output is None:
            self._function.dropped.inc(count)
        elif count:
            late_rows = [(output, row) for row in self._decoded(rows.filter(pa.array(late)))]
            collect(late_rows, self._results.take, results)

    def _decoded(self, rows: pa.RecordBatch) -> list[Any]:
        decoded: list[Any] = self._rows.decode(rows.to_struct_array())
        return decoded

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
        return self._state.due_slots(self._clock())

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

    @abstractmethod
    def _end(self, slots: Numbers, until: int, results: list[Any]) -> None:
        """Fires the windows of these keys that end by then."""

    def _delete(self, slots: Numbers, times: Numbers) -> None:
        """Deletes timers of windows that are over.

        Those that the JVM has sent are gone. But one of a window that began in an earlier
        generation of keys is set.
        """
        self._timers.fired(slots, np.full(len(times), self._domain), times)

    def _emit_one(
        self, slot: int, window: tuple[int, int], held: Any, results: list[Any], by_timer: bool
    ) -> None:
        """Fires a window that holds this."""
        context = self._context
        context.slot = slot
        if by_timer:
            context.timer = self._domain, window[0] - 1
        self._function.fire(window, held, context, results)

    def _learn(self, slots: Numbers) -> None:
        if self._function.asks_for_keys:
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


def due_arrays(message: Columns) -> tuple[Numbers, Numbers, Numbers]:
    """Slots, domains and times of the timers that are due, without those that are gone."""
    domains = message.elements(Message.TIMER_DOMAINS).to_numpy()
    there = domains < GONE
    slots = message.elements(Message.TIMER_KEY_INDEXES).to_numpy().astype(np.int64)
    times = message.elements(Message.TIMER_TIMES).to_numpy()
    return slots[there], domains[there], times[there]
