"""The contents of windows by columns: the state of a window map, without an object for a key.

Rows are added as accumulators of their own. They are merged with others when there are enough of
them, and when the state is asked for what it has. A map that stays with the JVM is asked for the
windows that rows are in.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keystate._protocol import Bound, Part, state_column
from keystate._spec import StateSpec
from keystate._worker.aggregates.computing import Aggregation, Parts
from keystate._worker.aggregates.groups import Numbers
from keystate._worker.messages.columns import Columns, list_column
from keystate._worker.state.maps import LARGEST_PAGE
from keystate._worker.state.window_entries import Entries
from keystate._worker.state.worker_state import WorkerState

#: So many entries are merged at a time, or as many as there are merged ones.
_MERGED_AT_ONCE = 50_000

#: A window as the state has it: 1 while its end is to come, end and start.
_Key = tuple[int, int, int]

_LAST = 2**63 - 1


class WindowColumns(WorkerState):
    """The windows of all keys, with their accumulators."""

    def __init__(self, spec: StateSpec, index: int, cursor: Any, aggregation: Aggregation) -> None:
        super().__init__(spec, index, cursor)
        self._aggregation = aggregation
        self._key_type: pa.DataType = spec.key_codec().arrow
        self._none = self._entries(np.empty(0, np.int64), self._no_keys(), self._no_values(), True)
        self._size = self._old_size = 0
        self._clear()
        self._old = self._none
        self._old_remote: dict[int, set[_Key]] = {}

    def _clear(self) -> None:
        self._merged = self._none
        self._added: list[Entries] = []  # since they were merged
        self._waiting = 0
        self._removed: list[tuple[Numbers, pa.Array]] = []  # slots and keys
        #: For each slot whose map stays with the JVM the windows that are known, or known not to be
        #: there.
        self._remote: dict[int, set[_Key]] = {}

    # -- what the operator does -----------------------------------------------------------------

    def add(self, slots: Numbers, ends: Numbers, starts: Numbers, parts: Parts) -> None:
        """Adds accumulators to open windows.

        Args:
            slots: their keys.
            ends: their windows' ends, in ms.
            starts: their windows' starts.
            parts: of the accumulators.
        """
        if self._remote:
            self._fetch(slots, ends, starts)
        self._append(Entries(slots, np.ones(len(slots), np.int64), ends, starts, parts, False))
        if self._waiting > max(_MERGED_AT_ONCE, len(self._merged)):
            self._merge()

    def take_due(self, slots: Numbers, until: int) -> Entries:
        """Takes out all windows of these keys that end by `until`, and those that have ended.

        Returns:
            Those whose end was to come, sorted by key and end.
        """
        chosen = np.zeros(self._size, np.bool_)
        chosen[slots] = True
        for slot in self._remote.keys() & set(slots.tolist()):
            self._scan(slot, until)
        entries = self._merge()
        due = chosen[entries.slots] & ((entries.opens == 0) | (entries.ends - 1 <= until))
        gone = entries.select(due)
        self._merged = entries.select(~due)
        self._removed.append((gone.slots, self._keys_of(gone)))
        return gone.select(gone.opens == 1)

    def take_untimed(self, start: int, stop: int) -> tuple[Numbers, Numbers]:
        """Slots and ends of the windows that have no timer yet, which are to have one then."""
        entries = self._merge()
        low, high = np.searchsorted(entries.slots, [start, stop])
        (found,) = np.nonzero(~entries.timed[low:high])
        entries.timed[low:high] = True
        return entries.slots[low + found], entries.ends[low + found]

    def _append(self, entries: Entries) -> None:
        self._added.append(entries)
        self._waiting += len(entries)

    def _merge(self) -> Entries:
        """All entries, one for each window, sorted by slot."""
        if self._added:
            self._merged = Entries.concat([self._merged, *self._added]).merged(self._aggregation)
            self._added = []
            self._waiting = 0
        return self._merged

    def clear(self) -> None:
        raise NotImplementedError("windows are taken out when they are due")

    # -- a map that stays with the JVM ----------------------------------------------------------

    def _fetch(self, slots: Numbers, ends: Numbers, starts: Numbers) -> None:
        """Reads the windows of remote maps that are not known."""
        remote = np.isin(slots, list(self._remote))
        rows = zip(slots[remote].tolist(), ends[remote].tolist(), starts[remote].tolist())
        for slot, end, start in set(rows):
            key = (1, end, start)
            if key in self._remote[slot]:
                continue
            self._remote[slot].add(key)
            wanted = self._keys(np.array([1]), np.array([end]), np.array([start]))
            found = self._cursor.client.get(self.index, slot, wanted)
            if len(found):
                self._append(self._entries(np.array([slot]), wanted, found, True))

    def _scan(self, slot: int, until: int) -> None:
        """Reads the windows of a remote map that are due."""
        known = self._remote[slot]
        open_, end = (1, min(until, _LAST - 2) + 2) if until < _LAST - 1 else (2, -_LAST)
        bound = self._keys(np.array([open_]), np.array([end]), np.array([-_LAST - 1]))
        pages = self._cursor.client.scan(self.index, slot, [Bound.END], bound, False, LARGEST_PAGE)
        for columns, _, _ in pages:
            keys, values = columns
            named = list(zip(*(part.to_pylist() for part in keys.flatten())))
            new = pa.array([key not in known for key in named], pa.bool_())
            known.update(named)
            keys, values = keys.filter(new), values.filter(new)
            self._append(self._entries(np.full(len(keys), slot), keys, values, True))

    # -- between JVM and worker -----------------------------------------------------------------

    def new_generation(self) -> None:
        self._old, self._old_size = self._merge(), self._size
        self._old_remote = self._remote
        self._size = 0
        self._generation += 1
        self._clear()

    def forget(self) -> None:
        self._clear()
        self._size = self._old_size = 0
        self._old, self._old_remote = self._none, {}

    def load(self, message: Columns, carried: list[int] | None) -> None:
        lists = message.elements(state_column(self.index, Part.KEYS))
        first, self._size = self._size, self._size + len(lists)
        old = np.full(len(lists), -1) if carried is None else np.array(carried)
        if lists.null_count:
            for i in np.flatnonzero(lists.is_null().to_numpy(zero_copy_only=False) & (old < 0)):
                self._remote[first + int(i)] = set()
        lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
        if lengths.any():
            values = message.elements(state_column(self.index, Part.VALUES)).flatten()
            slots = np.repeat(np.arange(first, self._size), lengths)
            self._append(self._entries(slots, lists.flatten(), values, True))
        if carried is not None:
            self._carry(first, old)

    def _carry(self, first: int, old: Numbers) -> None:
        new_slots = np.full(self._old_size, -1)
        (kept,) = np.nonzero(old >= 0)
        new_slots[old[kept]] = first + kept
        mine = new_slots[self._old.slots]
        entries = self._old.select(mine >= 0)
        entries.slots = mine[mine >= 0]
        self._append(entries)
        for i in kept:
            known = self._old_remote.get(int(old[i]))
            if known is not None:
                self._remote[first + int(i)] = known

    def changes(self, start: int, stop: int) -> dict[str, pa.Array]:
        entries = self._merge()
        low, high = np.searchsorted(entries.slots, [start, stop])
        changed = entries.changed.copy()
        changed[:low] = changed[high:] = False
        entries.changed[low:high] = False
        put = entries.select(changed)
        gone_slots, gone = self._take_removed(start, stop)
        slots = np.union1d(put.slots, gone_slots)
        if len(slots) == 0:
            return self.no_changes()
        values = self._aggregation.pack(put.parts, self._codec.arrow)
        columns = {
            Part.SLOT: pa.array(slots, pa.int32()),
            Part.RESET: pa.array(np.zeros(len(slots), np.bool_)),
            Part.KEYS: _lists(slots, put.slots, self._keys_of(put)),
            Part.VALUES: _lists(slots, put.slots, values),
            Part.REMOVED: _lists(slots, gone_slots, gone),
        }
        return {self._column(name): list_column(array) for name, array in columns.items()}

    def _take_removed(self, start: int, stop: int) -> tuple[Numbers, pa.Array]:
        """Slots and keys of the windows that were removed, sorted by slot."""
        if not self._removed:
            return self._none.slots, self._no_keys()
        slots = np.concatenate([each for each, _ in self._removed])
        keys = pa.concat_arrays([each for _, each in self._removed])
        here = (slots >= start) & (slots < stop)
        self._removed = [(slots[~here], keys.filter(pa.array(~here)))] if not here.all() else []
        (places,) = np.nonzero(here)
        places = places[np.argsort(slots[places], kind="stable")]
        return slots[places], keys.take(pa.array(places))

    def _change_types(self) -> dict[str, pa.DataType]:
        keys = pa.list_(self._key_type)
        return {
            Part.RESET: pa.bool_(),
            Part.KEYS: keys,
            Part.VALUES: pa.list_(self._codec.arrow),
            Part.REMOVED: keys,
        }

    # -- keys and values ------------------------------------------------------------------------

    def _entries(
        self, slots: Numbers, keys: pa.Array, values: pa.Array, is_stored: bool
    ) -> Entries:
        opens, ends, starts = (part.to_numpy(zero_copy_only=False) for part in keys.flatten())
        parts = self._aggregation.unpack(values)
        return Entries(slots, opens, ends, starts, parts, is_stored)

    def _keys(self, opens: Numbers, ends: Numbers, starts: Numbers) -> pa.Array:
        columns = [pa.array(column, pa.int64()) for column in (opens, ends, starts)]
        return pa.StructArray.from_arrays(columns, fields=list(self._key_type))

    def _keys_of(self, entries: Entries) -> pa.Array:
        return self._keys(entries.opens, entries.ends, entries.starts)

    def _no_keys(self) -> pa.Array:
        return pa.array([], self._key_type)

    def _no_values(self) -> pa.Array:
        return pa.array([], self._codec.arrow)


def _lists(slots: Numbers, of_slots: Numbers, elements: pa.Array) -> pa.Array:
    """For each slot the list of its elements, which are sorted by slot."""
    bounds = np.append(np.searchsorted(of_slots, slots), len(of_slots))
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), elements)
