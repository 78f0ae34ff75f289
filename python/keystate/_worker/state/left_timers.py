"""The timers that windows had before a restart, where rows of windows came one by one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keystate._protocol import Part, state_column
from keystate._spec import StateSpec
from keystate._worker.messages.columns import Columns
from keystate._worker.state.emptied_maps import EmptiedMap
from keystate._worker.state.maps import LARGEST_PAGE


class LeftTimers(EmptiedMap):
    """The timers of windows, which are deleted; they tell which windows have ended.

    Args:
        spec: of the state.
        index: of the state.
        cursor: knows the side channel.
        operator: the bit of a timer that is the operator's.
    """

    def __init__(self, spec: StateSpec, index: int, cursor: Any, operator: int) -> None:
        super().__init__(spec, index, cursor)
        self._operator = operator
        self._left: list[tuple[Any, pa.Array, pa.Array]] = []  # slots, keys and values
        self._away: list[int] = []  # slots whose map stays with the JVM

    def take_ended(self, domain: int) -> set[tuple[int, int, int]]:
        """Slots, ends and starts of windows of the keys that have come since, if they have ended.

        Their timer is later than at their end: when they would have been too old for late rows.
        """
        for slot in self._away:
            pages = self._cursor.client.scan(self.index, slot, [], None, False, LARGEST_PAGE)
            for (keys, values), _, _ in pages:
                self._left.append((np.full(len(keys), slot), keys, values))
        ended: set[tuple[int, int, int]] = set()
        for slots, keys, values in self._left:
            clocks, times, ends, starts = (
                part.to_numpy(zero_copy_only=False) for part in keys.flatten()
            )
            whose = values.to_numpy(zero_copy_only=False)
            late = (clocks == domain) & (times >= ends) & (whose & self._operator != 0)
            ended.update(zip(*(c[late].tolist() for c in (slots, ends, starts))))
        self._left, self._away = [], []
        return ended

    def new_generation(self) -> None:
        super().new_generation()
        self._left, self._away = [], []

    def load(self, message: Columns, carried: list[int] | None) -> None:
        first = self._size
        super().load(message, carried)
        lists = message.elements(state_column(self.index, Part.KEYS))
        lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy()
        if lengths.any():
            values = message.elements(state_column(self.index, Part.VALUES)).flatten()
            slots = np.repeat(np.arange(first, self._size), lengths)
            self._left.append((slots, lists.flatten(), values))
        if lists.null_count:
            away = lists.is_null().to_numpy(zero_copy_only=False)
            if carried is not None:
                away &= np.array(carried) < 0
            self._away += (first + np.flatnonzero(away)).tolist()
