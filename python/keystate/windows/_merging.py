"""Windows that are merged, and what they hold."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from keystate._worker.state.window_maps import WindowMapDescriptor, WorkerWindowMapState
from keystate.functions import KeyedStateStore
from keystate.windows._assigners import MergingWindowAssigner
from keystate.windows._contents import (
    SESSIONS,
    Contents,
    FoldedContents,
    ListedContents,
    Range,
    range_of,
)
from keystate.windows._window import WindowKey, key_of, window_of

#: Is told of windows that were merged: the new window, and what it was made of.
OnMerge = Callable[[WindowKey, list[WindowKey]], None]


class MergingContents(Contents):
    """What the windows of a key hold, which also tells what windows there are.

    A window is there from its first row until it is removed, with or without contents.
    """

    @abstractmethod
    def windows(self) -> Iterable[WindowKey]:
        """The windows of the key, sorted."""

    @abstractmethod
    def merge(self, into: WindowKey, merged: list[WindowKey]) -> None:
        """Makes one window of some, of which it can be one."""


class FoldedSessions(FoldedContents, MergingContents):
    """One accumulator each. An emptied window has None."""

    name = SESSIONS

    def contains(self, window: WindowKey) -> bool:
        return self.state.contains(window)

    def windows(self) -> Iterable[WindowKey]:
        return self.state.keys()

    def clear(self, window: WindowKey) -> None:
        self.state.put(window, None)

    def remove(self, window: WindowKey) -> None:
        self.state.remove(window)

    def merge(self, into: WindowKey, merged: list[WindowKey]) -> None:
        accumulator = None
        for window in merged:
            mine = self.state.get(window)
            self.state.remove(window)
            if accumulator is None:
                accumulator = mine
            elif mine is not None:
                accumulator = self.fold.merge(accumulator, mine)
        self.state.put(into, accumulator)


class ListedSessions(ListedContents, MergingContents):
    """The rows of each. Rows stay where they are: a window knows the one that has its rows."""

    def open(self, ctx: KeyedStateStore) -> None:
        super().open(ctx)
        descriptor = WindowMapDescriptor(
            "merging-window-set", ("end", "start"), "end long, start long", own_values=True
        )
        state: Any = ctx.get_sorted_map_state(descriptor)
        self._holders: WorkerWindowMapState = state

    def _range(self, window: WindowKey) -> Range:
        end, start = self._holders.get(window)
        return range_of((end, start))

    def contains(self, window: WindowKey) -> bool:
        return self._holders.contains(window)

    def windows(self) -> Iterable[WindowKey]:
        return self._holders.keys()

    def add(self, window: WindowKey, row: Any, time: int | None) -> bool:
        known = self._holders.get(window)
        if known is None:
            self._holders.put(window, window)
        holder = window if known is None else (known[0], known[1])
        super().add(holder, row, time)
        return known is None

    def remove(self, window: WindowKey) -> None:
        if self.contains(window):
            self.clear(window)
            self._holders.remove(window)

    def merge(self, into: WindowKey, merged: list[WindowKey]) -> None:
        holder = self._holders.get(merged[0])
        for window in merged[1:]:
            self._move_rows(self._range(window), (holder[0], holder[1]))
        for window in merged:
            self._holders.remove(window)
        self._holders.put(into, holder)


class MergingWindowSet:
    """The windows of a key, which an assigner merges."""

    def __init__(self, assigner: MergingWindowAssigner, contents: MergingContents) -> None:
        self._assigner = assigner
        self.contents = contents

    def add(self, new: WindowKey, on_merge: OnMerge) -> WindowKey:
        """Merges a new window with those that there are.

        Returns the one that it is merged into, or itself, which is stored when it gets its row.
        """
        contents = self.contents
        if contents.contains(new):
            return new
        windows = [window_of(key) for key in (*contents.windows(), new)]
        merges: list[tuple[WindowKey, list[WindowKey]]] = []
        self._assigner.merge_windows(
            windows,
            lambda merged, into: merges.append((key_of(into), [key_of(each) for each in merged])),
        )
        result = new
        for into, merged in merges:
            if new in merged:
                merged.remove(new)
                result = into
            if merged != [into]:
                contents.merge(into, merged)
                on_merge(into, merged)
        return result
