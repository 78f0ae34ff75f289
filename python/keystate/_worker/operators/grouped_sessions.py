"""Sessions at work in a subtask whose rows are grouped.

Which sessions meet is as if the rows came one by one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from keystate._worker.operators.grouped_windows import GroupedWindowsOperator
from keystate._worker.operators.windows import NO_WATERMARK
from keystate._worker.windows.groups import Numbers
from keystate._worker.windows.parts import taken
from keystate._worker.windows.session_columns import SessionColumns


class GroupedSessionsOperator(GroupedWindowsOperator):
    """Sessions with one gap and their default trigger, of folds."""

    _state: SessionColumns
    _folded_class = SessionColumns

    def _copy(self) -> Callable[[Any], Any] | None:
        return None

    def _run(self, slots: pa.Array, rows: pa.RecordBatch, results: list[Any]) -> None:
        if len(slots) == 0:
            return
        windows = self._windows
        starts, closed = self._times(slots, rows)
        ends = starts + windows.assigner.gap
        gone = max(closed - windows.lateness, NO_WATERMARK)
        self._state.drop_gone(gone)
        of_keys = slots.to_numpy().astype(np.int64)
        parts = self._lift(rows)
        late = ends <= closed
        if not late.any():
            self._state.add(of_keys, ends, starts, parts)
            return
        too_late = self._state.meet_none(of_keys, ends, starts, gone)
        of_late = np.isin(of_keys, of_keys[late & ~too_late])
        (plain,) = np.nonzero(~(too_late | of_late))
        if len(plain):
            self._state.add(of_keys[plain], ends[plain], starts[plain], taken(parts, plain))
        (left,) = np.nonzero(~too_late & of_late)
        with self._state.only(of_keys[left]) if len(left) else nullcontext():
            for chosen, is_late in _in_turns(of_keys[left], late[left]):
                places = left[chosen]
                added = of_keys[places], ends[places], starts[places], taken(parts, places)
                if is_late:
                    too_late[places], ended = self._state.add_late_sessions(*added, gone)
                    self._emit(ended, results, by_timer=False)
                else:
                    self._state.add(*added)
        self._take_late(rows, too_late, results)


def _in_turns(slots: Numbers, late: Numbers) -> list[tuple[Numbers, bool]]:
    """Rows as they are added: of each key in their order, late rows one by one.

    Whether a row is late depends on the sessions that there are when it comes. Of rows that are not
    late the order makes no difference, so all that come one after the other are added at once.
    """
    if len(slots) == 0:
        return []
    order = np.argsort(slots, kind="stable")
    mine, is_late = slots[order], late[order]
    is_first = np.concatenate([[True], np.diff(mine) != 0])
    begins = is_late | np.concatenate([[False], is_late[:-1]])
    begins[is_first] = False
    turns = np.cumsum(begins)
    turns -= np.repeat(turns[is_first], np.diff(np.flatnonzero(is_first), append=len(turns)))
    taken = []
    by_turn = np.argsort(turns, kind="stable")
    bounds = np.searchsorted(turns[by_turn], np.arange(int(turns.max()) + 2))
    for start, stop in pairwise(bounds):
        here = by_turn[start:stop]
        for value in (False, True):
            chosen = here[is_late[here] == value]
            if len(chosen):
                taken.append((order[chosen], value))
    return taken
