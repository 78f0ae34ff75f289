"""The base of all states of a function in a worker.

A key is known by its slot, a small integer. A state keeps what it holds in a list indexed by slot,
and the slot of the row being processed in `cursor.slot`; between rows that is ``None``, so that a
state used where there is no key fails instead of giving another key's data.

What is handed over is taken as it is at that moment, and what is handed out is a copy if it can
change in place: so results do not depend on how many rows a micro-batch has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import compress
from typing import Any, NoReturn

import pyarrow as pa

from keystate._spec.protocol import Part, state_column
from keystate._spec.specs import StateSpec
from keystate._types.codec import Codec, Misfit
from keystate._worker.messages.columns import Columns, empty_column, list_column, nested
from keystate._worker.messages.encoding import encode_all
from keystate._worker.state.uses import Uses
from keystate.errors import StateAccessError, StateTypeError
from keystate.state import State, StateTtlConfig


class WorkerState(State):
    """The base of all states: cells by slot, and which of them have changed.

    Attributes:
        uses: the noted uses of its entries; ``None`` if uses are not noted.
    """

    uses: Uses | None = None

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

    def note_uses(self, ttl: StateTtlConfig, undoable: bool) -> None:
        """Has what is noted of its entries' use sent with its changes."""
        self.uses = Uses(ttl, self._cursor, undoable)

    # -- between JVM and worker ---------------------------------------------------------------

    def new_generation(self) -> None:
        """Starts again without any key, and keeps the old cells for keys that are carried over."""
        self._old_cells = self._cells
        self._cells = []
        self._dirty = bytearray()
        self._generation += 1

    def forget(self) -> None:
        """Forgets all keys."""
        self.new_generation()
        self._old_cells = []
        if self.uses is not None:
            self.uses.forget()

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
        if not slots and self.uses is None:
            return self.no_changes()
        columns = self._encode_changes(slots)
        self._dirty[start:stop] = bytes(stop - start)
        columns[Part.KEY_INDEX] = pa.array(slots, pa.int32())
        if self.uses is not None:
            columns |= self.uses.take(start, stop)
        return {self._column(name): list_column(array) for name, array in columns.items()}

    def no_changes(self) -> dict[str, pa.Array]:
        """The columns of changes, empty."""
        types = {Part.KEY_INDEX: pa.int32(), **self._change_types()}
        if self.uses is not None:
            types |= self.uses.types()
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

        A slot alone does not identify a key: another key can have it in a later generation.
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


#: Makes the state of a spec at an index, for a cursor, from a descriptor.
StateFactory = Callable[[StateSpec, int, Any, Any], WorkerState]


def flatten(values: Iterable[Iterable[Any]]) -> list[Any]:
    """All elements of all of these."""
    return [element for each in values for element in each]
