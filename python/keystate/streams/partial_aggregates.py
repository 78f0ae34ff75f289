"""Aggregates of columns that are begun before the shuffle.

Spark's own hash aggregate does it; or if all of them are numbers of different values, it is done by
the least hashes of these.

The rows of a key, and of a time span that all windows have whole, become one in each task. What
comes of them is the same, but for the order in which floats are summed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
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


def can_begin(aggregates: Sequence[ColumnAggregate], keys: T.StructType) -> bool:
    """Whether all of these can be begun, for keys of these types."""
    return all(isinstance(key.dataType, _KEYS) for key in keys) and (
        _are_hashed(aggregates)
        or all(
            isinstance(each.value_type, _TAKEN.get(each.declared.kind, ())) for each in aggregates
        )
    )


def _are_hashed(aggregates: Sequence[ColumnAggregate]) -> bool:
    """Whether all are numbers of different values whose hashes are told in the JVM too."""
    return all(
        each.declared.kind == "approx_count_distinct" and isinstance(each.value_type, _ORDERED)
        for each in aggregates
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
        aggregates: what they are, such as :func:`can_begin` knows.
        rows: the stream.
        keys: its key columns, by their names.
        panes: what rows are apart by besides.
    """
    df = rows.df
    groups = [df[quoted(key)] for key in keys]
    time = None if panes is None or panes.column is None else rows.row_type.fields[panes.column]
    if panes is not None and time is not None:
        groups.append(_begin(df[quoted(time.name)], time.dataType, panes))
    begin = _by_hashes if _are_hashed(aggregates) else _by_functions
    begun, made = begin(aggregates, rows, groups, counted=panes is not None)
    names = [_ROWS] if panes is not None else []
    names += [f"_aggregate{i}" for i in range(len(aggregates))]
    made = [column.alias(free_name(name, keys)) for column, name in zip(made, names)]
    read = [F.col(f"in{i}") for i in range(len(groups))]
    kept = [
        column.alias(key, metadata=unmarked(rows.row_type[key])) for key, column in zip(keys, read)
    ]
    if time is not None:
        kept.append(read[-1].alias(free_name(_TIME, keys), metadata=time.metadata))
    made_of = begun.select(*kept, *made)
    return dataclasses.replace(
        rows, shape=None, df=made_of, keys=[made_of[quoted(key)] for key in keys]
    )


def _by_functions(
    aggregates: Sequence[ColumnAggregate], rows: Input, groups: list[Column], counted: bool
) -> tuple[DataFrame, list[Column]]:
    """Groups of rows, and columns: the number of a group's rows if wanted, and accumulators."""
    inputs: list[Column] = []
    functions: list[tuple[str, int]] = []

    def made(function: str, of: Column | None = None) -> Column:
        """The column that has what a function makes of a column, or of rows."""
        functions.append((function, -1 if of is None else len(groups) + len(inputs)))
        if of is not None:
            inputs.append(of)
        return F.col(f"_{len(functions) - 1}")

    columns = [made("count")] if counted else []
    for each in aggregates:
        column = None if each.column is None else _column(each.column, rows)
        kind = each.declared.kind
        if kind == "avg" and column is not None:
            total = F.coalesce(made("sum", column.cast("double")), F.lit(0.0))
            columns.append(F.struct(total.alias("sum"), made("count", column).alias("count")))
        elif kind == "sum" and column is not None:
            columns.append(made("sum", column.cast(each.acc_type)))
        else:
            columns.append(made(kind, column))
    read = _numbered(rows, [*groups, *inputs])
    return bridge.partial_aggregate(read, len(groups), functions), columns


def _by_hashes(
    aggregates: Sequence[ColumnAggregate], rows: Input, groups: list[Column], counted: bool
) -> tuple[DataFrame, list[Column]]:
    """As `_by_functions`. An accumulator is bytes."""
    values = [_column(each.column, rows) for each in aggregates if each.column is not None]
    wanted = [each.declared.n for each in aggregates]
    begun = bridge.distinct_hashes(_numbered(rows, [*groups, *values]), len(groups), wanted)
    count, *hashes = (F.col(f"_{i}") for i in range(len(aggregates) + 1))
    return begun, [count, *hashes] if counted else hashes


def _column(index: int, rows: Input) -> Column:
    return rows.df[quoted(rows.row_type.names[index])]


def _numbered(rows: Input, columns: list[Column]) -> DataFrame:
    return rows.df.select(*(column.alias(f"in{i}") for i, column in enumerate(columns)))


def _begin(time: Column, kind: T.DataType, panes: Panes) -> Column:
    """When the span begins that has this time; of a window, a struct, it is its end."""
    ends = time.getField("end") if isinstance(kind, T.StructType) else time
    micros = F.unix_micros(ends)
    length, offset = F.lit(panes.length * 1000), F.lit(panes.offset * 1000)
    return F.timestamp_micros(micros - F.pmod(micros - offset, length))
