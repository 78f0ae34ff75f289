"""Windows: what rows are grouped into."""

from __future__ import annotations

import datetime
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass

from keystate.errors import DeclarationError
from keystate.state import Time

#: The greatest time, in ms.
LAST_TIME = 2**63 - 1
#: The least one.
FIRST_TIME = -LAST_TIME - 1

#: A duration; an int is in ms.
Duration = Time | datetime.timedelta | int

#: A window as states have it: end and start.
WindowKey = tuple[int, int]

_GLOBAL: WindowKey = (LAST_TIME, 0)


class Window(ABC):
    """A group of rows of one key."""

    __slots__ = ()

    @abstractmethod
    def max_timestamp(self) -> int:
        """The last time that belongs to it, in ms since the epoch."""


@dataclass(order=True, unsafe_hash=True, slots=True)
class TimeWindow(Window):
    """The time from `start` to before `end`, in ms since the epoch."""

    start: int
    end: int

    def max_timestamp(self) -> int:
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """Whether both overlap, or one begins where the other ends."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """The least window that has both in it."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """The start of the window of this size that a time is in; windows begin at `offset`."""
        return timestamp - (timestamp - offset) % window_size


@dataclass(unsafe_hash=True, slots=True)
class GlobalWindow(Window):
    """The one window that has all rows of a key."""

    @staticmethod
    def get() -> GlobalWindow:
        """The window."""
        return GlobalWindow()

    def max_timestamp(self) -> int:
        return LAST_TIME


def key_of(window: Window) -> WindowKey:
    """The window as states have it.

    Raises:
        DeclarationError: it is of a class of the user's.
    """
    if isinstance(window, TimeWindow):
        return window.end, window.start
    if isinstance(window, GlobalWindow):
        return _GLOBAL
    raise DeclarationError(f"a window is a TimeWindow or a GlobalWindow, got {window!r}")


def window_of(key: Iterable[int]) -> Window:
    """The window that states have so."""
    end, start = key
    return GlobalWindow() if (end, start) == _GLOBAL else TimeWindow(start, end)


def millis(duration: Duration, what: str) -> int:
    """A duration in ms.

    Raises:
        TypeError: it is none.
    """
    if isinstance(duration, Time):
        return duration.to_milliseconds()
    if isinstance(duration, datetime.timedelta):
        return duration // datetime.timedelta(milliseconds=1)
    if type(duration) is int:
        return duration
    raise TypeError(f"{what} must be a Time, a timedelta or an int in ms, got {duration!r}")
