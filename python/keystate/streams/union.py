"""Many keyed inputs as one stream, for a function whose state they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from keystate._spec.specs import DELAY_KEY
from keystate.errors import DeclarationError
from keystate.streams.keyed import ColumnLike, KeyedStream, keyed

#: The column with the name of the input that a row is from.
INPUT = "input"


def union_keyed(
    inputs: Mapping[str, KeyedStream[Any]],
    *,
    event_time: str | None = None,
    order_by: ColumnLike | Sequence[ColumnLike] = (),
) -> KeyedStream[Row]:
    """Three and more keyed inputs as one, so that they share the state and timers of a key.

    A row has the key columns, with the names of the first input; the column ``input`` with the name
    of the row's input; and a column for each input. The column of the row's input has the row, the
    others are ``None``. For two inputs :meth:`~keystate.KeyedStream.connect` is better.

    Args:
        inputs: each keyed stream by its name; all streams, or all batch DataFrames.
        event_time: a column that all inputs have; it becomes a column of the union. Needed if
            inputs have a watermark: it is the watermark's column in all of them.
        order_by: as for :func:`keystate.keyed`, with the columns above.

    Raises:
        DeclarationError: the inputs do not fit together.
    """
    if len(inputs) < 2:
        raise DeclarationError(f"union_keyed needs two inputs or more, got {list(inputs)}")
    first = next(iter(inputs.values()))
    keys = first._input.key_type.names
    shared = [*keys, INPUT, *([] if event_time is None else [event_time])]
    _check(inputs, shared, event_time)
    every = (stream._input.max_parallelism for stream in inputs.values())
    told = {groups for groups in every if groups is not None}
    if len(told) > 1:
        raise DeclarationError(f"the inputs have the same max_parallelism, got {sorted(told)}")
    parts = [_part(name, stream, keys, event_time) for name, stream in inputs.items()]
    whole = reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), parts)
    return keyed(whole, *keys, max_parallelism=next(iter(told), None), order_by=order_by)


def _part(
    name: str, stream: KeyedStream[Any], keys: Sequence[str], event_time: str | None
) -> DataFrame:
    df = stream._input.df
    columns: list[Column] = [column.alias(key) for column, key in zip(stream._input.keys, keys)]
    columns.append(F.lit(name).alias(INPUT))
    if event_time is not None and event_time not in keys:
        columns.append(df[event_time])
    whole_row = F.struct(*(df[column] for column in df.columns))
    return df.select(*columns, whole_row.alias(name))


def _check(
    inputs: Mapping[str, KeyedStream[Any]], shared: Sequence[str], event_time: str | None
) -> None:
    first = next(iter(inputs.values()))
    types: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    watermarks: dict[bool, list[str]] = {True: [], False: []}
    for name, stream in inputs.items():
        if not isinstance(stream, KeyedStream):
            raise DeclarationError(f"input '{name}': expected what keyed() makes, got {stream!r}")
        if name.lower() in map(str.lower, shared):
            raise DeclarationError(
                f"an input can't be named '{name}': rows have the columns {list(shared)} too"
            )
        # Columns whose names differ only in case are one column to Spark.
        twin = names.setdefault(name.lower(), name)
        if twin != name:
            raise DeclarationError(
                f"the inputs '{twin}' and '{name}' differ only in upper and lower case: give one "
                "of them another name"
            )
        if stream._input.order or stream._input.shape is not None:
            raise DeclarationError(
                f"input '{name}' has an order_by or a row_type: rows are united before they are "
                "sorted, and are Rows; give order_by to union_keyed"
            )
        schema = stream._input.row_type
        marked = [field.name for field in schema.fields if DELAY_KEY in field.metadata]
        if marked and marked != [event_time]:
            raise DeclarationError(
                f"input '{name}' has a watermark by its column '{marked[0]}': give event_time, "
                "after this column has one name in all inputs"
            )
        watermarks[bool(marked)].append(name)
        if event_time is not None and event_time not in schema.fieldNames():
            raise DeclarationError(f"input '{name}' has no column '{event_time}'")
        key_type = stream._input.key_type
        types[name] = [field.dataType.simpleString() for field in key_type.fields]
    # Spark's union has the watermark of its first input only, whatever the others have.
    if first._input.df.isStreaming and watermarks[True] and watermarks[False]:
        raise DeclarationError(
            f"the inputs {watermarks[True]} have a watermark and {watermarks[False]} have none: "
            f"call withWatermark('{event_time}', delay) on every input before it is keyed"
        )
    if len(set(map(tuple, types.values()))) > 1:
        raise DeclarationError(
            f"the key columns of all inputs must have the same types, in the same order: {types}"
        )
