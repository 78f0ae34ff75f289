"""Sorted map state: the worker's side.

A map that came whole is a dictionary with a sorted list of its keys. Of a map that stays with the
JVM the worker knows some entries, and from its low end on, up to a frontier, all of them: asking
for the first entry again and again, as a queue does, fetches pages rather than entries.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from weakref import ref

from keystate._compiled import MapCells
from keystate._spec.specs import StateSpec
from keystate._types.ordering import sort_key
from keystate._worker.state.maps import (
    LARGEST_PAGE,
    MapCell,
    PlainMapState,
    RemoteMapCell,
)
from keystate.errors import StateTypeError
from keystate.state import SortedMapState, StateDescriptor

_FIRST_PAGE = 16


class SortedMapCell(MapCell):
    """One key's whole sorted map.

    `order` has its keys, sorted; `live` the iterators that have not copied what they show.
    """

    __slots__ = ("live", "order")

    def __init__(self, entries: Iterable[tuple[Any, Any]]) -> None:
        super().__init__(entries)
        self.order: list[Any] = list(self)  # they come sorted
        self.live: Any = ()  # a list once there is one

    def entries(self, first: int, last: int, reverse: bool) -> Iterator[tuple[Any, Any]]:
        """The entries at these places of the order, as they are now."""
        places = range(first, last)
        entries = LiveEntries(self, iter(reversed(places) if reverse else places))
        self.live = self.live or []
        self.live.append(ref(entries, self.live.remove))
        return entries

    def changing(self) -> None:
        """To be called before a change: iterators go on with what there was."""
        for iterator in [live() for live in self.live]:
            if iterator is not None:
                iterator.copy()
        self.live.clear()


class LiveEntries(Iterator[tuple[Any, Any]]):
    """Entries of a cell, taken from it one by one until it is about to change."""

    __slots__ = ("__weakref__", "_cell", "_rest")

    def __init__(self, cell: SortedMapCell, places: Iterator[int]) -> None:
        self._cell: SortedMapCell | None = cell
        self._rest: Iterator[Any] = places

    def __next__(self) -> tuple[Any, Any]:
        cell = self._cell
        if cell is None:
            entry: tuple[Any, Any] = next(self._rest)
            return entry
        key = cell.order[next(self._rest)]
        return key, cell[key]

    def copy(self) -> None:
        """Copies what is left."""
        cell = self._cell
        if cell is not None:
            keys = [cell.order[place] for place in self._rest]
            self._rest = iter([(key, cell[key]) for key in keys])
            self._cell = None


class RemoteSortedMapCell(RemoteMapCell):
    """One key's sorted map that stays with the JVM.

    `order` has the known keys, sorted. All stored keys up to `frontier` are known or absent; all
    there are when it is `exhausted`.
    """

    __slots__ = ("exhausted", "frontier", "live", "order", "page")

    def __init__(self) -> None:
        super().__init__()
        self.live = ()  # its iterators copy what is known
        self.order: list[Any] = []
        self.frontier: Any = None
        self.exhausted = False
        self.page = _FIRST_PAGE


class WorkerSortedMapState(MapCells, PlainMapState, SortedMapState[Any, Any]):
    """A sorted map."""

    _cell_class = SortedMapCell
    _remote_cell_class = RemoteSortedMapCell

    def __init__(
        self, spec: StateSpec, index: int, cursor: Any, descriptor: StateDescriptor
    ) -> None:
        super().__init__(spec, index, cursor, descriptor)
        assert spec.key_type is not None
        self._by: Callable[[Any], Any] | None = sort_key(spec.key_type, spec.order)

    # -- changing ------------------------------------------------------------------------------

    def put(self, key: Any, value: Any) -> None:
        cell: Any = self._cell()
        if type(key) is not self._key_class:
            key = self._as_key(key)
        if key is None:
            raise StateTypeError(
                f"sorted map state '{self.spec.name}' can't have the key None",
                code="KEYSTATE_NULL_KEY",
            )
        if cell.live:
            cell.changing()
        if type(value) is not self._plain:
            value = self._as_read(value)
        if key not in cell:
            self._insert(cell, key)
        cell[key] = value
        cell.changed.add(key)
        self._dirty[self._cursor.slot] = 1

    def remove(self, key: Any) -> None:
        cell: Any = self._cell()
        if type(key) is not self._key_class:
            key = self._as_key(key)
        if key in cell:
            if cell.live:
                cell.changing()
            del cell.order[self._find(cell, key)]
        super().remove(key)

    def _fetch(self, cell: MapCell, key: Any) -> None:
        known = key in cell
        super()._fetch(cell, key)
        if not known and key in cell:
            self._insert(cell, key)

    def _insert(self, cell: Any, key: Any) -> None:
        insort(cell.order, key, key=self._by)

    def _find(self, cell: Any, key: Any) -> int:
        """Where a key is in the order, or would be."""
        return bisect_left(cell.order, self._comparable(key), key=self._by)

    def _comparable(self, key: Any) -> Any:
        return key if self._by is None else self._by(key)

    # -- reading -------------------------------------------------------------------------------

    def first_entry(self) -> tuple[Any, Any] | None:
        cell: Any = self._cell()
        if cell.remote:
            self._fetch_first(cell)
        if not cell.order:
            return None
        key = cell.order[0]
        return self._copied_one(key, cell[key])

    def last_entry(self) -> tuple[Any, Any] | None:
        cell: Any = self._cell()
        if cell.remote:
            return next(self.sub_iterator(None, None, reverse=True), None)
        if not cell.order:
            return None
        key = cell.order[-1]
        return self._copied_one(key, cell[key])

    def floor_entry(self, key: Any) -> tuple[Any, Any] | None:
        key = self._as_key(key)
        if self.contains(key):
            return key, self.get(key)
        return next(self.sub_iterator(None, key, reverse=True), None)

    def sub_iterator(
        self, start: Any, end: Any, *, reverse: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        entries = self._between(start, end, reverse)
        return self._copied(entries) if self._codec.mutable else entries

    def _between(self, start: Any, end: Any, reverse: bool) -> Iterator[tuple[Any, Any]]:
        cell: Any = self._cell()
        start, end = self._as_key(start), self._as_key(end)
        first = 0 if start is None else self._find(cell, start)
        last = len(cell.order) if end is None else self._find(cell, end)
        if not cell.remote:
            entries: Iterator[tuple[Any, Any]] = cell.entries(first, last, reverse)
            return entries
        known = [(key, cell[key]) for key in cell.order[first:last]]
        if reverse:
            known.reverse()
        if not cell.exhausted:
            pages = self._pages(start, end, reverse)
            return self._merged(known, pages, cell.keys() | cell.absent, reverse)
        return iter(known)

    def items(self) -> Iterable[tuple[Any, Any]]:
        return self.sub_iterator(None, None)

    def keys(self) -> Iterable[Any]:
        return (key for key, _ in self.items())

    def values(self) -> Iterable[Any]:
        return (value for _, value in self.items())

    def is_empty(self) -> bool:
        # Not by `first_entry`: it makes an entry with a time to live live on.
        cell: Any = self._cell()
        if cell.remote and not cell.order:
            self._fetch_first(cell)
        return not cell.order

    # -- a map that stays with the JVM ---------------------------------------------------------

    def _fetch_first(self, cell: RemoteSortedMapCell) -> None:
        """Fetches pages from the low end until the first key is sure to be known."""
        while not cell.exhausted:
            known = bool(cell.order) and cell.frontier is not None
            if known and self._comparable(cell.order[0]) <= self._comparable(cell.frontier):
                return
            # A page begins with the frontier itself, so it must have room for another key.
            keys, values, more = next(self._pages(cell.frontier, None, False, cell.page))
            for key, value in zip(keys, values):
                if key not in cell and key not in cell.absent:
                    self._insert(cell, key)
                    cell[key] = value
            if keys:
                cell.frontier = keys[-1]
            cell.page = min(cell.page * 2, LARGEST_PAGE)
            cell.exhausted = not more

    def _merged(
        self,
        known: list[tuple[Any, Any]],
        pages: Iterator[tuple[list[Any], list[Any], bool]],
        skipped: set[Any],
        reverse: bool,
    ) -> Iterator[tuple[Any, Any]]:
        """Known entries and the stored ones besides them, in order."""
        at = 0
        for keys, values, _ in pages:
            for key, value in zip(keys, values):
                if key in skipped:
                    continue
                limit = self._comparable(key)
                while at < len(known) and (self._comparable(known[at][0]) < limit) != reverse:
                    yield known[at]
                    at += 1
                yield key, value
        yield from known[at:]
