"""A map in a subtask's memory: what broadcast state of either kind does alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from keystate._types.codec import Codec, Misfit, shorten
from keystate.errors import StateTypeError
from keystate.state import BroadcastState, ReadOnlyBroadcastState


class ReadOnlyMapCopy(ReadOnlyBroadcastState[Any, Any]):
    """A view of entries. What can change in place is handed out as a copy.

    Args:
        what: the state, for messages.
        keys: the codec of the keys.
        values: the codec of the values.
        entries: by the form of a key in which dictionaries find it.
    """

    def __init__(self, what: str, keys: Codec, values: Codec, entries: dict[Any, Any]) -> None:
        self._what = what
        self._keys = keys
        self._values = values
        self._mutable = values.mutable
        self._key_class = keys.key_class
        self._entries = entries

    # get and contains are called for every row: they ask for a usual key's class themselves.

    def get(self, key: Any) -> Any:
        if type(key) is not self._key_class:
            key = self._as_key(key)
        value = self._entries.get(key)
        return self._values.copy(value) if self._mutable else value

    def contains(self, key: Any) -> bool:
        if type(key) is not self._key_class:
            key = self._as_key(key)
        return key in self._entries

    def items(self) -> Iterable[tuple[Any, Any]]:
        return list(zip(self._entries, self.values()))

    def keys(self) -> Iterable[Any]:
        return list(self._entries)

    def values(self) -> Iterable[Any]:
        return self._values.all_copied(list(self._entries.values()))

    def is_empty(self) -> bool:
        return not self._entries

    def _as_key(self, key: Any) -> Any:
        """A user's key in the form that the dictionary has."""
        try:
            return self._keys.key(key)
        except Misfit as e:
            raise StateTypeError(f"{self._what}, key: {e}") from None

    def _misfit(self, key: Any, error: Misfit) -> StateTypeError:
        return StateTypeError(f"{self._what}, key {shorten(key)}: {error}")


class MapCopy(ReadOnlyMapCopy, BroadcastState[Any, Any]):
    """Entries that can be changed, in a loop over them too."""

    def __init__(self, what: str, keys: Codec, values: Codec) -> None:
        super().__init__(what, keys, values, {})

    def put(self, key: Any, value: Any) -> None:
        self._put(key, value)

    def remove(self, key: Any) -> None:
        self._entries.pop(self._as_key(key), None)

    def clear(self) -> None:
        self._entries.clear()

    def _put(self, key: Any, value: Any) -> Any:
        """Sets a key's value; returns what the key is in the dictionary."""
        key = self._as_key(key)
        if key is None:
            raise StateTypeError(
                f"{self._what}: a map can't have the key None", code="KEYSTATE_NULL_KEY"
            )
        try:
            self._entries[key] = self._values.as_read(value)
        except Misfit as e:
            raise self._misfit(key, e) from None
        return key
