"""What windows of all kinds have in common, as functions of rows and timers."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any

from pyspark.sql import types as T

from keystate._compiled import collect
from keystate._types.codec import Shape, codec
from keystate.functions import Function, KeyedProcessFunction, OutputTag, RuntimeContext
from keystate.windows._assigners import MergingWindowAssigner, WindowAssigner
from keystate.windows._contents import DROPPED, Fold
from keystate.windows._contexts import FunctionContext, WindowCallContext, WorkerWindowContext
from keystate.windows._functions import ProcessWindowFunction, WindowFunction
from keystate.windows._timers import EVENT_TIME, PROCESSING_TIME, WindowTimers
from keystate.windows._window import WindowKey, window_of

#: What takes a window's rows, or its one result; ``None`` if the result is emitted as it is.
UserFunction = ProcessWindowFunction | WindowFunction | None


class WindowsFunction(KeyedProcessFunction):
    """What windows of all kinds have in common.

    Args:
        assigner: says which windows a row is in.
        function: the user's.
        fold: makes one result of a window's rows; ``None`` if the function takes all of them.
        late_output: where rows go that are too late for all of their windows.
        time_column: the index of the column that has the event time; ``None`` if there is none.
        row_type: of the rows.
        shape: of which class they are; ``None`` for Rows.
    """

    def __init__(
        self,
        assigner: WindowAssigner,
        function: UserFunction,
        fold: Fold | None,
        late_output: OutputTag | None,
        time_column: int | None,
        row_type: T.StructType,
        shape: Shape | None,
    ) -> None:
        self._assigner = assigner
        self.function = function
        self._fold = fold
        self.late_output = late_output
        self.time_column = time_column
        self._row_type = row_type
        self._shape = shape
        self.by_event_time = assigner.is_event_time()
        self._domain = EVENT_TIME if self.by_event_time else PROCESSING_TIME
        self._merges = isinstance(assigner, MergingWindowAssigner)

    def open(self, runtime_context: RuntimeContext) -> None:
        at = self._at = WindowCallContext()
        at.function_context = FunctionContext(runtime_context, at, self._merges)
        self._context = WorkerWindowContext(at)
        if self._fold is not None:
            self._fold.open(runtime_context)
        if self.function is not None:
            self.function.open(at.function_context)
        self.dropped = runtime_context.get_metrics_group().counter(DROPPED)

    def close(self) -> None:
        if self.function is not None:
            self.function.close()
        if self._fold is not None:
            self._fold.close()

    @cached_property
    def row_copy(self) -> Callable[[Any], Any] | None:
        """Copies a row for a function that may change it, where others see it too."""
        rows = codec(self._row_type, self._shape)
        return rows.copy if rows.mutable else None

    @property
    def timers(self) -> WindowTimers:
        """The timers of the key's windows, where these have some of their own."""
        return self._at.timers

    def by_columns(self) -> Any:
        """These windows for whole messages, if rows are only added to them; else ``None``."""
        return None

    def _opens_states(self) -> bool:
        folds = [] if self._fold is None else [self._fold.function]
        return any(map(_opens_states, (self.function, *folds)))

    @abstractmethod
    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        """Windows always have timers."""

    def _time_of(self, ctx: Any) -> int:
        """The row's event time, or if it needs none and has none, that of the micro-batch."""
        time: int | None = ctx.event_time
        if time is not None:
            return time
        if self.by_event_time:
            raise ValueError(
                "the row has no event time, so it is in no window: filter such rows out before "
                "window()"
            )
        return int(ctx.current_processing_time())

    def _late(self, row: Any) -> list[Any]:
        """What is emitted for a row that is too late."""
        if self.late_output is not None:
            return [(self.late_output, row)]
        self.dropped.inc()
        return []

    def emit(self, window: WindowKey, elements: list[Any], ctx: Any, results: list[Any]) -> None:
        """Has the function make results of a window's rows."""
        self._at.row, self._at.window = ctx, window
        self._call(elements, results)

    def emit_result(
        self, window: WindowKey, accumulator: Any, ctx: Any, results: list[Any]
    ) -> None:
        """Has the function make results of what a window's rows were added up to."""
        self._at.row, self._at.window = ctx, window
        self._call_with(accumulator, results)

    def _call_with(self, accumulator: Any, results: list[Any]) -> None:
        """Has the function make results of the window's one result; ``None`` is no result."""
        assert self._fold is not None
        result = self._fold.result(accumulator)
        if result is not None:
            self._call([result], results)

    def _call(self, elements: list[Any], results: list[Any]) -> None:
        """Has the function make results of the window's rows, or of its one result."""
        function, row = self.function, self._at.row
        result: Any
        if function is None:
            result = elements
        elif isinstance(function, ProcessWindowFunction):
            result = function.process(row.get_current_key(), self._context, elements)
        else:
            key = row.get_current_key()
            result = function.apply(key, window_of(self._at.window), elements)
        collect(result, row.take, results)


def _opens_states(function: Any) -> bool:
    """Whether a function may have states, for which a key must be at hand."""
    bases = {"open": Function, "clear": ProcessWindowFunction}
    return any(
        hasattr(function, name) and getattr(type(function), name, None) is not getattr(base, name)
        for name, base in bases.items()
    )
