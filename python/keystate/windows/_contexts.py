"""What triggers, evictors and functions of windows are told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keystate._spec.protocol import EVENT_TIME, PROCESSING_TIME
from keystate._worker.contexts.asked_in_open import AskedInOpen
from keystate.errors import DeclarationError
from keystate.functions import KeyedStateStore, MetricGroup, RuntimeContext
from keystate.state import StateDescriptor
from keystate.windows._functions import WindowRuntimeContext
from keystate.windows._states import NamedStates, WindowCursor, WindowStates
from keystate.windows._window import Window, WindowKey, window_of


class WindowCallContext(WindowCursor):
    """The key and the window at hand, as assigners, triggers, evictors and functions see them."""

    def __init__(self) -> None:
        self.row: Any = None  # the context of the row or timer
        self.merged: Sequence[WindowKey] = ()
        self.trigger_states: WindowStates
        self.function_context: FunctionContext

    # -- what assigners, triggers and evictors ask -----------------------------------------------

    def get_current_processing_time(self) -> int:
        time: int = self.row.current_processing_time()
        return time

    def get_current_watermark(self) -> int:
        watermark: int = self.row.watermark_now()
        return watermark

    def set_timer(self, domain: int, time: int, window: WindowKey, wanted: bool) -> None:
        """Sets a timer of a window, or deletes it."""
        self.row.set_window_timer(domain, time, window, wanted)

    def register_processing_time_timer(self, time: int) -> None:
        self.set_timer(PROCESSING_TIME, time, self.window, True)

    def register_event_time_timer(self, time: int) -> None:
        self.set_timer(EVENT_TIME, time, self.window, True)

    def delete_processing_time_timer(self, time: int) -> None:
        self.set_timer(PROCESSING_TIME, time, self.window, False)

    def delete_event_time_timer(self, time: int) -> None:
        self.set_timer(EVENT_TIME, time, self.window, False)

    def get_partitioned_state(self, state_descriptor: StateDescriptor) -> Any:
        return self.trigger_states.find(state_descriptor)

    def merge_partitioned_state(self, state_descriptor: StateDescriptor) -> None:
        self.trigger_states.find(state_descriptor).merge(self.window, self.merged)


class WorkerWindowContext(AskedInOpen):
    """What a ProcessWindowFunction is told."""

    def __init__(self, at: WindowCallContext) -> None:
        self._at = at

    def window(self) -> Window:
        return window_of(self._at.window)

    def current_processing_time(self) -> int:
        return self._at.get_current_processing_time()

    def current_watermark(self) -> int:
        return self._at.get_current_watermark()

    def window_state(self) -> KeyedStateStore:
        return self._at.function_context.window_state()

    def global_state(self) -> KeyedStateStore:
        return self._at.function_context.global_state()


class FunctionContext(WindowRuntimeContext):
    """What a function of windows gets in ``open``. States are had again by their descriptors."""

    def __init__(self, runtime: RuntimeContext, cursor: WindowCursor, merging: bool) -> None:
        self._runtime = runtime
        self._subtask = runtime._subtask
        self._merging = merging
        self._states = NamedStates()
        self._of_window = WindowStates(runtime, cursor, "window-state")

    def window_state(self) -> KeyedStateStore:
        if self._merging:
            raise DeclarationError(
                "where windows are merged, a window has no state of its own: use global_state()"
            )
        return self._of_window

    def global_state(self) -> KeyedStateStore:
        return self

    def _provide(self, descriptor: StateDescriptor) -> Any:
        state = self._states.find(descriptor)
        if state is None:
            state = self._runtime._provide(descriptor)
            self._states[descriptor.name] = descriptor, state
        return state

    def get_key_group(self, key: Any) -> int:
        return self._runtime.get_key_group(key)

    def get_metrics_group(self) -> MetricGroup:
        return self._runtime.get_metrics_group()
