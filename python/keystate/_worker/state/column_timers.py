"""The timers of windows by columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from keystate._worker.messages.columns import list_column
from keystate._worker.state.timers import TYPES, WorkerTimers
from keystate._worker.state.window_columns import WindowColumns
from keystate._worker.windows.groups import Numbers


class ColumnTimers(WorkerTimers):
    """Sets the timers that the state's windows are still to have.

    Args:
        state: the state.
        domain: the timers' clock.
    """

    def __init__(self, state: WindowColumns, domain: int) -> None:
        super().__init__()
        self._state = state
        self._domain = domain
        self._fired: list[list[Numbers]] = []  # slots, domains and times

    def fired(self, slots: Numbers, domains: Numbers, times: Numbers) -> None:
        """Notes timers that have fired."""
        self._fired.append([slots, domains, times])

    def new_generation(self) -> None:
        self._fired = []

    def forget(self) -> None:
        self.new_generation()

    def load(self, new_keys: int, carried: list[int] | None) -> None:
        """Does nothing: the state knows which windows have a timer."""

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
