"""The context of an async function, whose calls overlap: each asyncio task has that of its call."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import get_ident
from typing import Any

from keystate._worker.contexts.row_context import RowContext
from keystate._worker.messages.columns import Timer
from keystate.errors import StateAccessError


@dataclass(eq=False, slots=True)
class Call:
    """A call of the function for a row or a timer; when it has ended there is none of them."""

    slot: int | None = None
    row: Any = None
    timer: Timer | None = None
    index: int = 0  # of the row in its message
    thread: int | None = None
    results: list[Any] = field(default_factory=list)
    journal: list[Any] = field(default_factory=list)
    letter: list[Any] | None = None  # what is written of it if it fails
    is_late: bool = False  # what comes of it does not count any more

    def begin(self) -> None:
        """Makes it the call of this asyncio task, and of tasks that this one starts."""
        self.thread = get_ident()
        _CALL.set(self)

    def end(self) -> None:
        """Ends it, also for tasks that go on."""
        self.leave()
        _CALL.set(None)

    def leave(self) -> None:
        """Takes the key from it, in whichever task it goes on."""
        self.slot = self.row = self.timer = None


_CALL: ContextVar[Call | None] = ContextVar("call of a function", default=None)


def _of_call(name: str) -> property:
    """The value of this name in the current call."""

    def put(context: AsyncRowContext, value: Any) -> None:
        setattr(context._call(), name, value)

    return property(lambda context: getattr(context._call(), name), put)


class AsyncRowContext(RowContext):
    """A context that looks up each value in the current call.

    Python keeps context variables for each asyncio task. So the right one is found wherever a task
    goes on, and in all that it awaits or starts.
    """

    def __init__(self) -> None:
        self._no_call = Call()
        super().__init__()

    def _call(self) -> Call:
        call = _CALL.get()
        if call is None:
            return self._no_call
        if call.thread != get_ident():
            raise StateAccessError(
                "states and the context can't be used in other threads: read them before "
                "asyncio.to_thread(...), and write what it returned"
            )
        return call

    slot: Any = _of_call("slot")
    row: Any = _of_call("row")
    journal: Any = _of_call("journal")
    timer: Any = _of_call("timer")
