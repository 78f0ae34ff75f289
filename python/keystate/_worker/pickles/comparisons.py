"""How long tables take to build whose keys somebody else chose.

Hashes of numbers are known, so there can be keys that all have the same one. Then each is compared
with all before it, which for a file of a few megabytes takes days.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from typing import Any


class TooMuch(ValueError):
    """It would take far longer than honest data of this size."""


class Table:
    """The keys of one table, by their hashes."""

    def __init__(self) -> None:
        self.first: dict[int, Any] = {}
        self.groups: dict[int, tuple[int, int]] = {}  # if there are more: number and costs


class Comparisons:
    """Counts the comparisons of keys in tables, before the tables are built."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, keys: Iterable[Any], table: Table | None = None) -> None:
        """For keys that come into a table."""
        table = table or Table()
        for key in keys:
            code = hash(key)
            if code not in table.first:
                table.first[code] = key
                continue
            number, costs = table.groups.get(code) or (1, _cost(table.first[code]))
            cost = _cost(key)
            table.groups[code] = number + 1, costs + cost
            self._count += number * cost + costs

    def check(self, size: int) -> None:
        """Raises: TooMuch: they are more than data of so many bytes may need."""
        if self._count > 1_000_000 + 100 * size:
            raise TooMuch("too many of its keys have the same hash")


def _cost(value: Any) -> int:
    """How much work it may be to compare it with another value of the same hash."""
    if isinstance(value, tuple):
        return 1 + sum(map(_cost, value))
    if isinstance(value, frozenset):
        hashes: dict[int, int] = {}
        for each in value:
            hashes[hash(each)] = hashes.get(hash(each), 0) + 1
        return 1 + sum(hashes[hash(each)] * _cost(each) for each in value)
    size = sys.getsizeof(value) // 64
    # Numbers of different types are converted, which takes the square of their lengths.
    return 1 + (size * size if isinstance(value, (int, Decimal, Fraction)) else size)
