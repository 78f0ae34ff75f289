"""States of a key and a window, made of states of the key: an entry for each window."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pyspark.sql import types as T

from keystate._spec.specs import resolve_type
from keystate._types.codec import Codec, Misfit, codec
from keystate._worker.state.window_maps import WindowMapDescriptor
from keystate.errors import DeclarationError, StateTypeError
from keystate.functions import KeyedStateStore
from keystate.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    ListState,
    ListStateDescriptor,
    MapState,
    MapStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    SortedMapState,
    SortedMapStateDescriptor,
    StateDescriptor,
    ValueState,
    ValueStateDescriptor,
)
from keystate.windows._window import LAST_TIME, WindowKey

_WINDOW = ("end", "start")


def _codec_of(descriptor: StateDescriptor) -> Codec:
    """For values that are not read from the entries, but are as if they were."""
    return codec(*resolve_type(descriptor.value_type, f"state '{descriptor.name}'"))


class WindowCursor:
    """The window at hand."""

    window: WindowKey


class _OfWindow:
    """A state whose entries are found by the window at hand, and merged."""

    def __init__(
        self, entries: SortedMapState[Any, Any], cursor: WindowCursor, descriptor: Any
    ) -> None:
        self._entries = entries
        self._cursor = cursor

    def clear(self) -> None:
        self._entries.remove(self._cursor.window)

    def merge(self, target: WindowKey, sources: Iterable[WindowKey]) -> None:
        raise DeclarationError(
            "only list, reducing and aggregating states can be merged, as Flink's MergingStates"
        )


class _WindowValue(_OfWindow, ValueState[Any]):
    def __init__(
        self, entries: Any, cursor: WindowCursor, descriptor: ValueStateDescriptor[Any]
    ) -> None:
        super().__init__(entries, cursor, descriptor)
        self._default = descriptor.default
        self._codec = _codec_of(descriptor)
        try:
            self._codec.as_read(self._default)
        except Misfit as e:
            raise DeclarationError(f"the default of state '{descriptor.name}': {e}") from None

    def value(self) -> Any:
        value = self._entries.get(self._cursor.window)
        # A new one each time, which may be changed in place.
        return self._codec.as_read(self._default) if value is None else value

    def update(self, value: Any) -> None:
        if value is None:
            self.clear()
        else:
            self._entries.put(self._cursor.window, value)


class _Folded(_OfWindow):
    """One value or accumulator a window."""

    _combined: Callable[[Any, Any], Any]

    def merge(self, target: WindowKey, sources: Iterable[WindowKey]) -> None:
        merged = self._entries.get(target)
        for source in sources:
            mine = self._entries.get(source)
            self._entries.remove(source)
            if mine is not None:
                merged = mine if merged is None else self._combined(merged, mine)
        if merged is not None:
            self._entries.put(target, merged)


class _WindowReduced(_Folded, ReducingState[Any]):
    def __init__(
        self, entries: Any, cursor: WindowCursor, descriptor: ReducingStateDescriptor[Any]
    ) -> None:
        super().__init__(entries, cursor, descriptor)
        self._combined = descriptor.reduce_function

    def get(self) -> Any:
        return self._entries.get(self._cursor.window)

    def add(self, value: Any) -> None:
        if value is None:
            self.clear()
            return
        window = self._cursor.window
        current = self._entries.get(window)
        self._entries.put(window, value if current is None else self._combined(current, value))


class _WindowAggregated(_Folded, AggregatingState[Any, Any]):
    def __init__(
        self, entries: Any, cursor: WindowCursor, descriptor: AggregatingStateDescriptor[Any, Any]
    ) -> None:
        super().__init__(entries, cursor, descriptor)
        self._function = descriptor.agg_function
        self._combined = self._function.merge
        self._name = descriptor.name
        self._codec = _codec_of(descriptor)

    def get(self) -> Any:
        accumulator = self._entries.get(self._cursor.window)
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        if value is None:
            self.clear()
            return
        window = self._cursor.window
        accumulator = self._entries.get(window)
        if accumulator is None:
            accumulator = self._new_accumulator()
        self._entries.put(window, self._function.add(value, accumulator))

    def _new_accumulator(self) -> Any:
        try:
            return self._codec.as_read(self._function.create_accumulator())
        except Misfit as e:
            raise StateTypeError(f"state '{self._name}': {e}") from None


class _WindowList(_OfWindow, ListState[Any]):
    """Elements by window and number."""

    def _of(self, window: WindowKey) -> Iterator[tuple[Any, Any]]:
        return self._entries.sub_iterator((*window, 0), (*window, LAST_TIME))

    def _size(self, window: WindowKey) -> int:
        """The number after that of the last element."""
        last = self._entries.sub_iterator((*window, 0), (*window, LAST_TIME), reverse=True)
        return next((key[2] + 1 for key, _ in last), 0)

    def get(self) -> list[Any]:
        return [element for _, element in self._of(self._cursor.window)]

    def add(self, value: Any) -> None:
        self.add_all([value])

    def add_all(self, values: Iterable[Any]) -> None:
        self._append(self._cursor.window, values)

    def _append(self, window: WindowKey, values: Iterable[Any]) -> None:
        for number, value in enumerate(list(values), self._size(window)):
            self._entries.put((*window, number), value)

    def update(self, values: Iterable[Any]) -> None:
        values = list(values)
        self.clear()
        self.add_all(values)

    def clear(self) -> None:
        self._remove(self._cursor.window)

    def _remove(self, window: WindowKey) -> None:
        self._entries.remove_range((*window, 0), (*window, LAST_TIME))

    def merge(self, target: WindowKey, sources: Iterable[WindowKey]) -> None:
        for source in sources:
            self._append(target, [element for _, element in self._of(source)])
            self._remove(source)


class _WindowMap(_OfWindow, MapState[Any, Any]):
    """Entries by window and the user's key."""

    def _key(self, key: Any) -> tuple[Any, ...]:
        return (*self._cursor.window, key)

    def get(self, key: Any) -> Any:
        return None if key is None else self._entries.get(self._key(key))

    def put(self, key: Any, value: Any) -> None:
        if key is None:
            self._entries.put(None, value)  # which says what is wrong
        self._entries.put(self._key(key), value)

    def remove(self, key: Any) -> None:
        if key is not None:
            self._entries.remove(self._key(key))

    def contains(self, key: Any) -> bool:
        return key is not None and self._entries.contains(self._key(key))

    def items(self) -> Iterable[tuple[Any, Any]]:
        return [(key[2], value) for key, value in self._entries.sub_iterator(*self._range())]

    def is_empty(self) -> bool:
        return next(self._entries.sub_iterator(*self._range()), None) is None

    def clear(self) -> None:
        self._entries.remove_range(*self._range())

    def _range(self) -> tuple[Any, Any]:
        end, start = self._cursor.window
        return (end, start, None), (end, start + 1, None)


_CLASSES: dict[type[StateDescriptor], Any] = {
    ValueStateDescriptor: _WindowValue,
    ReducingStateDescriptor: _WindowReduced,
    AggregatingStateDescriptor: _WindowAggregated,
    ListStateDescriptor: _WindowList,
    MapStateDescriptor: _WindowMap,
}


class NamedStates(dict[str, tuple[StateDescriptor, Any]]):
    """States that are had again by their descriptors' names."""

    def find(self, descriptor: StateDescriptor) -> Any:
        """The state of a descriptor; ``None`` if there is none.

        Raises:
            DeclarationError: there is one of this name, of another kind.
        """
        known = self.get(descriptor.name)
        if known is None:
            return None
        first, state = known
        if type(first) is not type(descriptor):
            raise DeclarationError(
                f"two states are named '{descriptor.name}', one by a {type(first).__name__} and "
                f"one by a {type(descriptor).__name__}: give one of them another name"
            )
        return state


class WindowStates(KeyedStateStore):
    """Gives states of a key and a window. What was got once is had again by its descriptor.

    Args:
        store: gives the states of the key that they are made of.
        cursor: has the window at hand.
        prefix: of the names of these.
    """

    def __init__(self, store: KeyedStateStore, cursor: WindowCursor, prefix: str) -> None:
        self._store = store
        self._cursor = cursor
        self._prefix = prefix
        self._states = NamedStates()

    def find(self, descriptor: StateDescriptor) -> Any:
        """The state of a descriptor; triggers ask with each row."""
        known = self._states.get(descriptor.name)
        if known is not None and type(known[0]) is type(descriptor):
            return known[1]
        return self._provide(descriptor)

    def _provide(self, descriptor: StateDescriptor) -> Any:
        known = self._states.find(descriptor)
        if known is not None:
            return known
        cls = next((c for base, c in _CLASSES.items() if isinstance(descriptor, base)), None)
        if cls is None:
            raise DeclarationError(
                f"state '{descriptor.name}' is a {descriptor.descriptor} state, which a window "
                "can't have: it has value, list, map, reducing and aggregating states"
            )
        entries = self._store.get_sorted_map_state(self._entries_of(descriptor))
        state = cls(entries, self._cursor, descriptor)
        self._states[descriptor.name] = descriptor, state
        return state

    def _entries_of(self, descriptor: StateDescriptor) -> SortedMapStateDescriptor[Any, Any]:
        name = f"{self._prefix}-{descriptor.name}"
        entries: SortedMapStateDescriptor[Any, Any]
        if isinstance(descriptor, MapStateDescriptor):
            assert descriptor.key_type is not None
            place = f"the keys of state '{descriptor.name}'"
            key_type, shape = resolve_type(descriptor.key_type, place)
            if shape is not None:
                raise DeclarationError(f"{place}: a map of a window can't have dataclasses as keys")
            parts = [T.StructField(part, T.LongType()) for part in _WINDOW]
            whole = T.StructType([*parts, T.StructField("key", key_type)])
            entries = SortedMapStateDescriptor(name, whole, descriptor.value_type)
        else:
            is_list = isinstance(descriptor, ListStateDescriptor)
            fields = (*_WINDOW, "number") if is_list else _WINDOW
            entries = WindowMapDescriptor(name, fields, descriptor.value_type)
        entries.ttl = descriptor.ttl
        return entries
