"""Broadcast state from an operator state store: a map that is the same on all subtasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import types as T

from keystate._spec.specs import StateSpec
from keystate._types.codec import Misfit, Shape, StructCodec
from keystate._types.codec.evolution import to_text
from keystate._worker.operator_state.stored_elements import element_as_declared
from keystate._worker.state.journal import Journal
from keystate._worker.state.map_copy import MapCopy
from keystate.errors import StateTypeError
from keystate.state.kinds import StateKind


@dataclass(frozen=True)
class SharedMapSpec(StateSpec):
    """A map state of an operator as it is stored: as a list of its entries."""


class SharedMapState(MapCopy):
    """A subtask's copy, of which the first subtask's is the one in a snapshot.

    Args:
        spec: of a list of the map's entries, which is how it is stored.
        is_stored: whether this is the copy that a snapshot has.
        journal: gives the journal of the current row, if its changes may have to be undone.
    """

    def __init__(
        self, spec: StateSpec, is_stored: bool, journal: Callable[[], Journal] | None = None
    ) -> None:
        codec = spec.value_codec()
        assert isinstance(codec, StructCodec)
        super().__init__(f"state '{spec.name}'", *codec.fields)
        self._spec = spec
        self._is_stored = is_stored
        self._journal = journal
        self._codec = codec

    def put(self, key: Any, value: Any) -> None:
        self._note()
        super().put(key, value)

    def remove(self, key: Any) -> None:
        self._note()
        super().remove(key)

    def clear(self) -> None:
        self._note()
        super().clear()

    def _note(self) -> None:
        """Notes all entries in their order, once for a row: such maps are small."""
        if self._journal is not None:
            journal = self._journal()
            if not any(noted[0] == self._undo for noted in journal):
                journal.append((self._undo, dict(self._entries)))

    def _undo(self, entries: dict[Any, Any]) -> None:
        self._entries.clear()
        self._entries.update(entries)

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
        self._entries.clear()
        for text in encoded:
            column = element_as_declared(text, self._spec, self._codec)
            ((key, value),) = self._codec.decode(column)
            self._entries[self._as_key(key)] = value


def entries_spec(spec: StateSpec) -> SharedMapSpec:
    """How a map state of an operator is stored."""
    assert spec.key_type is not None
    return SharedMapSpec(
        spec.name,
        kind=StateKind.LIST,
        descriptor="operator broadcast",
        value_type=T.StructType().add("key", spec.key_type).add("value", spec.value_type),
        key_type=None,
        value_shape=Shape(None, (spec.key_shape, spec.value_shape)),
        order=spec.order,
        ttl=spec.ttl,
        default=spec.default,
    )
