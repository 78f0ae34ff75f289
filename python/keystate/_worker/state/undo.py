"""States and timers whose changes for a row can be undone.

Values never change in place, so a row's are undone by putting the old one back
(:class:`keystate._compiled.Marks`). Other kinds note in the journal of the current row, before each
change, a call that undoes it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from keystate._worker.messages.columns import Timer
from keystate._worker.state.lists import ListCell, WorkerListState
from keystate._worker.state.maps import PlainMapState, WorkerMapState
from keystate._worker.state.sorted_maps import WorkerSortedMapState
from keystate._worker.state.timers import TimerCell, WorkerTimers
from keystate._worker.state.values import (
    ValueLikeState,
    WorkerAggregatingState,
    WorkerFoldingState,
    WorkerReducingState,
)
from keystate._worker.state.window_maps import WorkerWindowMapState
from keystate._worker.state.worker_state import WorkerState

_MISSING: Any = object()


def cells_of(states: Sequence[WorkerState]) -> list[tuple[list[Any], bytearray]]:
    """The cells of the states whose values never change in place, with which of them changed."""
    return [(s._cells, s._dirty) for s in states if isinstance(s, ValueLikeState)]


class _CopiedAccumulator(ValueLikeState):
    """The descriptor's function may change an accumulator in place: it gets a copy."""

    def _get(self) -> Any:
        value = super()._get()
        return self._codec.copy(value) if self._codec.mutable else value


class UndoableReducingState(_CopiedAccumulator, WorkerReducingState):
    """A reducing state whose values can change in place."""


class UndoableAggregatingState(_CopiedAccumulator, WorkerAggregatingState):
    """An aggregating state whose accumulators can change in place."""


class UndoableFoldingState(_CopiedAccumulator, WorkerFoldingState):
    """A folding state whose accumulators can change in place."""


class UndoableListState(WorkerListState):
    def add(self, value: Any) -> None:
        self._keep()
        super().add(value)

    def _extend(self, checked: list[Any]) -> None:
        self._keep()
        super()._extend(checked)

    def _replace(self, checked: list[Any]) -> None:
        self._keep()
        super()._replace(checked)

    def _keep(self) -> None:
        """Notes how the list is. Its elements are only added to, or replaced by another list."""
        cell, journal, slot = self._cell(), self._cursor.journal, self._cursor.slot
        if journal and journal[-1][1] is cell:
            return  # noted already, and nothing else since
        flags = (cell.remote, cell.replaced, cell.stored, self._dirty[slot])
        journal.append((self._undo, cell, slot, cell.elements, len(cell.elements), flags))

    def _undo(
        self,
        cell: ListCell,
        slot: int,
        elements: list[Any],
        size: int,
        flags: tuple[bool, bool, int, int],
    ) -> None:
        del elements[size:]
        cell.elements = elements
        cell.remote, cell.replaced, cell.stored, self._dirty[slot] = flags


class _UndoableEntries(PlainMapState):
    """The base of both kinds of maps whose changes can be undone."""

    def put(self, key: Any, value: Any) -> None:
        self._keep(key)
        super().put(key, value)

    def remove(self, key: Any) -> None:
        self._keep(key)
        super().remove(key)

    def clear(self) -> None:
        slot = self._cursor.slot
        self._cursor.journal.append((self._undo_clear, slot, self._cell(), self._dirty[slot]))
        super().clear()

    def _undo_clear(self, slot: int, cell: Any, dirty: int) -> None:
        self._cells[slot] = cell
        self._dirty[slot] = dirty

    def _keep(self, key: Any) -> None:
        """Notes what a cell knows of a key."""
        cell: Any = self._cell()
        if type(key) is not self._key_class:
            key = self._as_key(key)
        if key is None:
            return
        slot, remote = self._cursor.slot, None
        if cell.remote:
            # What was read since by pages leaves out keys that were changed before.
            front = (cell.frontier, cell.exhausted) if hasattr(cell, "frontier") else None
            remote = key in cell.absent, front
        old = cell.get(key, _MISSING)
        flags = key in cell.changed, self._dirty[slot], remote
        self._cursor.journal.append((self._undo_key, slot, cell, key, old, flags))

    def _undo_key(self, slot: int, cell: Any, key: Any, old: Any, flags: tuple[Any, ...]) -> None:
        changed, self._dirty[slot], remote = flags
        in_order = hasattr(cell, "order")
        if in_order and cell.live:
            cell.changing()
        if old is _MISSING:
            if in_order and key in cell:
                del cell.order[self._find(cell, key)]  # type: ignore[attr-defined]
            cell.pop(key, None)
        else:
            if in_order and key not in cell:
                self._insert(cell, key)  # type: ignore[attr-defined]
            cell[key] = old
        if not changed:
            cell.changed.discard(key)
        if remote is not None:
            absent, front = remote
            (cell.absent.add if absent else cell.absent.discard)(key)
            if front is not None:
                cell.frontier, cell.exhausted = front


class UndoableMapState(_UndoableEntries, WorkerMapState):
    """A map."""


class UndoableSortedMapState(_UndoableEntries, WorkerSortedMapState):
    """A sorted map."""


class UndoableWindowMapState(_UndoableEntries, WorkerWindowMapState):
    """A sorted map by window."""

    def fold(self, key: tuple[int, ...], add: Callable[[Any, Any], Any], row: Any) -> bool:
        self._keep(key)
        copy = self._codec.copy if self._codec.mutable else None
        if copy is None:
            return super().fold(key, add, row)
        return super().fold(key, lambda row, old: add(row, copy(old)), row)

    def take_first(
        self, before: tuple[int, ...], start: tuple[int, ...] = ()
    ) -> tuple[Any, Any] | None:
        cell: Any = self._cell()
        if not cell.remote:
            for key in self.keys_from(start, 1):
                self._keep(key)
        return super().take_first(before, start)


class UndoableTimers(WorkerTimers):
    """Timers.

    Args:
        cursor: has the journal.
        windows: whether each belongs to a window.
    """

    def __init__(self, cursor: Any, windows: bool) -> None:
        super().__init__(windows)
        self._cursor = cursor

    def set(self, slot: int, timer: Timer, wanted: bool, by: Timer | None = None) -> None:
        cell = self._cells[slot]
        known = (None, False) if cell is None else (cell.get(timer), timer in cell.changed)
        self._cursor.journal.append((self._undo, slot, timer, *known, self._dirty[slot]))
        super().set(slot, timer, wanted, by)

    def _undo(self, slot: int, timer: Timer, was: int | None, changed: bool, dirty: int) -> None:
        cell: Any = self._cells[slot]
        assert isinstance(cell, TimerCell)
        if was is None:
            cell.pop(timer, None)
        else:
            cell[timer] = was
        if not changed:
            cell.changed.discard(timer)
        if not dirty:
            self._dirty[slot] = 0
            self._recent.remove(slot)
