"""Windows without a stream, for the test harness."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keystate.functions import ReduceFunction
from keystate.state import TypeLike
from keystate.state.aggregates import AggregateFunction
from keystate.windows._assigners import WindowAssigner
from keystate.windows._functions import ProcessWindowFunction, WindowFunction
from keystate.windows._windowing import WindowedRows, Windowing


class Windows(Windowing):
    """Windows of rows that are yet to come; made by :func:`window`.

    What its methods return is a function for :class:`~keystate.testing.KeyedProcessHarness`.
    """

    def reduce(
        self,
        fn: ReduceFunction | Callable[[Any, Any], Any],
        window_function: ProcessWindowFunction | WindowFunction | None = None,
    ) -> WindowedRows:
        """Reduces the rows of a window as they come; see :meth:`WindowedStream.reduce`."""
        return self._reduce(fn, window_function)

    def aggregate(
        self,
        fn: AggregateFunction[Any, Any, Any],
        acc_type: TypeLike,
        window_function: ProcessWindowFunction | WindowFunction | None = None,
    ) -> WindowedRows:
        """Aggregates the rows of a window as they come; see :meth:`WindowedStream.aggregate`."""
        return self._aggregate(fn, acc_type, window_function)

    def process(self, fn: ProcessWindowFunction) -> WindowedRows:
        """Applies a function to a window's rows, which are kept until then."""
        return self._process(fn)

    def apply(self, fn: WindowFunction) -> WindowedRows:
        """Applies a function without a context to a window's rows."""
        return self._apply(fn)


def window(assigner: WindowAssigner) -> Windows:
    """Windows for the test harness; for a stream see :meth:`keystate.KeyedStream.window`."""
    return Windows(assigner)
