"""Window assigners: which windows a row is in, under PyFlink's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard

from keystate.errors import DeclarationError
from keystate.windows._triggers import (
    EventTimeTrigger,
    NeverTrigger,
    ProcessingTimeTrigger,
    Trigger,
)
from keystate.windows._window import Duration, GlobalWindow, TimeWindow, Window, millis

if TYPE_CHECKING:  # the standard library has it from Python 3.11 on
    from typing_extensions import Self

#: In ms: the end of a session, which is a time that Spark has and the gap, fits into 64 bits.
_LONGEST_GAP = 2**62

#: Tells of windows that are merged, and into which one.
MergeCallback = Callable[[Collection[Any], Any], None]


class WindowAssignerContext(Protocol):
    """What an assigner is told."""

    def get_current_processing_time(self) -> int:
        """The time of the micro-batch in ms since the epoch."""


class WindowAssigner(ABC):
    """Says which windows a row is in. It keeps nothing: states and clocks are not its own."""

    @abstractmethod
    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssignerContext
    ) -> Collection[Window]:
        """The windows of a row.

        Args:
            element: the row.
            timestamp: its event time in ms since the epoch, or if it has none, the time of the
                micro-batch.
            context: knows the clock.
        """

    @abstractmethod
    def get_default_trigger(self) -> Trigger:
        """The trigger of these windows if no other is given."""

    @abstractmethod
    def is_event_time(self) -> bool:
        """Whether windows go by event time."""


class MergingWindowAssigner(WindowAssigner):
    """Says which windows of a key are merged, as sessions are."""

    @abstractmethod
    def merge_windows(self, windows: Iterable[Any], callback: MergeCallback) -> None:
        """Calls ``callback(merged, result)`` for windows that are merged into one."""


class FixedWindows(WindowAssigner):
    """Windows of one size, of which one begins at every multiple of `slide`, from `offset` on."""

    def __init__(self, size: Duration, slide: Duration, offset: Duration = 0) -> None:
        self.size = millis(size, "the size of a window")
        self.slide = millis(slide, "the slide of a window")
        self.offset = millis(offset, "the offset of a window")
        if self.size <= 0 or self.slide <= 0 or abs(self.offset) >= self.slide:
            raise DeclarationError(
                f"{type(self).__name__}: size and slide must be more than 0, and the offset less "
                f"than the slide, got {self.size}, {self.slide} and {self.offset} ms"
            )

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssignerContext
    ) -> Collection[TimeWindow]:
        time = timestamp if self.is_event_time() else context.get_current_processing_time()
        last = TimeWindow.get_window_start_with_offset(time, self.offset, self.slide)
        starts = range(last, time - self.size, -self.slide)
        return [TimeWindow(start, start + self.size) for start in starts]


def is_fixed(assigner: WindowAssigner) -> TypeGuard[FixedWindows]:
    """Whether rows are in the windows that their times tell, by no class of the user's."""
    return (
        isinstance(assigner, FixedWindows)
        and type(assigner).assign_windows is FixedWindows.assign_windows
        and not isinstance(assigner, MergingWindowAssigner)
    )


def fires_at_end(trigger: Trigger, assigner: WindowAssigner) -> bool:
    """Whether windows fire at their end, and then for each late row, by no class of the user's."""
    return type(trigger) is (
        EventTimeTrigger if assigner.is_event_time() else ProcessingTimeTrigger
    )


class _ByEventTime(WindowAssigner):
    def get_default_trigger(self) -> Trigger:
        return EventTimeTrigger()

    def is_event_time(self) -> bool:
        return True


class _ByProcessingTime(WindowAssigner):
    def get_default_trigger(self) -> Trigger:
        return ProcessingTimeTrigger()

    def is_event_time(self) -> bool:
        return False


class _Tumbling(FixedWindows):
    def __init__(self, size: Duration, offset: Duration = 0) -> None:
        super().__init__(size, size, offset)

    @classmethod
    def of(cls, size: Duration, offset: Duration = 0) -> Self:
        """Windows of this size; they begin at its multiples from the epoch, plus the offset."""
        return cls(size, offset)


class _Sliding(FixedWindows):
    @classmethod
    def of(cls, size: Duration, slide: Duration, offset: Duration = 0) -> Self:
        """Windows of this size, of which one begins at every multiple of `slide`."""
        return cls(size, slide, offset)


class TumblingEventTimeWindows(_ByEventTime, _Tumbling):
    """Windows one after the other, by event time: ``TumblingEventTimeWindows.of(size)``."""


class TumblingProcessingTimeWindows(_ByProcessingTime, _Tumbling):
    """Windows one after the other, by processing time."""


class SlidingEventTimeWindows(_ByEventTime, _Sliding):
    """Windows that overlap, by event time: ``SlidingEventTimeWindows.of(size, slide)``.

    A row is in each of them that has its time: ``size / slide`` windows.
    """


class SlidingProcessingTimeWindows(_ByProcessingTime, _Sliding):
    """Windows that overlap, by processing time.

    A row is in each of them that has its time: ``size / slide`` windows.
    """


class SessionWindowTimeGapExtractor(ABC):
    """Gives the gap that ends a session, by the row."""

    @abstractmethod
    def extract(self, element: Any) -> int:
        """The gap after this row, in ms, more than 0."""


Gap = SessionWindowTimeGapExtractor | Callable[[Any], int]


class SessionWindows(MergingWindowAssigner):
    """Sessions: a row begins a window that lasts for the gap, and windows that meet are merged."""

    def __init__(self, gap: Duration | Gap) -> None:
        #: The gap in ms; ``None`` if each row tells it.
        self.gap: int | None = None
        if isinstance(gap, SessionWindowTimeGapExtractor):
            self._gap: Callable[[Any], int] | None = gap.extract
        elif callable(gap):
            self._gap = gap
        else:
            self._gap = None
            self.gap = self._millis = millis(gap, "the gap of a session")
            if not 0 < self._millis <= _LONGEST_GAP:
                raise DeclarationError(
                    f"the gap of a session must be more than 0 and at most {_LONGEST_GAP} ms, got "
                    f"{self._millis} ms"
                )

    @classmethod
    def with_gap(cls, size: Duration) -> Self:
        """Sessions that end when a key has had no rows for this long."""
        return cls(size)

    @classmethod
    def with_dynamic_gap(cls, extractor: Gap) -> Self:
        """Sessions whose gap each row tells, in ms."""
        return cls(extractor)

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssignerContext
    ) -> Collection[TimeWindow]:
        time = timestamp if self.is_event_time() else context.get_current_processing_time()
        if self._gap is None:
            return [TimeWindow(time, time + self._millis)]
        gap = self._gap(element)
        if type(gap) is not int or not 0 < gap <= _LONGEST_GAP:
            raise ValueError(
                "the gap of a session must be an int in ms, more than 0 and at most "
                f"{_LONGEST_GAP}, got {gap!r}"
            )
        return [TimeWindow(time, time + gap)]

    def merge_windows(self, windows: Iterable[TimeWindow], callback: MergeCallback) -> None:
        merged: list[TimeWindow] = []
        result: TimeWindow | None = None
        for window in sorted(windows):
            if result is not None and result.intersects(window):
                result = result.cover(window)
                merged.append(window)
                continue
            if result is not None and len(merged) > 1:
                callback(merged, result)
            result, merged = window, [window]
        if result is not None and len(merged) > 1:
            callback(merged, result)


class EventTimeSessionWindows(_ByEventTime, SessionWindows):
    """Sessions by event time: ``EventTimeSessionWindows.with_gap(Time.minutes(10))``."""


class ProcessingTimeSessionWindows(_ByProcessingTime, SessionWindows):
    """Sessions by processing time."""


def is_session(assigner: WindowAssigner) -> TypeGuard[SessionWindows]:
    """Whether windows are sessions by no class of the user's, which may assign them in its way."""
    return type(assigner) in (EventTimeSessionWindows, ProcessingTimeSessionWindows)


class GlobalWindows(WindowAssigner):
    """One window for all rows of a key. It needs a trigger: by itself it never fires."""

    @staticmethod
    def create() -> GlobalWindows:
        """The assigner."""
        return GlobalWindows()

    def assign_windows(
        self, element: Any, timestamp: int, context: WindowAssignerContext
    ) -> Collection[GlobalWindow]:
        return [GlobalWindow()]

    def get_default_trigger(self) -> Trigger:
        return NeverTrigger()

    def is_event_time(self) -> bool:
        return False
