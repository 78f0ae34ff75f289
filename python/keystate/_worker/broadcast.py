"""Broadcast state at work in a subtask.

A task whose micro-batch has broadcast elements begins with a pass of its own for these: they come
in, results go out, and with the last answer the changes of the broadcast states. The rows follow in
another pass, as for any keyed function. The states stay in the worker from one task to the next,
under a tag that tells whether they are still what is stored; if not, they are asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NoReturn

import pyarrow as pa
from pyspark.sql import types as T

from keystate._codec import Codec, Misfit, codec, shorten
from keystate._spec import OperatorSpec, StateSpec
from keystate._worker.context import PlainRowContext, RowContext, event_time
from keystate._worker.keyed_operator import KeyedOperator
from keystate._worker.messages import Columns, empty_column, list_column
from keystate._worker.plan import FunctionPlan
from keystate._worker.protocol import Answer, Control, Message, Part, broadcast_column
from keystate._worker.row_loops import collect
from keystate.errors import DeclarationError, OutputTypeError, StateAccessError, StateTypeError
from keystate.state import BroadcastState, ReadOnlyBroadcastState, StateDescriptor

_ENTRIES_PER_PAGE = 10_000

#: The metadata of the column that a watermark goes by.
_DELAY_KEY = "spark.watermarkDelayMs"


class _ReadBroadcastState(ReadOnlyBroadcastState[Any, Any]):
    """A view of a subtask's copy."""

    def __init__(self, spec: StateSpec, entries: dict[Any, Any]) -> None:
        self.spec = spec
        self._entries = entries
        self._keys = spec.key_codec()
        if self._keys.as_key is None:
            # The dictionary's own methods: they are called for every row.
            self.get = entries.get  # type: ignore[method-assign, assignment]
            self.contains = entries.__contains__  # type: ignore[method-assign, assignment]

    def get(self, key: Any) -> Any:
        return self._entries.get(self._as_key(key))

    def contains(self, key: Any) -> bool:
        return self._as_key(key) in self._entries

    def _as_key(self, key: Any) -> Any:
        """What a user's key is in the dictionary."""
        try:
            return self._keys.key(key)
        except Misfit as e:
            raise StateTypeError(f"broadcast state '{self.spec.name}', key: {e}") from None

    def items(self) -> Iterable[tuple[Any, Any]]:
        return self._entries.items()

    def keys(self) -> Iterable[Any]:
        return self._entries.keys()

    def values(self) -> Iterable[Any]:
        return self._entries.values()

    def is_empty(self) -> bool:
        return not self._entries

    def clear(self) -> None:
        self._refuse()

    def put(self, key: Any, value: Any) -> None:
        self._refuse()

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        self._refuse()

    def remove(self, key: Any) -> None:
        self._refuse()

    def __setitem__(self, key: Any, value: Any) -> None:
        self._refuse()

    def __delitem__(self, key: Any) -> None:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise StateAccessError(
            f"broadcast state '{self.spec.name}' can only be read here: change it in "
            "process_broadcast_element, which every subtask runs with the same elements",
            code="KEYSTATE_DECLARATION",
        )


class WorkerBroadcastState(_ReadBroadcastState, BroadcastState[Any, Any]):
    """A subtask's copy."""

    def __init__(self, spec: StateSpec, index: int, context: BroadcastElementContext) -> None:
        super().__init__(spec, {})
        self.index = index
        self.view = _ReadBroadcastState(spec, self._entries)
        self._context = context
        self._values = spec.value_codec()
        self._stored_key = self._keys.as_key
        self._changed: set[Any] = set()
        self._cleared = False

    # While elements are processed the map may be changed in a loop over it.

    def items(self) -> Iterable[tuple[Any, Any]]:
        return list(self._entries.items())

    def keys(self) -> Iterable[Any]:
        return list(self._entries)

    def values(self) -> Iterable[Any]:
        return list(self._entries.values())

    def put(self, key: Any, value: Any) -> None:
        self._check_open()
        if key is None:
            raise StateTypeError(
                f"broadcast state '{self.spec.name}': a map can't have the key None",
                code="KEYSTATE_NULL_KEY",
            )
        key = self._as_key(key)
        try:
            value = self._values.as_read(value)
        except Misfit as e:
            raise self._misfit(key, e) from None
        self._entries[key] = value
        self._changed.add(key)

    def put_all(self, dict_value: dict[Any, Any]) -> None:
        for key, value in dict_value.items():
            self.put(key, value)

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

    def __setitem__(self, key: Any, value: Any) -> None:
        self.put(key, value)

    def __delitem__(self, key: Any) -> None:
        self.remove(key)

    def _check_open(self) -> None:
        if self._context.row is None:
            self._refuse()

    # -- between JVM and worker ----------------------------------------------------------------

    def load(self, pages: Iterator[list[pa.Array]]) -> None:
        """Takes in what is stored."""
        self._entries.clear()
        self._changed.clear()
        self._cleared = False
        for keys, values in pages:
            found = self._keys.decode(keys)
            if self._stored_key is not None:
                found = list(map(self._stored_key, found))
            self._entries.update(zip(found, self._values.decode(values)))

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
        """The same columns, empty."""
        columns = {
            Part.RESET: pa.array([False]),
            Part.KEYS: empty_column(self._keys.arrow),
            Part.VALUES: empty_column(self._values.arrow),
            Part.REMOVED: empty_column(self._keys.arrow),
        }
        return {broadcast_column(self.index, name): column for name, column in columns.items()}

    def _encode(self, codec: Codec, values: list[Any], keys: list[Any]) -> pa.Array:
        try:
            return codec.encode(values)
        except Misfit as together:
            for key, value in zip(keys, values):
                try:
                    codec.encode([value])
                except Misfit as e:
                    raise self._misfit(key, e) from None
            raise StateTypeError(f"broadcast state '{self.spec.name}': {together}") from None

    def _misfit(self, key: Any, error: Misfit) -> StateTypeError:
        return StateTypeError(f"broadcast state '{self.spec.name}', key {shorten(key)}: {error}")


class BroadcastElementContext:
    """The context of the broadcast element being processed."""

    def __init__(self, rows: RowContext, row_type: T.StructType) -> None:
        self.row: Any = None
        self._rows = rows
        self._event_time = next(
            (i for i, field in enumerate(row_type.fields) if _DELAY_KEY in (field.metadata or {})),
            None,
        )
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
        return event_time(self.row[self._event_time])

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


class _BroadcastRowContext(RowContext):
    """The context of a row, with broadcast states to be read."""

    def __init__(self) -> None:
        super().__init__()
        self.views: dict[str, _ReadBroadcastState] = {}

    def get_broadcast_state(self, state_descriptor: StateDescriptor) -> _ReadBroadcastState:
        """A broadcast state, to be read."""
        try:
            return self.views[state_descriptor.name]
        except (KeyError, AttributeError):
            view: _ReadBroadcastState = _find(self.views, state_descriptor)
            return view


class _PlainBroadcastRowContext(_BroadcastRowContext, PlainRowContext):
    """The same where there are no keys."""


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


class BroadcastOperator(KeyedOperator):
    """A function of rows and broadcast elements."""

    _context: _BroadcastRowContext

    def __init__(
        self,
        broadcast_type: T.StructType,
        plan: FunctionPlan,
        spec: OperatorSpec,
        key_type: T.StructType,
        row_type: T.StructType,
        output_type: T.StructType,
        control: dict[str, Any],
    ) -> None:
        super().__init__(plan, spec, key_type, row_type, output_type, control)
        self._elements = BroadcastElementContext(self._context, broadcast_type)
        self._broadcast_rows = codec(broadcast_type)
        self._broadcast = [
            WorkerBroadcastState(state, i, self._elements) for i, state in enumerate(spec.broadcast)
        ]
        self._elements.states = {state.spec.name: state for state in self._broadcast}
        self._context.views = {state.spec.name: state.view for state in self._broadcast}
        self._on_broadcast = getattr(plan.function, plan.on_broadcast)
        self._state_index = {state.name: i for i, state in enumerate(spec.states)}
        self._tag = ""
        self._new_tag: str | None = None  # while broadcast elements are processed

    def _make_context(self) -> RowContext:
        return _BroadcastRowContext() if self._keyed else _PlainBroadcastRowContext()

    def begin_task(self, control: dict[str, Any]) -> None:
        super().begin_task(control)
        self._context.hear(control)
        if self._tag != control[Control.BROADCAST_TAG]:
            for i, state in enumerate(self._broadcast):
                state.load(self._context.client.broadcast(i, _ENTRIES_PER_PAGE))
            self._tag = control[Control.BROADCAST_TAG]
        self._new_tag = control.get(Control.NEW_TAG)

    def answer(self, message: Columns, control: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        if self._new_tag is None:
            yield from super().answer(message, control)
        else:
            self._context.hear(control)
            rows = self._broadcast_rows.decode(message.elements(Message.BROADCAST))
            results: list[Any] = []
            self._guard(lambda: self._run_broadcast(rows, results))
            yield self._broadcast_batch(results, last=False)

    def end_task(self) -> Iterator[pa.RecordBatch]:
        if self._new_tag is None:
            yield from super().end_task()
        else:
            yield self._broadcast_batch([], last=True)
            self._tag = self._new_tag
            self._forget()

    def _run_broadcast(self, rows: list[Any], results: list[Any]) -> None:
        context, call = self._elements, self._on_broadcast
        context.apply = self._apply_to_keyed_state if self._keyed else None
        for context.row in rows:
            result = call(context.row, context)
            if isinstance(result, list):
                results.extend(result)
            elif result is not None:
                collect(result, results)
        context.row = None

    def _broadcast_batch(self, results: list[Any], last: bool) -> pa.RecordBatch:
        columns = {Answer.LAST: pa.array([last]), Answer.OUT: list_column(self._encode(results))}
        for state in self._broadcast:
            columns.update(state.changes() if last else state.no_changes())
        columns.update(self._metrics_column(last))
        return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))

    def _apply_to_keyed_state(
        self, descriptor: StateDescriptor, function: Callable[[Any, Any], Any]
    ) -> None:
        index = self._state_index.get(getattr(descriptor, "name", None) or "")
        if index is None:
            raise DeclarationError(f"{descriptor!r} is no keyed state: get every state in open()")
        context, apply = self._context, self._elements.apply
        self._elements.apply = None
        state = self._states[index]
        changes = None
        try:
            while True:
                page = Columns(context.client.keys(index, changes))
                context.keys = self._new_keys()
                self._load(page)
                if not context.keys:
                    break
                for slot, key in enumerate(context.keys):
                    context.slot = slot
                    if function(key, state) is not None:
                        raise OutputTypeError(
                            "the function of apply_to_keyed_state can't emit anything: it must "
                            "return None"
                        )
                context.slot = None
                columns = {
                    name: column
                    for store in self._stores
                    for name, column in store.changes(0, len(context.keys)).items()
                }
                changes = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
                for store in self._stores:
                    store.forget()
        finally:
            self._elements.apply = apply

    def _where(self) -> str:
        element = self._elements.row
        where = "" if element is None else f"while processing broadcast element {shorten(element)}"
        return ", ".join(filter(None, [where, super()._where()]))
