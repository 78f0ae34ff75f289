"""The contents of windows by columns: the state that a window map has.

A map that stays with the JVM is asked for the windows that rows are in.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keystate._protocol import Bound, Part, state_column
from keystate._spec import StateSpec
from keystate._worker.aggregates.accumulators import Accumulation, Parts
from keystate._worker.aggregates.groups import Numbers
from keystate._worker.messages.columns import Columns, list_column
from keystate._worker.state.column_entries import Entries
from keystate._worker.state.column_state import ColumnState
from keystate._worker.state.maps import LARGEST_PAGE

#: A window as the state has it: 1 while its end is to come, end and start.
_Key = tuple[int, int, int]

_LAST = 2**63 - 1


class WindowColumns(ColumnState):
    """The windows of all keys, with their accumulators.

    Args:
        spec: of the state.
        index: of the state.
        cursor: knows the side channel.
        aggregation: computes accumulators.
        lateness: how long, in ms, a window is kept for late rows.
    """

    def __init__(
        self, spec: StateSpec, index: int, cursor: Any, aggregation: Accumulation, lateness: int
    ) -> None:
        self._lateness = lateness
        self._key_type: pa.DataType = spec.key_codec().arrow
        self._old_remote: dict[int, set[_Key]] = {}
        super().__init__(spec, index, cursor, aggregation)

    def _no_entries(self) -> Entries:
        none = np.empty(0, np.int64)
        return self._entries(none, self._no_keys(), pa.array([], self._codec.arrow))

    def _clear(self) -> None:
        super()._clear()
        self._removed: list[tuple[Numbers, pa.Array]] = []  # slots and keys
        #: For each slot whose map stays with the JVM the windows that are known, or known not to be
        #: there.
        self._remote: dict[int, set[_Key]] = {}
        self._scanned: dict[int, int] = {}  # until when such a map has been read

    # -- what the operator does -----------------------------------------------------------------

    def add(self, slots: Numbers, ends: Numbers, starts: Numbers, parts: Parts) -> None:
        """Adds accumulators to windows whose end is to come.

        Args:
            slots: their keys.
            ends: their windows' ends, in ms.
            starts: their windows' starts.
            parts: of the accumulators.
        """
        self._fetch(1, slots, ends, starts)
        self._append(Entries(slots, np.ones(len(slots), np.int64), ends, starts, parts, False))

    def add_late(self, slots: Numbers, ends: Numbers, starts: Numbers, parts: Parts) -> Entries:
        """Adds accumulators to windows whose end has passed, as in `add`.

        Returns:
            For each of them what its window has with it and those before it.
        """
        self._fetch(0, slots, ends, starts)
        late = Entries(slots, np.zeros(len(slots), np.int64), ends, starts, parts, False)
        before = self._merge()
        mine = before.select(self._of(slots)[before.slots] & (before.opens == 0))
        running = Entries.concat([mine, late]).running(self._aggregation)
        self._append(late)
        return running.select(np.arange(len(running)) >= len(mine))

    def take_due(self, slots: Numbers, until: int) -> Entries:
        """Ends all windows of these keys that end by `until`; removes those whose time is over.

        Returns:
            Those that end, sorted by key and end.
        """
        mine, ending, gone = self._due(slots, until)
        entries = self._merged
        ended = entries.select(ending)
        removed = entries.select(ending | gone)
        self._remove(removed)
        # Those that are kept get another timer, when their time is over.
        self._untime(entries, mine, ending)
        entries.changed |= ending
        entries.stored &= ~ending
        entries.opens = np.where(ending, 0, entries.opens)
        self._know(entries.select(ending & ~gone))
        self._merged = entries.select(~gone)
        return ended

    def due_timers(self, slots: Numbers, until: int) -> tuple[Numbers, Numbers]:
        """Slots and times of the timers of these keys' windows up to `until`."""
        _, ending, gone = self._due(slots, until)
        entries = self._merged
        due = ending | gone
        return entries.slots[due], self._timer_times(entries)[due]

    def are_due(self, slots: Numbers, times: Numbers, passed: Numbers, until: int) -> Numbers:
        """For which of these timers, which have fired, the windows of a key fire that are due.

        Args:
            slots: the keys.
            times: of the timers; only sessions ask for them.
            passed: which of them are not to fire any more.
            until: windows whose timers are by then are due; only sessions ask for it.
        """
        due: Numbers = ~passed
        return due

    def _timer_times(self, entries: Entries) -> Numbers:
        return np.where(entries.opens == 1, entries.ends - 1, self._cleanup_times(entries))

    def _remove(self, entries: Entries) -> None:
        """Notes that windows are gone, or have another key."""
        known = entries.select(entries.stored)
        if len(known):
            self._removed.append((known.slots, self._keys_of(known)))

    def _due(self, slots: Numbers, until: int) -> tuple[Numbers, Numbers, Numbers]:
        """Which windows are of these keys, which of them end by `until`, and which are over."""
        mine = self._of(slots)
        self._scan_remote(slots, until)
        entries = self._merge()
        mine = mine[entries.slots]
        ending = mine & (entries.opens == 1) & (entries.ends - 1 <= until)
        gone = mine & (ending | (entries.opens == 0)) & (self._cleanup_times(entries) <= until)
        return mine, ending, gone

    def take_untimed(self, start: int, stop: int) -> tuple[Numbers, Numbers]:
        """Slots and times of timers: of each key the first one, with which all fire that are due.

        A key has one in the JVM by the time of its first window, by whatever lateness there was
        when that was set. So it gets another one only when it has a new window, or has lost one.

        A window that the watermark has passed already may fire by a late row in the next
        micro-batch, which takes its timer away. So the first one after it has a timer too.
        """
        low, high = self._between(start, stop)
        slots, timed = self._merged.slots[low:high], self._merged.timed[low:high]
        if timed.all():
            return slots[:0], slots[:0]
        times = self._timer_times(self._merged)[low:high]
        (begins,) = np.nonzero(np.diff(slots, prepend=-1))
        wanted = ~np.logical_and.reduceat(timed, begins)
        timed[:] = True
        slots, firsts = slots[begins][wanted], np.minimum.reduceat(times, begins)[wanted]
        watermark = self._cursor.current_watermark()
        if watermark is not None and (passed := firsts <= watermark).any():
            times = np.where(times <= watermark, _LAST, times)
            nexts = np.minimum.reduceat(times, begins)[wanted]
            slots = np.concatenate([slots, slots[passed]])
            firsts = np.concatenate([firsts, nexts[passed]])
        kept = firsts < _LAST
        return slots[kept], firsts[kept]

    def _take_all_untimed(self, start: int, stop: int) -> tuple[Numbers, Numbers]:
        """Slots and times of timers where each entry has its own, but at the end of all time."""
        low, high = self._between(start, stop)
        (new,) = np.nonzero(~self._merged.timed[low:high])
        self._merged.timed[low:high] = True
        new += low
        times = self._timer_times(self._merged)[new]
        kept = times < _LAST
        return self._merged.slots[new][kept], times[kept]

    def rearm(self, slots: Numbers) -> None:
        """Has keys get their timer again: one of theirs has fired."""
        entries = self._merge()
        entries.timed &= ~self._of(slots)[entries.slots]

    def _untime(self, entries: Entries, mine: Numbers, ending: Numbers) -> None:
        """Notes what lost its timer: entries of these keys, of which some end."""
        entries.timed &= ~mine

    def _of(self, slots: Numbers) -> Numbers:
        """By slot, whether it is one of these."""
        chosen = np.zeros(self._size, np.bool_)
        chosen[slots] = True
        return chosen

    def _cleanup_times(self, entries: Entries) -> Numbers:
        times: Numbers = np.minimum(entries.ends - 1, _LAST - self._lateness) + self._lateness
        return times

    # -- a map that stays with the JVM ----------------------------------------------------------

    def _fetch(self, is_open: int, slots: Numbers, ends: Numbers, starts: Numbers) -> None:
        """Reads the windows of remote maps that are not known."""
        if not self._remote:
            return
        remote = np.isin(slots, list(self._remote))
        rows = zip(slots[remote].tolist(), ends[remote].tolist(), starts[remote].tolist())
        for slot, end, start in set(rows):
            key = (is_open, end, start)
            if key in self._remote[slot]:
                continue
            self._remote[slot].add(key)
            wanted = self._keys(*(np.array([each]) for each in key))
            found = self._cursor.client.get(self.index, slot, wanted)
            if len(found):
                self._append(self._entries(np.array([slot]), wanted, found))

    def _know(self, entries: Entries) -> None:
        """Notes windows of remote maps that got another key, so that they are not read again."""
        if self._remote:
            rows = zip(
                *(a.tolist() for a in (entries.slots, entries.opens, entries.ends, entries.starts))
            )
            for slot, is_open, end, start in rows:
                if slot in self._remote:
                    self._remote[slot].add((is_open, end, start))

    def _scan_remote(self, slots: Numbers, until: int) -> None:
        for slot in self._remote.keys() & set(slots.tolist()):
            self._scan(slot, until)

    def _scan(self, slot: int, until: int) -> None:
        """Reads the windows of a remote map that are due, and one more: a key has one timer."""
        if self._scanned.get(slot, -_LAST) >= until:
            return
        self._scanned[slot] = until
        scan = partial(self._cursor.client.scan, self.index, slot)
        if until >= _LAST - 1:
            self._read(slot, scan([], None, False, LARGEST_PAGE))
            return
        bound = self._bound(until)
        self._read(slot, scan([Bound.END], bound, False, LARGEST_PAGE))
        self._read(slot, islice(scan([Bound.START], bound, False, 1), 1))

    def _bound(self, until: int) -> pa.Array:
        """The first key of windows that end later."""
        return self._keys(*(np.array([each]) for each in (1, until + 2, -_LAST)))

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
        """What is known of a remote map, of entries with these keys."""
        return list(zip(*(part.to_pylist() for part in keys.flatten())))

    # -- between JVM and worker -----------------------------------------------------------------

    def new_generation(self) -> None:
        remote = self._remote
        super().new_generation()
        self._old_remote = remote

    def forget(self) -> None:
        super().forget()
        self._old_remote = {}

    def _sent(self, message: Columns, first: int) -> Entries:
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
        for i in self._away.tolist():
            if old is None or old[i] < 0:
                self._remote[first + i] = set()
        if old is not None and self._old_remote:
            for i, before in enumerate(old.tolist()):
                if before in self._old_remote:
                    self._remote[first + i] = self._old_remote[before]

    def changes(self, start: int, stop: int) -> dict[str, pa.Array]:
        put = self._take_changed(start, stop)
        gone_slots, gone = self._take_removed(start, stop)
        slots = np.flatnonzero(self._of(put.slots) | self._of(gone_slots))
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

    def _entries(self, slots: Numbers, keys: pa.Array, values: pa.Array) -> Entries:
        """Entries as they are stored."""
        opens, ends, starts = (part.to_numpy(zero_copy_only=False) for part in keys.flatten())
        parts = self._aggregation.unpack(values)
        return Entries(slots, opens, ends, starts, parts, True)

    def _keys(self, opens: Numbers, ends: Numbers, starts: Numbers) -> pa.Array:
        columns = [pa.array(column, pa.int64()) for column in (opens, ends, starts)]
        return pa.StructArray.from_arrays(columns, fields=list(self._key_type))

    def _keys_of(self, entries: Entries) -> pa.Array:
        return self._keys(entries.opens, entries.ends, entries.starts)

    def _no_keys(self) -> pa.Array:
        return pa.array([], self._key_type)


def _lists(slots: Numbers, of_slots: Numbers, elements: pa.Array) -> pa.Array:
    """For each slot the list of its elements, which are sorted by slot."""
    bounds = np.append(np.searchsorted(of_slots, slots), len(of_slots))
    return pa.ListArray.from_arrays(pa.array(bounds, pa.int32()), elements)
