"""Evictors: take rows out of a window when it fires, under Flink's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from keystate.errors import DeclarationError
from keystate.windows._window import Duration, millis


class TimestampedValue(NamedTuple):
    """A row of a window.

    Attributes:
        value: the row.
        timestamp: its event time in ms since the epoch; ``None`` if it has none.
    """

    value: Any
    timestamp: int | None


class EvictorContext(Protocol):
    """What an evictor is told."""

    def get_current_processing_time(self) -> int:
        """The time of the micro-batch in ms since the epoch."""

    def get_current_watermark(self) -> int:
        """The watermark in ms since the epoch; the least long while there is none."""


class Evictor(ABC):
    """Takes rows out of a window, before or after its function has them.

    What it deletes from the list is gone from the window.
    """

    @abstractmethod
    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Any, ctx: EvictorContext
    ) -> None:
        """Called before the function.

        Args:
            elements: the window's rows as they came; rows are taken out of this list.
            size: how many there are.
            window: the window.
            ctx: knows the clocks.
        """

    @abstractmethod
    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Any, ctx: EvictorContext
    ) -> None:
        """Called after the function.

        Args:
            elements: the window's rows as they came; rows are taken out of this list.
            size: how many there are.
            window: the window.
            ctx: knows the clocks.
        """


class _OneEvictor(Evictor):
    """Takes rows out before the function, or after it."""

    def __init__(self, do_evict_after: bool) -> None:
        self._after = do_evict_after

    def evict_before(
        self, elements: list[TimestampedValue], size: int, window: Any, ctx: EvictorContext
    ) -> None:
        if not self._after:
            self._evict(elements)

    def evict_after(
        self, elements: list[TimestampedValue], size: int, window: Any, ctx: EvictorContext
    ) -> None:
        if self._after:
            self._evict(elements)

    @abstractmethod
    def _evict(self, elements: list[TimestampedValue]) -> None: ...


class CountEvictor(_OneEvictor):
    """Keeps the last rows, so many."""

    def __init__(self, max_count: int, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        if type(max_count) is not int or max_count < 0:
            raise DeclarationError(f"CountEvictor needs a count of at least 0, got {max_count!r}")
        self._count = max_count

    @staticmethod
    def of(max_count: int, do_evict_after: bool = False) -> CountEvictor:
        """An evictor that keeps the last `max_count` rows."""
        return CountEvictor(max_count, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        del elements[: max(len(elements) - self._count, 0)]


class TimeEvictor(_OneEvictor):
    """Keeps the rows whose event time is less than `window_size` before the latest one."""

    def __init__(self, window_size: Duration, do_evict_after: bool = False) -> None:
        super().__init__(do_evict_after)
        self._size = millis(window_size, "the time of an evictor")

    @staticmethod
    def of(window_size: Duration, do_evict_after: bool = False) -> TimeEvictor:
        """An evictor that keeps the rows of the last `window_size`."""
        return TimeEvictor(window_size, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        times = [each.timestamp for each in elements if each.timestamp is not None]
        if times:
            cutoff = max(times) - self._size
            elements[:] = [e for e in elements if e.timestamp is None or e.timestamp > cutoff]


class DeltaEvictor(_OneEvictor):
    """Keeps the rows that differ from the last one by less than a threshold."""

    def __init__(
        self,
        threshold: float,
        delta_function: Callable[[Any, Any], float],
        do_evict_after: bool = False,
    ) -> None:
        super().__init__(do_evict_after)
        self._threshold = threshold
        self._delta = delta_function

    @staticmethod
    def of(
        threshold: float,
        delta_function: Callable[[Any, Any], float],
        do_evict_after: bool = False,
    ) -> DeltaEvictor:
        """An evictor with a threshold; ``delta_function(old, last)`` says how far apart."""
        return DeltaEvictor(threshold, delta_function, do_evict_after)

    def _evict(self, elements: list[TimestampedValue]) -> None:
        if elements:
            last = elements[-1].value
            elements[:] = [e for e in elements if self._delta(e.value, last) < self._threshold]
