"""States of accumulators by columns, without an object for a key.

Rows are added as accumulators of their own. They are merged with others when there are enough of
them, and when the state is asked for what it has.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from keystate._spec.specs import StateSpec
from keystate._worker.aggregates.accumulators import Accumulation
from keystate._worker.aggregates.groups import Numbers
from keystate._worker.messages.columns import Columns
from keystate._worker.state.column_entries import Entries
from keystate._worker.state.worker_state import WorkerState

#: So many bytes of accumulators wait at most to be merged, or a fourth of what merged ones have.
#: Arrow puts no more than 2 GiB of strings together.
_MOST_BYTES = 64 << 20

_NONE: Numbers = np.empty(0, np.int64)


class ColumnState(WorkerState):
    """The accumulators of all keys."""

    #: So many entries are merged at a time, or as many as there are merged ones.
    _merged_at_once = 200_000

    def __init__(self, spec: StateSpec, index: int, cursor: Any, aggregation: Accumulation) -> None:
        super().__init__(spec, index, cursor)
        self._aggregation = aggregation
        self._none = self._no_entries()
        self._size = self._old_size = 0
        self._old = self._none
        self._clear()

    @abstractmethod
    def _no_entries(self) -> Entries:
        """None, with parts of their types."""

    def take_untimed(self, start: int, stop: int) -> tuple[Numbers, Numbers]:
        """Slots and times of the timers that entries of these slots are still to have."""
        return _NONE, _NONE

    def take_dead_timers(self, start: int, stop: int) -> tuple[Numbers, Numbers]:
        """Slots and times of the timers that entries of these slots are to lose."""
        return _NONE, _NONE

    def _clear(self) -> None:
        self._merged = self._none
        self._added: list[Entries] = []  # since they were merged
        self._waiting = self._waiting_bytes = 0

    def clear(self) -> None:
        raise NotImplementedError("accumulators are taken out when they are due")

    def _wait(self, entries: Entries) -> None:
        self._added.append(entries)
        self._waiting += len(entries)
        self._waiting_bytes += entries.nbytes()

    def _append(self, entries: Entries) -> None:
        self._wait(entries)
        many = self._waiting > max(self._merged_at_once, len(self._merged))
        if many or self._waiting_bytes > max(_MOST_BYTES, self._merged.nbytes() // 4):
            self._merge()

    def settle(self) -> None:
        """Merges what is waiting."""
        self._merge()

    def _merge(self) -> Entries:
        """All entries, one for each key and window, sorted by slot."""
        if self._added:
            self._merged = self._together(Entries.concat([self._merged, *self._added]))
            self._added = []
            self._waiting = self._waiting_bytes = 0
        return self._merged

    def _together(self, entries: Entries) -> Entries:
        """All of these as they are to be: those that were merged before come first."""
        return entries.merged(self._aggregation)

    def _between(self, start: int, stop: int) -> tuple[int, int]:
        """Where the entries of these slots begin and end."""
        low, high = np.searchsorted(self._merge().slots, [start, stop])
        return int(low), int(high)

    def _take_changed(self, start: int, stop: int) -> Entries:
        """Takes the entries of these slots that changed since the last answer, for the JVM."""
        low, high = self._between(start, stop)
        mine = self._merged.slice(low, high)
        # Not a slice: Arrow makes offsets of 32 bits only of those that are small to begin with.
        put = mine.take(np.flatnonzero(mine.changed))
        mine.changed[:] = False
        mine.stored[:] = True
        return put

    # -- between JVM and worker -----------------------------------------------------------------

    def new_generation(self) -> None:
        self._old, self._old_size = self._merge(), self._size
        self._size = 0
        self._clear()

    def forget(self) -> None:
        self._clear()
        self._size = self._old_size = 0
        self._old = self._none

    def load(self, message: Columns, carried: list[int] | None) -> None:
        first = self._size
        sent = self._sent(message, first)
        old = None if carried is None else np.array(carried)
        self._loaded(first, old)
        # They are merged later: that may call the user's function.
        if len(sent):
            self._wait(sent)
        if old is not None and (old >= 0).any():
            self._wait(self._carried(first, old))

    @abstractmethod
    def _sent(self, message: Columns, first: int) -> Entries:
        """What a message brings of its new keys, which get the slots from `first` on."""

    def _loaded(self, first: int, old: Numbers | None) -> None:
        """Called with new slots, and for each the slot before; -1 if there was none."""

    def _carried(self, first: int, old: Numbers) -> Entries:
        mine = self._carried_slots(first, old, self._old.slots)
        entries = self._old.select(mine >= 0)
        entries.slots = mine[mine >= 0]
        return entries

    def _carried_slots(self, first: int, old: Numbers, slots: Numbers) -> Numbers:
        """What slots of the generation before are in this one; -1 where their key is not carried.

        Args:
            first: the first of the new slots.
            old: for each of them the one that it had before; -1 if it had none.
            slots: of the generation before.
        """
        new_slots = np.full(self._old_size, -1)
        (kept,) = np.nonzero(old >= 0)
        new_slots[old[kept]] = first + kept
        carried: Numbers = new_slots[slots]
        return carried
