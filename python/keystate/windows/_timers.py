"""Timers of windows. A key has one timer for a time; which windows it is for is in a state.

A timer is known by whom it was set for: a window's trigger, the operator, or both. The operator has
one for each window: at its end, and then, if it is kept for late rows, when that is over by the
rules at that time. So a restart with another trigger or another lateness finds each window again.
"""

from __future__ import annotations

from typing import Any

from keystate._worker.state.window_maps import WindowMapDescriptor, WorkerWindowMapState
from keystate.functions import KeyedStateStore, TimeDomain
from keystate.windows._window import FIRST_TIME, LAST_TIME, WindowKey

EVENT_TIME = TimeDomain.EVENT_TIME.value
PROCESSING_TIME = TimeDomain.PROCESSING_TIME.value

#: For whom a timer is. They can be added.
FOR_TRIGGER = 1
FOR_OPERATOR = 2
FOR_BOTH = FOR_TRIGGER | FOR_OPERATOR

#: The name of the state with the timers of windows that are not merged.
TIMERS = "window-timers"


class WindowTimers:
    """The timers of a key's windows, in order of time.

    Those of windows that are merged are in a state of their own: no other windows can go on with
    them.
    """

    def __init__(self, ctx: KeyedStateStore, merging: bool = False) -> None:
        name = "merging-window-timers" if merging else TIMERS
        names = ("domain", "time", "end", "start")
        state: Any = ctx.get_sorted_map_state(WindowMapDescriptor(name, names, "int"))
        self._state: WorkerWindowMapState = state

    def is_empty(self) -> bool:
        """Whether no timer is set."""
        return self._state.is_empty()

    def set(self, domain: int, time: int, window: WindowKey, whose: int, ctx: Any) -> None:
        """Sets a timer; harmless if it is set already."""
        key = (domain, time, *window)
        known = self._state.get(key) or 0
        if known & whose != whose:
            self._state.put(key, known | whose)
            if not known:
                register(domain, time, ctx)

    def contains(self, domain: int, time: int, window: WindowKey) -> bool:
        """Whether a timer is set, for whomever."""
        return self._state.contains((domain, time, *window))

    def has(self, domain: int, window: WindowKey, time: int) -> bool:
        """Whether a window has a timer; most often one at this time."""
        if self.contains(domain, time, window):
            return True
        keys = self._state.keys()
        return any(key[0] == domain and key[2:] == window for key in keys)

    def delete(self, domain: int, time: int, window: WindowKey, whose: int, ctx: Any) -> None:
        """Deletes a timer; harmless if it is not set."""
        key = (domain, time, *window)
        known = self._state.get(key) or 0
        if known & ~whose:
            self._state.put(key, known & ~whose)
        elif known:
            self._state.remove(key)
            first, last = ((domain, time, every, every) for every in (FIRST_TIME, LAST_TIME))
            if not self._state.keys_from(first, 1, last):
                delete(domain, time, ctx)

    def rearm(self, domain: int, ctx: Any) -> None:
        """Has the key have a timer at the first time at which one is set."""
        start = (domain, FIRST_TIME, FIRST_TIME, FIRST_TIME)
        for _, time, _, _ in self._state.keys_from(start, 1, (domain + 1, *start[1:])):
            register(domain, time, ctx)

    def adopt(self, domain: int, ctx: Any) -> None:
        """Has the operator's timers by the other clock be by this one.

        They were set before a restart.
        """
        other = 1 - domain
        start, before = ((d, FIRST_TIME, FIRST_TIME, FIRST_TIME) for d in (other, other + 1))
        while found := self._state.keys_from(start, 1, before):
            (key,) = found
            _, time, end, begin = key
            start = (other, time, end, begin + 1)
            if self._state.get(key) & FOR_OPERATOR:
                # That of the trigger of before goes too.
                self.delete(other, time, (end, begin), FOR_BOTH, ctx)
                self.set(domain, time, (end, begin), FOR_OPERATOR, ctx)

    def pop(
        self, domain: int, until: int, ctx: Any, after: tuple[int, WindowKey] | None = None
    ) -> tuple[int, WindowKey, int] | None:
        """Takes out the first timer up to a time: its time, its window, and for whom it is.

        Args:
            domain: of the timer.
            until: the time.
            ctx: of the row or timer at hand.
            after: time and window of another one: only a timer after that.
        """
        end = domain + 1 if until == LAST_TIME else domain
        stop = FIRST_TIME if until == LAST_TIME else until + 1
        start = (domain, FIRST_TIME, FIRST_TIME, FIRST_TIME)
        if after is not None:
            time, (window_end, window_start) = after
            start = (domain, time, window_end, window_start + 1)
        first = self._state.take_first((end, stop, FIRST_TIME, FIRST_TIME), start)
        if first is None:
            return None
        (_, time, end, begin), whose = first
        # Others at this time come next: the key's timer is not needed any more.
        delete(domain, time, ctx)
        return time, (end, begin), whose


def register(domain: int, time: int, ctx: Any) -> None:
    """Sets a timer of a key, or a window, by its clock."""
    by_event_time = domain == EVENT_TIME
    (ctx.register_event_time_timer if by_event_time else ctx.register_processing_time_timer)(time)


def delete(domain: int, time: int, ctx: Any) -> None:
    """Deletes such a timer."""
    by_event_time = domain == EVENT_TIME
    (ctx.delete_event_time_timer if by_event_time else ctx.delete_processing_time_timer)(time)
