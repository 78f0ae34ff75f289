"""Typed state and its descriptors.

A state belongs to the key of the row being processed. Get it in ``open``, from the runtime context,
with a descriptor that names it and gives its type: a Spark DDL string (``"long"``,
``"count long, total long"``, ``"array<string>"``), a ``DataType``, a dataclass, or a Python type
such as ``int``, which is a long, or ``list[str]``. A value is converted when it is written: ``3``
in a double is read as ``3.0``; what does not fit is refused. After changing a value that was read
from a state in place, call ``update`` (or ``put``): only then is it kept. What is written is taken
as it is at that moment, and what is read is a copy if it can change in place.
"""

from __future__ import annotations

import enum
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeAlias, TypeVar, overload

from pyspark.sql.types import DataType

from keystate._kinds import StateKind
from keystate.aggregates import AggregateFunction, Reducer
from keystate.ttl import StateTtlConfig as StateTtlConfig
from keystate.ttl import Time as Time

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")

#: A type: Spark DDL, a DataType, a dataclass, or a Python type such as ``int`` or ``list[str]``.
TypeLike: TypeAlias = str | DataType | type


class State(ABC):
    """Base of all states."""

    @abstractmethod
    def clear(self) -> None:
        """Removes what this state holds for the current key."""


class ValueState(State, Generic[T]):
    """One value."""

    @abstractmethod
    def value(self) -> T:
        """The value; the descriptor's default, else ``None``, when there is none."""

    @abstractmethod
    def update(self, value: T | None) -> None:
        """Sets the value; ``None`` clears it."""


class AppendingState(State, Generic[IN, OUT]):
    """A state that elements are added to."""

    @abstractmethod
    def get(self) -> OUT | None:
        """What the added elements amount to."""

    @abstractmethod
    def add(self, value: IN) -> None:
        """Adds an element."""


class MergingState(AppendingState[IN, OUT]):
    """An appending state of which two can be merged into one."""


class ListState(MergingState[T, Iterable[T]]):
    """A list of elements."""

    @abstractmethod
    def get(self) -> Iterable[T]:
        """The elements in the order they were added; empty, never ``None``, when there are none."""

    @abstractmethod
    def add_all(self, values: Iterable[T]) -> None:
        """Appends all of these."""

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
    """All added values folded into one, from an initial one.

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
        """Whether there are no keys."""

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
    """A map that every subtask has a copy of, where it can't be changed.

    Reading it costs what a dictionary's lookup does, and a copy of what can change in place.
    Iteration is in no particular order, which can differ between subtasks.
    """


class BroadcastState(ReadOnlyBroadcastState[K, V], _ChangeableMap[K, V]):
    """A map that every subtask has a copy of, in ``process_broadcast_element``.

    Every subtask gets the same elements in the same order. What it makes of them must depend on
    nothing else, so that all copies stay the same.
    """


class KeyOrder(enum.Enum):
    """The order of a sorted map's keys."""

    #: Spark's ascending order of the type: negative numbers first, NaN last, strings by code point,
    #: ``None`` inside a struct or array first.
    NATURAL = "natural"
    #: The reverse of NATURAL.
    DESCENDING = "descending"
    #: The order of Flink's BytewiseComparator: as NATURAL, but negative numbers follow the others,
    #: as do dates and times before 1970 and negative intervals.
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

        ``None`` as a bound is no bound.
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
        """Removes the entries with start <= key < end; ``None`` as a bound is no bound."""
        for key, _ in self.sub_iterator(start, end):
            self.remove(key)


class StateDescriptor(ABC):
    """Names a state and gives its type.

    Attributes:
        name: unique among the states of a function.
        value_type: type of the value, of a list's element, of a map's value, or of an accumulator.
        key_type: type of a map's keys.
        kind: how the state is stored.
        descriptor: the kind of state, for messages.
        ttl: how long values live; ``None`` for ever.
        max_entries: how many entries the state may have; ``None`` for any number.
    """

    kind: StateKind
    descriptor: str
    order = NATURAL

    def __init__(self, name: str, value_type: TypeLike, key_type: TypeLike | None = None) -> None:
        if not isinstance(name, str) or not name:
            raise TypeError(f"the name of a state must be a non-empty string, got {name!r}")
        self.name = name
        self.value_type = value_type
        self.key_type = key_type
        self.ttl: StateTtlConfig | None = None
        self.max_entries: int | None = None

    def enable_time_to_live(self, ttl_config: StateTtlConfig) -> None:
        """Lets values expire. May be switched on, off or changed at a restart.

        Values that were written without a time to live count as written when the query first comes
        across them.
        """
        if not isinstance(ttl_config, StateTtlConfig):
            raise TypeError(f"state '{self.name}': expected a StateTtlConfig, got {ttl_config!r}")
        self.ttl = ttl_config if ttl_config.is_enabled() else None

    def set_max_entries(self, entries: int) -> None:
        """Limits how many entries the state has, of all keys together. May be changed at a restart.

        A value is an entry; of a map each key is one, and of a list each part as it is stored. What
        happens above the limit, ``spark.keystate.state.onLimit`` says. Of keyed state only.

        Args:
            entries: the most that there may be, from 1 on.
        """
        if not isinstance(entries, int) or entries < 1:
            raise ValueError(f"state '{self.name}': max_entries must be 1 or more, got {entries!r}")
        self.max_entries = entries

    def get_name(self) -> str:
        """The state's name."""
        return self.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


class ValueStateDescriptor(StateDescriptor, Generic[T]):
    """Describes a :class:`ValueState`; ``default`` is what ``value()`` gives when there is none."""

    kind = StateKind.VALUE
    descriptor = "value"

    # With a default there is always a value; else the value may be None.

    @overload
    def __init__(self, name: str, value_type: TypeLike, default: T) -> None: ...

    @overload
    def __init__(
        self: ValueStateDescriptor[V | None], name: str, value_type: type[V], default: None = None
    ) -> None: ...

    @overload
    def __init__(self, name: str, value_type: TypeLike, default: None = None) -> None: ...

    def __init__(self, name: str, value_type: TypeLike, default: Any = None) -> None:
        super().__init__(name, value_type)
        self.default = default


class ListStateDescriptor(StateDescriptor, Generic[T]):
    """Describes a :class:`ListState` by the type of its elements."""

    kind = StateKind.LIST
    descriptor = "list"

    @overload
    def __init__(self, name: str, elem_type: type[T]) -> None: ...

    @overload
    def __init__(self, name: str, elem_type: TypeLike) -> None: ...

    def __init__(self, name: str, elem_type: TypeLike) -> None:
        super().__init__(name, elem_type)


class MapStateDescriptor(StateDescriptor, Generic[K, V]):
    """Describes a :class:`MapState` by the types of its keys and values."""

    kind = StateKind.MAP
    descriptor = "map"

    @overload
    def __init__(self, name: str, key_type: type[K], value_type: type[V]) -> None: ...

    @overload
    def __init__(self, name: str, key_type: TypeLike, value_type: TypeLike) -> None: ...

    def __init__(self, name: str, key_type: TypeLike, value_type: TypeLike) -> None:
        super().__init__(name, value_type, key_type)


class SortedMapStateDescriptor(StateDescriptor, Generic[K, V]):
    """Describes a :class:`SortedMapState` by the types of its keys and values and its order."""

    kind = StateKind.SORTED_MAP
    descriptor = "sorted map"

    @overload
    def __init__(
        self, name: str, key_type: type[K], value_type: type[V], order: KeyOrder = NATURAL
    ) -> None: ...

    @overload
    def __init__(
        self, name: str, key_type: TypeLike, value_type: TypeLike, order: KeyOrder = NATURAL
    ) -> None: ...

    def __init__(
        self, name: str, key_type: TypeLike, value_type: TypeLike, order: KeyOrder = NATURAL
    ) -> None:
        super().__init__(name, value_type, key_type)
        self.order = KeyOrder(order)


class ReducingStateDescriptor(StateDescriptor, Generic[T]):
    """Describes a :class:`ReducingState`.

    Args:
        name: unique among the states of a function.
        reduce_function: a :class:`~keystate.functions.ReduceFunction`, or a callable of two values.
        value_type: type of the values.
    """

    kind = StateKind.VALUE
    descriptor = "reducing"

    def __init__(
        self, name: str, reduce_function: Reducer | Callable[[T, T], T], value_type: TypeLike
    ) -> None:
        super().__init__(name, value_type)
        if isinstance(reduce_function, Reducer):
            self.reduce_function: Callable[[T, T], T] = reduce_function.reduce
        elif callable(reduce_function):
            self.reduce_function = reduce_function
        else:
            raise TypeError(
                f"state '{name}': expected a ReduceFunction or a callable, got {reduce_function!r}"
            )


class AggregatingStateDescriptor(StateDescriptor, Generic[IN, OUT]):
    """Describes an :class:`AggregatingState`.

    Args:
        name: unique among the states of a function.
        agg_function: an :class:`~keystate.functions.AggregateFunction`.
        acc_type: type of its accumulator.
    """

    kind = StateKind.VALUE
    descriptor = "aggregating"

    def __init__(
        self, name: str, agg_function: AggregateFunction[IN, Any, OUT], acc_type: TypeLike
    ) -> None:
        super().__init__(name, acc_type)
        if not isinstance(agg_function, AggregateFunction):
            raise TypeError(f"state '{name}': expected an AggregateFunction, got {agg_function!r}")
        self.agg_function = agg_function


class FoldingStateDescriptor(StateDescriptor, Generic[IN, OUT]):
    """Describes a :class:`FoldingState`. Deprecated: use :class:`AggregatingStateDescriptor`.

    Args:
        name: unique among the states of a function.
        initial_value: what folding starts from.
        fold_function: gives the new accumulator from the accumulator and a value.
        acc_type: type of the accumulator.
    """

    kind = StateKind.VALUE
    descriptor = "folding"

    def __init__(
        self,
        name: str,
        initial_value: OUT,
        fold_function: Callable[[OUT, IN], OUT],
        acc_type: TypeLike,
    ) -> None:
        super().__init__(name, acc_type)
        warnings.warn(
            "FoldingState is deprecated; use AggregatingState",
            DeprecationWarning,
            stacklevel=2,
        )
        if not callable(fold_function):
            raise TypeError(f"state '{name}': expected a callable, got {fold_function!r}")
        self.initial_value = initial_value
        self.fold_function = fold_function
