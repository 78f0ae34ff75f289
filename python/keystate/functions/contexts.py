"""What a function can ask while it handles an element: key, timestamp, timers."""

from __future__ import annotations

import enum
from typing import Protocol, TypeVar

from keystate.functions.type_variables import KEY_co
from keystate.state.aggregates import AggregateFunction as AggregateFunction

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class Context(Protocol[KEY_co]):
    """What :meth:`KeyedProcessFunction.process_element` is told of the row's surroundings.

    Valid only during the call.
    """

    def get_current_key(self) -> KEY_co:
        """The key: the bare value for one key column, a Row for several."""

    def timestamp(self) -> int | None:
        """The row's event time in ms since the epoch.

        ``None`` if the column is null in this row, if a stream has no watermark, or if for a batch
        DataFrame no ``event_time`` was told.
        """

    def timer_service(self) -> TimerService:
        """The clocks, and the key's timers."""


class TimeDomain(enum.Enum):
    """Which clock a timer goes by."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1


class OnTimerContext(Context[KEY_co], Protocol[KEY_co]):
    """What :meth:`KeyedProcessFunction.on_timer` is told; ``timestamp()`` is the timer's time."""

    def time_domain(self) -> TimeDomain:
        """Which clock the timer goes by."""


class Clocks(Protocol):
    """A function's two clocks."""

    def current_watermark(self) -> int | None:
        """The watermark in ms since the epoch; ``None`` when the input has none."""

    def current_processing_time(self) -> int:
        """The time of the micro-batch in ms since the epoch, the same again when it is replayed.

        In real-time mode it is the present time.
        """


class TimerService(Clocks, Protocol):
    """The operator's clocks, and the timers of the current key.

    A key has any number of timers; setting one that is set already changes nothing. A timer fires
    once, after the rows of the first micro-batch whose clock has passed it: the watermark, or the
    micro-batch's time. That may be the micro-batch that sets it. A key's timers fire in the order
    of their times. One that a timer sets at or before its own time waits for the next micro-batch.
    In a batch query all of them fire when the input has ended.
    """

    def register_event_time_timer(self, timestamp: int) -> None:
        """Sets a timer for when the watermark reaches `timestamp`, in ms since the epoch."""

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Sets a timer for the first micro-batch at or after `timestamp`, in ms since the epoch.

        A running query has one at the next trigger, with or without rows; a restarted query, once
        it has had rows. Under ``availableNow`` it ends when no timer is due.
        """

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Deletes a timer; harmless when it is not set."""

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Deletes a timer; harmless when it is not set."""
