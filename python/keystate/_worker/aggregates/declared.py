"""Aggregates of columns whose types are known: of what type their accumulators and results are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import types as T

from keystate._spec.specs import check_distinct
from keystate._types.codec.evolution import default_beside
from keystate._types.ddl import meant
from keystate.agg import Aggregate
from keystate.errors import DeclarationError

_INTEGERS = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_FLOATS = (T.FloatType, T.DoubleType)
_ORDERED = (
    *_INTEGERS,
    *_FLOATS,
    T.DecimalType,
    T.StringType,
    T.BinaryType,
    T.BooleanType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
)


@dataclass(frozen=True)
class ColumnAggregate:
    """An aggregate of a column.

    Attributes:
        declared: the aggregate as the user made it.
        column: the index of the column; ``None`` if rows are counted.
        value_type: of the column; null type if there is none.
        acc_type: of what is stored of it; of a first value, of this value.
        result_type: of what is emitted.
    """

    declared: Aggregate
    column: int | None
    value_type: T.DataType
    acc_type: T.DataType
    result_type: T.DataType

    @property
    def has_seen(self) -> bool:
        """Whether it is stored beside the value if there was a row, as that may have had a null."""
        return self.declared.kind == "first" and not self.declared.ignore_nulls

    @property
    def made(self) -> str | None:
        """How the result is made of what is stored; ``None`` if a worker has to do it."""
        # What is stored of the greatest values may be longer than what is wanted since a restart.
        computed = {"top_n": None, "approx_count_distinct": None}
        return {"count": "count", "avg": "mean", **computed}.get(self.declared.kind, "value")

    def fields(self) -> list[T.StructField]:
        """What is stored of it."""
        name = self.declared.name
        stored = [T.StructField(name, self.acc_type)]
        if self.has_seen:
            # A value that was stored without it, by a function of rows, is that of a row.
            stored.append(default_beside(f"{name} seen", T.BooleanType(), True, beside=name))
        return stored


def resolve(aggregates: Sequence[Aggregate], rows: T.StructType) -> tuple[ColumnAggregate, ...]:
    """These aggregates of rows of a type.

    Raises:
        DeclarationError: there is no such column, or an aggregate does not take its type.
    """
    for each in aggregates:
        if not isinstance(each, Aggregate):
            raise DeclarationError(
                f"expected aggregates such as agg.sum('amount'), got {each!r}: they can't be mixed "
                "with an AggregateFunction"
            )
    resolved = tuple(_resolve(each, rows) for each in aggregates)
    check_distinct(accumulator_type(resolved), "the aggregates")
    return resolved


def accumulator_type(aggregates: Sequence[ColumnAggregate]) -> T.StructType:
    """The type of what is stored of these together: each has a field of its name."""
    return T.StructType([field for each in aggregates for field in each.fields()])


def result_fields(aggregates: Sequence[ColumnAggregate]) -> list[T.StructField]:
    """The columns of their results."""
    return [T.StructField(a.declared.name, a.result_type) for a in aggregates]


def _resolve(aggregate: Aggregate, rows: T.StructType) -> ColumnAggregate:
    if aggregate.column is None:
        return ColumnAggregate(aggregate, None, T.NullType(), T.LongType(), T.LongType())
    name = meant(aggregate.column, rows.names)
    if name is None:
        raise DeclarationError(
            f"agg.{aggregate.kind}: there is no column '{aggregate.column}' in the input: "
            f"{rows.names}"
        )
    column = rows.names.index(name)
    value = rows.fields[column].dataType
    acc, result = _types(aggregate, value)
    return ColumnAggregate(aggregate, column, value, acc, result)


def _types(aggregate: Aggregate, value: T.DataType) -> tuple[T.DataType, T.DataType]:
    """The types of accumulator and result."""
    kind = aggregate.kind
    if kind == "count":
        return T.LongType(), T.LongType()
    if kind in ("first", "last"):
        return value, value
    if kind == "sum":
        summed = _sum_type(value)
        if summed is None:
            raise _misfit(aggregate, value, "a number")
        return summed, summed
    if kind == "avg":
        if not isinstance(value, (*_INTEGERS, *_FLOATS)):
            raise _misfit(aggregate, value, "an integer, a float or a double")
        parts = [T.StructField("sum", T.DoubleType()), T.StructField("count", T.LongType())]
        return T.StructType(parts), T.DoubleType()
    plain_string = not isinstance(value, T.StringType) or value == T.StringType()
    if not isinstance(value, _ORDERED) or not plain_string:
        raise _misfit(aggregate, value, "a number, a string, a date, a time, a boolean or binary")
    if kind == "top_n":
        return T.ArrayType(value), T.ArrayType(value)
    if kind == "approx_count_distinct":
        return _least_hashes(value), T.LongType()
    return value, value


def _least_hashes(value: T.DataType) -> T.StructType:
    """How many hashes are kept at most; and the least ones, in order.

    A list that is shorter has the hashes of all values. The field `of` is always null: it is there
    so that a change of the column's type is refused where its values would have other hashes.
    """
    return T.StructType(
        [
            T.StructField("most", T.IntegerType()),
            T.StructField("least", T.ArrayType(T.LongType())),
            T.StructField("of", value),
        ]
    )


def _sum_type(value: T.DataType) -> T.DataType | None:
    if isinstance(value, _INTEGERS):
        return T.LongType()
    if isinstance(value, _FLOATS):
        return T.DoubleType()
    if isinstance(value, T.DecimalType):
        return T.DecimalType(min(38, value.precision + 10), value.scale)
    return None


def _misfit(aggregate: Aggregate, value: T.DataType, taken: str) -> DeclarationError:
    return DeclarationError(
        f"agg.{aggregate.kind} takes {taken}, and the column '{aggregate.column}' is "
        f"{value.simpleString()}: cast it, or use an AggregateFunction"
    )
