"""Timers of windows. A key has one timer for a time; which windows it is for is in a state."""

from __future__ import annotations

from typing import Any

from keystate._worker.window_map import WindowMapDescriptor
from keystate.functions import TimeDomain
from keystate.runtime import KeyedStateStore
from keystate.windows._window import LAST_TIME, WindowKey

EVENT_TIME = TimeDomain.EVENT_TIME.value
PROCESSING_TIME = TimeDomain.PROCESSING_TIME.value

_FIRST = -LAST_TIME - 1


class WindowTimers:
    """The timers of a key's windows, in order of time."""

    def __init__(self, ctx: KeyedStateStore) -> None:
        names = ("domain", "time", "end", "start")
        self._state = ctx.get_sorted_map_state(
            WindowMapDescriptor("window-timers", names, "boolean")
        )

    def set(self, domain: int, time: int, window: WindowKey, ctx: Any) -> None:
        """Sets a timer; one that is set already stays as it is."""
        key = (domain, time, *window)
        if not self._state.contains(key):
            self._state.put(key, True)
            if domain == EVENT_TIME:
                ctx.register_event_time_timer(time)
            else:
                ctx.register_processing_time_timer(time)

    def contains(self, domain: int, time: int, window: WindowKey) -> bool:
        """Whether a timer is set."""
        return self._state.contains((domain, time, *window))

    def delete(self, domain: int, time: int, window: WindowKey, ctx: Any) -> None:
        """Deletes a timer; harmless if it is not set."""
        key = (domain, time, *window)
        if self._state.contains(key):
            self._state.remove(key)
            others = self._state.sub_iterator(
                (domain, time, _FIRST, _FIRST), (domain, time, LAST_TIME, LAST_TIME)
            )
            if next(others, None) is None:
                _delete(domain, time, ctx)

    def pop(self, domain: int, until: int, ctx: Any) -> tuple[int, WindowKey] | None:
        """Takes out the first timer up to a time: the timer's time, and its window."""
        end = domain + 1 if until == LAST_TIME else domain
        after = _FIRST if until == LAST_TIME else until + 1
        start = (domain, _FIRST, _FIRST, _FIRST)
        # The iterator is gone before the state changes: it would have to copy what is left.
        first = next(self._state.sub_iterator(start, (end, after, _FIRST, _FIRST)), None)
        if first is None:
            return None
        _, time, *window = first[0]
        self._state.remove(first[0])
        # Others at this time come next: the key's timer is not needed any more.
        _delete(domain, time, ctx)
        return time, (window[0], window[1])


def _delete(domain: int, time: int, ctx: Any) -> None:
    if domain == EVENT_TIME:
        ctx.delete_event_time_timer(time)
    else:
        ctx.delete_processing_time_timer(time)
