"""How a user's function is called."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class FunctionPlan:
    """How a user's function is called for each row.

    Attributes:
        function: the user's function object, or a plain callable.
        method: the method that takes a row; empty for a plain callable.
        style: ``process`` (row and context, many results), ``flat_map`` (row, many results),
            ``map`` (row, one result), ``filter`` (row, whether to keep it), ``sink`` (row and
            context, no result), ``batches`` (many rows at once).
        on_timer: the method that takes a timer; empty when the function has no timers.
        on_broadcast: the method that takes a broadcast element; empty when there are none.
    """

    function: Any
    method: str
    style: str
    on_timer: str = ""
    on_broadcast: str = ""

    def call(self) -> Callable[..., Any]:
        """What is called for each row."""
        called: Callable[..., Any] = (
            getattr(self.function, self.method) if self.method else self.function
        )
        return called

    def open(self, context: Any) -> None:
        """Opens the function, if it is more than a callable."""
        if hasattr(self.function, "open"):
            self.function.open(context)

    def close(self) -> None:
        """Closes it likewise."""
        if hasattr(self.function, "close"):
            self.function.close()
