"""How a user's function is called."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from keystate.functions import AsyncRetryStrategy
from keystate.functions.dead_letters import DeadLetters


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
    #: Row and context with the row's event time in ms, many results; late rows too.
    WINDOWS = "windows"
    #: Many rows at once.
    BATCHES = "batches"
    #: Row and context, many results that are awaited.
    ASYNC = "async"


@dataclass(frozen=True)
class AsyncCalls:
    """How calls of an async function overlap, and what becomes of those that fail or take long.

    Attributes:
        capacity: the most rows of a subtask in flight.
        timeout: how long a row may take, in seconds; ``None`` for as long as it needs.
        retry: when a row is processed again; ``None`` if never.
        ordered: whether results come in the order of their rows, or as calls end.
    """

    capacity: int = 100
    timeout: float | None = None
    retry: AsyncRetryStrategy | None = None
    ordered: bool = True


@dataclass(frozen=True)
class FunctionSpec:
    """How a user's function is called for each row.

    Attributes:
        function: the user's function object, or a plain callable.
        method: the method that takes a row; empty for a plain callable.
        style: what that is given and returns.
        on_timer: the method that takes a timer; empty when the function has no timers.
        on_broadcast: the method that takes a broadcast element; empty when there are none.
        second: the method that takes a row of the second input; empty when there is one input.
        initial: whether the second input is initial state.
        calls: how its calls overlap, if it is an async function.
        time_columns: for each input the index of the column with the event time, or ``None``. For a
            stream it is the column with the watermark, which the JVM reports too.
        dead_letters: where rows that it fails on go; ``None`` if the query fails.
    """

    function: Any
    method: str
    style: Style
    on_timer: str = ""
    on_broadcast: str = ""
    second: str = ""
    initial: bool = False
    calls: AsyncCalls | None = None
    time_columns: tuple[int | None, int | None] = (None, None)
    dead_letters: DeadLetters | None = None

    def call(self) -> Callable[..., Any]:
        """The callable for each row."""
        called: Callable[..., Any] = (
            getattr(self.function, self.method) if self.method else self.function
        )
        return called

    def call_second(self) -> Callable[..., Any]:
        """The callable for each row of the second input."""
        called: Callable[..., Any] = getattr(self.function, self.second)
        return called

    def open(self, context: Any) -> Any:
        """Opens the function, if it is more than a callable.

        Returns:
            What that returned: of an async function it may have to be awaited.
        """
        return self.function.open(context) if hasattr(self.function, "open") else None

    def close(self) -> Any:
        """Closes it likewise."""
        return self.function.close() if hasattr(self.function, "close") else None
