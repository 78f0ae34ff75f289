"""Descriptors: a state's name, kind, types and options."""

from __future__ import annotations

import warnings
from abc import ABC
from collections.abc import Callable
from typing import Any, Generic, TypeAlias, TypeVar, overload

from pyspark.sql.types import DataType

from keystate.state.aggregates import AggregateFunction, Reducer
from keystate.state.kinds import StateKind
from keystate.state.states import NATURAL, KeyOrder
from keystate.state.ttl import StateTtlConfig as StateTtlConfig
from keystate.state.ttl import Time as Time

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")
IN = TypeVar("IN")
OUT = TypeVar("OUT")


#: A type: Spark DDL, a DataType, a dataclass, or a Python type such as ``int`` or ``list[str]``.
TypeLike: TypeAlias = str | DataType | type


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

        If a value was written without a time to live, its time to live starts when the query first
        reads the value.
        """
        if not isinstance(ttl_config, StateTtlConfig):
            raise TypeError(f"state '{self.name}': expected a StateTtlConfig, got {ttl_config!r}")
        self.ttl = ttl_config if ttl_config.is_enabled() else None

    def set_max_entries(self, entries: int) -> None:
        """Limits the state's entries over all keys. May be changed at a restart.

        A value is one entry, so is each key of a map and each stored part of a list. The setting
        ``spark.keystate.state.onLimit`` says what happens above the limit. For keyed state only.

        Args:
            entries: the greatest number of entries, at least 1.
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
    """Describes a :class:`ValueState`; without a value, ``value()`` returns ``default``."""

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
        initial_value: the accumulator that folding starts from.
        fold_function: takes the accumulator and a value, returns the new accumulator.
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
