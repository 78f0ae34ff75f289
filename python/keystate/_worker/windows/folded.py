"""Accumulators that the user's function makes, for many windows at once."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from keystate._types.codec import Codec, Misfit
from keystate._worker.messages.encoding import encode_all
from keystate._worker.windows.groups import Groups, Numbers
from keystate._worker.windows.parts import Parts, objects


class Fold(Protocol):
    """Makes one accumulator of rows; ``None`` is that of no rows."""

    #: Of the accumulators.
    codec: Codec

    def add(self, row: Any, accumulator: Any) -> Any:
        """The accumulator with a row in it."""

    def merge(self, a: Any, b: Any) -> Any:
        """The accumulator of both."""


class FoldedRows:
    """Accumulators of rows, as Python has them.

    Their parts are whether it is a row that is still to be added, and the row or the accumulator.
    In a group an accumulator takes the place of what comes before it.

    Args:
        fold: adds a row.
        copy: of a row that other windows are given too; ``None`` if there is no need for one.
    """

    def __init__(self, fold: Fold, copy: Callable[[Any], Any] | None) -> None:
        self._fold = fold
        self._copy = copy
        #: The place of the row that was being added when the function failed.
        self.failed_at: int | None = None
        #: Makes the error of an accumulator that is packed, by its index.
        self.blame: Callable[[int | None, Misfit], Exception] = lambda _, error: error

    @staticmethod
    def of_rows(rows: list[Any]) -> Parts:
        """The parts of rows that are to be added."""
        return [np.full(len(rows), True), objects(rows)]

    @staticmethod
    def of_accumulators(accumulators: list[Any]) -> Parts:
        """The parts of accumulators."""
        return [np.full(len(accumulators), False), objects(accumulators)]

    def add(self, row: Any, accumulator: Any) -> Any:
        """The accumulator with a row in it, as it will be read when it was stored.

        Raises:
            Misfit: it is not of its type.
        """
        codec = self._fold.codec
        added = self._fold.add(row if self._copy is None else self._copy(row), accumulator)
        return added if type(added) is codec.plain else codec.as_read(added)

    def merge(self, groups: Groups, parts: Parts) -> Parts:
        """The accumulator of each group."""
        are_rows, values = parts
        if len(groups) == 0:
            return [are_rows[:0], values[:0]]
        merged = values[groups.order[groups.starts]]
        (touched,) = np.nonzero(self._touched(groups, are_rows))
        self._merge(groups, touched, are_rows, values, merged)
        return [np.full(len(groups), False), merged]

    @staticmethod
    def _touched(groups: Groups, are_rows: Numbers) -> Numbers:
        touched: Numbers = groups.any(are_rows) | (groups.sizes > 1)
        return touched

    def merge_sessions(self, groups: Groups, parts: Parts, starts: Numbers, ends: Numbers) -> Parts:
        """The accumulator of each group, where groups are sessions and are sorted by start.

        Each row is added, in the order in which they came, to the session that it meets then. So
        one that brings sessions together is added to what their accumulators are merged to.

        Args:
            groups: of the entries. Rows come after accumulators.
            parts: of the entries.
            starts: of the entries as sessions of their own, in ms.
            ends: of these.
        """
        are_rows, values = parts
        if len(groups) == 0:
            return [are_rows[:0], values[:0]]
        merged = values[groups.order[groups.starts]]
        touched = self._touched(groups, are_rows)
        # Where rows come in the order of their starts, each meets the one session that there is.
        falls = np.append(False, np.diff(groups.order) < 0)
        falls[groups.starts] = False
        accumulators = np.add.reduceat(~are_rows[groups.order], groups.starts, dtype=np.int64)
        mixed = np.logical_or.reduceat(falls, groups.starts) | (accumulators > 1)
        self._merge(groups, np.flatnonzero(touched & ~mixed), are_rows, values, merged)
        for number in np.flatnonzero(mixed).tolist():
            first = groups.starts[number]
            places = np.sort(groups.order[first : first + groups.sizes[number]])
            columns = (places, are_rows[places], values[places], starts[places], ends[places])
            merged[number] = self._meet(*(column.tolist() for column in columns))
        return [np.full(len(groups), False), merged]

    def _meet(
        self,
        places: list[int],
        are_rows: list[bool],
        values: list[Any],
        starts: list[int],
        ends: list[int],
    ) -> Any:
        """The accumulator of entries that are one session in the end."""
        begin: list[int] = []  # of each session so far, sorted
        until: list[int] = []
        held: list[Any] = []
        for place, is_row, value, start, end in zip(places, are_rows, values, starts, ends):
            self.failed_at = place
            first, after = bisect_left(until, start), bisect_right(begin, end)
            if is_row:
                value = self.add(value, self._merged(held[first:after]))
                start, end = min([start, *begin[first:after]]), max([end, *until[first:after]])
            else:
                after = first
            begin[first:after], until[first:after], held[first:after] = [start], [end], [value]
        accumulator = self._merged(held)
        self.failed_at = None
        return accumulator

    def _merged(self, accumulators: list[Any]) -> Any:
        """The accumulator of all; ``None`` if they are of no rows."""
        merged = None
        for each in accumulators:
            if merged is None:
                merged = each
            elif each is not None:
                merged = self._fold.codec.as_read(self._fold.merge(merged, each))
        return merged

    def _merge(
        self, groups: Groups, touched: Numbers, are_rows: Numbers, values: Numbers, merged: Numbers
    ) -> None:
        flags, ordered = are_rows[groups.order].tolist(), values[groups.order].tolist()
        starts = groups.starts[touched]
        bounds = zip(touched.tolist(), starts.tolist(), (starts + groups.sizes[touched]).tolist())
        fold, copy, codec = self._fold.add, self._copy, self._fold.codec
        plain, as_read = codec.plain, codec.as_read
        at = 0
        try:
            for number, start, stop in bounds:
                accumulator = None
                for at in range(start, stop):
                    each = ordered[at]
                    if not flags[at]:
                        accumulator = each
                        continue
                    accumulator = fold(each if copy is None else copy(each), accumulator)
                    if type(accumulator) is not plain:
                        accumulator = as_read(accumulator)
                merged[number] = accumulator
        except Exception:
            self.failed_at = int(groups.order[at])
            raise

    def pack(self, parts: Parts, kind: pa.DataType) -> pa.Array:
        """Accumulators as they are stored: values of this type."""
        return encode_all(self._fold.codec, parts[1].tolist(), self.blame).cast(kind)

    def unpack(self, stored: pa.Array) -> Parts:
        """The parts of stored accumulators."""
        # The type that the state is made with is known before the function is opened.
        return self.of_accumulators(self._fold.codec.decode(stored) if len(stored) else [])
