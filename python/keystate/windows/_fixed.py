"""Windows of fixed size that fire once, at their end: without a trigger's states and timers."""

from __future__ import annotations

from functools import partial
from typing import Any

from pyspark.sql import types as T

from keystate._types.codec import Shape
from keystate.functions import OutputTag, RuntimeContext
from keystate.windows._assigners import FixedWindows
from keystate.windows._by_columns import FoldedWindows
from keystate.windows._contents import Fold, FoldedContents
from keystate.windows._functions import ProcessWindowFunction
from keystate.windows._timers import EVENT_TIME, WindowTimers, delete, register
from keystate.windows._window import FIRST_TIME, WindowKey
from keystate.windows._windows_function import UserFunction, WindowsFunction

_NEVER = -(2**63)


class FixedWindowsFunction(WindowsFunction):
    """Tumbling and sliding windows with their default trigger, no evictor and no late firings.

    A window's timer is at its end, so which windows are due is told by their ends; by columns only
    a key's first window has one. Timers by the other clock are of windows that had it before a
    restart. Those that an AnyWindowsFunction left before a restart have a
    timer there too; and one when their lateness would be over, if their end has passed. These are
    gone by the new rules, and do not fire again.
    """

    def __init__(
        self,
        assigner: FixedWindows,
        function: UserFunction,
        fold: Fold,
        late_output: OutputTag | None,
        time_column: int | None,
        row_type: T.StructType,
        shape: Shape | None,
    ) -> None:
        super().__init__(assigner, function, fold, late_output, time_column, row_type, shape)
        self._fixed = assigner
        self._size, self._slide, self._offset = assigner.size, assigner.slide, assigner.offset
        self._contents = FoldedContents(fold)

    def open(self, runtime_context: RuntimeContext) -> None:
        super().open(runtime_context)
        self._contents.open(runtime_context)
        self._windows = self._contents.state
        self._add = add = self._contents.fold.add
        copy = self.row_copy
        if copy is not None and self._slide < self._size:
            self._add = lambda row, accumulator: add(copy(row), accumulator)
        # Also what an AnyWindowsFunction has emptied can have states.
        states = self._at.function_context.has_window_states()
        self._left = WindowTimers(runtime_context) if states else None

    def by_columns(self) -> FoldedWindows | None:
        if self._opens_states():
            return None
        return FoldedWindows(self._fixed, self._contents.fold, self, 0)

    def process_element(self, row: Any, ctx: Any) -> list[Any] | None:
        if self.by_event_time:
            time = ctx.event_time
            if time is None:
                time = self._time_of(ctx)  # which says what is wrong
            closed = ctx.late_watermark + 1
        else:
            time, closed = ctx.current_processing_time(), _NEVER
        windows, size = self._windows, self._size
        end = time - (time - self._offset) % self._slide + size
        late = True
        while end > time and end > closed:
            late = False
            window = (1, end, end - size)
            if windows.fold(window, self._add, row):
                register(self._domain, end - 1, ctx)
            end -= self._slide
        return self._late(row) if late and time < closed else None

    def on_timer(self, timestamp: int, ctx: Any) -> list[Any] | None:
        at, domain = self._at, self._domain
        at.row = ctx
        results: list[Any] = []
        until = ctx.watermark_now() if domain == EVENT_TIME else ctx.current_processing_time()
        own = ctx.timer[0] == domain
        if own:
            until = max(timestamp, until)
        windows, attempt = self._windows, ctx.attempt
        gone: dict[WindowKey, None] = {}
        while (first := windows.take_first((1, until + 2))) is not None:
            (is_open, end, start), accumulator = first
            at.window = end, start
            if is_open and attempt is None:
                self._call_with(accumulator, results)
            elif is_open:
                call = partial(self._call_with, accumulator, results)
                attempt(call, results, (domain, end - 1))
            gone[at.window] = None
            if end - 1 != timestamp or not own:
                delete(domain, end - 1, ctx)  # it is not needed any more
        # Windows by columns have a timer for the first one only.
        self._rearm(ctx)
        if self._left is not None:
            while (left := self._left.pop(domain, until, ctx)) is not None:
                gone[left[1]] = None
        if isinstance(self.function, ProcessWindowFunction):
            for at.window in gone:
                self.function.clear(self._context)
        return results

    def _rearm(self, ctx: Any) -> None:
        """Has the key have a timer for its first window."""
        for _, end, _ in self._windows.keys_from((0, FIRST_TIME, FIRST_TIME), 1):
            register(self._domain, end - 1, ctx)
