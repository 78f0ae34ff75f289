"""Triggers: when a window's result is emitted, under PyFlink's names."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

from keystate.errors import DeclarationError
from keystate.functions import KeyedStateStore
from keystate.state import ReducingStateDescriptor, StateDescriptor
from keystate.windows._evictors import EvictorContext
from keystate.windows._window import FIRST_TIME, Duration, Window, millis

if TYPE_CHECKING:  # the standard library has it from Python 3.11 on
    from typing_extensions import Self


class TriggerResult(enum.Enum):
    """What happens to a window. A window without rows emits nothing."""

    #: Nothing.
    CONTINUE = (False, False)
    #: Its result is emitted, and it is emptied.
    FIRE_AND_PURGE = (True, True)
    #: Its result is emitted; it keeps what it has.
    FIRE = (True, False)
    #: It is emptied.
    PURGE = (False, True)

    def is_fire(self) -> bool:
        """Whether the result is emitted."""
        return self.value[0]

    def is_purge(self) -> bool:
        """Whether the window is emptied."""
        return self.value[1]


class TriggerContext(EvictorContext, Protocol):
    """What a trigger is told, and its timers and states, which belong to the key and the window."""

    def register_processing_time_timer(self, time: int) -> None:
        """Asks for :meth:`Trigger.on_processing_time` when the clock has reached `time`."""

    def register_event_time_timer(self, time: int) -> None:
        """Asks for :meth:`Trigger.on_event_time` when the watermark has reached `time`."""

    def delete_processing_time_timer(self, time: int) -> None:
        """Deletes a timer; harmless when it is not set."""

    def delete_event_time_timer(self, time: int) -> None:
        """Deletes a timer; harmless when it is not set."""

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        """A state of the key and the window, which :meth:`Trigger.open` got by this descriptor."""


class OnMergeContext(TriggerContext, Protocol):
    """What :meth:`Trigger.on_merge` is told."""

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        """Merges what the windows have in this state into what the new window has.

        It must be a list, reducing or aggregating state.
        """


class Trigger(ABC):
    """Says when a window's result is emitted.

    An object serves all keys and windows, so what it remembers is in states: it asks for them in
    :meth:`open`, and they stand for the key and the window at hand.
    """

    def open(self, ctx: KeyedStateStore) -> None:  # noqa: B027 - most have none
        """Gets the trigger's states."""

    @abstractmethod
    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        """Called for each row, when it is in the window.

        Args:
            element: the row.
            timestamp: its event time in ms, or if it has none, the time of the micro-batch.
            window: the window.
            ctx: the trigger's timers and states.
        """

    @abstractmethod
    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """Called when a timer by processing time fires."""

    @abstractmethod
    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """Called for a timer by event time, at the window's end, and when it is removed."""

    def can_merge(self) -> bool:
        """Whether it can be used where windows are merged."""
        return False

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        """Called when windows have been merged into this one: sets its timers, merges states."""
        raise NotImplementedError(f"{type(self).__name__} does not define on_merge")

    @abstractmethod
    def clear(self, window: Any, ctx: TriggerContext) -> None:
        """Called when a window is removed: deletes its timers and states."""


class _QuietTrigger(Trigger):
    """Does nothing when a timer fires, unless a subclass says so. Can be used with merging."""

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.CONTINUE

    def can_merge(self) -> bool:
        return True


class _AtEnd(_QuietTrigger):
    @classmethod
    def create(cls) -> Self:
        """The trigger."""
        return cls()


class EventTimeTrigger(_AtEnd):
    """Fires when the watermark passes the end of the window, then for each late row."""

    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        # Where the watermark has passed the end, the row that merges fires it.
        if window.max_timestamp() > ctx.get_current_watermark():
            ctx.register_event_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        ctx.delete_event_time_timer(window.max_timestamp())


class ProcessingTimeTrigger(_AtEnd):
    """Fires when processing time passes the end of the window."""

    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        ctx.register_processing_time_timer(window.max_timestamp())
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return TriggerResult.FIRE if time == window.max_timestamp() else TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        if window.max_timestamp() > ctx.get_current_processing_time():
            ctx.register_processing_time_timer(window.max_timestamp())

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        ctx.delete_processing_time_timer(window.max_timestamp())


class NeverTrigger(_QuietTrigger):
    """Never fires."""

    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        return TriggerResult.CONTINUE

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        pass

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        pass


class CountTrigger(_QuietTrigger):
    """Fires when the window has had this many rows since it last fired."""

    def __init__(self, window_size: int) -> None:
        if type(window_size) is not int or window_size < 1:
            raise DeclarationError(f"CountTrigger needs a count of at least 1, got {window_size!r}")
        self._size = window_size
        self._count = ReducingStateDescriptor[int]("count", _add, "long")

    @staticmethod
    def of(window_size: int) -> CountTrigger:
        """A trigger that fires for every so many rows."""
        return CountTrigger(window_size)

    def open(self, ctx: KeyedStateStore) -> None:
        ctx.get_reducing_state(self._count)

    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        count = ctx.get_partitioned_state(self._count)
        count.add(1)
        if count.get() < self._size:
            return TriggerResult.CONTINUE
        count.clear()
        return TriggerResult.FIRE

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._count)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        ctx.get_partitioned_state(self._count).clear()


class _ContinuousTrigger(_QuietTrigger):
    """Fires again and again: at the multiples of an interval."""

    _clock: str

    def __init__(self, interval: Duration) -> None:
        self._interval = millis(interval, "the interval of a trigger")
        if self._interval <= 0:
            raise DeclarationError(
                f"{type(self).__name__} needs an interval of more than 0, got {self._interval} ms"
            )
        # Windows that are merged go on with the first time of theirs.
        self._fire_time = ReducingStateDescriptor[int](f"{self._clock}-fire-time", min, "long")

    def open(self, ctx: KeyedStateStore) -> None:
        ctx.get_reducing_state(self._fire_time)

    @classmethod
    def of(cls, interval: Duration) -> Self:
        """A trigger that fires at the multiples of this interval."""
        return cls(interval)

    def _next(self, time: int, window: Window) -> int:
        """The first multiple of the interval after `time`, but not after the window."""
        start = time - time % self._interval
        return min(start + self._interval, window.max_timestamp())

    @abstractmethod
    def _register(self, time: int, ctx: TriggerContext) -> None:
        """Sets a timer by the trigger's clock."""

    @abstractmethod
    def _delete(self, time: int, ctx: TriggerContext) -> None:
        """Deletes it."""

    def _begin(self, time: int, now: int, ctx: TriggerContext) -> None:
        """Sets the next time if there is none, or if it has passed.

        Another trigger may have had its timer.
        """
        fire_time = ctx.get_partitioned_state(self._fire_time)
        known = fire_time.get()
        if known is None or known <= now:
            fire_time.clear()
            self._set(time, ctx)

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        ctx.merge_partitioned_state(self._fire_time)
        time = ctx.get_partitioned_state(self._fire_time).get()
        if time is not None:
            self._register(time, ctx)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        fire_time = ctx.get_partitioned_state(self._fire_time)
        if fire_time.get() is not None:
            self._delete(fire_time.get(), ctx)
            fire_time.clear()

    def _set(self, time: int, ctx: TriggerContext) -> None:
        ctx.get_partitioned_state(self._fire_time).add(time)
        self._register(time, ctx)

    def _fire(self, time: int, since: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        """What a timer for `time` does; the next one is for the first multiple after `since`."""
        fire_time = ctx.get_partitioned_state(self._fire_time)
        at_end = time == window.max_timestamp()
        if not at_end and fire_time.get() != time:
            return TriggerResult.CONTINUE
        fire_time.clear()
        if not at_end:
            self._set(self._next(since, window), ctx)
        return TriggerResult.FIRE


class ContinuousEventTimeTrigger(_ContinuousTrigger):
    """Fires by event time at the multiples of an interval, and at the end of the window."""

    _clock = "event-time"

    def _register(self, time: int, ctx: TriggerContext) -> None:
        ctx.register_event_time_timer(time)

    def _delete(self, time: int, ctx: TriggerContext) -> None:
        ctx.delete_event_time_timer(time)

    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        if window.max_timestamp() <= ctx.get_current_watermark():
            return TriggerResult.FIRE
        ctx.register_event_time_timer(window.max_timestamp())
        self._begin(self._next(timestamp, window), ctx.get_current_watermark(), ctx)
        return TriggerResult.CONTINUE

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return self._fire(time, time, window, ctx)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        super().clear(window, ctx)
        ctx.delete_event_time_timer(window.max_timestamp())


class ContinuousProcessingTimeTrigger(_ContinuousTrigger):
    """Fires by processing time at the multiples of an interval."""

    _clock = "processing-time"

    def _register(self, time: int, ctx: TriggerContext) -> None:
        ctx.register_processing_time_timer(time)

    def _delete(self, time: int, ctx: TriggerContext) -> None:
        ctx.delete_processing_time_timer(time)

    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        self._begin(self._next(ctx.get_current_processing_time(), window), FIRST_TIME, ctx)
        return TriggerResult.CONTINUE

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        # From now on, not from the timer's time: micro-batches can be further apart.
        return self._fire(time, max(time, ctx.get_current_processing_time()), window, ctx)


class PurgingTrigger(Trigger):
    """Empties the window whenever another trigger fires."""

    def __init__(self, nested_trigger: Trigger) -> None:
        self._nested = nested_trigger

    @staticmethod
    def of(nested_trigger: Trigger) -> PurgingTrigger:
        """A trigger that fires as `nested_trigger` does, and empties the window."""
        return PurgingTrigger(nested_trigger)

    def open(self, ctx: KeyedStateStore) -> None:
        self._nested.open(ctx)

    def on_element(
        self, element: Any, timestamp: int, window: Any, ctx: TriggerContext
    ) -> TriggerResult:
        return _purging(self._nested.on_element(element, timestamp, window, ctx))

    def on_processing_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return _purging(self._nested.on_processing_time(time, window, ctx))

    def on_event_time(self, time: int, window: Any, ctx: TriggerContext) -> TriggerResult:
        return _purging(self._nested.on_event_time(time, window, ctx))

    def can_merge(self) -> bool:
        return self._nested.can_merge()

    def on_merge(self, window: Any, ctx: OnMergeContext) -> None:
        self._nested.on_merge(window, ctx)

    def clear(self, window: Any, ctx: TriggerContext) -> None:
        self._nested.clear(window, ctx)


def _purging(result: TriggerResult) -> TriggerResult:
    return TriggerResult.FIRE_AND_PURGE if result.is_fire() else result


def _add(a: int, b: int) -> int:
    return a + b
