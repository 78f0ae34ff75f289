"""A function of windows at work in a subtask.

It is given each row with its event time, late rows too. Rows come before the timers of their
micro-batch: while they come the watermark is that of the micro-batch before, by which they are
late, and then it passes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from keystate._compiled import collect
from keystate._compiled.plain import Take
from keystate._spec.protocol import Control, Message
from keystate._types.codec import codec
from keystate._worker.calls.function_spec import FunctionSpec
from keystate._worker.contexts.row_context import RowContext
from keystate._worker.messages.columns import Columns
from keystate._worker.operators.keyed import KeyedOperator
from keystate._worker.operators.task_spec import TaskSpec
from keystate._worker.state.timer_turns import TimerTurns

_LONGS = codec(T.LongType())

#: Calls something that adds to the results; domain and time say what it was.
Attempt = Callable[[Callable[[], None], list[Any], tuple[int, int]], None]

#: Before all event time: there is no watermark yet.
NO_WATERMARK = -(2**63)


class WindowsContext(RowContext):
    """The context of a row, or of a timer, of a function of windows."""

    def __init__(self) -> None:
        super().__init__()
        #: The row's event time, in ms; ``None`` if it has none.
        self.event_time: int | None = None
        #: The event time of each row of the message.
        self.event_times: Iterator[int | None] = iter(())
        #: By which rows are late, in ms.
        self.late_watermark = NO_WATERMARK
        #: Takes a result as it is now: a call of several windows' functions has results of each.
        self.take: Take = lambda result: result
        #: Fires a window whose errors are its own; ``None`` if they fail the query.
        self.attempt: Attempt | None = None

    def hear(self, control: dict[str, Any]) -> None:
        super().hear(control)
        watermark = control.get(Control.LATE_WATERMARK)
        self.late_watermark = NO_WATERMARK if watermark is None else watermark

    def set_window_timer(
        self, domain: int, time: int, window: tuple[int, int], wanted: bool
    ) -> None:
        """Sets a timer of the current key and a window, or deletes it."""
        self._set_timer(domain, time, wanted, window)

    def watermark_now(self) -> int:
        """The watermark that the current row or timer sees, in ms."""
        if self.timer is None:
            return self.late_watermark
        watermark = self.current_watermark()
        return NO_WATERMARK if watermark is None else watermark


class WindowsOperator(KeyedOperator):
    """A function of windows."""

    _context: WindowsContext

    def __init__(
        self, function_spec: FunctionSpec, declared: TaskSpec, control: dict[str, Any]
    ) -> None:
        self._time_column: int | None = function_spec.function.time_column
        super().__init__(function_spec, declared, control)
        self._context.take = self._results.take
        if self._guarded is not None:
            self._context.attempt = self._guarded.attempt

    def _make_context(self) -> RowContext:
        return WindowsContext()

    def _fire_each(self, turns: TimerTurns, results: list[Any]) -> None:
        if self._guarded is None:
            super()._fire_each(turns, results)
            return
        # Errors of a window that fires are its own. All others fail the query: the window would
        # have no timer any more.
        assert self._timers is not None and self._on_timer is not None
        context = self._context
        for slot, timer in turns:
            if self._timers.take(slot, timer):
                context.journal.clear()
                context.slot, context.timer = slot, timer
                collect(self._on_timer(timer[1], context), self._results.take, results)

    def _decode_rows(self, message: Columns) -> Any:
        rows = message.elements(Message.ROWS)
        # An iterator: after a row that fails, the loop continues with the next row.
        self._context.event_times = iter(_millis(rows, self._time_column))
        return self._input.decode(message, Message.ROWS)


def times_of(column: pa.Array) -> pa.Array:
    """The event times in a column. Of a window, a struct of start and end, it is the end."""
    return column.flatten()[1] if pa.types.is_struct(column.type) else column


def _millis(rows: pa.Array, column: int | None) -> list[int | None]:
    """The event times of rows in ms."""
    if column is None:
        return [None] * len(rows)
    times = times_of(rows.field(column))
    micros: list[int | None] = _LONGS.decode(times.cast(pa.int64()))
    if times.null_count:
        return [None if each is None else each // 1000 for each in micros]
    return [each // 1000 for each in micros if each is not None]
