"""Partial aggregates of columns, computed before the shuffle.

Spark's own hash aggregate computes them. If all aggregates are ``approx_count_distinct``, the least
hashes of the values are kept instead.

Each task aggregates the rows of a key, and of a pane: a time span that lies whole in every window
or outside it. The results are the same, except for the order in which floats are summed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from keystate._jvm import bridge
from keystate._operators.combined import free_name, unmarked
from keystate._operators.definition import Input
from keystate._types.ddl import quoted
from keystate._worker.aggregates.declared import ColumnAggregate
from keystate.windows._columns import Panes

#: The names of added columns.
_TIME, _ROWS = "_aggregate_time", "_aggregate_rows"

#: By kind of aggregate, the types that Spark's function can update in place.
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
#: Key types whose values are equal exactly if their bytes are.
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


#: A function that aggregates the selected rows; the expressions that it reads, and that it makes.
_Begun = tuple[Callable[[bridge.Selected], DataFrame], list[str], list[str]]


def can_begin(aggregates: Sequence[ColumnAggregate], keys: T.StructType) -> bool:
    """Whether all these aggregates can be computed before the shuffle, for keys of these types."""
    return all(isinstance(key.dataType, _KEYS) for key in keys) and (
        _are_hashed(aggregates)
        or all(
            isinstance(each.value_type, _TAKEN.get(each.declared.kind, ())) for each in aggregates
        )
    )


def _are_hashed(aggregates: Sequence[ColumnAggregate]) -> bool:
    """Whether all are ``approx_count_distinct`` of types that the JVM can hash too."""
    return all(
        each.declared.kind == "approx_count_distinct" and isinstance(each.value_type, _ORDERED)
        for each in aggregates
    )


def are_changed_by_repeats(aggregates: Sequence[ColumnAggregate]) -> bool:
    """Whether a row that repeats an earlier one changes an aggregate."""
    return any(
        each.declared.kind not in ("approx_count_distinct", "min", "max") for each in aggregates
    )


def without_repeats(
    aggregates: Sequence[ColumnAggregate], rows: Input, keys: Sequence[str]
) -> Input:
    """The rows without those that repeat an earlier row of their task, as far as the task knows.

    Args:
        aggregates: the aggregates; two rows are the same if their keys and these columns are.
        rows: the stream.
        keys: the names of its key columns.
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
    """The accumulators of rows, computed before the shuffle.

    A row has the key columns and a column for each accumulator; with panes also the pane's time, if
    the rows have a column with a time, and the number of rows.

    Args:
        aggregates: the aggregates, which :func:`can_begin` accepts.
        rows: the stream.
        keys: the names of its key columns.
        panes: the time spans that rows are grouped by besides their key.
    """
    groups = [quoted(key) for key in keys]
    time = None if panes is None or panes.column is None else rows.row_type.fields[panes.column]
    if panes is not None and time is not None:
        groups.append(_begin(quoted(time.name), time.dataType, panes))
    begin = _by_hashes if _are_hashed(aggregates) else _by_functions
    fewer, read, accumulators = begin(aggregates, rows, len(groups), counted=panes is not None)
    names = [_ROWS] if panes is not None else []
    names += [f"_aggregate{i}" for i in range(len(aggregates))]
    made: list[tuple[str, str, dict[str, Any]]] = [
        (f"in{i}", key, unmarked(rows.row_type[key])) for i, key in enumerate(keys)
    ]
    taken = list(keys)
    if time is not None:
        # Spark passes a watermark on to a column of the same name and type. A window has another.
        name = _TIME if isinstance(time.dataType, T.StructType) else time.name
        taken.append(free_name(name, keys))
        made.append((f"in{len(keys)}", taken[-1], time.metadata))
    made += [(sql, free_name(name, taken), {}) for sql, name in zip(accumulators, names)]
    selected = [f"{sql} AS in{i}" for i, sql in enumerate([*groups, *read])]
    made_of = fewer(bridge.Selected(selected, made))
    return dataclasses.replace(
        rows, shape=None, df=made_of, keys=[made_of[quoted(key)] for key in keys]
    )


def _by_functions(
    aggregates: Sequence[ColumnAggregate], rows: Input, group_columns: int, counted: bool
) -> _Begun:
    """Aggregates with Spark's functions; if `counted`, the number of a group's rows comes first."""
    read: list[str] = []
    functions: list[tuple[str, int]] = []

    def made(function: str, of: str | None = None) -> str:
        """Adds a function of a column, or of rows; returns the name of its result's column."""
        functions.append((function, -1 if of is None else group_columns + len(read)))
        if of is not None:
            read.append(of)
        return f"_{len(functions) - 1}"

    columns = [made("count")] if counted else []
    for each in aggregates:
        column = None if each.column is None else _column(each.column, rows)
        kind = each.declared.kind
        if kind == "avg" and column is not None:
            total = f"coalesce({made('sum', f'CAST({column} AS DOUBLE)')}, 0.0D)"
            columns.append(f"named_struct('sum', {total}, 'count', {made('count', column)})")
        elif kind == "sum" and column is not None:
            columns.append(made("sum", f"CAST({column} AS {each.acc_type.simpleString()})"))
        else:
            columns.append(made(kind, column))

    def fewer(selected: bridge.Selected) -> DataFrame:
        return bridge.partial_aggregate(rows.df, selected, group_columns, functions)

    return fewer, read, columns


def _by_hashes(
    aggregates: Sequence[ColumnAggregate], rows: Input, group_columns: int, counted: bool
) -> _Begun:
    """Aggregates with the least hashes, in the form of `_by_functions`; accumulators are bytes."""
    read = [_column(each.column, rows) for each in aggregates if each.column is not None]
    wanted = [each.declared.n for each in aggregates]
    made = [f"_{i}" for i in range(0 if counted else 1, len(aggregates) + 1)]

    def fewer(selected: bridge.Selected) -> DataFrame:
        return bridge.distinct_hashes(rows.df, selected, group_columns, wanted)

    return fewer, read, made


def _column(index: int, rows: Input) -> str:
    return quoted(rows.row_type.names[index])


def _begin(time: str, kind: T.DataType, panes: Panes) -> str:
    """The beginning of the pane with this time; for a window (a struct), with the window's end."""
    micros = f"unix_micros({time}{'.end' if isinstance(kind, T.StructType) else ''})"
    length, offset = (f"CAST({each * 1000} AS BIGINT)" for each in (panes.length, panes.offset))
    return f"timestamp_micros({micros} - pmod({micros} - {offset}, {length}))"
