"""Functions of two keyed streams, under PyFlink's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from keystate.functions import Context, Function, OnTimerContext


class KeyedCoProcessFunction(Function, ABC):
    """A function of the rows of two keyed streams, which share the state and timers of a key."""

    @abstractmethod
    def process_element1(self, value: Any, ctx: Context) -> Iterable[Any] | Any:
        """Processes one row of the first stream.

        Results are as for :meth:`~keystate.functions.KeyedProcessFunction.process_element`.
        """

    @abstractmethod
    def process_element2(self, value: Any, ctx: Context) -> Iterable[Any] | Any:
        """Processes one row of the second stream; results as above."""

    def on_timer(self, timestamp: int, ctx: OnTimerContext) -> Iterable[Any] | Any:
        """Called when a timer fires, with its time in ms and its key's state; results as above.

        Whichever stream's row set it: timers belong to the key.
        """


class CoMapFunction(Function, ABC):
    """One result for each row of two streams."""

    @abstractmethod
    def map1(self, value: Any) -> Any:
        """Returns the result for a row of the first stream."""

    @abstractmethod
    def map2(self, value: Any) -> Any:
        """Returns the result for a row of the second stream."""


class CoFlatMapFunction(Function, ABC):
    """Any number of results for each row of two streams."""

    @abstractmethod
    def flat_map1(self, value: Any) -> Iterable[Any] | Any:
        """Returns or yields the results for a row of the first stream."""

    @abstractmethod
    def flat_map2(self, value: Any) -> Iterable[Any] | Any:
        """Returns or yields the results for a row of the second stream."""
