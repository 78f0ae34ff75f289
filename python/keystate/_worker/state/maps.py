"""Map state: the worker's side.

A small map comes whole with its key's first row. A large one stays with the JVM: the worker keeps
only what was changed, and asks for the rest when it is read. Either way only changes go back: the
entries that were put or removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa

from keystate._compiled import MapCells
from keystate._spec.protocol import Bound, Part, state_column
from keystate._spec.specs import StateSpec
from keystate._types.codec import Misfit, offsets
from keystate._worker.messages.columns import Columns
from keystate._worker.state.uses import MapUses
from keystate._worker.state.worker_state import WorkerState
from keystate.state import MapState, StateDescriptor, StateTtlConfig

#: Entries that are asked for at a time.
LARGEST_PAGE = 1000


class MapCell(dict[Any, Any]):
    """One key's whole map. `changed` has the keys that were put or removed."""

    __slots__ = ("changed", "replaced")

    remote = False

    def __init__(self, entries: Iterable[tuple[Any, Any]]) -> None:
        super().__init__(entries)
        self.changed: set[Any] = set()
        self.replaced = False


class RemoteMapCell(MapCell):
    """One key's map that stays with the JVM.

    The dictionary has what is known of it: what was read and what was put; `absent` has the keys
    that are known not to be there.
    """

    __slots__ = ("absent",)

    remote = True

    def __init__(self) -> None:
        super().__init__(())
        self.absent: set[Any] = set()


class PlainMapState(WorkerState, MapState[Any, Any]):
    """A map without compiled code; a base of sorted maps too."""

    _cell_class: type[MapCell] = MapCell
    _remote_cell_class: type[RemoteMapCell] = RemoteMapCell

    def __init__(
        self, spec: StateSpec, index: int, cursor: Any, descriptor: StateDescriptor
    ) -> None:
        super().__init__(spec, index, cursor)
        self._key_codec = spec.key_codec()
        self._key_class = self._key_codec.key_class
        # Compiled code hands out what a cell has; what can change in place must be copied.
        self._whole = None if self._codec.mutable else self._cell_class

    def note_uses(self, ttl: StateTtlConfig, undoable: bool) -> None:
        encode = partial(self._encode, self._key_codec)
        self.uses = MapUses(ttl, self._cursor, undoable, self._key_codec.arrow, encode)

    def _cell(self) -> MapCell:
        try:
            cell: MapCell = self._cells[self._cursor.slot]
        except TypeError:
            self._no_key()
        return cell

    def _as_key(self, key: Any) -> Any:
        """A user's key in the form that a cell has."""
        try:
            return self._key_codec.key(key)
        except Misfit as e:
            if self._cursor.slot is None:
                self._no_key()
            self._misfit(e, self._cursor.slot)

    def get(self, key: Any) -> Any:
        cell = self._cell()
        if type(key) is not self._key_class:
            key = self._as_key(key)
        if cell.remote:
            self._fetch(cell, key)
        return self._codec.copy(cell.get(key)) if self._codec.mutable else cell.get(key)

    def contains(self, key: Any) -> bool:
        cell = self._cell()
        if type(key) is not self._key_class:
            key = self._as_key(key)
        if cell.remote:
            self._fetch(cell, key)
        return key in cell

    def put(self, key: Any, value: Any) -> None:
        cell = self._cell()
        if type(key) is not self._key_class:
            key = self._as_key(key)
        if key is None:
            self._refuse_none("a map can't have the key None", code="KEYSTATE_NULL_KEY")
        if not self._codec.is_plain(value):
            value = self._as_read(value)
        cell[key] = value
        cell.changed.add(key)
        self._dirty[self._cursor.slot] = 1

    def remove(self, key: Any) -> None:
        cell = self._cell()
        if type(key) is not self._key_class:
            key = self._as_key(key)
        if key is None:
            return
        if cell.pop(key, cell) is not cell or cell.remote:
            cell.changed.add(key)
            self._dirty[self._cursor.slot] = 1
            if isinstance(cell, RemoteMapCell):
                cell.absent.add(key)

    def clear(self) -> None:
        self._cell()
        cell = self._cell_class(())
        cell.replaced = True
        self._cells[self._cursor.slot] = cell
        self._dirty[self._cursor.slot] = 1

    def items(self) -> Iterable[tuple[Any, Any]]:
        cell = self._cell()
        items = self._remote_items(cell) if cell.remote else list(cell.items())
        return self._copied(items) if self._codec.mutable else items

    def _copied(self, entries: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        """Entries that are handed out."""
        return ((key, self._codec.copy(value)) for key, value in entries)

    def _copied_one(self, key: Any, value: Any) -> tuple[Any, Any]:
        return key, self._codec.copy(value) if self._codec.mutable else value

    def keys(self) -> Iterable[Any]:
        cell = self._cell()
        return [key for key, _ in self._remote_items(cell)] if cell.remote else list(cell)

    def is_empty(self) -> bool:
        cell = self._cell()
        if cell.remote:
            return next(iter(self._remote_items(cell)), None) is None
        return not cell

    # -- a map that stays with the JVM ---------------------------------------------------------

    def _fetch(self, cell: MapCell, key: Any) -> None:
        assert isinstance(cell, RemoteMapCell)
        if key in cell or key in cell.absent or key is None:
            return
        slot = self._cursor.slot
        try:
            wanted = self._key_codec.encode([key])
        except Misfit as e:
            self._misfit(e, slot)
        found = self._cursor.client.get(self.index, slot, wanted)
        if len(found):
            cell[key] = self._codec.decode(found)[0]
        else:
            cell.absent.add(key)

    def _remote_items(self, cell: MapCell) -> Iterator[tuple[Any, Any]]:
        """The map as it is now: what is known here, then, page by page, what else is stored."""
        assert isinstance(cell, RemoteMapCell)
        known, absent = dict(cell), set(cell.absent)
        stored = (
            (key, value)
            for keys, values, _ in self._pages(None, None, False)
            for key, value in zip(keys, values)
            if key not in known and key not in absent
        )
        return chain(known.items(), stored)

    def _pages(
        self, start: Any, end: Any, reverse: bool, limit: int = LARGEST_PAGE
    ) -> Iterator[tuple[list[Any], list[Any], bool]]:
        """Pages of stored keys and values from start (or the first) to end (or the last).

        They are asked for one by one, as an iterator comes to them; but of the key that there is
        now.
        """
        slot = self._slot()
        both = {Bound.START: start, Bound.END: end}
        bounds = {name: key for name, key in both.items() if key is not None}
        try:
            keys = self._key_codec.encode(list(bounds.values())) if bounds else None
        except Misfit as e:
            self._misfit(e, slot)
        return self._fetched_pages(slot, self._same_key(), list(bounds), keys, reverse, limit)

    def _fetched_pages(
        self,
        slot: int,
        check_key: Callable[[], None],
        bounds: list[str],
        keys: pa.Array | None,
        reverse: bool,
        limit: int,
    ) -> Iterator[tuple[list[Any], list[Any], bool]]:
        check_key()
        pages = self._cursor.client.scan(self.index, slot, bounds, keys, reverse, limit)
        for columns, more, _ in pages:
            yield self._key_codec.decode_keys(columns[0]), self._codec.decode(columns[1]), more
            check_key()

    # -- between JVM and worker ----------------------------------------------------------------

    def _decode(self, message: Columns) -> list[Any]:
        key_lists = message.elements(state_column(self.index, Part.KEYS))
        value_lists = message.elements(state_column(self.index, Part.VALUES))
        at = offsets(key_lists)
        first, size = at[0], at[-1] - at[0]
        keys = self._key_codec.decode_keys(key_lists.values.slice(first, size))
        values = self._codec.decode(value_lists.values.slice(first, size))
        remote = key_lists.is_null().to_pylist()
        return [
            self._remote_cell_class()
            if away
            else self._cell_class(zip(keys[a - first : b - first], values[a - first : b - first]))
            for a, b, away in zip(at, at[1:], remote)
        ]

    def _encode_changes(self, slots: list[int]) -> dict[str, pa.Array]:
        cells: list[MapCell] = [self._cells[slot] for slot in slots]
        put = [[key for key in cell.changed if key in cell] for cell in cells]
        removed = self._removed_keys(slots, cells)
        columns = {
            Part.RESET: pa.array([cell.replaced for cell in cells], pa.bool_()),
            Part.KEYS: self._encode_lists(self._key_codec, put, slots),
            Part.VALUES: self._encode_lists(
                self._codec, [[c[key] for key in keys] for c, keys in zip(cells, put)], slots
            ),
            Part.REMOVED: self._encode_lists(self._key_codec, removed, slots),
        }
        for cell in cells:
            cell.changed.clear()
            cell.replaced = False
        return columns

    def _removed_keys(self, slots: list[int], cells: list[MapCell]) -> list[list[Any]]:
        """For each slot the keys whose stored entries go, before others are put."""
        went = () if self.uses is None else self.uses.went
        if not went:
            return [[key for key in cell.changed if key not in cell] for cell in cells]
        return [
            [key for key in cell.changed if key not in cell or (slot, key) in went]
            for slot, cell in zip(slots, cells)
        ]

    def _change_types(self) -> dict[str, pa.DataType]:
        keys = pa.list_(self._key_codec.arrow)
        return {
            Part.RESET: pa.bool_(),
            Part.KEYS: keys,
            Part.VALUES: pa.list_(self._codec.arrow),
            Part.REMOVED: keys,
        }


class WorkerMapState(MapCells, PlainMapState):
    """A map."""
