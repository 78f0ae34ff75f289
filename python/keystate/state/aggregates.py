"""Functions that states apply to what is added to them.

They are apart from :mod:`keystate.functions`, where users find them too: descriptors of states take
them, and those functions are told of states.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

IN = TypeVar("IN")
OUT = TypeVar("OUT")
ACC = TypeVar("ACC")


class Reducer(ABC):
    """Combines two values; what a :class:`~keystate.functions.ReduceFunction` has to define."""

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
        """Returns the result that the accumulator stands for.

        ``None`` is no result: a window emits nothing then.
        """

    def merge(self, acc_a: ACC, acc_b: ACC) -> ACC:
        """Returns the accumulator of both; needed only where accumulators are merged."""
        raise NotImplementedError(f"{type(self).__name__} does not define merge")
