"""Around states with a time to live: what a function does with one is noted as its use.

As Flink's ``TtlValueState`` and the like. Only a state for which that is noted has one around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from keystate._worker.state.lists import WorkerListState
from keystate._worker.state.maps import WorkerMapState
from keystate._worker.state.sorted_maps import WorkerSortedMapState
from keystate._worker.state.uses import MapUses, Uses
from keystate._worker.state.values import (
    ValueLikeState,
    WorkerAggregatingState,
    WorkerFoldingState,
    WorkerReducingState,
    WorkerValueState,
)
from keystate.state import (
    AggregatingState,
    AppendingState,
    FoldingState,
    ListState,
    MapState,
    ReducingState,
    SortedMapState,
    State,
    ValueState,
)


def with_ttl(state: Any) -> Any:
    """The object that a function gets for a state: the state itself if its use is not noted."""
    if state.uses is None:
        return state
    around = next(each for cls, each in _AROUND.items() if isinstance(state, cls))
    return around(state, state.uses)


class _TtlOfValue(State):
    """Around one value or accumulator a key.

    Args:
        state: the state.
        uses: takes the notes.
    """

    def __init__(self, state: Any, uses: Uses) -> None:
        self._state: ValueLikeState = state
        self._cursor = state._cursor
        self._uses = uses

    def clear(self) -> None:
        self._state.clear()
        self._note()

    def _note(self) -> None:
        slot = self._cursor.slot
        if self._state._cells[slot] is not None:
            self._uses.used(slot)
        else:
            self._uses.removed(slot)


class TtlValueState(_TtlOfValue, ValueState[Any]):
    def __init__(self, state: WorkerValueState, uses: Uses) -> None:
        super().__init__(state, uses)
        self._read, self._update = state.value, state.update
        if not uses.on_read:
            self.value = state.value  # type: ignore[method-assign]

    def value(self) -> Any:
        value = self._read()
        self._note()
        return value

    def update(self, value: Any) -> None:
        self._update(value)
        self._note()


class _TtlAccumulator(_TtlOfValue, AppendingState[Any, Any]):
    def __init__(self, state: Any, uses: Uses) -> None:
        super().__init__(state, uses)
        self._read, self._add = state.get, state.add
        if not uses.on_read:
            self.get = state.get  # type: ignore[method-assign]

    def get(self) -> Any:
        value = self._read()
        self._note()
        return value

    def add(self, value: Any) -> None:
        self._add(value)
        self._note()


class TtlReducingState(_TtlAccumulator, ReducingState[Any]):
    """Around a reducing state."""


class TtlAggregatingState(_TtlAccumulator, AggregatingState[Any, Any]):
    """Around an aggregating state."""


class TtlFoldingState(_TtlAccumulator, FoldingState[Any, Any]):
    """Around a folding state."""


class TtlListState(ListState[Any]):
    """Around a list. An entry is a slot, and whether all of the list was used or its end.

    Args:
        state: the state.
        uses: takes the notes.
    """

    def __init__(self, state: WorkerListState, uses: Uses) -> None:
        self._state = state
        self._cursor = state._cursor
        self._uses = uses

    def get(self) -> list[Any]:
        elements = self._state.get()
        if elements and self._uses.on_read:
            self._uses.used((self._cursor.slot, True))
        return elements

    def add(self, value: Any) -> None:
        self._state.add(value)
        self._uses.used((self._cursor.slot, False))

    def add_all(self, values: Iterable[Any]) -> None:
        checked = self._state._checked(values)
        self._state._extend(checked)
        if checked:
            self._uses.used((self._cursor.slot, False))

    def update(self, values: Iterable[Any]) -> None:
        checked = self._state._checked(values)
        self._state._replace(checked)
        slot = self._cursor.slot
        self._uses.unused((slot, True))
        self._uses.unused((slot, False))
        if checked:
            self._uses.used((slot, False))

    def clear(self) -> None:
        self.update(())


class TtlMapState(MapState[Any, Any]):
    """Around a map. An entry is a slot and a user key, as it is in cells.

    Args:
        state: the state.
        uses: takes the notes.
    """

    def __init__(self, state: Any, uses: MapUses) -> None:
        self._state = state
        self._cursor = state._cursor
        self._key_class = state._key_class
        self._uses = uses
        self._on_read = uses.on_read
        if not self._on_read:
            self.get = state.get  # type: ignore[method-assign]
            self.contains = state.contains  # type: ignore[method-assign]

    def get(self, key: Any) -> Any:
        value = self._state.get(key)
        # An entry may have no value, and is read all the same.
        if value is not None or self._state.contains(key):
            self._uses.used(self._entry_of(key))
        return value

    def contains(self, key: Any) -> bool:
        there: bool = self._state.contains(key)
        if there:
            self._uses.used(self._entry_of(key))
        return there

    def put(self, key: Any, value: Any) -> None:
        self._state.put(key, value)
        self._uses.used(self._entry_of(key))

    def remove(self, key: Any) -> None:
        self._state.remove(key)
        self._uses.removed(self._entry_of(key))

    def clear(self) -> None:
        slot, cell = self._cursor.slot, self._state._cell()
        # If a map stays with the JVM, an iterator may have noted keys that are not known here.
        noted = self._uses.of_slot(slot) if cell.remote else ()
        for entry in noted or [(slot, key) for key in cell]:
            self._uses.unused(entry)
        self._state.clear()

    def items(self) -> Iterable[tuple[Any, Any]]:
        entries: Iterable[tuple[Any, Any]] = self._noted(self._state.items())
        return entries

    def keys(self) -> Iterable[Any]:
        return [key for key, _ in self.items()] if self._on_read else self._state.keys()

    def is_empty(self) -> bool:
        empty: bool = self._state.is_empty()
        return empty

    def _entry_of(self, key: Any) -> tuple[int, Any]:
        """A user's key may look otherwise in a cell: a datetime with a time zone has none there."""
        return self._cursor.slot, key if type(key) is self._key_class else self._state._as_key(key)

    def _noted(self, entries: Any) -> Any:
        """Notes entries as an iterator comes to them, if they live on when they are read."""
        return self._each_noted(entries, self._state._same_key()) if self._on_read else entries

    def _each_noted(self, entries: Any, check_key: Any) -> Iterator[tuple[Any, Any]]:
        for entry in entries:
            check_key()  # entries are of the key that there was when the iterator was made
            cell, key = self._state._cell(), entry[0]
            # It may have gone since: an iterator has the map as it was.
            if key in cell or (cell.remote and key not in cell.absent):
                self._uses.used((self._cursor.slot, key))
            yield entry


class TtlSortedMapState(TtlMapState, SortedMapState[Any, Any]):
    """Around a sorted map."""

    def first_entry(self) -> tuple[Any, Any] | None:
        return self._noted_one(self._state.first_entry())

    def last_entry(self) -> tuple[Any, Any] | None:
        return self._noted_one(self._state.last_entry())

    def floor_entry(self, key: Any) -> tuple[Any, Any] | None:
        return self._noted_one(self._state.floor_entry(key))

    def sub_iterator(
        self, start: Any, end: Any, *, reverse: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        entries: Iterator[tuple[Any, Any]]
        entries = self._noted(self._state.sub_iterator(start, end, reverse=reverse))
        return entries

    def values(self) -> Iterable[Any]:
        return (value for _, value in self.items())

    def _noted_one(self, entry: tuple[Any, Any] | None) -> tuple[Any, Any] | None:
        if self._on_read and entry is not None:
            self._uses.used((self._cursor.slot, entry[0]))
        return entry


#: What is around a state, by its class.
_AROUND: dict[type, Any] = {
    WorkerValueState: TtlValueState,
    WorkerReducingState: TtlReducingState,
    WorkerAggregatingState: TtlAggregatingState,
    WorkerFoldingState: TtlFoldingState,
    WorkerListState: TtlListState,
    WorkerSortedMapState: TtlSortedMapState,
    WorkerMapState: TtlMapState,
}
