"""Functions that states apply to added values.

Users find them in :mod:`keystate.functions` too. They are defined here because descriptors take
them, and :mod:`keystate.functions` imports descriptors.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, TypeVar

IN = TypeVar("IN")
OUT = TypeVar("OUT")
ACC = TypeVar("ACC")


class Reducer(ABC):
    """Combines two values; base of :class:`~keystate.functions.ReduceFunction`."""

    @abstractmethod
    def reduce(self, value1: Any, value2: Any) -> Any:
        """Returns the combination. Must be associative."""


class AggregateFunction(ABC, Generic[IN, ACC, OUT]):
    """An aggregation with an accumulator of its own type."""

    @abstractmethod
    def create_accumulator(self) -> ACC:
        """Returns an empty accumulator."""

    @abstractmethod
    def add(self, value: IN, accumulator: ACC) -> ACC:
        """Returns the accumulator with the value in it; may change and return the given one."""

    @abstractmethod
    def get_result(self, accumulator: ACC) -> OUT:
        """Returns the accumulator's result.

        ``None`` means no result: then a window emits nothing.
        """

    def merge(self, acc_a: ACC, acc_b: ACC) -> ACC:
        """Returns the accumulator of both; needed only where accumulators are merged."""
        raise NotImplementedError(f"{type(self).__name__} does not define merge")
