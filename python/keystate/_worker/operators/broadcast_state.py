"""Broadcast state in a subtask: its copy, the view that rows have of it, and their contexts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import pyarrow as pa
from pyspark.sql import types as T

from keystate._spec.protocol import Part, broadcast_column
from keystate._spec.specs import DELAY_KEY, StateSpec
from keystate._types.codec import Codec, Misfit
from keystate._worker.contexts.asked_in_open import AskedInOpen
from keystate._worker.contexts.row_context import (
    PlainRowContext,
    RowContext,
    columns_without_zone,
    event_time,
)
from keystate._worker.messages.columns import empty_column, list_column
from keystate._worker.messages.encoding import encode_all
from keystate._worker.state.map_copy import MapCopy, ReadOnlyMapCopy
from keystate.errors import DeclarationError, StateAccessError, StateTypeError
from keystate.state import StateDescriptor


class ReadBroadcastState(ReadOnlyMapCopy):
    """A view of a subtask's copy, for the function of the rows."""

    def __init__(self, spec: StateSpec, entries: dict[Any, Any]) -> None:
        super().__init__(_named(spec), spec.key_codec(), spec.value_codec(), entries)

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise _read_only(self._what)

    clear = put = put_all = remove = __setitem__ = __delitem__ = _refuse


class WorkerBroadcastState(MapCopy):
    """A subtask's copy."""

    def __init__(self, spec: StateSpec, index: int, context: BroadcastElementContext) -> None:
        super().__init__(_named(spec), spec.key_codec(), spec.value_codec())
        self.spec = spec
        self.index = index
        self.view = ReadBroadcastState(spec, self._entries)
        self._context = context
        self._changed: set[Any] = set()
        self._cleared = False

    def put(self, key: Any, value: Any) -> None:
        self._check_open()
        self._changed.add(self._put(key, value))

    def remove(self, key: Any) -> None:
        self._check_open()
        if key is None:
            return
        key = self._as_key(key)
        if self._entries.pop(key, self) is not self:
            self._changed.add(key)

    def clear(self) -> None:
        self._check_open()
        self._entries.clear()
        self._changed.clear()
        self._cleared = True

    def _check_open(self) -> None:
        if self._context.row is None:
            raise _read_only(self._what)

    # -- between JVM and worker ----------------------------------------------------------------

    def load(self, pages: Iterator[list[pa.Array]]) -> None:
        """Takes in what is stored."""
        self._entries.clear()
        self._changed.clear()
        self._cleared = False
        for keys, values in pages:
            self._entries.update(zip(self._keys.decode_keys(keys), self._values.decode(values)))

    def changes(self) -> dict[str, pa.Array]:
        """The columns with what was changed since the last call."""
        put = [key for key in self._changed if key in self._entries]
        removed = [key for key in self._changed if key not in self._entries]
        columns = {
            Part.RESET: pa.array([self._cleared]),
            Part.KEYS: list_column(self._encode(self._keys, put, put)),
            Part.VALUES: list_column(
                self._encode(self._values, [self._entries[k] for k in put], put)
            ),
            Part.REMOVED: list_column(self._encode(self._keys, removed, removed)),
        }
        self._changed.clear()
        self._cleared = False
        return {broadcast_column(self.index, name): column for name, column in columns.items()}

    def no_changes(self) -> dict[str, pa.Array]:
        """The columns of changes, empty."""
        columns = {
            Part.RESET: pa.array([False]),
            Part.KEYS: empty_column(self._keys.arrow),
            Part.VALUES: empty_column(self._values.arrow),
            Part.REMOVED: empty_column(self._keys.arrow),
        }
        return {broadcast_column(self.index, name): column for name, column in columns.items()}

    def _encode(self, codec: Codec, values: list[Any], keys: list[Any]) -> pa.Array:
        def blame(i: int | None, error: Misfit) -> StateTypeError:
            if i is None:
                return StateTypeError(f"{self._what}: {error}")
            return self._misfit(keys[i], error)

        return encode_all(codec, values, blame)


class BroadcastElementContext(AskedInOpen):
    """The context of the broadcast element being processed."""

    def __init__(self, rows: RowContext, row_type: T.StructType) -> None:
        self.row: Any = None
        self._rows = rows
        self._event_time = next(
            (i for i, field in enumerate(row_type.fields) if DELAY_KEY in (field.metadata or {})),
            None,
        )
        self._is_zoned = self._event_time not in columns_without_zone(row_type)
        self.states: dict[str, WorkerBroadcastState] = {}
        self.apply: Callable[[Any, Callable[[Any, Any], Any]], None] | None = None

    def get_broadcast_state(self, state_descriptor: StateDescriptor) -> WorkerBroadcastState:
        """A broadcast state, to be read and changed."""
        state: WorkerBroadcastState = _find(self.states, state_descriptor)
        return state

    def timestamp(self) -> int | None:
        """The element's event time in ms since the epoch."""
        if self._event_time is None or self.row is None:
            return None
        return event_time(self.row[self._event_time], self._is_zoned)

    def current_watermark(self) -> int | None:
        """The watermark in ms since the epoch."""
        return self._rows.current_watermark()

    def current_processing_time(self) -> int:
        """The time of the micro-batch in ms since the epoch."""
        return self._rows.current_processing_time()

    def apply_to_keyed_state(
        self, state_descriptor: StateDescriptor, function: Callable[[Any, Any], Any]
    ) -> None:
        """Calls ``function(key, state)`` for every key of this subtask that has the state."""
        if self.apply is None or self.row is None:
            raise StateAccessError(
                "apply_to_keyed_state can only be called in process_broadcast_element of a keyed "
                "function, and not within itself",
                code="KEYSTATE_NOT_IN_CALL",
            )
        self.apply(state_descriptor, function)


class BroadcastRowContext(RowContext):
    """The context of a row, with broadcast states to be read."""

    def __init__(self) -> None:
        super().__init__()
        self.views: dict[str, ReadBroadcastState] = {}

    def get_broadcast_state(self, state_descriptor: StateDescriptor) -> ReadBroadcastState:
        """A broadcast state, to be read."""
        try:
            return self.views[state_descriptor.name]
        except (KeyError, AttributeError):
            view: ReadBroadcastState = _find(self.views, state_descriptor)
            return view


class PlainBroadcastRowContext(BroadcastRowContext, PlainRowContext):
    """The context of a row's call in an operator without keys."""


def _find(states: dict[str, Any], descriptor: Any) -> Any:
    if not isinstance(descriptor, StateDescriptor):
        raise TypeError(f"expected a MapStateDescriptor, got {descriptor!r}")
    state = states.get(descriptor.name)
    if state is None:
        raise DeclarationError(
            f"there is no broadcast state '{descriptor.name}': pass its descriptor to "
            f"keystate.broadcast(df, ...), which has {sorted(states)}"
        )
    return state


def _named(spec: StateSpec) -> str:
    return f"broadcast state '{spec.name}'"


def _read_only(what: str) -> StateAccessError:
    return StateAccessError(
        f"{what} can only be read here: change it in process_broadcast_element, which every "
        "subtask runs with the same elements",
        code="KEYSTATE_DECLARATION",
    )
