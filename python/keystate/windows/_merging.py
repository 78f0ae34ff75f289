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
from keystate.windows._window import FIRST_TIME, LAST_TIME, WindowKey, key_of, window_of

#: The least key of what sessions hold.
_FIRST = (0, FIRST_TIME, FIRST_TIME)

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
    def first(self) -> WindowKey | None:
        """The window that ends first; ``None`` if there is none."""

    @abstractmethod
    def merge(self, into: WindowKey, merged: list[WindowKey], past: bool) -> None:
        """Makes one window of some, of which it can be one; `past` as in `add`."""

    def extend(
        self, new: WindowKey, row: Any, time: int | None
    ) -> tuple[WindowKey, WindowKey] | None:
        """Adds a row to the session that its own one meets, all of which are open.

        Returns that session, and what it is now. Both are `new` if it meets none; ``None``, and
        nothing has changed, if it meets several.
        """
        end, start = new
        met = self._open_from(start)
        if not met or met[0][1] > end:
            self.add(new, row, time, False)
            return new, new
        if len(met) > 1 and met[1][1] <= end:
            return None
        known = met[0]
        into = max(end, known[0]), min(start, known[1])
        self._grow(known, into, row, time)
        return known, into

    @abstractmethod
    def _open_from(self, time: int) -> list[WindowKey]:
        """The first two sessions that are open and do not end before a time."""

    @abstractmethod
    def _grow(self, known: WindowKey, into: WindowKey, row: Any, time: int | None) -> None:
        """Makes a session that is open a larger one, or leaves it as it is, and adds a row."""


class FoldedSessions(FoldedContents, MergingContents):
    """One accumulator each. An emptied window has None."""

    name = SESSIONS

    def contains(self, window: WindowKey) -> bool:
        return self.state.contains(self._key(window))

    def windows(self) -> Iterable[WindowKey]:
        return sorted((end, start) for _, end, start in self.state.keys_from(_FIRST, LAST_TIME))

    def first(self) -> WindowKey | None:
        return next(((end, start) for _, end, start in self.state.keys_from(_FIRST, 1)), None)

    def clear(self, window: WindowKey) -> None:
        self.state.put(self._key(window), None)

    def remove(self, window: WindowKey) -> None:
        self.state.remove(self._key(window))

    def merge(self, into: WindowKey, merged: list[WindowKey], past: bool) -> None:
        accumulator = None
        for window in merged:
            key = self._key(window)
            mine = self.state.get(key)
            self.state.remove(key)
            if accumulator is None:
                accumulator = mine
            elif mine is not None:
                accumulator = self.fold.merge(accumulator, mine)
        self.state.put((int(not past), *into), accumulator)

    def _open_from(self, time: int) -> list[WindowKey]:
        found = self.state.keys_from((1, time, FIRST_TIME), 2)
        return [(end, start) for _, end, start in found]

    def _grow(self, known: WindowKey, into: WindowKey, row: Any, time: int | None) -> None:
        key = (1, *known)
        if into == known:
            self.state.fold(key, self.fold.add, row)
        else:
            accumulator = self.fold.add(row, self.state.get(key))
            self.state.remove(key)
            self.state.put((1, *into), accumulator)


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

    def first(self) -> WindowKey | None:
        found = self._holders.first_entry()
        return None if found is None else (found[0][0], found[0][1])

    def add(self, window: WindowKey, row: Any, time: int | None, past: bool) -> bool:
        holder = self._holders.get(window)
        if holder is None:
            holder = window
            self._holders.put(window, window)
        return super().add((holder[0], holder[1]), row, time, past)

    def remove(self, window: WindowKey) -> None:
        if self.contains(window):
            self.clear(window)
            self._holders.remove(window)

    def merge(self, into: WindowKey, merged: list[WindowKey], past: bool) -> None:
        holder = self._holders.get(merged[0])
        for window in merged[1:]:
            self._move_rows(self._range(window), (holder[0], holder[1]))
        for window in merged:
            self._holders.remove(window)
        self._holders.put(into, holder)

    def _open_from(self, time: int) -> list[WindowKey]:
        return self._holders.keys_from((time, FIRST_TIME), 2)

    def _grow(self, known: WindowKey, into: WindowKey, row: Any, time: int | None) -> None:
        if into != known:
            self.merge(into, [known], False)
        self.add(into, row, time, False)


class MergingWindowSet:
    """The windows of a key, which an assigner merges."""

    def __init__(self, assigner: MergingWindowAssigner, contents: MergingContents) -> None:
        self._assigner = assigner
        self.contents = contents

    def add(
        self, new: WindowKey, is_past: Callable[[WindowKey], bool], on_merge: OnMerge
    ) -> WindowKey:
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
                contents.merge(into, merged, is_past(into))
                on_merge(into, merged)
        return result
