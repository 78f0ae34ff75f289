"""Which entries of windows belong together."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

Numbers = np.ndarray[Any, np.dtype[Any]]


def stable_order(numbers: Numbers) -> Numbers:
    """The places of integers that are not negative, from the least on; equal ones as they come.

    Each is sorted with its place in its lower bits, where both fit: NumPy sorts numbers several
    times as fast as their places.
    """
    count = len(numbers)
    bits = count.bit_length()
    if count == 0 or int(numbers.max()) >> (63 - bits):
        return np.argsort(numbers, kind="stable")
    packed: Numbers = (numbers.astype(np.int64) << bits) | np.arange(count)
    packed.sort()
    packed &= (1 << bits) - 1
    return packed


class Groups:
    """Which values belong together.

    Args:
        order: the places of the values, group by group; within a group as they came.
        starts: where in it each group begins.
    """

    def __init__(self, order: Numbers, starts: Numbers) -> None:
        self.order = order
        self.starts = starts
        #: Whether each value is a group of its own, in the order in which they come.
        self.are_alone = False

    @classmethod
    def alone(cls, count: int) -> Groups:
        """Each of so many values a group of its own."""
        each = np.arange(count)
        groups = cls(each, each)
        groups.are_alone = True
        return groups

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def sizes(self) -> Numbers:
        """How many values each group has."""
        return np.diff(self.starts, append=len(self.order))

    def ids(self) -> Numbers:
        """For each value the number of its group."""
        ids = np.empty(len(self.order), np.int64)
        ids[self.order] = np.repeat(np.arange(len(self)), self.sizes)
        return ids

    def heads(self, values: Numbers) -> Numbers:
        """The first value of each group."""
        return values[self.order[self.starts]]

    def any(self, flags: Numbers) -> Numbers:
        """Whether a flag is set in each group."""
        if len(self) == 0:
            return flags[:0]
        if flags.all() or not flags.any():
            return np.full(len(self), bool(flags[0]))
        reduced: Numbers = np.logical_or.reduceat(flags[self.order], self.starts)
        return reduced
