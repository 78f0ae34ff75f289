"""Rows of windows that are open and have the default trigger.

Such a row only adds to what they hold, and nothing fires. Most rows are of this kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from keystate.windows._assigners import (
    FixedWindows,
    WindowAssigner,
    fires_at_end,
    is_fixed,
    is_session,
)
from keystate.windows._contents import Contents
from keystate.windows._merging import MergingContents
from keystate.windows._timers import FOR_BOTH, WindowTimers
from keystate.windows._triggers import Trigger


class OpenRows(ABC):
    """Adds rows to windows all of which end after the watermark.

    Args:
        contents: what the windows hold.
        timers: of the windows.
        domain: of their ends.
        copy: of a row that a window may change; ``None`` if rows can't be changed.
    """

    def __init__(
        self,
        contents: Contents,
        timers: WindowTimers,
        domain: int,
        copy: Callable[[Any], Any] | None,
    ) -> None:
        self._contents = contents
        self._timers = timers
        self._domain = domain
        self._copy = copy

    @abstractmethod
    def add(self, row: Any, time: int, ctx: Any) -> bool:
        """Adds a row; False, and nothing is added, if it brings sessions together.

        Args:
            row: the row.
            time: of the row, by the windows' clock.
            ctx: the context of the row.
        """


class FixedOpenRows(OpenRows):
    """For tumbling and sliding windows."""

    def __init__(self, assigner: FixedWindows, *parts: Any) -> None:
        super().__init__(*parts)
        self._size, self._slide, self._offset = assigner.size, assigner.slide, assigner.offset

    def add(self, row: Any, time: int, ctx: Any) -> bool:
        size, copy = self._size, self._copy
        end = time - (time - self._offset) % self._slide + size
        while end > time:
            window = end, end - size
            own = row if copy is None else copy(row)
            if self._contents.add(window, own, ctx.event_time, False):
                self._timers.set(self._domain, end - 1, window, FOR_BOTH, ctx)
            end -= self._slide
        return True


class SessionOpenRows(OpenRows):
    """For sessions. One that a row meets ends at the row's time or later, so it is open too."""

    _contents: MergingContents

    def __init__(self, gap: int, *parts: Any) -> None:
        super().__init__(*parts)
        self._gap = gap

    def add(self, row: Any, time: int, ctx: Any) -> bool:
        window = time + self._gap, time
        own = row if self._copy is None else self._copy(row)
        extended = self._contents.extend(window, own, ctx.event_time)
        if extended is None:
            return False
        known, into = extended
        # A session that stays as it is has its timer. One is set before the other is deleted: both
        # can be for one time, for which a key has one timer.
        if into is window or into != known:
            self._timers.set(self._domain, into[0] - 1, into, FOR_BOTH, ctx)
        if into != known:
            self._timers.delete(self._domain, known[0] - 1, known, FOR_BOTH, ctx)
        return True


def open_rows(
    assigner: WindowAssigner, trigger: Trigger, contents: Contents, *parts: Any
) -> OpenRows | None:
    """How such rows are added; ``None`` if assigner and trigger are asked about each of them.

    Args:
        assigner: of the windows.
        trigger: of the windows.
        contents: what the windows hold.
        parts: what :class:`OpenRows` takes besides.
    """
    if not fires_at_end(trigger, assigner):
        return None
    if is_fixed(assigner):
        return FixedOpenRows(assigner, contents, *parts)
    if is_session(assigner) and assigner.gap is not None:
        assert isinstance(contents, MergingContents)
        return SessionOpenRows(assigner.gap, contents, *parts)
    return None
