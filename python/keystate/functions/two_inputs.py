"""Functions of two keyed streams, under PyFlink's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic

from keystate.functions.base import Function, Results
from keystate.functions.contexts import Context, OnTimerContext
from keystate.functions.type_variables import IN1, IN2, KEY, OUT


class KeyedCoProcessFunction(Function, ABC, Generic[KEY, IN1, IN2, OUT]):
    """A function of the rows of two keyed streams, which share the state and timers of a key."""

    @abstractmethod
    def process_element1(self, value: IN1, ctx: Context[KEY]) -> Results[OUT]:
        """Processes one row of the first stream.

        Results are as for :meth:`~keystate.functions.KeyedProcessFunction.process_element`.
        """

    @abstractmethod
    def process_element2(self, value: IN2, ctx: Context[KEY]) -> Results[OUT]:
        """Processes one row of the second stream; results as for :meth:`process_element1`."""

    def on_timer(self, timestamp: int, ctx: OnTimerContext[KEY]) -> Results[OUT]:
        """Called when a timer fires, with its time in ms; results as for :meth:`process_element1`.

        The timer belongs to the key: a row of either stream may have set it.
        """
        return None


class CoMapFunction(Function, ABC, Generic[IN1, IN2, OUT]):
    """One result for each row of two streams."""

    @abstractmethod
    def map1(self, value: IN1) -> OUT:
        """Returns the result for a row of the first stream."""

    @abstractmethod
    def map2(self, value: IN2) -> OUT:
        """Returns the result for a row of the second stream."""


class CoFlatMapFunction(Function, ABC, Generic[IN1, IN2, OUT]):
    """Any number of results for each row of two streams."""

    @abstractmethod
    def flat_map1(self, value: IN1) -> Results[OUT]:
        """Returns or yields the results for a row of the first stream."""

    @abstractmethod
    def flat_map2(self, value: IN2) -> Results[OUT]:
        """Returns or yields the results for a row of the second stream."""
