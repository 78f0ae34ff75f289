"""The timers of accumulators by columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from keystate._worker.aggregates.groups import Numbers
from keystate._worker.messages.columns import list_column
from keystate._worker.state.column_state import ColumnState
from keystate._worker.state.timers import TYPES, WorkerTimers


class ColumnTimers(WorkerTimers):
    """Sets the timers that the state's entries are still to have.

    Args:
        state: the state.
        domain: the timers' clock.
    """

    def __init__(self, state: ColumnState, domain: int) -> None:
        super().__init__()
        self._state = state
        self._domain = domain
        self._fired: list[list[Numbers]] = []  # slots, domains and times
        #: By slot, whether all its timers up to `_past` have been passed in this micro-batch.
        self._passed = self._old_passed = np.zeros(0, np.bool_)
        self._past = 0

    def to_pass(self, slots: Numbers) -> Numbers:
        """Those of these slots that have not been passed in this micro-batch, each once."""
        wanted = np.zeros(len(self._passed), np.bool_)
        wanted[slots] = True
        return np.flatnonzero(wanted & ~self._passed)

    def pass_by(self, slots: Numbers, until: int, of_timers: Numbers, times: Numbers) -> None:
        """Notes that no timers of these slots up to a time are to fire any more.

        Args:
            slots: the slots.
            until: the time; the same in the whole micro-batch.
            of_timers: the slots of the timers that they have until then.
            times: these timers' times.
        """
        self._passed[slots] = True
        self._past = until
        self._fired.append([of_timers, np.full(len(times), self._domain), times])

    def are_passed(self, slots: Numbers, times: Numbers) -> Numbers:
        """Which of these timers are not to fire any more."""
        passed: Numbers = self._passed[slots] & (times <= self._past)
        return passed

    def fired(self, slots: Numbers, domains: Numbers, times: Numbers) -> None:
        """Notes timers that have fired."""
        self._fired.append([slots, domains, times])

    def new_generation(self) -> None:
        self._fired = []
        self._old_passed = self._passed
        self._passed = np.zeros(0, np.bool_)

    def forget(self) -> None:
        self.new_generation()
        self._old_passed = self._passed

    def load(self, new_keys: int, carried: list[int] | None) -> None:
        """Makes room for new slots. The state knows which entries have a timer."""
        passed = np.zeros(new_keys, np.bool_)
        if carried is not None:
            old = np.array(carried)
            passed[old >= 0] = self._old_passed[old[old >= 0]]
        self._passed = np.concatenate([self._passed, passed])

    def learn_gone(self, timers: list[tuple[int, int, int]]) -> None:
        """Does nothing: the state knows which timers there are."""

    def changes(self, start: int, stop: int) -> dict[str, pa.Array]:
        columns = zip(TYPES.items(), self._take(start, stop))
        return {name: list_column(pa.array(values, kind)) for (name, kind), values in columns}

    def _take(self, start: int, stop: int) -> list[Numbers]:
        """Slots, domains, times, and whether they are set, of what changed in these slots."""
        slots, times = self._state.take_untimed(start, stop)
        set_ = [np.full(len(slots), self._domain), times, np.full(len(slots), True)]
        dead, before = self._state.take_dead_timers(start, stop)
        lost = [dead, np.full(len(dead), self._domain), before, np.full(len(dead), False)]
        taken, left = [lost, [slots, *set_]], []
        for fired in self._fired:
            here = (fired[0] >= start) & (fired[0] < stop)
            if here.any():
                mine = [column[here] for column in fired]
                taken.insert(0, [*mine, np.full(len(mine[0]), False)])
            if not here.all():
                left.append([column[~here] for column in fired])
        self._fired = left
        return [np.concatenate(columns) for columns in zip(*taken)]
