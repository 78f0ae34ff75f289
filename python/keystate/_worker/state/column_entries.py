"""Entries of windows by columns: which key and window each is of, and what it holds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from keystate._worker.windows.groups import Groups, Numbers, stable_order
from keystate._worker.windows.parts import Parts, concatenated, filtered, taken


class Entries:
    """What windows of keys hold, in any order.

    Attributes:
        slots: their keys.
        opens: 1 while a window's end is to come, else 0.
        ends: their windows' ends, in ms.
        starts: their windows' starts, in ms.
        parts: what they hold.
        changed: which of them differ from what the JVM has.
        timed: which of them have a timer.
        stored: which of them the JVM has, maybe as they were before.
    """

    def __init__(
        self,
        slots: Numbers,
        opens: Numbers,
        ends: Numbers,
        starts: Numbers,
        parts: Parts,
        is_stored: bool,
    ) -> None:
        self.slots = slots
        self.opens = opens
        self.ends = ends
        self.starts = starts
        self.parts = parts
        self.changed = np.full(len(slots), not is_stored)
        self.timed = np.full(len(slots), is_stored)
        self.stored = np.full(len(slots), is_stored)

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

    def windows(self) -> Entries:
        """Their keys and windows alone."""
        ones = np.ones(len(self), np.int64)
        return Entries(self.slots, ones, self.ends, self.starts, [], True)

    def _columns(self) -> list[Numbers]:
        flags = [self.changed, self.timed, self.stored]
        return [self.slots, self.opens, self.ends, self.starts, *flags]

    @staticmethod
    def _like(columns: list[Numbers], parts: Parts) -> Entries:
        slots, opens, ends, starts, changed, timed, stored = columns
        made = Entries(slots, opens, ends, starts, parts, True)
        made.changed, made.timed, made.stored = changed, timed, stored
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
        """One for each key and window, sorted by slot, and then as the JVM has them.

        Args:
            merge: makes what each group of them holds.
        """
        groups = self.groups()
        if groups.are_alone:
            return self._like(self._columns(), merge(groups, self.parts))
        columns = [
            *(groups.heads(column) for column in self._columns()[:4]),
            groups.any(self.changed),
            groups.any(self.timed),
            groups.any(self.stored),
        ]
        return self._like(columns, merge(groups, self.parts))

    def groups(self) -> Groups:
        """Groups of entries with the same key and window, sorted by slot, then in JVM order."""
        if len(self) == 0:
            return Groups.alone(0)
        size = self.ends - self.starts
        first = int(self.ends.min())
        span = int(self.ends.max()) - first + 1
        opens = int(self.opens.max()) + 1
        if np.all(size == size[0]) and span * opens * (int(self.slots.max()) + 1) < 2**63:
            code = (self.slots * opens + self.opens) * span + (self.ends - first)
            if np.all(np.diff(code) > 0):  # as what the JVM sends is
                return Groups.alone(len(self))
            order = stable_order(code)
            differs = np.diff(code[order]) != 0
        else:
            order, differs = sorted_by(self.slots, self.opens, self.ends, self.starts)
        return Groups(order, np.concatenate([[0], np.flatnonzero(differs) + 1]))


def sorted_by(*columns: Numbers) -> tuple[Numbers, Numbers]:
    """The order by these, the first one first; and which of those in it differ from the one before.

    The first of them is not among those that may differ.
    """
    order = np.lexsort(columns[::-1])
    return order, np.any([np.diff(column[order]) != 0 for column in columns], axis=0)
