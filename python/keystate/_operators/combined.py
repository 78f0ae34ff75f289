"""``combine=True``: a stream whose rows become fewer before the shuffle.

In each batch of Arrow the rows of a key become one. So a hot key sends a row for each batch, and
not all of its rows, to the one task that has it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import types as T

from keystate._operators.definition import Input
from keystate._operators.pickling import pickled
from keystate._operators.schema_rows import SchemaRows
from keystate._spec.specs import DELAY_KEY, check_columns
from keystate._types.codec import struct_codec
from keystate._types.ddl import column_of, quoted
from keystate._worker.aggregates.declared import ColumnAggregate, accumulator_type
from keystate._worker.calls.function_spec import FunctionSpec
from keystate.errors import DeclarationError
from keystate.functions import Function, OutputTag
from keystate.functions.dead_letters import OnError


@dataclasses.dataclass(frozen=True)
class CombiningTask:
    """The function for ``mapInArrow``. It loads its class, which needs NumPy, when it is called.

    Attributes:
        name: the name of the class in ``keystate._worker.combining``.
        arguments: the arguments of the class.
    """

    name: str
    arguments: tuple[Any, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = getattr(import_module("keystate._worker.combining"), self.name)(*self.arguments)
        made: Iterator[pa.RecordBatch] = task(batches)
        return made


def key_names(rows: T.StructType, cols: Sequence[str | Column]) -> list[str] | None:
    """The key columns of a stream; ``None`` if one of them is no column by its name.

    Args:
        rows: the stream's columns.
        cols: its key columns, as the user gave them.
    """
    told = [column_of(col, rows) if isinstance(col, str) else None for col in cols]
    found = [name for name in told if name is not None]
    return found if len(found) == len(cols) else None


def why_not(
    rows: Input,
    cols: Sequence[str | Column],
    time_mode: str,
    late_output: OutputTag | None,
    on_error: OnError,
) -> DeclarationError | None:
    """The error that rows can't be combined before the shuffle; ``None`` if they can.

    Args:
        rows: the stream.
        cols: its key columns, in the user's form.
        time_mode: the operator's time mode.
        late_output: the side output for late rows.
        on_error: the policy for rows that fail.
    """
    marked = [field.name for field in rows.row_type.fields if DELAY_KEY in field.metadata]
    if late_output is not None:
        return _refusal("late_output", "late rows would be in one with others", "leave it out")
    if rows.df.isStreaming and marked and time_mode in ("auto", "event_time"):
        return _refusal(
            f"the watermark by the column '{marked[0]}'",
            "late rows would be in one with others, and not be dropped",
            "with time_mode='none' late rows are taken as others are",
        )
    if on_error != "fail":
        return _refusal("on_error", "a row that fails takes others with it", "leave it out")
    if rows.order:
        return _refusal("order_by", "a row that others are in has no place in it", "leave it out")
    if rows.key_names is None:
        return DeclarationError(
            f"combine=True needs the key columns by their names, {rows.row_type.names}, got "
            f"{list(cols)!r}: add another key to the DataFrame with withColumn first"
        )
    return None


def _refusal(what: str, why: str, instead: str) -> DeclarationError:
    return DeclarationError(f"combine=True does not go together with {what}: {why}; {instead}")


def combined_rows(function_spec: FunctionSpec, rows: Input, keys: Sequence[str]) -> Input:
    """The rows of a stream, reduced before the shuffle.

    Args:
        function_spec: how the function of two rows is called.
        rows: the stream. The harness's rows come one by one, and stay as they are.
        keys: its key columns.

    Raises:
        DeclarationError: the function has more than a ``reduce``.
    """
    fn = function_spec.function
    for method in ("open", "close"):
        own = getattr(type(fn), method, None)
        if own is not None and own is not getattr(Function, method):
            raise DeclarationError(
                f"combine=True calls reduce() before the shuffle, where there is no subtask: "
                f"{type(fn).__name__} has a method {method}(); leave out one of them"
            )
    if rows.shape is not None and struct_codec(rows.row_type, rows.shape).runs_code:
        raise _refusal(
            "a row_type with code of its own, such as __post_init__",
            "a row that others are in would be made once more",
            "leave it out",
        )
    if isinstance(rows.df, SchemaRows):
        return rows
    check_columns(rows.row_type, "the input")
    places = tuple(rows.row_type.names.index(key) for key in keys)
    task = CombiningTask(
        "CombineRows", (pickled(function_spec, fn), rows.row_type, rows.shape, places)
    )
    return _combined(rows, rows.df, task, rows.row_type, keys)


def combined_columns(
    aggregates: tuple[ColumnAggregate, ...], rows: Input, keys: Sequence[str]
) -> Input:
    """The accumulators of the columns of a stream, made before the shuffle.

    Args:
        aggregates: what they are, of the stream's rows.
        rows: the stream.
        keys: its key columns.
    """
    names = rows.row_type.names
    read = sorted({each.column for each in aggregates if each.column is not None})
    place = {column: len(keys) + i for i, column in enumerate(read)}
    placed = tuple(
        each if each.column is None else dataclasses.replace(each, column=place[each.column])
        for each in aggregates
    )
    task = CombiningTask("CombineColumns", (placed, len(keys)))
    accumulators = accumulator_type(aggregates).fields
    parts = [
        T.StructField(free_name(f"_aggregate{i}", keys), f.dataType)
        for i, f in enumerate(accumulators)
    ]
    made = T.StructType([*(rows.row_type[key] for key in keys), *parts])
    needed = [*keys, *(names[column] for column in read)]
    df = rows.df.select(*(rows.df[quoted(name)] for name in needed))
    return _combined(dataclasses.replace(rows, shape=None), df, task, made, keys)


def _combined(
    rows: Input, df: DataFrame, task: CombiningTask, made: T.StructType, keys: Sequence[str]
) -> Input:
    # Names that mapInArrow finds; and a watermark does not pass through it.
    plain = df.toDF(*(f"_{i}" for i in range(len(df.columns))))
    fields = [T.StructField(f.name, f.dataType, f.nullable, unmarked(f)) for f in made.fields]
    combined = plain.mapInArrow(task, T.StructType(fields))
    return dataclasses.replace(rows, df=combined, keys=[combined[quoted(key)] for key in keys])


def free_name(name: str, keys: Sequence[str]) -> str:
    """The name of a column that is made, as it is or longer: no key column has it."""
    taken = {key.lower() for key in keys}
    while name.lower() in taken:
        name = f"_{name}"
    return name


def unmarked(field: T.StructField) -> dict[str, Any]:
    """The metadata of a column, without that of a watermark."""
    return {key: value for key, value in field.metadata.items() if key != DELAY_KEY}
