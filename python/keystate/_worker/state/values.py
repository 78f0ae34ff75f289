"""The states that a function uses: the worker's side.

A key is known by its slot, a small integer. A state keeps what it holds in a list indexed by slot,
and the slot of the row being processed in `cursor.slot`; between rows that is ``None``, so that a
state used where there is no key fails instead of giving another key's data.

What is handed over is taken as it is at that moment, and what is handed out is a copy if it can
change in place: so results do not depend on how many rows a micro-batch has.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from itertools import compress
from typing import Any, NoReturn

import pyarrow as pa

from keystate._codec import Codec, Misfit, StructCodec
from keystate._compiled import Cells, ValueCells
from keystate._protocol import Part, state_column
from keystate._spec import StateSpec
from keystate._worker.messages.columns import Columns, empty_column, list_column, nested
from keystate._worker.messages.encoding import encode_all
from keystate.errors import StateAccessError, StateTypeError
from keystate.state import (
    AggregatingState,
    AggregatingStateDescriptor,
    FoldingState,
    FoldingStateDescriptor,
    ReducingState,
    ReducingStateDescriptor,
    State,
    ValueState,
    ValueStateDescriptor,
)

_IMMUTABLE = (int, float, str, bytes, bool, type(None))


class WorkerState(State):
    """What all states have: cells by slot, and which of them have changed."""

    def __init__(self, spec: StateSpec, index: int, cursor: Any) -> None:
        self.spec = spec
        self.index = index
        self._codec = spec.value_codec()
        self._plain = self._codec.plain
        self._cursor = cursor
        self._cells: list[Any] = []
        self._old_cells: list[Any] = []
        self._dirty = bytearray()
        self._generation = 0

    # -- between JVM and worker ---------------------------------------------------------------

    def new_generation(self) -> None:
        """Starts anew without any key, and keeps the old cells for keys that are carried over."""
        self._old_cells = self._cells
        self._cells = []
        self._dirty = bytearray()
        self._generation += 1

    def forget(self) -> None:
        """Forgets all keys."""
        self.new_generation()
        self._old_cells = []

    def load(self, message: Columns, carried: list[int] | None) -> None:
        """Takes in the state of a message's new keys.

        Args:
            message: the message's columns.
            carried: for each new key its slot in the last generation, or -1 to take what the
                message brings; None when that is so for all.
        """
        loaded = self._decode(message)
        if carried is not None:
            for i, old in enumerate(carried):
                if old >= 0:
                    loaded[i] = self._old_cells[old]
        self._cells += loaded
        self._dirty += bytes(len(loaded))

    def changes(self, start: int, stop: int) -> dict[str, pa.Array]:
        """The columns with what changed in these slots since the last call."""
        slots = list(compress(range(start, stop), self._dirty[start:stop]))
        if not slots:
            return self.no_changes()
        columns = self._encode_changes(slots)
        self._dirty[start:stop] = bytes(stop - start)
        columns[Part.SLOT] = pa.array(slots, pa.int32())
        return {self._column(name): list_column(array) for name, array in columns.items()}

    def no_changes(self) -> dict[str, pa.Array]:
        """The columns of changes, empty."""
        types = {Part.SLOT: pa.int32(), **self._change_types()}
        return {self._column(name): empty_column(kind) for name, kind in types.items()}

    def _column(self, part: str) -> str:
        return state_column(self.index, part)

    def _decode(self, message: Columns) -> list[Any]:
        raise NotImplementedError

    def _encode_changes(self, slots: list[int]) -> dict[str, pa.Array]:
        raise NotImplementedError

    def _change_types(self) -> dict[str, pa.DataType]:
        raise NotImplementedError

    # -- errors -------------------------------------------------------------------------------

    def _no_key(self) -> NoReturn:
        raise StateAccessError(
            f"state '{self.spec.name}' was used where no key is being processed: use states only "
            "in process_element, map, flat_map and the like, not in open or after the call"
        ) from None

    def _refuse_none(self, reason: str, code: str | None = None) -> NoReturn:
        key = self._cursor.key_of(self._slot())
        raise StateTypeError(f"state '{self.spec.name}' of key {key!r}: {reason}", code=code)

    def _misfit(self, error: Misfit, slot: int) -> NoReturn:
        raise self._misfit_of(slot, error) from None

    def _misfit_of(self, slot: int | None, error: Misfit) -> StateTypeError:
        of_key = "" if slot is None else f" of key {self._cursor.key_of(slot)!r}"
        return StateTypeError(f"state '{self.spec.name}'{of_key}: {error}")

    def _as_read(self, value: Any) -> Any:
        """A value to be stored as it will be read, in this micro-batch and after a restart."""
        try:
            return self._codec.as_read(value)
        except Misfit as error:
            self._misfit(error, self._slot())

    def _all_as_read(self, values: list[Any]) -> list[Any]:
        try:
            return self._codec.all_as_read(values)
        except Misfit as error:
            self._misfit(error, self._slot())

    def _same_key(self) -> Callable[[], None]:
        """A check that raises StateAccessError unless the key is still the one that there is now.

        A slot alone does not tell a key: another one can have it in a later generation.
        """
        slot, generation = self._cursor.slot, self._generation

        def check() -> None:
            if self._cursor.slot != slot or self._generation != generation:
                raise StateAccessError(
                    f"an iterator over state '{self.spec.name}' was used after its key"
                )

        return check

    def _slot(self) -> int:
        slot: int | None = self._cursor.slot
        if slot is None:
            self._no_key()
        return slot

    def _encode(self, codec: Codec, values: list[Any], slots: list[int]) -> pa.Array:
        """Encodes one value a slot; an error names the slot's key."""

        def blame(i: int | None, error: Misfit) -> StateTypeError:
            return self._misfit_of(None if i is None else slots[i], error)

        return encode_all(codec, values, blame)

    def _encode_lists(self, codec: Codec, lists: list[list[Any]], slots: list[int]) -> pa.Array:
        """Encodes one list of values a slot."""
        try:
            elements = codec.encode(flatten(lists))
        except Misfit as error:
            for slot, each in zip(slots, lists):
                self._encode(codec, each, [slot] * len(each))
            raise self._misfit_of(None, error) from None
        return nested(elements, [len(each) for each in lists])


class _ValueCells(WorkerState):
    """A state that holds one value or accumulator a key; ``None`` in a cell is none."""

    def _decode(self, message: Columns) -> list[Any]:
        return message.values(state_column(self.index), self._codec)

    def _encode_changes(self, slots: list[int]) -> dict[str, pa.Array]:
        values = [self._cells[slot] for slot in slots]
        return {"": self._encode(self._codec, values, slots)}

    def _change_types(self) -> dict[str, pa.DataType]:
        return {"": self._codec.arrow}

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
        """What is handed out: a change of it in place is none of the state."""
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


class _PlainValueState(_ValueCells, ValueState[Any]):
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


class WorkerReducingState(Cells, _ValueCells, ReducingState[Any]):
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


class WorkerAggregatingState(Cells, _ValueCells, AggregatingState[Any, Any]):
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


class WorkerFoldingState(Cells, _ValueCells, FoldingState[Any, Any]):
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


#: Makes the state of a spec at an index, for a cursor, from a descriptor.
StateFactory = Callable[[StateSpec, int, Any, Any], WorkerState]


def flatten(values: Iterable[Iterable[Any]]) -> list[Any]:
    """All elements of all of these."""
    return [element for each in values for element in each]
