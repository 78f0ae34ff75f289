"""Functions of a stream and a broadcast stream, and their contexts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from keystate.functions.base import Function, Results
from keystate.functions.contexts import Clocks, Context, OnTimerContext
from keystate.functions.type_variables import IN1, IN2, KEY, OUT, KEY_co
from keystate.state import (
    BroadcastState,
    MapStateDescriptor,
    ReadOnlyBroadcastState,
    StateDescriptor,
)
from keystate.state.aggregates import AggregateFunction as AggregateFunction

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class ReadOnlyBroadcastContext(Clocks, Protocol):
    """What :meth:`BroadcastProcessFunction.process_element` is told. Valid only during the call."""

    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor[K, V]
    ) -> ReadOnlyBroadcastState[K, V]:
        """A broadcast state, to be read."""

    def timestamp(self) -> int | None:
        """The row's event time in ms since the epoch; ``None`` when its input has no watermark."""


class KeyedReadOnlyContext(ReadOnlyBroadcastContext, Context[KEY_co], Protocol[KEY_co]):
    """What :meth:`KeyedBroadcastProcessFunction.process_element` is told."""


class KeyedBroadcastOnTimerContext(
    KeyedReadOnlyContext[KEY_co], OnTimerContext[KEY_co], Protocol[KEY_co]
):
    """What :meth:`KeyedBroadcastProcessFunction.on_timer` is told."""


class BroadcastContext(Clocks, Protocol):
    """What ``process_broadcast_element`` is told. Valid only during the call."""

    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor[K, V]
    ) -> BroadcastState[K, V]:
        """A broadcast state, to be read and changed."""

    def timestamp(self) -> int | None:
        """The element's event time in ms; ``None`` when the broadcast stream has no watermark."""


class KeyedBroadcastContext(BroadcastContext, Protocol):
    """What :meth:`KeyedBroadcastProcessFunction.process_broadcast_element` is told."""

    def apply_to_keyed_state(
        self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], None]
    ) -> None:
        """Calls ``function(key, state)`` for every key of this subtask that has the state.

        The state is the one that ``open`` got by this descriptor, at that key, and can be changed.
        What has expired does not count. Keys come in no particular order.
        """


class BroadcastProcessFunction(Function, ABC, Generic[IN1, IN2, OUT]):
    """A function of one row and of broadcast state, without keys."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: ReadOnlyBroadcastContext) -> Results[OUT]:
        """Processes one row; results as for :meth:`KeyedProcessFunction.process_element`."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: BroadcastContext) -> Results[OUT]:
        """Processes one broadcast element, on every subtask.

        Called before the rows of the same micro-batch, in the same order on all subtasks. What it
        emits is emitted by each subtask.
        """


class KeyedBroadcastProcessFunction(Function, ABC, Generic[KEY, IN1, IN2, OUT]):
    """A function of one row, its key's state, and broadcast state."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: KeyedReadOnlyContext[KEY]) -> Results[OUT]:
        """Processes one row; results as for :meth:`KeyedProcessFunction.process_element`."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: KeyedBroadcastContext) -> Results[OUT]:
        """Processes one broadcast element on every subtask, without a current key and timers.

        Called before the rows of the same micro-batch, in the same order on all subtasks. What it
        emits is emitted by each subtask.
        """

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastOnTimerContext[KEY]) -> Results[OUT]:
        """Called when a timer fires, as for :class:`KeyedProcessFunction`."""
        return None
