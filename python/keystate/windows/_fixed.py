"""Windows of fixed size that fire once, at their end: without a trigger's states and timers."""

from __future__ import annotations

from typing import Any

from keystate.functions import OutputTag
from keystate.runtime import RuntimeContext
from keystate.windows._assigners import FixedWindows
from keystate.windows._contents import Fold, FoldedContents
from keystate.windows._functions import ProcessWindowFunction
from keystate.windows._timers import EVENT_TIME
from keystate.windows._windowed_function import UserFunction, WindowedFunction

_NEVER = -(2**63)


class FixedWindowOperator(WindowedFunction):
    """Tumbling and sliding windows with their default trigger, no evictor and no late firings.

    A window's one timer is at its end, so which windows are due is told by their ends.
    """

    def __init__(
        self,
        assigner: FixedWindows,
        function: UserFunction,
        fold: Fold,
        late_output: OutputTag | None,
        time_column: int | None,
    ) -> None:
        super().__init__(assigner, function, fold, late_output, time_column)
        self._size, self._slide, self._offset = assigner.size, assigner.slide, assigner.offset
        self._contents = FoldedContents(fold)

    def open(self, runtime_context: RuntimeContext) -> None:
        super().open(runtime_context)
        self._contents.open(runtime_context)
        self._windows = self._contents.state
        self._add = self._contents.fold.add

    def process_element(self, row: Any, ctx: Any) -> list[Any] | None:
        if self._by_event_time:
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
            window = (end, end - size)
            if windows.fold(window, self._add, row):
                if self._by_event_time:
                    ctx.register_event_time_timer(end - 1)
                else:
                    ctx.register_processing_time_timer(end - 1)
            end -= self._slide
        return self._late(row) if late and time < closed else None

    def on_timer(self, timestamp: int, ctx: Any) -> list[Any] | None:
        domain: int = ctx.timer[0]
        if domain != self._domain:
            return None
        at = self._at
        at.row = ctx
        results: list[Any] = []
        clock = ctx.watermark_now() if domain == EVENT_TIME else ctx.current_processing_time()
        over = max(timestamp, clock) + 1
        result_of = self._contents.fold.result
        function = self._function
        while (first := self._windows.take_first(over)) is not None:
            at.window, accumulator = first
            self._call([result_of(accumulator)], results)
            if isinstance(function, ProcessWindowFunction):
                function.clear(self._context)
        return results
