"""The changes of a row, which can be undone."""

from __future__ import annotations

from typing import Any

#: The calls that undo what was done, in the order in which it was done.
Journal = list[tuple[Any, ...]]


def undo(journal: Journal, size: int = 0) -> None:
    """Undoes what is in a journal, but for so much at its beginning."""
    while len(journal) > size:
        call, *arguments = journal.pop()
        call(*arguments)
