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
    """The context of :meth:`BroadcastProcessFunction.process_element`, valid only in the call."""

    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor[K, V]
    ) -> ReadOnlyBroadcastState[K, V]:
        """A broadcast state that can be read."""

    def timestamp(self) -> int | None:
        """The row's event time in ms since the epoch; ``None`` when its input has no watermark."""


class KeyedReadOnlyContext(ReadOnlyBroadcastContext, Context[KEY_co], Protocol[KEY_co]):
    """The context of :meth:`KeyedBroadcastProcessFunction.process_element`."""


class KeyedBroadcastOnTimerContext(
    KeyedReadOnlyContext[KEY_co], OnTimerContext[KEY_co], Protocol[KEY_co]
):
    """The context of :meth:`KeyedBroadcastProcessFunction.on_timer`."""


class BroadcastContext(Clocks, Protocol):
    """The context of ``process_broadcast_element``, valid only during the call."""

    def get_broadcast_state(
        self, state_descriptor: MapStateDescriptor[K, V]
    ) -> BroadcastState[K, V]:
        """A broadcast state that can be read and changed."""

    def timestamp(self) -> int | None:
        """The element's event time in ms; ``None`` when the broadcast stream has no watermark."""


class KeyedBroadcastContext(BroadcastContext, Protocol):
    """The context of :meth:`KeyedBroadcastProcessFunction.process_broadcast_element`."""

    def apply_to_keyed_state(
        self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], None]
    ) -> None:
        """Calls ``function(key, state)`` for every key of this subtask that has the state.

        The state is the one that ``open`` got with this descriptor, for that key; the function can
        change it. Keys whose state has expired are skipped. Keys come in no particular order.
        """


class BroadcastProcessFunction(Function, ABC, Generic[IN1, IN2, OUT]):
    """A function of one row and of broadcast state, without keys."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: ReadOnlyBroadcastContext) -> Results[OUT]:
        """Processes one row; results as for :meth:`KeyedProcessFunction.process_element`."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: BroadcastContext) -> Results[OUT]:
        """Processes one broadcast element, on every subtask.

        Called before the rows of the same micro-batch, in the same order on all subtasks. Each
        subtask emits the results of its own call.
        """


class KeyedBroadcastProcessFunction(Function, ABC, Generic[KEY, IN1, IN2, OUT]):
    """A function of one row, its key's state, and broadcast state."""

    @abstractmethod
    def process_element(self, value: IN1, ctx: KeyedReadOnlyContext[KEY]) -> Results[OUT]:
        """Processes one row; results as for :meth:`KeyedProcessFunction.process_element`."""

    @abstractmethod
    def process_broadcast_element(self, value: IN2, ctx: KeyedBroadcastContext) -> Results[OUT]:
        """Processes one broadcast element on every subtask, without a current key or timers.

        Called before the rows of the same micro-batch, in the same order on all subtasks. Each
        subtask emits the results of its own call.
        """

    def on_timer(self, timestamp: int, ctx: KeyedBroadcastOnTimerContext[KEY]) -> Results[OUT]:
        """Called when a timer fires, as for :class:`KeyedProcessFunction`."""
        return None
