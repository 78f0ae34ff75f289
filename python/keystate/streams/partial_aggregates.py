"""Aggregates of columns that Spark begins before the shuffle, by its own hash aggregate.

The rows of a key, and of a time span that all windows have whole, become one in each task. What
comes of them is the same, but for the order in which floats are summed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keystate._jvm import bridge
from keystate._operators.combined import free_name, quoted, unmarked
from keystate._operators.declared import Input
from keystate._worker.aggregates.declared import ColumnAggregate
from keystate.windows._columns import Panes

#: The names of columns that are made.
_TIME, _ROWS = "_aggregate_time", "_aggregate_rows"

#: What Spark's function may be of, by the kind of an aggregate: types that it can update in place.
_NUMBERS = (
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.FloatType,
    T.DoubleType,
)
_ORDERED = (*_NUMBERS, T.BooleanType, T.DateType, T.TimestampType, T.TimestampNTZType)
_TAKEN: dict[str, tuple[type[T.DataType], ...]] = {
    "count": (T.DataType,),  # anything
    "sum": _NUMBERS,
    "avg": _NUMBERS,
    "min": _ORDERED,
    "max": _ORDERED,
}
#: Keys that are equal where their bytes are.
_KEYS = (
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.BooleanType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
    T.StringType,
    T.BinaryType,
    T.DecimalType,
)


def begins_in_spark(aggregates: Sequence[ColumnAggregate], keys: T.StructType) -> bool:
    """Whether Spark can begin all of these, for keys of these types."""
    return all(isinstance(key.dataType, _KEYS) for key in keys) and all(
        isinstance(each.value_type, _TAKEN.get(each.declared.kind, ())) for each in aggregates
    )


def are_changed_by_repeats(aggregates: Sequence[ColumnAggregate]) -> bool:
    """Whether a row counts that is the same as one before."""
    return any(
        each.declared.kind not in ("approx_count_distinct", "min", "max") for each in aggregates
    )


def without_repeats(
    aggregates: Sequence[ColumnAggregate], rows: Input, keys: Sequence[str]
) -> Input:
    """The rows without those that are the same as one before in their task, as far as it is known.

    Args:
        aggregates: what they are of.
        rows: the stream.
        keys: its key columns, by their names.
    """
    fields = rows.row_type.names
    read = {fields[each.column] for each in aggregates if each.column is not None}
    df = bridge.without_repeats(rows.df, sorted(map(fields.index, read.union(keys))))
    return dataclasses.replace(rows, df=df, keys=[df[quoted(key)] for key in keys])


def partial_aggregates(
    aggregates: Sequence[ColumnAggregate],
    rows: Input,
    keys: Sequence[str],
    panes: Panes | None = None,
) -> Input:
    """The accumulators of rows, begun before the shuffle.

    Its rows have the key's columns; with panes, a time of theirs if they have a column with it, and
    the number of rows; and a column for each accumulator.

    Args:
        aggregates: what they are, such as :func:`begins_in_spark` knows.
        rows: the stream.
        keys: its key columns, by their names.
        panes: what rows are apart by besides.
    """
    df, fields = rows.df, rows.row_type.fields
    groups = [df[quoted(key)] for key in keys]
    if panes is not None and panes.column is not None:
        time = fields[panes.column]
        groups.append(_begin(df[quoted(time.name)], time.dataType, panes))
    inputs: list[Column] = []
    functions: list[tuple[str, int]] = []

    def made(function: str, of: Column | None = None) -> Column:
        """The column that has what a function makes of a column, or of rows."""
        functions.append((function, -1 if of is None else len(groups) + len(inputs)))
        if of is not None:
            inputs.append(of)
        return F.col(f"_{len(functions) - 1}")

    accumulators = [] if panes is None else [made("count").alias(free_name(_ROWS, keys))]
    for i, each in enumerate(aggregates):
        column = None if each.column is None else df[quoted(fields[each.column].name)]
        kind = each.declared.kind
        if kind == "avg" and column is not None:
            total = F.coalesce(made("sum", column.cast("double")), F.lit(0.0))
            one = F.struct(total.alias("sum"), made("count", column).alias("count"))
        elif kind == "sum" and column is not None:
            one = made("sum", column.cast(each.acc_type))
        else:
            one = made(kind, column)
        accumulators.append(one.alias(free_name(f"_aggregate{i}", keys)))
    read = [column.alias(f"in{i}") for i, column in enumerate([*groups, *inputs])]
    begun = bridge.partial_aggregate(df.select(*read), len(groups), functions)
    names = [F.col(f"in{i}") for i in range(len(groups))]
    kept = [
        column.alias(key, metadata=unmarked(rows.row_type[key])) for key, column in zip(keys, names)
    ]
    if panes is not None and panes.column is not None:
        kept.append(names[-1].alias(free_name(_TIME, keys), metadata=time.metadata))
    made_of = begun.select(*kept, *accumulators)
    return dataclasses.replace(
        rows, shape=None, df=made_of, keys=[made_of[quoted(key)] for key in keys]
    )


def _begin(time: Column, kind: T.DataType, panes: Panes) -> Column:
    """When the span begins that has this time; of a window, a struct, it is its end."""
    ends = time.getField("end") if isinstance(kind, T.StructType) else time
    micros = F.unix_micros(ends)
    length, offset = F.lit(panes.length * 1000), F.lit(panes.offset * 1000)
    return F.timestamp_micros(micros - F.pmod(micros - offset, length))
