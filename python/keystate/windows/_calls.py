"""Calls of the user's function of windows."""

from __future__ import annotations

from typing import Any

from keystate._compiled import collect
from keystate.functions import Counter, Function, RuntimeContext
from keystate.windows._contexts import FunctionContext, WindowCallContext, WorkerWindowContext
from keystate.windows._functions import ProcessWindowFunction, WindowFunction
from keystate.windows._window import window_of

#: The metric that counts the rows that are too late.
DROPPED = "numLateRecordsDropped"

#: What takes a window's rows, or its one result; ``None`` if the result is emitted as it is.
UserFunction = ProcessWindowFunction | WindowFunction | None


class WindowCalls:
    """Calls a function for windows.

    Args:
        function: the user's.
    """

    #: Counts rows that are too late.
    dropped: Counter

    def __init__(self, function: UserFunction) -> None:
        self.function = function

    def open(self, runtime: RuntimeContext, at: WindowCallContext, merging: bool) -> None:
        """Opens the function; `at` will have the window at hand."""
        self._at = at
        context = at.function_context = FunctionContext(runtime, at, merging)
        self._context = WorkerWindowContext(at)
        if self.function is not None:
            self.function.open(context)
        self.dropped = runtime.get_metrics_group().counter(DROPPED)

    def close(self) -> None:
        """Closes it."""
        if self.function is not None:
            self.function.close()

    def call(self, elements: list[Any], results: list[Any]) -> None:
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

    def clear(self) -> None:
        """Tells the function that the window is removed."""
        if isinstance(self.function, ProcessWindowFunction):
            self.function.clear(self._context)


def opens_states(function: Any) -> bool:
    """Whether a function may have states, for which a key must be at hand."""
    bases = {"open": Function, "clear": ProcessWindowFunction}
    return any(
        hasattr(function, name) and getattr(type(function), name, None) is not getattr(base, name)
        for name, base in bases.items()
    )
