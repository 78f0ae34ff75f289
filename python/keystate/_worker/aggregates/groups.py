"""Values in groups: what Arrow and NumPy make of each group.

NumPy reduces numbers, dates and times where they lie one group after the other. Arrow sorts the
values of other types.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keystate.errors import StateTypeError

Numbers = np.ndarray[Any, np.dtype[Any]]

_LARGEST = 2**63 - 1


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
        order: the places of the values, group by group; within a group as they came. A value may
            be in several groups.
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

    @cached_property
    def _ids(self) -> Numbers:
        """For each value in order the number of its group."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def ids(self) -> Numbers:
        """For each value the number of its group, where none is in several."""
        ids = np.empty(len(self.order), np.int64)
        ids[self.order] = self._ids
        return ids

    def heads(self, values: Numbers) -> Numbers:
        """The first value of each group."""
        return values[self.order[self.starts]]

    def any(self, flags: Numbers) -> Numbers:
        """Whether a flag is set in each group."""
        if len(self) and (flags.all() or not flags.any()):
            return np.full(len(self), bool(flags[0]))
        return self._reduced(np.logical_or, flags)

    def end(self, values: pa.Array, last: bool, ignore_nulls: bool) -> pa.Array:
        """The first or last value of each group; with `ignore_nulls` null only if all are."""
        counts = _valid(values) if ignore_nulls and values.null_count else None
        return self.end_of(values, last, counts)

    def end_of(self, values: pa.Array, last: bool, counts: Numbers | None) -> pa.Array:
        """The first or last value of each group of those that count; null if there is none.

        Args:
            values: the values.
            last: whether it is the last one.
            counts: which of them count; ``None`` if all do.
        """
        if self.are_alone:
            return values
        size = len(self.order)
        if counts is None or counts.all():
            places = self.starts + self.sizes - 1 if last else self.starts
            return values.take(pa.array(self.order[places]))
        reduce, none = (np.maximum, -1) if last else (np.minimum, size)
        places = np.where(counts[self.order], np.arange(size), none)
        found = reduce.reduceat(places, self.starts)
        missing = found == none
        return values.take(pa.array(self.order[np.where(missing, 0, found)], mask=missing))

    def sums(self, values: pa.Array, what: str) -> pa.Array:
        """The sum of each group's values that are not null; null if there are none.

        Args:
            values: longs, doubles or decimals.
            what: names the sum in errors.

        Raises:
            StateTypeError: a sum does not fit.
        """
        if self.are_alone:
            return values
        if pa.types.is_decimal(values.type):
            return self._decimal_sums(values, what)
        numbers = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
        if numbers.dtype == np.int64 and self._may_overflow(numbers):
            exact = self._reduced(np.add, numbers.astype(object))
            for each in exact:
                if not -_LARGEST - 1 <= each <= _LARGEST:
                    raise StateTypeError(f"{what} does not fit into a long: {each}")
            sums = exact.astype(np.int64)
        else:
            sums = self._reduced(np.add, numbers)
        return self._array(sums, values)

    def _may_overflow(self, numbers: Numbers) -> bool:
        if len(numbers) == 0:
            return False
        most = max(abs(int(numbers.min())), abs(int(numbers.max())))
        return most * int(self.sizes.max()) > _LARGEST

    def _decimal_sums(self, values: pa.Array, what: str) -> pa.Array:
        wide = values.take(pa.array(self.order)).cast(pa.decimal256(76, values.type.scale))
        table = pa.table({"group": self._ids, "value": wide})
        grouped = table.group_by("group", use_threads=False).aggregate([("value", "sum")])
        try:
            return grouped["value_sum"].combine_chunks().cast(values.type)
        except pa.ArrowInvalid as e:
            raise StateTypeError(f"{what} does not fit into {values.type}: {e}") from None

    def most(self, values: pa.Array, greatest: bool) -> pa.Array:
        """The least or greatest value of each group that is not null; null if there is none."""
        if self.are_alone:
            return values
        numbers = as_numbers(values)
        if numbers is None:
            order, ids = _sorted(values, self.order, self._ids, greatest)
            bounds = np.searchsorted(ids, np.arange(len(self) + 1))
            missing = bounds[1:] == bounds[:-1]
            heads = np.where(missing, 0, bounds[:-1])
            return values.take(pa.array(order[heads] if len(order) else heads, mask=missing))
        if numbers.dtype.kind == "f":
            # NaN is greater than all others: only the least leaves it out.
            reduce: Any = np.maximum if greatest else np.fmin
            none: Any = -np.inf if greatest else np.nan
        else:
            limits = np.iinfo(numbers.dtype)
            reduce = np.maximum if greatest else np.minimum
            none = limits.min if greatest else limits.max
        if values.null_count:
            numbers = np.where(_valid(values), numbers, numbers.dtype.type(none))
        return self._array(self._reduced(reduce, numbers), values)

    def top(self, of_lists: pa.Array, n: int) -> pa.Array:
        """The `n` greatest of the values in each group's lists, from the greatest on."""
        values, ids = self._elements(of_lists)
        order, ids = _sorted(values, np.arange(len(values)), ids, greatest=True)
        chosen, lengths = self._firsts(ids, n)
        return lists(lengths, values.take(pa.array(order[chosen])), of_lists.type)

    def least(self, of_lists: pa.Array, limits: Numbers) -> pa.Array:
        """The least different longs in each group's lists, in order, so many of each group."""
        values, ids = self._elements(of_lists)
        numbers, ids = _sorted_numbers(values.to_numpy(), ids)
        if len(ids):
            new = np.append(True, (numbers[1:] != numbers[:-1]) | (ids[1:] != ids[:-1]))
            numbers, ids = numbers[new], ids[new]
        chosen, lengths = self._firsts(ids, limits)
        return lists(lengths, pa.array(numbers[chosen]), of_lists.type)

    def _elements(self, of_lists: pa.Array) -> tuple[pa.Array, Numbers]:
        """The elements of lists, group by group, and the group of each."""
        lengths = pc.fill_null(pc.list_value_length(of_lists), 0).to_numpy()
        if np.all(lengths == 1):  # as those of rows are
            return of_lists.flatten().take(pa.array(self.order)), self._ids
        elements = of_lists.take(pa.array(self.order)).flatten()
        return elements, np.repeat(self._ids, lengths[self.order])

    def _firsts(self, ids: Numbers, most: Any) -> tuple[Numbers, Numbers]:
        """Which elements are among the first of their group; and how many these are of each.

        Args:
            ids: the group of each element, in order.
            most: how many, of all groups or of each one.
        """
        bounds = np.searchsorted(ids, np.arange(len(self) + 1))
        lengths = np.minimum(np.diff(bounds), most)
        return np.arange(len(ids)) - bounds[ids] < lengths[ids], lengths

    def _reduced(self, reduce: Any, values: Numbers) -> Numbers:
        if len(self) == 0:
            return values[:0]
        reduced: Numbers = reduce.reduceat(values[self.order], self.starts)
        return reduced

    def _array(self, numbers: Numbers, values: pa.Array) -> pa.Array:
        """These numbers as values are, null where a group has none."""
        mask = ~self.any(_valid(values)) if values.null_count else None
        array = pa.array(numbers, mask=mask)
        kind = values.type
        return array.cast(kind) if pa.types.is_boolean(kind) else array.view(kind)


def lists(lengths: Numbers, values: pa.Array, kind: pa.ListType) -> pa.Array:
    """Lists of a type that have these values one after the other, so many each."""
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), values, type=kind)


def _sorted_numbers(numbers: Numbers, ids: Numbers) -> tuple[Numbers, Numbers]:
    """Numbers sorted by group and then by value; and their groups, which are sorted.

    It takes a third of the time of NumPy's lexsort.
    """
    order = np.argsort(numbers)
    return numbers[order[stable_order(ids[order])]], ids


def _sorted(
    values: pa.Array, order: Numbers, ids: Numbers, greatest: bool
) -> tuple[Numbers, Numbers]:
    """The places of values that are not null, sorted by group and then by value; and the groups."""
    if values.null_count:
        valid = _valid(values)[order]
        order, ids = order[valid], ids[valid]
    ordered = values.take(pa.array(order))
    if pa.types.is_floating(values.type):
        ordered = pa.array(_total_order(ordered.to_numpy(zero_copy_only=False)))
    keys = [("group", "ascending"), ("value", "descending" if greatest else "ascending")]
    table = pa.table({"group": ids, "value": ordered})
    sorted_ = pc.sort_indices(table, sort_keys=keys).to_numpy()
    return order[sorted_], ids[sorted_]


def _total_order(numbers: Numbers) -> Numbers:
    """Integers that are in the order of these floats, with NaN as the greatest."""
    doubles = numbers.astype(np.float64)
    bits = np.where(np.isnan(doubles), np.nan, doubles).view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(_LARGEST), bits)


def as_numbers(values: pa.Array) -> Numbers | None:
    """Numbers in the order of the values, 0 for nulls; ``None`` if they are no numbers."""
    kind = values.type
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    elif pa.types.is_date32(kind):
        values = values.view(pa.int32())
    elif pa.types.is_timestamp(kind):
        values = values.view(pa.int64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        return None
    numbers: Numbers = pc.fill_null(values, 0).to_numpy(zero_copy_only=False)
    return numbers


def _valid(values: pa.Array) -> Numbers:
    valid: Numbers = values.is_valid().to_numpy(zero_copy_only=False)
    return valid
