"""Value state, and states that keep an accumulator as a value: the worker's side."""

from __future__ import annotations

import copy
from typing import Any

import pyarrow as pa

from keystate._compiled import Cells, ValueCells
from keystate._spec.protocol import Part, state_column
from keystate._spec.specs import StateSpec
from keystate._types.codec import StructCodec
from keystate._worker.messages.columns import Columns
from keystate._worker.state.worker_state import WorkerState
from keystate.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    FoldingState,
    FoldingStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    ValueState,
    ValueStateDescriptor,
)

_IMMUTABLE = (int, float, str, bytes, bool, type(None))


class ValueLikeState(WorkerState):
    """A state that holds one value or accumulator a key; ``None`` in a cell is none."""

    def _decode(self, message: Columns) -> list[Any]:
        return message.values(state_column(self.index), self._codec)

    def _encode_changes(self, slots: list[int]) -> dict[str, pa.Array]:
        values = [self._cells[slot] for slot in slots]
        columns = {"": self._encode(self._codec, values, slots)}
        if self.uses is not None:
            went = self.uses.went
            columns[Part.RESET] = pa.array([slot in went for slot in slots], pa.bool_())
        return columns

    def _change_types(self) -> dict[str, pa.DataType]:
        reset = {} if self.uses is None else {Part.RESET: pa.bool_()}
        return {"": self._codec.arrow, **reset}

    def clear(self) -> None:
        try:
            slot = self._cursor.slot
            self._cells[slot] = None
            self._dirty[slot] = 1
        except TypeError:
            self._no_key()

    def _get(self) -> Any:
        try:
            return self._cells[self._cursor.slot]
        except TypeError:
            self._no_key()

    def _copied(self) -> Any:
        """The value for the function, copied if it can change in place."""
        return self._codec.copy(self._get()) if self._codec.mutable else self._get()

    def _set(self, value: Any) -> None:
        slot = self._cursor.slot
        if not self._codec.is_plain(value):
            value = self._as_read(value)
        try:
            self._cells[slot] = value
            self._dirty[slot] = 1
        except TypeError:
            self._no_key()


class _PlainValueState(ValueLikeState, ValueState[Any]):
    def __init__(
        self, spec: StateSpec, index: int, cursor: Any, descriptor: ValueStateDescriptor[Any]
    ) -> None:
        super().__init__(spec, index, cursor)
        self._mutable = self._codec.mutable
        if isinstance(self._codec, StructCodec):
            self._tuple_as_read = self._codec.tuple_as_read
        # As a stored one would be: a struct with its field names.
        self._default = self._codec.decode(self._codec.encode([descriptor.default]))[0]
        self._shared_default = _is_immutable(self._default)

    # value and update repeat _get and _set: a call costs as much as what they do.

    def value(self) -> Any:
        slot = self._cursor.slot
        try:
            value = self._cells[slot]
        except TypeError:
            self._no_key()
        if value is None:
            return self._default if self._shared_default else copy.deepcopy(self._default)
        return self._codec.copy(value) if self._mutable else value

    def update(self, value: Any) -> None:
        slot = self._cursor.slot
        if not self._codec.is_plain(value):
            value = self._as_read(value)
        try:
            self._cells[slot] = value
            self._dirty[slot] = 1
        except TypeError:
            self._no_key()


class WorkerValueState(ValueCells, _PlainValueState):
    """A value."""


class WorkerReducingState(Cells, ValueLikeState, ReducingState[Any]):
    def __init__(
        self, spec: StateSpec, index: int, cursor: Any, descriptor: ReducingStateDescriptor[Any]
    ) -> None:
        super().__init__(spec, index, cursor)
        self._reduce = descriptor.reduce_function

    def get(self) -> Any:
        return self._copied()

    def add(self, value: Any) -> None:
        if value is None:
            self._set(None)
            return
        current = self._get()
        self._set(value if current is None else self._reduce(current, value))


class WorkerAggregatingState(Cells, ValueLikeState, AggregatingState[Any, Any]):
    def __init__(
        self,
        spec: StateSpec,
        index: int,
        cursor: Any,
        descriptor: AggregatingStateDescriptor[Any, Any],
    ) -> None:
        super().__init__(spec, index, cursor)
        self._function = descriptor.agg_function

    def get(self) -> Any:
        accumulator = self._copied()
        return None if accumulator is None else self._function.get_result(accumulator)

    def add(self, value: Any) -> None:
        if value is None:
            self._set(None)
            return
        accumulator = self._get()
        if accumulator is None:
            accumulator = self._as_read(self._function.create_accumulator())
        self._set(self._function.add(value, accumulator))


class WorkerFoldingState(Cells, ValueLikeState, FoldingState[Any, Any]):
    def __init__(
        self, spec: StateSpec, index: int, cursor: Any, descriptor: FoldingStateDescriptor[Any, Any]
    ) -> None:
        super().__init__(spec, index, cursor)
        self._initial = descriptor.initial_value
        self._fold = descriptor.fold_function

    def get(self) -> Any:
        return self._copied()

    def add(self, value: Any) -> None:
        if value is None:
            self._set(None)
            return
        accumulator = self._get()
        if accumulator is None:
            accumulator = self._as_read(copy.deepcopy(self._initial))
        self._set(self._fold(accumulator, value))


def _is_immutable(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_immutable, value))
    return isinstance(value, _IMMUTABLE)
