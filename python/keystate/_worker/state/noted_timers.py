"""The timers of windows whose rows are kept, by columns: which windows a key's timer is for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from keystate._spec.specs import StateSpec
from keystate._worker.state.column_entries import Entries, sorted_by
from keystate._worker.state.map_columns import MapColumns
from keystate._worker.windows.groups import Groups, Numbers
from keystate._worker.windows.parts import Parts

_LAST = 2**63 - 1


class NotedTimers(MapColumns):
    """The timers of all keys' windows. An entry has its clock as `opens`.

    Its parts are the timer's time, and the bits of those who have set it.

    Args:
        spec: of the state.
        index: of the state.
        cursor: knows the side channel.
        domain: the clock of windows that begin now.
        everyone: the bits of all who can set a timer.
        operator: the operator's.
    """

    def __init__(
        self, spec: StateSpec, index: int, cursor: Any, domain: int, everyone: int, operator: int
    ) -> None:
        self._domain = domain
        self._everyone = everyone
        self._operator = operator
        super().__init__(spec, index, cursor)

    # -- what the operator does -----------------------------------------------------------------

    def note(self, slots: Numbers, ends: Numbers, starts: Numbers) -> None:
        """Notes the timers of windows at their ends, for everyone; harmless where they are noted.

        So it does not matter what a remote map has of them.

        Args:
            slots: the windows' keys.
            ends: their ends, in ms.
            starts: their starts.
        """
        domains = np.full(len(slots), self._domain)
        parts = [ends - 1, np.full(len(slots), self._everyone)]
        self._add(Entries(slots, domains, ends, starts, parts, False))

    def take(self, slots: Numbers, until: int) -> Entries:
        """Takes out the timers of these keys up to a time.

        Returns:
            The operator's. A window's is at its end, or it had ended before a restart and was kept
            for late rows.
        """
        self._scan_remote(slots, until)
        self._adopt(slots)
        entries = self._merge()
        due = self._of(slots)[entries.slots] & (entries.opens == self._domain)
        taken = self._take(due & (entries.parts[0] <= until))
        taken = taken.select(taken.parts[1] & self._operator != 0)
        self._forget_windows(taken)
        return taken

    def _forget_windows(self, gone: Entries) -> None:
        """Removes other timers of these windows: the other clock had kept them for late rows."""
        entries = self._merged
        if len(gone) == 0 or np.array_equal(entries.parts[0], entries.ends - 1):
            return
        windows = Entries.concat([gone.windows(), entries.windows()]).groups().ids()
        self._take(np.isin(windows[len(gone) :], windows[: len(gone)]))

    def adopt(self, slots: Numbers) -> None:
        """Has the operator's timers of these keys by the other clock be by this one.

        They were set before a restart.
        """
        self._scan_remote(slots, _LAST)
        self._adopt(slots)

    def _adopt(self, slots: Numbers) -> None:
        entries = self._merge()
        others = entries.opens != self._domain
        if not others.any():
            return
        taken = self._take(others & self._of(slots)[entries.slots])
        taken = taken.select(taken.parts[1] & self._operator != 0)
        domains, whose = (np.full(len(taken), n) for n in (self._domain, self._operator))
        parts = [taken.parts[0], whose]
        self._add(Entries(taken.slots, domains, taken.ends, taken.starts, parts, False))

    def _add(self, timers: Entries) -> None:
        if self._remote:
            # They may be there: so they are removed there too.
            timers.stored = np.isin(timers.slots, list(self._remote))
            far = timers.select(timers.stored)
            for slot, name in zip(far.slots.tolist(), self._names(self._keys_of(far))):
                self._remote[slot].add(name)
        self._append(timers)

    def _take(self, chosen: Numbers) -> Entries:
        entries = self._merged
        taken = entries.select(chosen)
        if len(taken):
            self._remove(taken)
            self._merged = entries.select(~chosen)
        return taken

    def _together(self, entries: Entries) -> Entries:
        if np.array_equal(entries.parts[0], entries.ends - 1):
            groups = entries.groups()
        else:
            columns = (entries.slots, entries.opens, entries.parts[0], entries.ends, entries.starts)
            order, differs = sorted_by(*columns)
            groups = Groups(order, np.concatenate([[0], np.flatnonzero(differs) + 1]))
        # What the JVM has came first, and stays as it is unless there is more to note.
        merged = entries.take(groups.order[groups.starts])
        whose = np.bitwise_or.reduceat(entries.parts[1][groups.order], groups.starts)
        merged.changed |= whose != merged.parts[1]
        merged.parts[1] = whose
        return merged

    # -- keys and values ------------------------------------------------------------------------

    def _bound(self, until: int) -> pa.Array:
        return self._keys(*(np.array([each]) for each in (self._domain, until + 1, -_LAST, -_LAST)))

    def _entries(self, slots: Numbers, keys: pa.Array, values: pa.Array) -> Entries:
        domains, times, ends, starts = (
            part.to_numpy(zero_copy_only=False) for part in keys.flatten()
        )
        whose = values.to_numpy(zero_copy_only=False).astype(np.int64)
        return Entries(slots, domains, ends, starts, [times, whose], True)

    def _keys_of(self, entries: Entries) -> pa.Array:
        return self._keys(entries.opens, entries.parts[0], entries.ends, entries.starts)

    def _values(self, parts: Parts) -> pa.Array:
        return pa.array(parts[1], self._codec.arrow)
