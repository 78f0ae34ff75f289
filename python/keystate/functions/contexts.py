"""Contexts of a function's calls: key, timestamp, clocks, timers."""

from __future__ import annotations

import enum
from typing import Protocol, TypeVar

from keystate.functions.type_variables import KEY_co
from keystate.state.aggregates import AggregateFunction as AggregateFunction

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class Context(Protocol[KEY_co]):
    """The context of :meth:`KeyedProcessFunction.process_element`: key, timestamp and timers.

    Valid only during the call.
    """

    def get_current_key(self) -> KEY_co:
        """The key: the bare value for one key column, a Row for several."""

    def timestamp(self) -> int | None:
        """The row's event time in ms since the epoch.

        ``None`` if the column is null in this row, if a stream has no watermark, or if a batch
        DataFrame was given no ``event_time``.
        """

    def timer_service(self) -> TimerService:
        """The clocks, and the key's timers."""


class TimeDomain(enum.Enum):
    """The clock that a timer follows."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1


class OnTimerContext(Context[KEY_co], Protocol[KEY_co]):
    """The context of :meth:`KeyedProcessFunction.on_timer`; ``timestamp()`` is the timer's time."""

    def time_domain(self) -> TimeDomain:
        """The clock that the timer follows."""


class Clocks(Protocol):
    """A function's two clocks."""

    def current_watermark(self) -> int | None:
        """The watermark in ms since the epoch; ``None`` when the input has none."""

    def current_processing_time(self) -> int:
        """The micro-batch's time in ms since the epoch; a replayed micro-batch has the same time.

        In real-time mode it is the current time.
        """


class TimerService(Clocks, Protocol):
    """The operator's clocks, and the timers of the current key.

    A key has any number of timers; setting the same timer twice changes nothing. A timer fires
    once, after the rows of the first micro-batch whose clock (the watermark, or the micro-batch's
    time) has passed the timer's time. This can be the micro-batch that sets the timer. A key's
    timers fire in the order of their times. If ``on_timer`` sets a timer at or before the time of
    the firing one, the new timer waits for the next micro-batch. In a batch query all timers fire
    when the input has ended.
    """

    def register_event_time_timer(self, timestamp: int) -> None:
        """Sets a timer for when the watermark reaches `timestamp`, in ms since the epoch."""

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Sets a timer for the first micro-batch at or after `timestamp`, in ms since the epoch.

        A running query has such a micro-batch at the next trigger, with or without rows; a
        restarted query has it once it has had rows. Under ``availableNow`` a query ends when no
        timer is due.
        """

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Deletes a timer; harmless when it is not set."""

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Deletes a timer; harmless when it is not set."""
