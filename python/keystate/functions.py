"""Functions that a user writes: what runs for every row, with state.

Names are PyFlink's. A function is pickled once and opened once for each subtask in a worker; it is
not opened again for every micro-batch while that worker lives.
"""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from keystate.runtime import RuntimeContext

IN = TypeVar("IN")
OUT = TypeVar("OUT")
ACC = TypeVar("ACC")


class Function:
    """Base of all functions."""

    def open(self, runtime_context: RuntimeContext) -> None:
        """Prepares the function; the place to get its states.

        Called once for a subtask in a worker, and once on the driver, on a copy of the function, to
        learn which states it has.
        """

    def close(self) -> None:
        """Releases what ``open`` took.

        Called after a batch query's task, or when a worker lets the function go; not by a worker
        that is killed.
        """


class Context(Protocol):
    """What :meth:`KeyedProcessFunction.process_element` is told of the row's surroundings.

    Valid only during the call.
    """

    def get_current_key(self) -> Any:
        """The key: the bare value for one key column, a Row for several."""

    def timestamp(self) -> int | None:
        """The row's event time in ms since the epoch; ``None`` when the input has no watermark."""

    def timer_service(self) -> TimerService:
        """The clocks, and the key's timers."""


class TimeDomain(enum.Enum):
    """Which clock a timer goes by."""

    EVENT_TIME = 0
    PROCESSING_TIME = 1


class OnTimerContext(Context, Protocol):
    """What :meth:`KeyedProcessFunction.on_timer` is told; ``timestamp()`` is the timer's time."""

    def time_domain(self) -> TimeDomain:
        """Which clock the timer goes by."""


class TimerService(Protocol):
    """The operator's clocks, and the timers of the current key.

    A key has any number of timers; setting one that is set already changes nothing. A timer fires
    once, after the rows of the first later micro-batch whose clock has passed it: the watermark, or
    the micro-batch's time. Timers fire in the order of their times. In a batch query all of them
    fire when the input has ended.
    """

    def register_event_time_timer(self, timestamp: int) -> None:
        """Sets a timer for when the watermark reaches `timestamp`, in ms since the epoch."""

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Sets a timer for the first micro-batch at or after `timestamp`, in ms since the epoch.

        With ``time_mode="processing_time"`` there is a micro-batch at every trigger, so such a
        query never ends by itself under ``availableNow``, like Spark's own; else there is one only
        when there are rows or the watermark has moved.
        """

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Deletes a timer; harmless when it is not set."""

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Deletes a timer; harmless when it is not set."""

    def current_watermark(self) -> int | None:
        """The watermark in ms since the epoch; ``None`` when the input has none."""

    def current_processing_time(self) -> int:
        """The time of the micro-batch in ms since the epoch, the same again when it is replayed."""


class KeyedProcessFunction(Function, ABC):
    """A function of one row and its key's state, with any number of results."""

    @abstractmethod
    def process_element(self, value: Any, ctx: Context) -> Iterable[Any] | Any:
        """Processes one row.

        Returns or yields any number of results: Row, tuple, dict or dataclass, or a bare value for
        a one-column schema; ``None`` for no result. A list, an iterator or a generator is many
        results, a tuple is one.
        """

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterable[Any] | Any:
        """Called when a timer fires, with its time in ms and its key's state; results as above."""


class MapFunction(Function, ABC):
    """One result for each row."""

    @abstractmethod
    def map(self, value: Any) -> Any:
        """Returns the result."""


class FlatMapFunction(Function, ABC):
    """Any number of results for each row."""

    @abstractmethod
    def flat_map(self, value: Any) -> Iterable[Any] | Any:
        """Returns or yields the results, as :meth:`KeyedProcessFunction.process_element` does."""


class FilterFunction(Function, ABC):
    """Keeps some of the rows."""

    @abstractmethod
    def filter(self, value: Any) -> bool:
        """Returns whether to keep the row."""


class ReduceFunction(Function, ABC):
    """Combines two values into one of the same type."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """Returns the combination. Must be associative."""


class AggregateFunction(ABC, Generic[IN, ACC, OUT]):
    """An aggregation with an accumulator of its own type."""

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """Returns the accumulator of nothing."""

    @abstractmethod
    def add(self, value: IN, accumulator: ACC) -> ACC:
        """Returns the accumulator with the value in it; may change and return the given one."""

    @abstractmethod
    def get_result(self, accumulator: ACC) -> OUT:
        """Returns the result that the accumulator stands for."""

    def merge(self, acc_a: ACC, acc_b: ACC) -> ACC:
        """Returns the accumulator of both; needed only where accumulators are merged."""
        raise NotImplementedError(f"{type(self).__name__} does not define merge")
