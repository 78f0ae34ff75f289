"""A function of whole batches at work in a subtask: columns in, columns out, no Python values."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keystate._spec.protocol import Message, state_column
from keystate._spec.specs import StateSpec
from keystate._worker.calls.dead_letters import is_of_row
from keystate._worker.calls.guarded import GuardedCalls
from keystate._worker.messages.columns import Columns
from keystate._worker.messages.results import Results
from keystate._worker.operators.batch_columns import NoColumnError, as_array, columns_of
from keystate._worker.operators.keyed import KeyedOperator
from keystate._worker.operators.slot_values import Slots, SlotValues
from keystate._worker.state.worker_state import StateFactory, WorkerState
from keystate.errors import (
    DeclarationError,
    KeystateError,
    OutputTypeError,
    StateAccessError,
    StateTypeError,
)
from keystate.functions import KeyedBatch
from keystate.state import StateDescriptor, ValueState

#: What is raised where values are no column of their type.
_MISFITS = (TypeError, ValueError, pa.ArrowException)


class BatchOperator(KeyedOperator):
    """An operator whose function takes a message's rows at once."""

    _open_state: StateFactory = staticmethod(
        lambda spec, index, cursor, descriptor: WorkerBatchState(spec, index, cursor, descriptor)
    )
    _open_undoable_state: StateFactory = _open_state

    def _decode_rows(self, message: Columns) -> Any:
        return pa.RecordBatch.from_struct_array(message.elements(Message.ROWS))

    def _decode_slots(self, message: Columns) -> Any:
        return message.elements(Message.KEY_INDEXES)

    def _decode_keys(self, message: Columns) -> Any:
        return [message.elements(Message.KEYS)]

    def _new_keys(self) -> Any:
        return ArrowKeys(self._keys, self._bare_key)

    def _run(self, slots: pa.Array, rows: pa.RecordBatch, results: list[Any]) -> None:
        if len(slots) == 0:
            return
        if self._guarded is None:
            results += self._called(slots, rows)
        else:
            self._run_guarded(self._guarded, slots, rows, 0, results)

    def _run_guarded(
        self,
        guarded: GuardedCalls,
        slots: pa.Array,
        rows: pa.RecordBatch,
        first: int,
        results: list[Any],
    ) -> None:
        """Calls the function; after an error for each half of the rows, until one fails alone.

        Args:
            guarded: writes the letters.
            slots: those of the rows.
            rows: a part of the message's.
            first: the index of the first of them there.
            results: what came of rows before.
        """
        states = [state for state in self._states if isinstance(state, WorkerBatchState)]
        kept = [state.kept(slots.unique().to_numpy()) for state in states]
        try:
            made = self._called(slots, rows)
        except Exception as e:
            if not is_of_row(e):
                raise
            for state, before in zip(states, kept):
                state.restore(before)
            if len(slots) == 1:
                results += self._letter(guarded, e, slots[0].as_py(), first)
            else:
                half = len(slots) // 2
                parts = (
                    (slots[:half], rows[:half], first),
                    (slots[half:], rows[half:], first + half),
                )
                for part in parts:
                    self._run_guarded(guarded, *part, results)
        else:
            results += made
            guarded.dead_letters.succeeded(len(slots))

    def _letter(self, guarded: GuardedCalls, error: Exception, slot: int, index: int) -> list[Any]:
        self._context.slot = slot
        row = self._row_at(index)
        letter = guarded.dead_letters.write(error, self._context, self._keyed, row, None)
        traceback.clear_frames(error.__traceback__)
        return guarded.taken(letter, 0)

    def _called(self, slots: pa.Array, rows: pa.RecordBatch) -> list[pa.Array]:
        """Calls the function for rows; yields its results as arrays of structs."""
        context = self._context
        encoded = slots.dictionary_encode()
        distinct = encoded.dictionary.to_numpy()
        all_keys: ArrowKeys = context.keys  # type: ignore[assignment]
        keys = pa.RecordBatch.from_struct_array(all_keys.take(distinct))
        context.slots = distinct
        try:
            result = self._call(KeyedBatch(rows, keys, encoded.indices), context)
            if result is None:
                return []
            if isinstance(result, (list, Iterator)):
                # Each as it is when it comes: the function may fill the same memory again.
                return [pa.concat_arrays([self._rows_of(each)]) for each in result]
            made = self._rows_of(result)
            return [made if self._guarded is None else pa.concat_arrays([made])]
        finally:
            context.slots = None

    def _encode(self, results: list[Any]) -> pa.Array:
        """Results of the function, and dead letters, which have a tag."""
        if not results:
            return self._results.encode([])
        return pa.concat_arrays(
            [
                self._results.encode([result])
                if isinstance(result, tuple)
                else self._of_main(result)
                for result in results
            ]
        )

    def _of_main(self, rows: pa.Array) -> pa.Array:
        return rows if isinstance(self._results, Results) else self._results.of_main(rows)

    def _rows_of(self, result: Any) -> pa.Array:
        """A result as an array of structs."""
        main = self._results.main
        place, fields = f"a result does not fit {main.place}", list(main.arrow)
        arrays: list[pa.Array] = []
        try:
            columns = columns_of(result, [field.name for field in fields])
            for codec, field, column in zip(main.columns, fields, columns):
                place = f"a result does not fit {main.place}: column '{field.name}'"
                array = as_array(column, codec, field.type)
                if array.null_count and not field.nullable:
                    raise ValueError("null, where there must be a value")
                if arrays and len(array) != len(arrays[0]):
                    raise ValueError(f"{len(array)} values, and the first has {len(arrays[0])}")
                arrays.append(array)
        except _MISFITS as e:
            raise _error(place, e, OutputTypeError) from None
        return pa.StructArray.from_arrays(arrays, fields=fields)


def _error(place: str, misfit: Exception, of_row: type[KeystateError]) -> KeystateError:
    """The error of what was handed over; of no row if it is wrong whatever the rows are."""
    message = f"{place}: {misfit}"
    if isinstance(misfit, NoColumnError):
        return DeclarationError(message, code=of_row.default_code)
    return of_row(message)


class ArrowKeys:
    """The keys of a generation, as they came."""

    def __init__(self, codec: Any, bare: bool) -> None:
        self._codec = codec
        self._bare = bare
        self._keys = SlotValues(codec.arrow)

    def __len__(self) -> int:
        return len(self._keys)

    def __iadd__(self, arrays: list[pa.Array]) -> ArrowKeys:
        for array in arrays:
            self._keys.extend(array)
        return self

    def __getitem__(self, slot: int) -> Any:
        # A slot that is None is a TypeError, as with a list.
        key = self._codec.decode(self.take(np.array([slot], np.int64)))[0]
        return key[0] if self._bare else key

    def take(self, slots: Slots) -> pa.Array:
        """The keys of these slots, a struct each."""
        return self._keys.take(slots)


class WorkerBatchState(WorkerState, ValueState[Any]):
    """The values of all keys."""

    def __init__(
        self, spec: StateSpec, index: int, cursor: Any, descriptor: StateDescriptor
    ) -> None:
        super().__init__(spec, index, cursor)
        self._default = getattr(descriptor, "default", None)
        self._default_array: pa.Array | None = None
        # The first message says which type: as for the rows, timestamps have the session's time
        # zone.
        self._values = self._old = SlotValues(self._codec.arrow)

    def new_generation(self) -> None:
        self._old = self._values
        self._values = SlotValues(self._old.type)
        self._dirty = bytearray()

    def forget(self) -> None:
        self.new_generation()
        self._old = self._values

    def load(self, message: Columns, carried: list[int] | None) -> None:
        sent = message.elements(state_column(self.index))
        if sent.type != self._values.type:
            self._default_array = None
            for values in {self._values, self._old}:
                values.cast(sent.type)
        first = len(self._values)
        self._values.extend(sent)
        self._dirty += bytes(len(sent))
        if carried is not None:
            slots = np.array(carried)
            (kept,) = (slots >= 0).nonzero()
            self._values.put(first + kept, self._old.take(slots[kept]))

    def value(self) -> pa.Array:
        values = self._values.take(self._slots())
        if self._default is None:
            return values
        if self._default_array is None:
            self._default_array = self._codec.encode([self._default]).cast(values.type)
        missing = pc.is_null(values)
        places = pc.if_else(missing, len(values), pa.array(np.arange(len(values))))
        return pa.concat_arrays([values, self._default_array]).take(places)

    def update(self, values: Any) -> None:
        slots, kind = self._slots(), self._values.type
        try:
            # A copy: an array may share the memory of one of NumPy's, which can change.
            values = pa.concat_arrays([as_array(values, self._codec, kind)])
        except _MISFITS as e:
            raise _error(f"state '{self.spec.name}'", e, StateTypeError) from None
        if len(values) != len(slots):
            raise StateTypeError(
                f"state '{self.spec.name}': update() needs a value for each of the batch's "
                f"{len(slots)} keys, in the order of batch.keys, got {len(values)}"
            )
        self._values.put(slots, values)
        np.frombuffer(self._dirty, np.uint8)[slots] = 1

    def kept(self, slots: Slots) -> tuple[Slots, pa.Array, np.ndarray[Any, Any]]:
        """The values of these slots, and whether they changed, for `restore`."""
        return slots, self._values.take(slots), np.frombuffer(self._dirty, np.uint8)[slots]

    def restore(self, kept: tuple[Slots, pa.Array, np.ndarray[Any, Any]]) -> None:
        """Undoes what was changed since."""
        slots, values, dirty = kept
        self._values.put(slots, values)
        np.frombuffer(self._dirty, np.uint8)[slots] = dirty

    def clear(self) -> None:
        self.update(pa.nulls(len(self._slots()), self._values.type))

    def _slots(self) -> Slots:
        slots: Slots | None = self._cursor.slots
        if slots is None:
            raise StateAccessError(
                f"state '{self.spec.name}' was used outside of process_batch, where there are no "
                "keys"
            )
        return slots

    def _encode_changes(self, slots: list[int]) -> dict[str, pa.Array]:
        values = self._values.take(np.array(slots))
        try:
            return {"": values.cast(self._codec.arrow)}
        except pa.ArrowException as e:  # a null where there may be none
            raise StateTypeError(f"state '{self.spec.name}': {e}") from None

    def _change_types(self) -> dict[str, pa.DataType]:
        return {"": self._codec.arrow}
