"""States that functions read and write."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

from keystate.state.ttl import StateTtlConfig as StateTtlConfig
from keystate.state.ttl import Time as Time

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


class State(ABC):
    """Base of all states."""

    @abstractmethod
    def clear(self) -> None:
        """Removes the state's content for the current key."""


class ValueState(State, Generic[T]):
    """One value."""

    @abstractmethod
    def value(self) -> T:
        """The value; without one the descriptor's default, else ``None``."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Sets the value; ``None`` clears it."""


class AppendingState(State, Generic[IN, OUT]):
    """A state that elements are added to."""

    @abstractmethod
    def get(self) -> OUT | None:
        """The result of the added elements."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Adds an element."""


class MergingState(AppendingState[IN, OUT]):
    """An appending state; two such states can be merged into one."""


class ListState(MergingState[T, Iterable[T]]):
    """A list of elements."""

    @abstractmethod
    def get(self) -> Iterable[T]:
        """The elements in the order they were added; empty, never ``None``, when there are none."""

    @abstractmethod
    def add_all(self, values: Iterable[T]) -> None:
        """Appends all values."""

    @abstractmethod
    def update(self, values: Iterable[T]) -> None:
        """Replaces the list."""

    def __iter__(self) -> Iterator[T]:
        return iter(self.get())


class ReducingState(MergingState[T, T]):
    """All added values reduced to one by a reduce function; ``add(None)`` clears."""


class AggregatingState(MergingState[IN, OUT]):
    """All added values aggregated by an AggregateFunction; ``add(None)`` clears."""


class FoldingState(AppendingState[IN, OUT]):
    """All added values folded into one, from an initial value.

    Deprecated, as in Flink since 1.4: use :class:`AggregatingState`.
    """


class _ReadableMap(State, Generic[K, V]):
    """A map that can be read."""

    @abstractmethod
    def get(self, key: K) -> V | None:
        """The value of a key; ``None`` when the key is absent."""

    @abstractmethod
    def contains(self, key: K) -> bool:
        """Whether the key is there."""

    @abstractmethod
    def items(self) -> Iterable[tuple[K, V]]:
        """All keys and values."""

    @abstractmethod
    def is_empty(self) -> bool:
        """Whether the map has no keys."""

    def entries(self) -> Iterable[tuple[K, V]]:
        """All keys and values: Flink's name for :meth:`items`."""
        return self.items()

    def keys(self) -> Iterable[K]:
        """All keys."""
        return [key for key, _ in self.items()]

    def values(self) -> Iterable[V]:
        """All values."""
        return [value for _, value in self.items()]

    def __getitem__(self, key: K) -> V | None:
        return self.get(key)

    def __contains__(self, key: K) -> bool:
        return self.contains(key)

    def __iter__(self) -> Iterator[K]:
        return iter(self.keys())


class _ChangeableMap(_ReadableMap[K, V]):
    """A map that can be changed too."""

    @abstractmethod
    def put(self, key: K, value: V) -> None:
        """Sets the value of a key, which must not be ``None``."""

    def put_all(self, dict_value: dict[K, V]) -> None:
        """Sets the values of many keys."""
        for key, value in dict_value.items():
            self.put(key, value)

    @abstractmethod
    def remove(self, key: K) -> None:
        """Removes a key; harmless when it is absent."""

    def __setitem__(self, key: K, value: V) -> None:
        self.put(key, value)

    def __delitem__(self, key: K) -> None:
        self.remove(key)


class MapState(_ChangeableMap[K, V]):
    """A map.

    Iterating gives the keys as they were when the iteration began, in no particular order; changing
    the map meanwhile is allowed.
    """


class ReadOnlyBroadcastState(_ReadableMap[K, V]):
    """A map that every subtask has a copy of, where it can only be read.

    A read costs a dictionary's lookup, and a copy if the value can change in place. Iteration is in
    no particular order, and subtasks can have different orders.
    """


class BroadcastState(ReadOnlyBroadcastState[K, V], _ChangeableMap[K, V]):
    """A map that every subtask has a copy of, and that ``process_broadcast_element`` can change.

    Every subtask gets the same elements in the same order. Changes of the map must depend on these
    elements alone, so that all copies stay the same.
    """


class KeyOrder(enum.Enum):
    """The order of a sorted map's keys."""

    #: Spark's ascending order of the type: negative numbers first, NaN last, strings by code point,
    #: ``None`` inside a struct or array first.
    NATURAL = "natural"
    #: The reverse of NATURAL.
    DESCENDING = "descending"
    #: The order of Flink's BytewiseComparator: NATURAL, but negative numbers come last, and so do
    #: dates and times before 1970 and negative intervals.
    BYTEWISE = "bytewise"


NATURAL = KeyOrder.NATURAL


DESCENDING = KeyOrder.DESCENDING


BYTEWISE = KeyOrder.BYTEWISE


class SortedMapState(MapState[K, V]):
    """A map in the order of its keys, which is also the order of iteration.

    The first or last entry of a large map costs what one entry costs. Iterators are lazy and show
    the map as it was when they were made; changing the map meanwhile is allowed.
    """

    @abstractmethod
    def first_entry(self) -> tuple[K, V] | None:
        """The entry with the least key; ``None`` when the map is empty."""

    @abstractmethod
    def last_entry(self) -> tuple[K, V] | None:
        """The entry with the greatest key; ``None`` when the map is empty."""

    @abstractmethod
    def sub_iterator(
        self, start: K | None, end: K | None, *, reverse: bool = False
    ) -> Iterator[tuple[K, V]]:
        """The entries with start <= key < end, in order, or backwards.

        ``None`` for ``start`` or ``end`` means no bound.
        """

    def head_iterator(self, end: K, *, reverse: bool = False) -> Iterator[tuple[K, V]]:
        """The entries with key < end."""
        return self.sub_iterator(None, end, reverse=reverse)

    def tail_iterator(self, start: K, *, reverse: bool = False) -> Iterator[tuple[K, V]]:
        """The entries with key >= start."""
        return self.sub_iterator(start, None, reverse=reverse)

    def ceiling_entry(self, key: K) -> tuple[K, V] | None:
        """The entry with the least key that is not less than this one."""
        return next(self.sub_iterator(key, None), None)

    @abstractmethod
    def floor_entry(self, key: K) -> tuple[K, V] | None:
        """The entry with the greatest key that is not greater than this one."""

    def pop_first(self) -> tuple[K, V] | None:
        """Removes the first entry and returns it; ``None`` when the map is empty."""
        entry = self.first_entry()
        if entry is not None:
            self.remove(entry[0])
        return entry

    def remove_range(self, start: K | None, end: K | None) -> None:
        """Removes the entries with start <= key < end; ``None`` means no bound."""
        for key, _ in self.sub_iterator(start, end):
            self.remove(key)
