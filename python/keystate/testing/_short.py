"""Operators from their parts, as the short forms of the harnesses take them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pyspark.sql import DataFrame

from keystate._operators.schema_rows import SchemaRows
from keystate._spec.specs import resolve_schema
from keystate.errors import DeclarationError
from keystate.functions import (
    CoFlatMapFunction,
    CoMapFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedBatchFunction,
    MapFunction,
    ReduceFunction,
    SinkFunction,
)
from keystate.state import TypeLike
from keystate.streams.keyed import keyed
from keystate.streams.plain import stream
from keystate.streams.rows import RowStream
from keystate.windows import WindowedRows


def rows_of(
    schema: TypeLike, batch: Iterable[Any] | None = None, *, event_time: str | None = None
) -> DataFrame:
    """A DataFrame without a session, from which a test makes streams for a harness.

    It has only the methods ``withWatermark`` and ``select``; columns are selected by their names.

    Args:
        schema: DDL, DataType or dataclass.
        batch: the rows of a batch DataFrame, for initial state: Rows, tuples, dicts or dataclasses.
            Without them the DataFrame is a stream.
        event_time: the watermark's column: a timestamp, or a window of timestamps.

    Raises:
        AnalysisException: the column can't be an event time, as in ``df.withWatermark``.
        DeclarationError: the schema is not valid, or has no such column.
    """
    made: DataFrame = SchemaRows(
        resolve_schema(schema, "the input schema"), None if batch is None else list(batch)
    )
    return made if event_time is None else made.withWatermark(event_time, "0 seconds")


def one_input(
    fn: Any,
    df: DataFrame,
    key_cols: str | Sequence[str],
    output_schema: TypeLike | None,
    keyed_by: dict[str, Any],
    options: dict[str, Any],
) -> DataFrame:
    """The output of an operator with one input and a function of any class.

    Args:
        fn: the function.
        df: the rows of the stream.
        key_cols: the names of its key columns; none if it has no keys.
        output_schema: the schema of the function's results.
        keyed_by: the other arguments of :func:`keystate.keyed`.
        options: options of the stream's method that takes the function.
    """
    cols = [key_cols] if isinstance(key_cols, str) else key_cols
    if isinstance(fn, WindowedRows):
        if "late_output" in options:
            raise DeclarationError(
                "windows take late rows: use side_output_late_data(tag) instead of late_output"
            )
        windows = keyed(df, *cols, **keyed_by).window(fn.windowing._assigner)
        assert output_schema is not None
        return windows._run(fn, output_schema, **{"name": None, **options})
    if isinstance(fn, ReduceFunction):
        return keyed(df, *cols, **keyed_by).reduce(fn, **options)
    if isinstance(fn, KeyedBatchFunction):
        assert output_schema is not None
        return keyed(df, *cols, **keyed_by).process_batches(fn, output_schema, **options)
    rows: RowStream[Any] = keyed(df, *cols, **keyed_by) if cols else stream(df)
    if isinstance(fn, FlatMapFunction):
        return rows.flat_map(fn, output_schema, **options)
    if isinstance(fn, MapFunction):
        return rows.map(fn, output_schema, **options)
    if isinstance(fn, FilterFunction):
        return rows.filter(fn, **options)
    if isinstance(fn, SinkFunction):
        return rows.add_sink(fn, **options)  # type: ignore[return-value]
    return rows.process(fn, output_schema, **options)  # type: ignore[attr-defined,no-any-return]


def two_inputs(
    fn: Any,
    first: tuple[DataFrame, str | Sequence[str]],
    second: tuple[DataFrame, str | Sequence[str]],
    output_schema: TypeLike | None,
    options: dict[str, Any],
) -> DataFrame:
    """The output of an operator with two inputs, each a DataFrame and its key columns."""
    one, two = (
        keyed(df, *([cols] if isinstance(cols, str) else cols)) for df, cols in (first, second)
    )
    streams = one.connect(two)
    if isinstance(fn, CoMapFunction):
        return streams.map(fn, output_schema, **options)
    if isinstance(fn, CoFlatMapFunction):
        return streams.flat_map(fn, output_schema, **options)
    return streams.process(fn, output_schema, **options)
