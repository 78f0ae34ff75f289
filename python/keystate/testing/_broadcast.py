"""Broadcast state in memory, which a query's JVM keeps for each subtask."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from keystate._spec.protocol import Part, broadcast_column
from keystate._spec.specs import StateSpec
from keystate._worker.messages.columns import Columns, list_column

_KEYS_PER_PAGE = 1000

#: By name each state with its keys and its values, as Arrow columns ``b_k`` and ``b``.
Copy = dict[str, tuple[StateSpec, dict[str, pa.Array]]]


class BroadcastStates:
    """One subtask's copy of the broadcast states.

    Attributes:
        tag: drawn anew whenever broadcast elements were processed: a function that holds the
            states under the same tag has just these.
    """

    def __init__(self, specs: Sequence[StateSpec]) -> None:
        self.tag = ""
        self._specs = specs
        self._entries: list[dict[Any, Any]] = [{} for _ in specs]
        self._undeclared: Copy = {}

    def apply(self, last: Columns, tag: str) -> None:
        """Takes in the last answer of a pass of broadcast elements."""
        for i, (spec, entries) in enumerate(zip(self._specs, self._entries)):
            if last.bytes_of(broadcast_column(i, Part.RESET)):
                entries.clear()
            for key in self._keys(i, last.elements(broadcast_column(i, Part.REMOVED))):
                entries.pop(key, None)
            keys = self._keys(i, last.elements(broadcast_column(i, Part.KEYS)))
            values = last.elements(broadcast_column(i, Part.VALUES))
            entries.update(zip(keys, spec.value_codec().decode(values)))
        self.tag = tag

    def columns(self, state: int) -> list[pa.Array]:
        """A state's keys and values."""
        spec, entries = self._specs[state], self._entries[state]
        keys, values = list(entries), list(entries.values())
        return [spec.key_codec().encode(keys), spec.value_codec().encode(values)]

    def peek(self, name: str) -> dict[Any, Any] | None:
        """A copy of a state's entries; ``None`` if there is no such state."""
        for i, spec in enumerate(self._specs):
            if spec.name == name:
                keys, values = self.columns(i)
                return dict(zip(self._keys(i, keys), spec.value_codec().decode(values)))
        return None

    def copy(self) -> Copy:
        """All of it, undeclared states too; can be pickled."""
        own: Copy = {}
        for i, spec in enumerate(self._specs):
            keys, values = self.columns(i)
            own[spec.name] = (spec, {"b_k": keys, "b": values})
        return {**self._undeclared, **own}

    def restore(
        self,
        copy: Copy,
        readable: Callable[[StateSpec, StateSpec, dict[str, pa.Array]], dict[str, pa.Array]],
    ) -> None:
        """Takes in a copy; `readable` gives its columns in the types that are declared now."""
        self._undeclared = dict(copy)
        self.tag = str(uuid.uuid4())
        for i, spec in enumerate(self._specs):
            kept = self._undeclared.pop(spec.name, None)
            self._entries[i] = {}
            if kept is not None:
                columns = readable(kept[0], spec, kept[1])
                values = spec.value_codec().decode(columns["b"])
                self._entries[i] = dict(zip(self._keys(i, columns["b_k"]), values))

    def _keys(self, state: int, array: pa.Array) -> list[Any]:
        return self._specs[state].key_codec().decode_keys(array)


class BroadcastClient:
    """Answers one subtask's questions, as a query's side channel does.

    Args:
        states: the subtask's.
        keys_with: the subtask's keys that have a keyed state, by its index.
        message: all states of some keys, as columns of a message.
        apply: takes in what was changed of these keys.
    """

    generation = 0

    def __init__(
        self,
        states: BroadcastStates,
        keys_with: Callable[[int], list[Any]],
        message: Callable[[Sequence[Any]], dict[str, pa.Array]],
        apply: Callable[[Sequence[Any], Columns], None],
    ) -> None:
        self._states = states
        self._keys_with = keys_with
        self._message = message
        self._apply = apply
        self._page: list[Any] = []
        self._left: list[Any] = []

    def broadcast(self, state: int, limit: int) -> Iterator[list[pa.Array]]:
        """A broadcast state's keys and values."""
        yield self._states.columns(state)

    def keys(self, state: int, changes: pa.RecordBatch | None) -> pa.RecordBatch:
        """The next keys that have a state; `changes` are those of the keys before."""
        if changes is None:
            self._left = self._keys_with(state)
        else:
            self._apply(self._page, Columns(changes))
        self._page, self._left = self._left[:_KEYS_PER_PAGE], self._left[_KEYS_PER_PAGE:]
        columns = {n: list_column(c) for n, c in self._message(self._page).items()}
        return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))

    def close(self) -> None:
        """There is nothing to close."""
