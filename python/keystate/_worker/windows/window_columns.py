"""The contents of grouped windows: the state that a window map has, for many keys at once.

Rows are added as they come. They are put together with others when there are enough of them, and
when the state is asked for what it has. A map that stays with the JVM is asked for what is needed
of it.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keystate._spec.protocol import Part, state_column
from keystate._spec.specs import StateSpec
from keystate._worker.messages.columns import Columns, list_column
from keystate._worker.state.worker_state import WorkerState
from keystate._worker.windows.entries import NO_TIMER, Entries, grouped
from keystate._worker.windows.groups import Numbers, stable_order
from keystate._worker.windows.parts import Parts

#: So many bytes of entries wait at most to be put together, or a fourth of what is together.
#: Arrow puts no more than 2 GiB of strings together.
_MOST_BYTES = 64 << 20

#: Timers: slots, times, and their windows' ends and starts.
Timers = tuple[Numbers, Numbers, Numbers, Numbers]

_NO_NUMBERS = np.empty(0, np.int64)


class WindowColumns(WorkerState):
    """The windows of all keys.

    Args:
        spec: of the state.
        index: of the state.
        cursor: knows the side channel.
        lateness: how long, in ms, a window is kept for late rows.
    """

    #: So many entries are put together at a time, or as many as there are together.
    _merged_at_once = 200_000

    def __init__(self, spec: StateSpec, index: int, cursor: Any, lateness: int) -> None:
        super().__init__(spec, index, cursor)
        self._lateness = lateness
        self._key_type: pa.DataType = spec.key_codec().arrow
        #: The watermark by which rows are late: windows whose last ms it has reached have fired.
        self.watermark = -NO_TIMER - 1
        self._none = self._entries(_NO_NUMBERS, self._no_keys(), pa.array([], self._codec.arrow))
        self._size = self._old_size = 0
        self._old = self._none
        self._old_remote: dict[int, set[Any]] = {}
        self._clear()

    def _clear(self) -> None:
        self._merged = self._none
        self._added: list[Entries] = []  # since they were put together
        self._waiting = self._waiting_bytes = 0
        self._removed: list[tuple[Numbers, pa.Array]] = []  # slots and keys
        self._timers: list[Timers] = []  # of what was taken for the JVM
        #: For each slot whose map stays with the JVM the entries that are known, or known not to be
        #: there.
        self._remote: dict[int, set[Any]] = {}

    def clear(self) -> None:
        raise NotImplementedError("entries are taken out when they are due")

    # -- rows -----------------------------------------------------------------------------------

    @abstractmethod
    def add(self, slots: Numbers, ends: Numbers, starts: Numbers, parts: Parts) -> None:
        """Adds rows to windows whose end is to come.

        Args:
            slots: their keys.
            ends: their windows' ends, in ms.
            starts: their windows' starts.
            parts: of the rows.
        """

    def settle(self) -> None:
        """Puts together what is waiting."""
        self._merge()

    def _wait(self, entries: Entries) -> None:
        self._added.append(entries)
        self._waiting += len(entries)
        self._waiting_bytes += entries.nbytes()

    def _append(self, entries: Entries) -> None:
        self._wait(entries)
        many = self._waiting > max(self._merged_at_once, len(self._merged))
        if many or self._waiting_bytes > max(_MOST_BYTES, self._merged.nbytes() // 4):
            self._merge()

    def _merge(self) -> Entries:
        """All entries, each as it is to be, sorted by slot."""
        if self._added:
            self._merged = self._together(Entries.concat([self._merged, *self._added]))
            self._added = []
            self._waiting = self._waiting_bytes = 0
        return self._merged

    @abstractmethod
    def _together(self, entries: Entries) -> Entries:
        """All of these as they are to be: those that were together before come first."""

    def _cleanup_times(self, ends: Numbers) -> Numbers:
        times: Numbers = np.minimum(ends - 1, NO_TIMER - self._lateness) + self._lateness
        return times

    def _own_timers(self, ends: Numbers) -> Numbers:
        """When the timer of each window is: at its end, or when it is over."""
        return np.where(ends - 1 > self.watermark, ends - 1, self._cleanup_times(ends))

    # -- windows that are due -------------------------------------------------------------------

    @property
    def timers(self) -> Numbers:
        """For when each entry is to have a timer, in ms."""
        return self._merge().timers

    def pending(self, until: int) -> Numbers:
        """Which entries may be due by timers that the JVM does not have yet."""
        timers = self._merge().timers
        due: Numbers = (timers <= until) & (timers < NO_TIMER)
        return due

    def due_here(self, until: int) -> Numbers:
        """Which entries are due by timers that the JVM does not have."""
        return self.pending(until)

    def due_by(self, timers: Timers) -> Numbers:
        """Which entries are due by timers that the JVM has sent."""
        slots, times, ends, starts = timers
        self._fetch_due(slots, ends, starts)
        entries = self._merge()
        # Before its end a window had timers by another trigger, before a restart.
        own = times >= ends - 1
        (near,) = np.nonzero(self._of(slots)[entries.slots])
        columns = ((entries.slots, slots), (entries.ends, ends), (entries.starts, starts))
        ids = grouped(*(np.concatenate([mine[near], sent[own]]) for mine, sent in columns)).ids()
        found = np.full(len(ids), NO_TIMER)
        np.minimum.at(found, ids[len(near) :], times[own])
        mine = found[ids[: len(near)]]
        places = near[mine < NO_TIMER]
        entries.timers[places] = mine[mine < NO_TIMER]
        due = np.zeros(len(entries), np.bool_)
        due[places] = True
        return due

    def take_due(self, due: Numbers, until: int) -> Entries:
        """Has windows end, and removes those whose time is over.

        Args:
            due: which entries have a timer that fires.
            until: the time of the clock, in ms.

        Returns:
            The windows that fire, sorted by slot.
        """
        entries = self._merged
        cleanup = self._cleanup_times(entries.ends)
        fires = due & (entries.timers == entries.ends - 1)
        gone = due & ((cleanup <= until) | (cleanup < entries.timers))
        entries.timers[due] = cleanup[due]
        fired = entries.select(fires)
        if gone.any():
            self._remove(entries.select(gone))
            self._merged = entries.select(~gone)
        return fired

    def _remove(self, entries: Entries) -> None:
        """Notes that entries are gone, or have another key."""
        known = entries.select(entries.stored)
        if len(known):
            self._removed.append((known.slots, self._keys_of(known)))

    def _of(self, slots: Numbers) -> Numbers:
        """By slot, whether it is one of these."""
        chosen = np.zeros(self._size, np.bool_)
        chosen[slots] = True
        return chosen

    # -- a map that stays with the JVM ----------------------------------------------------------

    @abstractmethod
    def _fetch_due(self, slots: Numbers, ends: Numbers, starts: Numbers) -> None:
        """Reads what remote maps have of windows that are due."""

    def _read(self, slot: int, pages: Iterable[Any]) -> None:
        """Adds what is in pages of a remote map and not known."""
        known = self._remote[slot]
        for (keys, values), _, _ in pages:
            named = self._names(keys)
            new = pa.array([name not in known for name in named], pa.bool_())
            known.update(named)
            keys, values = keys.filter(new), values.filter(new)
            self._append(self._entries(np.full(len(keys), slot), keys, values))

    def _names(self, keys: pa.Array) -> list[Any]:
        """These keys as tuples of their columns, which identify known entries of a remote map."""
        return list(zip(*(part.to_pylist() for part in keys.flatten())))

    # -- between JVM and worker -----------------------------------------------------------------

    def new_generation(self) -> None:
        self._old, self._old_size, self._old_remote = self._merge(), self._size, self._remote
        self._size = 0
        self._clear()

    def forget(self) -> None:
        self._clear()
        self._size = self._old_size = 0
        self._old, self._old_remote = self._none, {}

    def load(self, message: Columns, carried: list[int] | None) -> None:
        first = self._size
        sent = self._sent(message, first)
        old = None if carried is None else np.array(carried)
        self._loaded(first, old)
        # They are put together later: that may call the user's function.
        if len(sent):
            self._wait(sent)
        if old is not None and (old >= 0).any():
            self._wait(self._carried(first, old))

    def _sent(self, message: Columns, first: int) -> Entries:
        """What a message brings of its new keys, which get the slots from `first` on."""
        lists = message.elements(state_column(self.index, Part.KEYS))
        self._size += len(lists)
        self._away = np.flatnonzero(lists.is_null().to_numpy(zero_copy_only=False))
        lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
        if not lengths.any():
            return self._none
        values = message.elements(state_column(self.index, Part.VALUES)).flatten()
        slots = np.repeat(np.arange(first, self._size), lengths)
        return self._entries(slots, lists.flatten(), values)

    def _loaded(self, first: int, old: Numbers | None) -> None:
        """Called with new slots, and for each the slot before; -1 if there was none."""
        for i in self._away.tolist():
            if old is None or old[i] < 0:
                self._remote[first + i] = set()
        if old is not None and self._old_remote:
            for i, before in enumerate(old.tolist()):
                if before in self._old_remote:
                    self._remote[first + i] = self._old_remote[before]

    def _carried(self, first: int, old: Numbers) -> Entries:
        """The entries of keys that are carried over from the generation before."""
        new_slots = np.full(self._old_size, -1)
        (kept,) = np.nonzero(old >= 0)
        new_slots[old[kept]] = first + kept
        mine = new_slots[self._old.slots]
        entries = self._old.select(mine >= 0)
        entries.slots = mine[mine >= 0]
        return entries

    def changes(self, start: int, stop: int) -> dict[str, pa.Array]:
        put = self._take_changed(start, stop)
        gone_slots, gone = self._take_removed(start, stop)
        slots = np.flatnonzero(self._of(put.slots) | self._of(gone_slots))
        if len(slots) == 0:
            return self.no_changes()
        values = self._values(put.parts)
        columns = {
            Part.KEY_INDEX: pa.array(slots, pa.int32()),
            Part.RESET: pa.array(np.zeros(len(slots), np.bool_)),
            Part.KEYS: _lists(slots, put.slots, self._keys_of(put)),
            Part.VALUES: _lists(slots, put.slots, values),
            Part.REMOVED: _lists(slots, gone_slots, gone),
        }
        return {self._column(name): list_column(array) for name, array in columns.items()}

    def _take_changed(self, start: int, stop: int) -> Entries:
        """Takes the entries of these slots that changed since the last answer, for the JVM."""
        low, high = np.searchsorted(self._merge().slots, [start, stop])
        mine = self._merged.slice(int(low), int(high))
        self._take_timers(mine)
        # Not a slice: Arrow makes offsets of 32 bits only of those that are small to begin with.
        put = mine.take(np.flatnonzero(mine.changed))
        mine.changed[:] = False
        mine.stored[:] = True
        mine.timers[:] = NO_TIMER
        return put

    def _take_timers(self, entries: Entries) -> None:
        """Notes the timers that are to be set for entries."""
        wanted = entries.timers < NO_TIMER
        if wanted.any():
            columns = (entries.slots, entries.timers, entries.ends, entries.starts)
            slots, times, ends, starts = (column[wanted] for column in columns)
            self._timers.append((slots, times, ends, starts))

    def take_timers(self) -> Timers:
        """Takes the timers that are to be set for what was taken before."""
        taken, self._timers = self._timers, []
        return all_timers(taken)

    def take_dead_timers(self, start: int, stop: int) -> Timers:
        """Takes the timers that windows of these slots have lost."""
        return all_timers([])

    def _take_removed(self, start: int, stop: int) -> tuple[Numbers, pa.Array]:
        """Slots and keys of the entries that were removed, sorted by slot."""
        if not self._removed:
            return self._none.slots, self._no_keys()
        slots = np.concatenate([each for each, _ in self._removed])
        keys = pa.concat_arrays([each for _, each in self._removed])
        if np.any(np.diff(slots) < 0):
            order = stable_order(slots)
            slots, keys = slots[order], keys.take(pa.array(order))
        low, high = np.searchsorted(slots, [start, stop])
        others = [(slots[:low], keys[:low]), (slots[high:], keys[high:])]
        self._removed = [each for each in others if len(each[0])]
        return slots[low:high], keys[low:high]

    def _change_types(self) -> dict[str, pa.DataType]:
        keys = pa.list_(self._key_type)
        return {
            Part.RESET: pa.bool_(),
            Part.KEYS: keys,
            Part.VALUES: pa.list_(self._codec.arrow),
            Part.REMOVED: keys,
        }

    # -- keys and values ------------------------------------------------------------------------

    @abstractmethod
    def _entries(self, slots: Numbers, keys: pa.Array, values: pa.Array) -> Entries:
        """Entries as they are stored."""

    @abstractmethod
    def _keys_of(self, entries: Entries) -> pa.Array:
        """Their keys, as they are stored."""

    @abstractmethod
    def _values(self, parts: Parts) -> pa.Array:
        """What entries with these parts have as values, as they are stored."""

    def _keys(self, *columns: Numbers) -> pa.Array:
        arrays = [pa.array(column, pa.int64()) for column in columns]
        return pa.StructArray.from_arrays(arrays, fields=list(self._key_type))

    def _no_keys(self) -> pa.Array:
        return pa.array([], self._key_type)


def all_timers(timers: list[Timers]) -> Timers:
    """All of these."""
    columns = zip((_NO_NUMBERS,) * 4, *timers)
    slots, times, ends, starts = (np.concatenate(column) for column in columns)
    return slots, times, ends, starts


def _lists(slots: Numbers, of_slots: Numbers, elements: pa.Array) -> pa.Array:
    """For each slot the list of its elements, which are sorted by slot."""
    bounds = np.append(np.searchsorted(of_slots, slots), len(of_slots))
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), elements)
