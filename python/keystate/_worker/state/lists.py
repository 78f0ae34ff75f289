"""List state: the worker's side.

A small list comes whole with its key's first row. A large one stays with the JVM: the worker keeps
only what was added, and asks for the rest when it is read. Either way only what was appended goes
back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from keystate._spec.protocol import Part, state_column
from keystate._spec.specs import StateSpec
from keystate._types.codec import offsets
from keystate._worker.messages.columns import Columns
from keystate._worker.state.uses import ListUses
from keystate._worker.state.worker_state import WorkerState, flatten
from keystate.state import ListState, StateDescriptor, StateTtlConfig


class ListCell:
    """One key's list.

    `stored` is how many of its leading elements the JVM has; `remote` says that those are not in
    `elements`; `returned` are the ones that were returned last, which the JVM may have yet to read,
    with the generation and slot they were returned from.
    """

    __slots__ = ("elements", "remote", "replaced", "returned", "stored")

    def __init__(self, elements: list[Any], remote: bool = False) -> None:
        self.elements = elements
        self.remote = remote
        self.replaced = False
        self.returned: tuple[int, int, list[Any]] = (-1, 0, [])
        self.stored = len(elements)


class WorkerListState(WorkerState, ListState[Any]):
    def __init__(
        self, spec: StateSpec, index: int, cursor: Any, descriptor: StateDescriptor
    ) -> None:
        super().__init__(spec, index, cursor)

    def note_uses(self, ttl: StateTtlConfig, undoable: bool) -> None:
        self.uses = ListUses(ttl, self._cursor, undoable)

    def _cell(self) -> ListCell:
        try:
            cell: ListCell = self._cells[self._cursor.slot]
        except TypeError:
            self._no_key()
        return cell

    def get(self) -> list[Any]:
        cell = self._cell()
        if cell.remote:
            pages, read = self._cursor.client.read_list(self.index, self._cursor.slot)
            stored = flatten(map(self._codec.decode, pages))
            generation, slot, returned = cell.returned
            if generation == self._generation - 1 and slot >= read:
                stored += returned
            cell.elements = stored + cell.elements
            cell.stored = len(stored)
            cell.remote = False
        return self._codec.all_copied(cell.elements)

    def add(self, value: Any) -> None:
        slot = self._cursor.slot
        if type(value) is not self._plain:
            value = self._as_read(value)
        if value is None:
            self._refuse_none("a list can't hold None")
        try:
            self._cells[slot].elements.append(value)
            self._dirty[slot] = 1
        except TypeError:
            self._no_key()

    def add_all(self, values: Iterable[Any]) -> None:
        # Before the list is looked at: a generator may read and change it.
        self._extend(self._checked(values))

    def _extend(self, checked: list[Any]) -> None:
        self._cell().elements.extend(checked)
        self._dirty[self._cursor.slot] = 1

    def update(self, values: Iterable[Any]) -> None:
        self._replace(self._checked(values))

    def _replace(self, checked: list[Any]) -> None:
        cell = self._cell()
        cell.elements = checked
        cell.remote = False
        cell.replaced = True
        cell.stored = 0
        self._dirty[self._cursor.slot] = 1

    def clear(self) -> None:
        self.update(())

    def _checked(self, values: Iterable[Any]) -> list[Any]:
        if type(values) is list:
            checked = self._all_as_read(values)
        else:
            # One by one, as each is when it comes: a generator may fill the same object again.
            checked = [self._as_read(value) for value in values]
        if any(value is None for value in checked):
            self._refuse_none("a list can't hold None")
        return checked

    def _decode(self, message: Columns) -> list[Any]:
        lists = message.elements(state_column(self.index))
        at = offsets(lists)
        values = self._codec.decode(lists.values.slice(at[0], at[-1] - at[0]))
        remote = lists.is_null().to_pylist()
        first = at[0]
        return [
            ListCell(values[a - first : b - first], away) for a, b, away in zip(at, at[1:], remote)
        ]

    def _encode_changes(self, slots: list[int]) -> dict[str, pa.Array]:
        cells = [self._cells[slot] for slot in slots]
        added = [c.elements if c.remote else c.elements[c.stored :] for c in cells]
        columns = {
            "": self._encode_lists(self._codec, added, slots),
            Part.RESET: pa.array([c.replaced for c in cells], pa.bool_()),
        }
        for slot, cell in zip(slots, cells):
            cell.replaced = False
            if cell.remote:
                cell.returned = (self._generation, slot, cell.elements)
                cell.elements = []
            else:
                cell.stored = len(cell.elements)
        return columns

    def _change_types(self) -> dict[str, pa.DataType]:
        return {"": pa.list_(self._codec.arrow), Part.RESET: pa.bool_()}
