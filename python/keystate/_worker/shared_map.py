"""Broadcast state from an operator state store: a map that is the same on all subtasks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from pyspark.sql import types as T

from keystate._codec import Misfit, Shape, StructCodec, shorten
from keystate._evolution import Unreadable, read_as, stored_element, to_text, type_name
from keystate._spec import StateSpec
from keystate.errors import StateTypeError
from keystate.state import BroadcastState

#: The kind of state, for messages; what is stored is a list.
SHARED_MAP = "operator broadcast"


class SharedMapState(BroadcastState[Any, Any]):
    """A subtask's copy, of which the first subtask's is the one in a snapshot.

    Args:
        spec: of a list of the map's entries, which is how it is stored.
        is_stored: whether this is the copy that a snapshot has.
    """

    def __init__(self, spec: StateSpec, is_stored: bool) -> None:
        self._spec = spec
        self._is_stored = is_stored
        codec = spec.value_codec()
        assert isinstance(codec, StructCodec)
        self._codec = codec
        self._keys, self._values = codec.fields
        self._entries: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        return self._entries.get(self._key(key))

    def contains(self, key: Any) -> bool:
        return self._key(key) in self._entries

    def items(self) -> Iterable[tuple[Any, Any]]:
        return list(self._entries.items())

    def keys(self) -> Iterable[Any]:
        return list(self._entries)

    def values(self) -> Iterable[Any]:
        return list(self._entries.values())

    def is_empty(self) -> bool:
        return not self._entries

    def put(self, key: Any, value: Any) -> None:
        if key is None:
            raise StateTypeError(
                f"state '{self._spec.name}': a map can't have the key None",
                code="KEYSTATE_NULL_KEY",
            )
        key = self._key(key)
        try:
            self._entries[key] = self._values.as_read(value)
        except Misfit as e:
            raise StateTypeError(f"state '{self._spec.name}', key {shorten(key)}: {e}") from None

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        for key, value in dict_value.items():
            self.put(key, value)

    def remove(self, key: Any) -> None:
        self._entries.pop(self._key(key), None)

    def clear(self) -> None:
        self._entries.clear()

    def encode(self) -> list[str]:
        """The entries in their order, as an Arrow stream each."""
        if not self._is_stored:
            return []
        try:
            return [to_text(self._codec.encode([entry])) for entry in self._entries.items()]
        except Misfit as e:
            raise StateTypeError(f"state '{self._spec.name}': {e}") from None

    def decode(self, encoded: Iterable[str]) -> None:
        """Takes over the entries of a snapshot."""
        self._entries = {}
        for text in encoded:
            column = stored_element(text, self._spec.name)
            try:
                column = read_as(column, self._spec.type_with_defaults())
            except Unreadable as e:
                raise StateTypeError(
                    f"state '{self._spec.name}' is {type_name(column.type)} in the checkpoint and "
                    f"{self._codec.name} in the function: {e}. Declare it as before, or give the "
                    "new state another name",
                    code="KEYSTATE_STATE_CHANGED",
                ) from None
            ((key, value),) = self._codec.decode(column)
            self._entries[self._key(key)] = value

    def _key(self, key: Any) -> Any:
        """What a user's key is in the dictionary."""
        try:
            return self._keys.key(key)
        except Misfit as e:
            raise StateTypeError(f"state '{self._spec.name}', key: {e}") from None


def entries_spec(spec: StateSpec) -> StateSpec:
    """How a map state of an operator is stored: as a list of its entries."""
    assert spec.key_type is not None
    entry = T.StructType().add("key", spec.key_type).add("value", spec.value_type)
    return dataclasses.replace(
        spec,
        kind="list",
        descriptor=SHARED_MAP,
        value_type=entry,
        value_shape=Shape(None, (spec.key_shape, spec.value_shape)),
        key_type=None,
        key_shape=None,
    )
