"""Windows whose rows are only added to what they hold, as a worker has them that adds many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keystate.functions import Counter
from keystate.windows._assigners import FixedWindows
from keystate.windows._contents import CONTENTS, ELEMENTS, SESSIONS, Fold
from keystate.windows._timers import FOR_BOTH, FOR_OPERATOR, TIMERS
from keystate.windows._window import WindowKey
from keystate.windows._windows_function import WindowsFunction


class WindowsByColumns:
    """Windows with their default trigger.

    Args:
        function: what they are for rows that come one by one; the same states go with both.
        lateness: how long, in ms, a window is kept for late rows.
    """

    #: The module and the class of the operator.
    operator: tuple[str, str]
    #: The name of the state with what they hold.
    contents: str

    def __init__(self, function: WindowsFunction, lateness: int) -> None:
        self.by_event_time = function.by_event_time
        self.lateness = lateness
        self.time_column = function.time_column
        self.late_output = function.late_output
        self.asks_for_keys = function.function is not None
        self._function = function

    @property
    def dropped(self) -> Counter:
        """Counts rows that are too late."""
        return self._function.dropped


class Folded(WindowsByColumns):
    """Windows of a fold.

    Args:
        fold: adds rows.
        windows: what :class:`WindowsByColumns` takes.
    """

    #: Copies a row that several windows are given; ``None`` if there is no need.
    copy: Callable[[Any], Any] | None
    #: Whether windows without an accumulator do not fire: a trigger has emptied them, or rows have
    #: made none.
    needs_accumulator: bool

    def __init__(self, fold: Fold, *windows: Any) -> None:
        super().__init__(*windows)
        self.fold = fold

    def fire(self, window: WindowKey, accumulator: Any, ctx: Any, results: list[Any]) -> None:
        """Adds what the function makes of a window."""
        if accumulator is None and self.needs_accumulator:
            return
        codec = self.fold.codec
        held = codec.copy(accumulator) if self.lateness and codec.mutable else accumulator
        self._function.emit_result(window, held, ctx, results)


class FoldedWindows(Folded):
    """Tumbling and sliding windows of a fold."""

    operator = ("folded_windows", "FoldedWindowsOperator")
    contents = CONTENTS

    def __init__(self, assigner: FixedWindows, *windows: Any) -> None:
        super().__init__(*windows)
        self.size, self.slide, self.offset = assigner.size, assigner.slide, assigner.offset
        self.needs_accumulator = self.lateness > 0

    @property
    def copy(self) -> Callable[[Any], Any] | None:  # type: ignore[override]
        return self._function.row_copy if self.slide < self.size else None


class FoldedSessionWindows(Folded):
    """Sessions of a fold.

    Args:
        gap: the time without rows, in ms, that ends a session.
        windows: what :class:`Folded` takes.
    """

    operator = ("folded_sessions", "FoldedSessionsOperator")
    contents = SESSIONS
    copy = None
    needs_accumulator = True

    def __init__(self, gap: int, *windows: Any) -> None:
        super().__init__(*windows)
        self.gap = gap


class ListedWindows(WindowsByColumns):
    """Tumbling and sliding windows of rows, which are kept."""

    operator = ("listed_windows", "ListedWindowsOperator")
    contents = ELEMENTS
    #: The name of the state with timers, and the bits of those whose they are.
    timers, for_both, for_operator = TIMERS, FOR_BOTH, FOR_OPERATOR

    def __init__(self, assigner: FixedWindows, function: WindowsFunction) -> None:
        super().__init__(function, lateness=0)
        self.size, self.slide, self.offset = assigner.size, assigner.slide, assigner.offset

    def fire(self, window: WindowKey, rows: list[Any], ctx: Any, results: list[Any]) -> None:
        """Adds what the function makes of a window's rows."""
        self._function.emit(window, rows, ctx, results)
