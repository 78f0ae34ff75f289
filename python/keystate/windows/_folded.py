"""Windows whose rows are only added to what they hold, as a worker has them that adds many."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keystate.functions import Function
from keystate.metrics import Counter
from keystate.windows._assigners import FixedWindows
from keystate.windows._contents import CONTENTS, Fold
from keystate.windows._functions import ProcessWindowFunction
from keystate.windows._window import WindowKey
from keystate.windows._windows_function import WindowsFunction


def folded_windows(
    function: WindowsFunction, assigner: FixedWindows, fold: Fold, lateness: int
) -> FoldedWindows | None:
    """These windows; ``None`` if a function may have states, for which a key must be at hand."""
    if any(map(opens_states, (function.function, fold.function))):
        return None
    return FoldedWindows(function, assigner, fold, lateness)


class FoldedWindows:
    """Tumbling and sliding windows with their default trigger, of folds.

    Args:
        function: what they are for rows that come one by one; the same states go with both.
        assigner: says which windows a row is in.
        fold: adds rows.
        lateness: how long, in ms, a window is kept for late rows.
    """

    #: The name of the state.
    contents = CONTENTS

    def __init__(
        self, function: WindowsFunction, assigner: FixedWindows, fold: Fold, lateness: int
    ) -> None:
        self.by_event_time = assigner.is_event_time()
        self.size, self.slide, self.offset = assigner.size, assigner.slide, assigner.offset
        self.lateness = lateness
        self.fold = fold
        self.time_column = function.time_column
        self.late_output = function.late_output
        self.asks_for_keys = function.function is not None
        self._function = function

    @property
    def copy(self) -> Callable[[Any], Any] | None:
        """Copies a row that several windows are given; ``None`` if there is no need."""
        return self._function.row_copy if self.slide < self.size else None

    @property
    def dropped(self) -> Counter:
        """Counts rows that are too late."""
        return self._function.dropped

    def fire(self, window: WindowKey, accumulator: Any, ctx: Any, results: list[Any]) -> None:
        """Adds what the function makes of a window."""
        codec = self.fold.codec
        held = codec.copy(accumulator) if self.lateness and codec.mutable else accumulator
        self._function.emit(window, self.fold.result(held), ctx, results)


def opens_states(function: Any) -> bool:
    """Whether a function may have states, for which a key must be at hand."""
    bases = {"open": Function, "clear": ProcessWindowFunction}
    return any(
        hasattr(function, name) and getattr(type(function), name, None) is not getattr(base, name)
        for name, base in bases.items()
    )
