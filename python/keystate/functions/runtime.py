"""The runtime context, which a function gets in ``open``."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, TypeVar

from keystate.errors import DeclarationError, StateAccessError
from keystate.functions.metrics import MetricGroup
from keystate.functions.subtask import Subtask
from keystate.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    FoldingState,
    FoldingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    SortedMapState,
    SortedMapStateDescriptor,
    StateDescriptor,
    ValueState,
    ValueStateDescriptor,
)

NOT_KEYED = "the stream is not keyed: use keystate.keyed(df, ...)"

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class KeyedStateStore(ABC):
    """Gives a function its keyed states, in ``open``; every state has a name of its own."""

    def get_state(self, state_descriptor: ValueStateDescriptor[T]) -> ValueState[T]:
        """The value state of this descriptor."""
        state: ValueState[T] = self._get(state_descriptor, ValueStateDescriptor)
        return state

    def get_list_state(self, state_descriptor: ListStateDescriptor[T]) -> ListState[T]:
        """The list state of this descriptor."""
        state: ListState[T] = self._get(state_descriptor, ListStateDescriptor)
        return state

    def get_map_state(self, state_descriptor: MapStateDescriptor[K, V]) -> MapState[K, V]:
        """The map state of this descriptor."""
        state: MapState[K, V] = self._get(state_descriptor, MapStateDescriptor)
        return state

    def get_sorted_map_state(
        self, state_descriptor: SortedMapStateDescriptor[K, V]
    ) -> SortedMapState[K, V]:
        """The sorted map state of this descriptor."""
        state: SortedMapState[K, V] = self._get(state_descriptor, SortedMapStateDescriptor)
        return state

    def get_reducing_state(self, state_descriptor: ReducingStateDescriptor[T]) -> ReducingState[T]:
        """The reducing state of this descriptor."""
        state: ReducingState[T] = self._get(state_descriptor, ReducingStateDescriptor)
        return state

    def get_aggregating_state(
        self, state_descriptor: AggregatingStateDescriptor[IN, OUT]
    ) -> AggregatingState[IN, OUT]:
        """The aggregating state of this descriptor."""
        state: AggregatingState[IN, OUT] = self._get(state_descriptor, AggregatingStateDescriptor)
        return state

    def get_folding_state(
        self, state_descriptor: FoldingStateDescriptor[IN, OUT]
    ) -> FoldingState[IN, OUT]:
        """The folding state of this descriptor. Deprecated, like all folding state."""
        state: FoldingState[IN, OUT] = self._get(state_descriptor, FoldingStateDescriptor)
        return state

    def _get(self, descriptor: Any, expected: type[StateDescriptor]) -> Any:
        if not isinstance(descriptor, expected):
            raise TypeError(f"expected a {expected.__name__}, got {descriptor!r}")
        return self._provide(descriptor)

    @abstractmethod
    def _provide(self, descriptor: StateDescriptor) -> Any:
        """Returns the state of a descriptor, whose class is already checked."""


class RuntimeContext(KeyedStateStore):
    """Describes the subtask that a function runs in, and gives the function its states."""

    _subtask: Subtask

    def get_task_name(self) -> str:
        """The operator's name."""
        return self._subtask.name

    def get_number_of_parallel_subtasks(self) -> int:
        """How many subtasks share the keys: the query's number of partitions."""
        return self._subtask.parallelism

    def get_max_number_of_parallel_subtasks(self) -> int:
        """The number of key groups: the most subtasks there can ever be."""
        return self._subtask.max_parallelism

    def get_index_of_this_subtask(self) -> int:
        """This subtask's number, from 0."""
        return self._subtask.number

    def get_attempt_number(self) -> int:
        """The attempt number of the task that opened the function; 0 for the first attempt."""
        return self._subtask.attempt

    def get_key_group(self, key: Any) -> int:
        """The key group of a key, in the form that ``ctx.get_current_key()`` returns.

        Raises:
            StateAccessError: there are no keys.
        """
        raise StateAccessError(NOT_KEYED, code="KEYSTATE_DECLARATION")

    def get_metrics_group(self) -> MetricGroup:
        """The function's own metrics, which the query's progress shows."""
        raise DeclarationError("a source has no metrics of its own")

    def get_task_name_with_subtasks(self) -> str:
        """The operator's name with this subtask's number from 1, as in ``average (1/4)``."""
        index = self.get_index_of_this_subtask() + 1
        return f"{self.get_task_name()} ({index}/{self.get_number_of_parallel_subtasks()})"
