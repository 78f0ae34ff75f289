"""The context of an async function, whose calls overlap: each asyncio task has that of its call."""

from __future__ import annotations

from contextvars import ContextVar
from threading import get_ident
from typing import Any

from keystate._worker.contexts.row_context import RowContext
from keystate.errors import StateAccessError


class Call:
    """A call of the function for a row or a timer; when it has ended there is none of them."""

    __slots__ = ("index", "journal", "letter", "results", "row", "slot", "thread", "timer")

    def __init__(
        self,
        slot: int | None = None,
        row: Any = None,
        timer: tuple[int, int] | None = None,
        index: int = 0,
    ) -> None:
        self.slot = slot
        self.row = row
        self.timer = timer
        self.thread: int | None = None
        self.results: list[Any] = []
        self.index = index  # of the row in its message
        self.journal: list[Any] = []
        self.letter: list[Any] | None = None  # what is written of it if it fails

    def begin(self) -> None:
        """Makes it the call of this asyncio task, and of tasks that this one starts."""
        self.thread = get_ident()
        _CALL.set(self)

    def end(self) -> None:
        """Ends it, also for tasks that go on."""
        self.slot = self.row = self.timer = None
        _CALL.set(None)


_CALL: ContextVar[Call | None] = ContextVar("call of a function", default=None)


class AsyncRowContext(RowContext):
    """What a context says of a row is looked up in the call at hand.

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

    @property
    def slot(self) -> int | None:
        """The slot of the call's key."""
        return self._call().slot

    @slot.setter
    def slot(self, slot: int | None) -> None:
        self._call().slot = slot

    @property
    def row(self) -> Any:
        """The call's row."""
        return self._call().row

    @row.setter
    def row(self, row: Any) -> None:
        self._call().row = row

    @property
    def journal(self) -> Any:
        """What is noted of the call, to be undone."""
        return self._call().journal

    @journal.setter
    def journal(self, journal: Any) -> None:
        self._call().journal = journal

    @property
    def timer(self) -> tuple[int, int] | None:
        """The call's timer: domain and time."""
        return self._call().timer

    @timer.setter
    def timer(self, timer: tuple[int, int] | None) -> None:
        self._call().timer = timer
