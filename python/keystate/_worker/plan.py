"""How a user's function is called."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


class Style(enum.Enum):
    """What a function is given, and what it returns."""

    #: Row and context, many results.
    PROCESS = "process"
    #: Row, many results.
    FLAT_MAP = "flat_map"
    #: Row, one result.
    MAP = "map"
    #: Row, whether to keep it.
    FILTER = "filter"
    #: Row and context, no result.
    SINK = "sink"
    #: Many rows at once.
    BATCHES = "batches"


@dataclass(frozen=True)
class FunctionPlan:
    """How a user's function is called for each row.

    Attributes:
        function: the user's function object, or a plain callable.
        method: the method that takes a row; empty for a plain callable.
        style: what that is given and returns.
        on_timer: the method that takes a timer; empty when the function has no timers.
        on_broadcast: the method that takes a broadcast element; empty when there are none.
        second: the method that takes a row of the second input; empty when there is one input.
    """

    function: Any
    method: str
    style: Style
    on_timer: str = ""
    on_broadcast: str = ""
    second: str = ""

    def call(self) -> Callable[..., Any]:
        """What is called for each row."""
        called: Callable[..., Any] = (
            getattr(self.function, self.method) if self.method else self.function
        )
        return called

    def call_second(self) -> Callable[..., Any]:
        """What is called for each row of the second input."""
        called: Callable[..., Any] = getattr(self.function, self.second)
        return called

    def open(self, context: Any) -> None:
        """Opens the function, if it is more than a callable."""
        if hasattr(self.function, "open"):
            self.function.open(context)

    def close(self) -> None:
        """Closes it likewise."""
        if hasattr(self.function, "close"):
            self.function.close()
