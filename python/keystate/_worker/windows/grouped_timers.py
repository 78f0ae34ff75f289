"""The timers of grouped windows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from keystate._spec.protocol import Answer
from keystate._worker.messages.columns import SlotTimer, list_column
from keystate._worker.state.timers import DELETED, SET, WorkerTimers
from keystate._worker.windows.window_columns import WindowColumns, all_timers


class GroupedTimers(WorkerTimers):
    """Sets the timers that the state's windows are still to have.

    Args:
        state: the state.
        domain: the timers' clock.
    """

    def __init__(self, state: WindowColumns, domain: int) -> None:
        super().__init__(windows=True)
        self._state = state
        self._domain = domain

    def load(self, new_keys: int, carried: list[int] | None) -> None:
        """Does nothing: the state knows which windows are to have a timer."""

    def learn_gone(self, timers: list[SlotTimer]) -> None:
        """Does nothing, as `load`."""

    def changes(self, start: int, stop: int) -> dict[str, pa.Array]:
        lost, new = self._state.take_dead_timers(start, stop), self._state.take_timers()
        slots, times, ends, starts = all_timers([lost, new])
        if len(slots) == 0:
            return self.no_changes()
        columns = {
            Answer.TIMER_KEY_INDEX: slots,
            Answer.TIMER_DOMAIN: np.full(len(slots), self._domain),
            Answer.TIMER_TIME: times,
            Answer.TIMER_SET: np.repeat([DELETED, SET], [len(lost[0]), len(new[0])]),
            Answer.TIMER_WINDOW_END: ends,
            Answer.TIMER_WINDOW_START: starts,
        }
        types = self._types
        return {name: list_column(pa.array(each, types[name])) for name, each in columns.items()}
