"""Windows that are merged. What they hold stays where it is: a window knows the one that has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keystate._worker.state.window_maps import WindowMapDescriptor, WorkerWindowMapState
from keystate.runtime import KeyedStateStore
from keystate.windows._assigners import MergingWindowAssigner
from keystate.windows._window import FIRST_TIME, WindowKey, key_of, window_of

#: Is told of windows that were merged: the new window, the merged ones, the window that has what
#: the new one holds, and those that have what is to be moved there.
OnMerge = Callable[[WindowKey, list[WindowKey], WindowKey, list[WindowKey]], None]


class MergingWindowSet:
    """The windows of a key, and for each of them the window under which its contents are."""

    def __init__(self, ctx: KeyedStateStore, assigner: MergingWindowAssigner) -> None:
        descriptor = WindowMapDescriptor(
            "merging-window-set", ("end", "start"), "end long, start long", own_values=True
        )
        state: Any = ctx.get_sorted_map_state(descriptor)
        self._state: WorkerWindowMapState = state
        self._assigner = assigner

    def state_window(self, window: WindowKey) -> WindowKey | None:
        """The window that has its contents; ``None`` if there is no such window."""
        found = self._state.get(window)
        return None if found is None else (found[0], found[1])

    def first(self) -> WindowKey | None:
        """The window that ends first; ``None`` if there is none."""
        found = self._state.first_entry()
        return None if found is None else (found[0][0], found[0][1])

    def retire(self, window: WindowKey) -> None:
        """Removes a window."""
        self._state.remove(window)

    def extend(self, new: WindowKey) -> tuple[WindowKey, WindowKey, WindowKey] | None:
        """Adds a session to the one that it meets.

        Returns the window that has its contents, that session, and what it is now. All are `new` if
        it meets none; ``None``, and nothing has changed, if it meets several.
        """
        end, start = new
        met = self._state.keys_from((start, FIRST_TIME), 2)
        if not met or met[0][1] > end:
            self._state.put(new, new)
            return new, new, new
        known = met[0]
        if len(met) > 1 and met[1][1] <= end:
            return None
        holder: WindowKey = self._state.get(known)
        into = max(end, known[0]), min(start, known[1])
        if into != known:
            self._state.remove(known)
            self._state.put(into, holder)
        return holder, known, into

    def add(self, new: WindowKey, on_merge: OnMerge) -> WindowKey:
        """Adds a window; returns the one that it is merged into, or itself."""
        if self._state.contains(new):
            return new
        windows = [window_of(key) for key in (*self._state.keys(), new)]
        merges: list[tuple[WindowKey, list[WindowKey]]] = []
        self._assigner.merge_windows(
            windows,
            lambda merged, into: merges.append((key_of(into), [key_of(each) for each in merged])),
        )
        result = None
        for into, merged in merges:
            if new in merged:
                merged.remove(new)
                result = into
            holders = [self._holder(window) for window in merged]
            for window in merged:
                self._state.remove(window)
            self._state.put(into, holders[0])
            if merged != [into]:
                on_merge(into, merged, holders[0], holders[1:])
        if result is None:
            self._state.put(new, new)
            result = new
        return result

    def _holder(self, window: WindowKey) -> WindowKey:
        holder = self.state_window(window)
        assert holder is not None
        return holder
