"""Functions of windows, under PyFlink's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, Protocol

from keystate.functions import Function, KeyedStateStore, RuntimeContext


class WindowContext(Protocol):
    """What :meth:`ProcessWindowFunction.process` is told. Valid only during the call."""

    def window(self) -> Any:
        """The window."""

    def current_processing_time(self) -> int:
        """The time of the micro-batch in ms since the epoch."""

    def current_watermark(self) -> int:
        """The watermark in ms since the epoch; the least long while there is none."""

    def window_state(self) -> KeyedStateStore:
        """The states of the key and the window that :meth:`ProcessWindowFunction.open` got."""

    def global_state(self) -> KeyedStateStore:
        """The states of the key that it got."""


class WindowRuntimeContext(RuntimeContext):
    """What a function of windows gets in ``open``: a runtime context with states of two kinds."""

    @abstractmethod
    def window_state(self) -> KeyedStateStore:
        """Gives states of a key and a window: value, list, map, reducing and aggregating ones.

        Not where windows are merged, as sessions are.
        """

    @abstractmethod
    def global_state(self) -> KeyedStateStore:
        """Gives states of a key, as the context itself does."""


class ProcessWindowFunction(Function, ABC):
    """A function of a window's rows, or of its one result after ``reduce`` or ``aggregate``."""

    @abstractmethod
    def process(self, key: Any, context: WindowContext, elements: Iterable[Any]) -> Any:
        """Called when a window fires.

        Args:
            key: the key: the bare value for one key column, a Row for several.
            context: knows the window, the clocks and the states.
            elements: the rows, as they came; or one result.

        Returns:
            Any number of results, as :meth:`~keystate.KeyedProcessFunction.process_element`
            returns or yields them, also for side outputs.
        """

    def clear(self, context: WindowContext) -> None:
        """Called when a window is removed: deletes what it has in states of the window."""


class WindowFunction(Function, ABC):
    """A function of a window's rows that needs no context; as Flink's."""

    @abstractmethod
    def apply(self, key: Any, window: Any, inputs: Iterable[Any]) -> Any:
        """Called when a window fires; see :meth:`ProcessWindowFunction.process`."""
