"""How aggregates of columns are computed: rows become accumulators, which are merged by group.

An accumulator is one or two columns, its parts. One that is null, as of an aggregate that was added
at a restart, is that of no rows. Of a first value a second part tells that, as its null may be the
first row's.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keystate._types.codec import codec
from keystate._worker.aggregates import distinct_values
from keystate._worker.aggregates.accumulators import Parts
from keystate._worker.aggregates.declared import ColumnAggregate
from keystate._worker.aggregates.groups import Groups, lists


class Computation:
    """How one aggregate is computed; its accumulator is one column, unless a class has more."""

    #: How many columns an accumulator has.
    width = 1
    #: How many it has where it is stored.
    stored = 1

    def __init__(self, aggregate: ColumnAggregate) -> None:
        self._aggregate = aggregate
        self.acc_type: pa.DataType = codec(aggregate.acc_type).arrow
        self.result_type: pa.DataType = codec(aggregate.result_type).arrow
        self._name = f"agg.{aggregate.declared.kind} of column '{aggregate.declared.column}'"

    def lift(self, rows: pa.RecordBatch) -> Parts:
        """The accumulator of each row."""
        column = self._aggregate.column
        assert column is not None
        return self._of_values(rows.column(column))

    def _of_values(self, values: pa.Array) -> Parts:
        return [values.cast(self.acc_type)]

    def merge(self, groups: Groups, parts: Parts) -> Parts:
        """The accumulator of each group of accumulators."""
        told = self._aggregate.declared
        match told.kind:
            case "min" | "max":
                return [groups.most(parts[0], greatest=told.kind == "max")]
            case "first" | "last":  # of a first value that may be null, see below
                return [groups.end(parts[0], told.kind == "last", told.ignore_nulls)]
            case "top_n":
                return [groups.top(parts[0], told.n)]
        return [groups.sums(part, self._name) for part in parts]

    def result(self, parts: Parts) -> pa.Array:
        """The results that accumulators stand for."""
        return parts[0]

    def pack(self, parts: Parts) -> list[pa.Array]:
        """The columns of accumulators as they are stored."""
        return [parts[0]]

    def unpack(self, stored: pa.Array, *more: pa.Array) -> Parts:
        """The parts of stored accumulators.

        Args:
            stored: their column.
            more: others, if they have any.
        """
        return [stored.cast(self.acc_type)]


class _Count(Computation):
    def lift(self, rows: pa.RecordBatch) -> Parts:
        if self._aggregate.column is None:
            return [pa.array(np.ones(rows.num_rows, np.int64))]
        return super().lift(rows)

    def _of_values(self, values: pa.Array) -> Parts:
        return [values.is_valid().cast(pa.int64())]

    def result(self, parts: Parts) -> pa.Array:
        return pc.fill_null(parts[0], 0)


class _First(Computation):
    """The first value, which may be null; its parts are the value, and whether there is a row.

    Without the second one, a null in what was stored before the aggregate was added would be taken
    for the first row's.
    """

    width = 2
    stored = 2

    def _of_values(self, values: pa.Array) -> Parts:
        return [*super()._of_values(values), np.full(len(values), True)]

    def merge(self, groups: Groups, parts: Parts) -> Parts:
        values, seen = parts
        return [groups.end_of(values, last=False, counts=seen), groups.any(seen)]

    def pack(self, parts: Parts) -> list[pa.Array]:
        values, seen = parts
        return [values, pa.array(seen)]

    def unpack(self, stored: pa.Array, *more: pa.Array) -> Parts:
        seen = pc.fill_null(more[0], False).to_numpy(zero_copy_only=False)
        return [*super().unpack(stored), seen]


class _Mean(Computation):
    """Its parts are sum and count, which are 0 for no rows."""

    width = 2

    def _of_values(self, values: pa.Array) -> Parts:
        sums = pc.fill_null(values.cast(pa.float64(), safe=False), 0.0)
        return [sums, values.is_valid().cast(pa.int64())]

    def result(self, parts: Parts) -> pa.Array:
        sums, counts = parts
        return pc.divide(sums, pc.if_else(pc.equal(counts, 0), None, counts.cast(pa.float64())))

    def pack(self, parts: Parts) -> list[pa.Array]:
        return [pa.StructArray.from_arrays(parts, fields=list(self.acc_type))]

    def unpack(self, stored: pa.Array, *more: pa.Array) -> Parts:
        parts = zip(stored.flatten(), self.acc_type)
        return [pc.fill_null(part.cast(field.type), 0) for part, field in parts]


class _Top(Computation):
    def _of_values(self, values: pa.Array) -> Parts:
        known = values.drop_null().cast(self.acc_type.value_type)
        return [lists(values.is_valid().to_numpy(zero_copy_only=False), known, self.acc_type)]

    def result(self, parts: Parts) -> pa.Array:
        # A session that met no other since a restart has what was stored: maybe more values, or
        # null where the aggregate has been added.
        return Groups.alone(len(parts[0])).top(parts[0], self._aggregate.declared.n)


class _DistinctCount(Computation):
    """Its parts are how many hashes are kept at most, and the least hashes."""

    width = 2

    def _of_values(self, values: pa.Array) -> Parts:
        most = np.full(len(values), self._aggregate.declared.n, np.int32)
        return [pa.array(most), distinct_values.lists_of(values, self.acc_type.field("least").type)]

    def merge(self, groups: Groups, parts: Parts) -> Parts:
        most = groups.most(parts[0], greatest=False)
        limits = pc.fill_null(most, 0).to_numpy(zero_copy_only=False)
        return [most, groups.least(parts[1], limits)]

    def result(self, parts: Parts) -> pa.Array:
        return distinct_values.estimates(*parts)

    def pack(self, parts: Parts) -> list[pa.Array]:
        of = pa.nulls(len(parts[0]), self.acc_type.field("of").type)
        return [pa.StructArray.from_arrays([*parts, of], fields=list(self.acc_type))]

    def unpack(self, stored: pa.Array, *more: pa.Array) -> Parts:
        if not pa.types.is_struct(stored.type):  # it was begun before the shuffle
            most = np.full(len(stored), self._aggregate.declared.n, np.int32)
            kind = self.acc_type.field("least").type
            return [pa.array(most), distinct_values.lists_of_bytes(stored, kind)]
        return [part.cast(field.type) for part, field in zip(stored.flatten()[:2], self.acc_type)]


#: Those that are more than a column of values.
_KINDS: dict[str, type[Computation]] = {
    "count": _Count,
    "avg": _Mean,
    "top_n": _Top,
    "approx_count_distinct": _DistinctCount,
}


def _computation(aggregate: ColumnAggregate) -> Computation:
    if aggregate.has_seen:
        return _First(aggregate)
    return _KINDS.get(aggregate.declared.kind, Computation)(aggregate)


class Aggregation:
    """How some aggregates are computed together.

    Their parts stand one after the other in one list.
    """

    def __init__(self, aggregates: tuple[ColumnAggregate, ...]) -> None:
        self._computations = [_computation(each) for each in aggregates]
        #: How many columns accumulators have where they are stored.
        self.stored = sum(each.stored for each in self._computations)

    def lift(self, rows: pa.RecordBatch) -> Parts:
        """The accumulators of each row."""
        return [part for each in self._computations for part in each.lift(rows)]

    def merge(self, groups: Groups, parts: Parts) -> Parts:
        """The accumulators of each group."""
        return [
            part
            for each, mine in zip(self._computations, self._split(parts))
            for part in each.merge(groups, mine)
        ]

    def results(self, parts: Parts) -> Parts:
        """The results that accumulators stand for."""
        return [each.result(mine) for each, mine in zip(self._computations, self._split(parts))]

    def pack(self, parts: Parts, kind: pa.StructType) -> pa.Array:
        """Accumulators as they are stored: structs of this type."""
        split = zip(self._computations, self._split(parts))
        packed = [column for each, mine in split for column in each.pack(mine)]
        return pa.StructArray.from_arrays(packed, fields=list(kind))

    def unpack(self, stored: pa.Array) -> Parts:
        """The parts of stored accumulators."""
        return self.unpack_columns(stored.flatten())

    def unpack_columns(self, stored: Parts) -> Parts:
        """The parts of stored accumulators, by their columns."""
        rest = iter(stored)
        columns = [[next(rest) for _ in range(each.stored)] for each in self._computations]
        both = zip(self._computations, columns)
        return [part for each, mine in both for part in each.unpack(*mine)]

    def _split(self, parts: Parts) -> list[Parts]:
        """The parts of each aggregate."""
        rest = iter(parts)
        return [[next(rest) for _ in range(each.width)] for each in self._computations]


class MaybeEmpty(Aggregation):
    """Aggregates of which some accumulators are of nothing: a trigger has emptied their window.

    Before the other parts stands whether there is anything.
    """

    def lift(self, rows: pa.RecordBatch) -> Parts:
        return [np.full(rows.num_rows, True), *super().lift(rows)]

    def merge(self, groups: Groups, parts: Parts) -> Parts:
        return [groups.any(parts[0]), *super().merge(groups, parts[1:])]

    def results(self, parts: Parts) -> Parts:
        return super().results(parts[1:])

    def pack(self, parts: Parts, kind: pa.StructType) -> pa.Array:
        packed = super().pack(parts[1:], kind)
        if parts[0].all():
            return packed
        return pc.if_else(pa.array(parts[0]), packed, pa.scalar(None, kind))

    def unpack(self, stored: pa.Array) -> Parts:
        held = stored.is_valid().to_numpy(zero_copy_only=False)
        return [held, *super().unpack(stored)]
