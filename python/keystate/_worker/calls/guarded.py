"""Calls of a function with dead letters: a failed call is undone, and the task continues."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from keystate._compiled import Marks, collect
from keystate._compiled.plain import Call, Take
from keystate._worker.calls.dead_letters import DeadLetterWriter, is_of_row
from keystate._worker.calls.row_loops import Loop
from keystate._worker.contexts.row_context import RowContext
from keystate._worker.messages.columns import SlotTimer
from keystate._worker.state.journal import Journal, undo
from keystate._worker.state.timers import WorkerTimers
from keystate._worker.state.undo import cells_of
from keystate._worker.state.worker_state import WorkerState

#: Gives the row with an index of a loop as it came, with the index of its input.
RowAt = Callable[[int], tuple[int, Any]]


def _nothing(_: None) -> None:
    """There is nothing to be undone."""


@dataclass
class GuardedCalls:
    """Calls a function for rows and timers, and writes a dead letter of each that fails.

    Args:
        dead_letters: where that is written.
        context: of the rows, with the journal.
        states: the function's.
        take: takes a result as it is now.
        keyed: whether there are keys.
        kept: whether somebody reads the letters.
    """

    dead_letters: DeadLetterWriter
    _context: RowContext
    _states: Sequence[WorkerState]
    _take: Take
    _keyed: bool
    _kept: bool
    _counted: int = 0

    def loop(
        self,
        loop: Loop,
        call: Call,
        slots: Iterable[int],
        rows: Iterable[Any],
        results: list[Any],
        row_at: RowAt,
    ) -> None:
        """Calls the function for each row; after a failure the loop continues with the next row."""
        marks, left = self.marks(slots, results, self._context.journal), iter(rows)
        while True:
            try:
                loop(call, self._context, marks, left, self._take, results)
                break
            except Exception as e:
                self._failed(e, marks, results, row_at)
        self._succeeded(marks)

    def fire(
        self,
        timers: WorkerTimers,
        due: Iterable[SlotTimer],
        on_timer: Call,
        results: list[Any],
    ) -> None:
        """Calls it for each timer that is still set. One that fails is gone all the same."""
        context = self._context
        marks = self.marks((), results, context.journal)
        for slot, timer in due:
            if timers.take(slot, timer):
                context.slot, context.timer = slot, timer
                marks.mark(slot)
                try:
                    collect(on_timer(timer[1], context), self._take, results)
                except Exception as e:
                    self._failed(e, marks, results, None)
        self._succeeded(marks)

    def attempt(self, call: Callable[[], None], results: list[Any], timer: tuple[int, int]) -> None:
        """Calls a function for the current row or timer, and continues if the call fails.

        Only what this did is undone, and the letter is that of a timer.

        Args:
            call: what is called; it adds to the results.
            results: of the row or timer so far.
            timer: domain and time.
        """
        context = self._context
        journal, slot = context.journal, context.slot
        size = len(journal)
        journal.append(
            (_nothing, None)
        )  # states look at the last entry, which must not be of before
        marks = Marks((), cells_of(self._states), results, [])
        marks.mark(slot)  # type: ignore[arg-type]
        try:
            call()
        except Exception as e:
            if not is_of_row(e):
                raise
            letter = self.dead_letters.write(e, context, self._keyed, None, timer)
            traceback.clear_frames(e.__traceback__)
            marks.undo()
            undo(journal, size)
            results += self.taken(letter, 0)
        else:
            self.dead_letters.succeeded(1)

    def marks(self, slots: Iterable[int], results: list[Any], journal: Journal) -> Marks:
        """The marks that record the states before each row or timer."""
        self._counted = 0
        return Marks(slots, cells_of(self._states), results, journal)

    def _succeeded(self, marks: Marks) -> None:
        self.dead_letters.succeeded(marks.count - self._counted)

    def _failed(
        self, error: Exception, marks: Marks, results: list[Any], row_at: RowAt | None
    ) -> None:
        if self._context.row is None and self._context.timer is None:
            raise error
        row = None if row_at is None else row_at(marks.count - 1)
        letter = self.undone(error, marks, self._context.journal, row)
        succeeded = marks.count - self._counted - 1
        self._counted = marks.count
        results += self.taken(letter, succeeded)

    def undone(
        self, error: Exception, marks: Marks, journal: Journal, row: tuple[int, Any] | None
    ) -> list[Any]:
        """Undoes the changes of the current row or timer, and writes its letter.

        Raises:
            Exception: the error, if it is not of the row.
        """
        if not is_of_row(error):
            raise error
        letter = self.dead_letters.write(
            error, self._context, self._keyed, row, self._context.timer
        )
        # A generator that is left behind ends now, for it may change states once more.
        traceback.clear_frames(error.__traceback__)
        marks.undo()
        undo(journal)
        return letter

    def taken(self, letter: list[Any], succeeded: int) -> list[Any]:
        """The result that a letter is; none if nobody reads it.

        Args:
            letter: what was written.
            succeeded: how many rows and timers there were since the last letter.

        Raises:
            FunctionError: there are more letters than may be.
        """
        self.dead_letters.count(letter, succeeded)
        return [self._take(self.dead_letters.result(letter))] if self._kept else []
