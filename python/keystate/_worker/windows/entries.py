"""Entries of grouped windows: which key and window each is of, what it holds, and its timer."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from keystate._worker.windows.groups import Groups, Numbers, stable_order
from keystate._worker.windows.parts import Parts, concatenated, filtered, taken

#: The time of a timer that need not be set: the JVM has it, or the window ends with all time.
NO_TIMER = 2**63 - 1


class Entries:
    """What windows of keys hold, in any order.

    Attributes:
        slots: their keys.
        ends: their windows' ends, in ms.
        starts: their windows' starts, in ms.
        parts: what they hold.
        timers: for when a timer is to be set, in ms.
        changed: which of them differ from what the JVM has.
        stored: which of them the JVM has, maybe as they were before.
    """

    def __init__(
        self, slots: Numbers, ends: Numbers, starts: Numbers, parts: Parts, timers: Numbers | None
    ) -> None:
        """Makes entries.

        Args:
            slots: their keys.
            ends: their windows' ends.
            starts: their windows' starts.
            parts: what they hold.
            timers: those of new windows; ``None`` of windows that the JVM has.
        """
        count, is_new = len(slots), timers is not None
        self.slots = slots
        self.ends = ends
        self.starts = starts
        self.parts = parts
        self.timers = np.full(count, NO_TIMER) if timers is None else timers
        self.changed = np.full(count, is_new)
        self.stored = np.full(count, not is_new)

    def __len__(self) -> int:
        return len(self.slots)

    def nbytes(self) -> int:
        """The bytes of what they hold; of Python objects those of their addresses."""
        return sum(part.nbytes for part in self.parts)

    def select(self, mask: Numbers) -> Entries:
        """The entries where `mask` is true. If it is true everywhere, the result shares memory."""
        if mask.all():
            return self._like(self._columns(), list(self.parts))
        return self._like([c[mask] for c in self._columns()], filtered(self.parts, mask))

    def take(self, places: Numbers) -> Entries:
        """The entries at these places, in this order."""
        return self._like([c[places] for c in self._columns()], taken(self.parts, places))

    def slice(self, start: int, stop: int) -> Entries:
        """The entries from one place up to another. The result shares memory with these."""
        parts = [part[start:stop] for part in self.parts]
        return self._like([c[start:stop] for c in self._columns()], parts)

    def _columns(self) -> list[Numbers]:
        flags = [self.timers, self.changed, self.stored]
        return [self.slots, self.ends, self.starts, *flags]

    @staticmethod
    def _like(columns: list[Numbers], parts: Parts) -> Entries:
        slots, ends, starts, timers, changed, stored = columns
        made = Entries(slots, ends, starts, parts, timers)
        made.changed, made.stored = changed, stored
        return made

    @staticmethod
    def concat(chunks: list[Entries]) -> Entries:
        """All of these, in their order; the only ones that are not empty are themselves."""
        chunks = [chunk for chunk in chunks if len(chunk)] or chunks[:1]
        if len(chunks) == 1:
            return chunks[0]
        columns = [np.concatenate(each) for each in zip(*(c._columns() for c in chunks))]
        return Entries._like(columns, concatenated(chunk.parts for chunk in chunks))

    def merged(self, merge: Callable[[Groups, Parts], Parts]) -> Entries:
        """One for each key and window, sorted by slot and end.

        What the JVM has came first, and needs no timer.

        Args:
            merge: makes what each group of them holds.
        """
        groups = grouped(self.slots, self.ends, self.starts)
        if groups.are_alone:
            return self._like(self._columns(), merge(groups, self.parts))
        columns = [
            *(groups.heads(column) for column in self._columns()[:4]),
            groups.any(self.changed),
            groups.any(self.stored),
        ]
        return self._like(columns, merge(groups, self.parts))


def grouped(slots: Numbers, ends: Numbers, starts: Numbers) -> Groups:
    """Groups of windows with the same key, end and start, sorted by slot and end."""
    if len(slots) == 0:
        return Groups.alone(0)
    size = ends - starts
    first = int(ends.min())
    span = int(ends.max()) - first + 1
    if np.all(size == size[0]) and span * (int(slots.max()) + 1) < 2**63:
        code = slots * span + (ends - first)
        if np.all(np.diff(code) > 0):  # as what the JVM sends is
            return Groups.alone(len(slots))
        order = stable_order(code)
        differs = np.diff(code[order]) != 0
    else:
        order = np.lexsort((starts, ends, slots))
        columns = (slots, ends, starts)
        differs = np.any([np.diff(column[order]) != 0 for column in columns], axis=0)
    return Groups(order, np.concatenate([[0], np.flatnonzero(differs) + 1]))
