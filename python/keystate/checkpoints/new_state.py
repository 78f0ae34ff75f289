"""Checks the columns of DataFrames that become state, and puts them in order."""

from __future__ import annotations

import dataclasses
from itertools import count
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keystate._operators.definition import Input, Operator
from keystate._operators.function_specs import process_spec, two_input_plan
from keystate._operators.pickling import pickled
from keystate._operators.schema_rows import SchemaRows
from keystate._operators.task import operator_spec
from keystate._spec.specs import (
    OperatorSpec,
    StateSpec,
    check_columns,
    check_distinct,
    check_names,
    resolve_schema,
)
from keystate._spec.time_mode import WRITTEN, time_mode_of
from keystate._types.ddl import quoted
from keystate.errors import DeclarationError, StateTypeError
from keystate.functions import CoFlatMapFunction, CoMapFunction, KeyedCoProcessFunction
from keystate.state import TypeLike
from keystate.state.kinds import TIMERS, StateKind


def spec_of(
    fn: Any, key: T.StructType, time_mode: str, max_parallelism: int | None
) -> OperatorSpec:
    """A function's specification, with only the keyed states and timers, which can be written."""
    time_mode_of(time_mode, WRITTEN)
    two = isinstance(fn, (KeyedCoProcessFunction, CoMapFunction, CoFlatMapFunction))
    function_spec = two_input_plan(fn) if two else process_spec(fn)
    rows = SchemaRows(key)
    operator = Operator(
        function_spec=function_spec,
        rows=Input(rows, [rows[name] for name in key.names]),
        output_schema=key,
        time_mode=time_mode,
        max_parallelism=max_parallelism,
    )
    spec = operator_spec(operator, pickled(function_spec, fn))
    check_names(spec)
    # The rest begins empty, as in a checkpoint that does not have it.
    return dataclasses.replace(spec, subtask_state=None, metrics=False)


def key_type_of(key: TypeLike) -> T.StructType:
    """The key's columns."""
    key_type = resolve_schema(key, "the key")
    check_columns(key_type, "the key")
    check_distinct(key_type, "the key")
    return key_type


def empty_stream(spark: SparkSession, key: T.StructType) -> DataFrame:
    """A stream with the key columns and no rows, which can run one micro-batch."""
    rows = spark.readStream.format("rate-micro-batch").options(rowsPerBatch=1, numPartitions=1)
    names = [f"_{i}" for i in range(len(key.fields))]
    keys = [F.lit(None).cast(f.dataType).alias(name) for name, f in zip(names, key)]
    stream = rows.load().where("value < 0").select(F.col("timestamp").alias("$time"), *keys)
    # The time mode decides whether the watermark matters.
    stream = stream.withWatermark("`$time`", "0 seconds")
    # All at once: a key column may have one of these names itself.
    taken = {name.lower() for name in key.names}
    time = next(name for i in count() if (name := f"$time{i}") not in taken)
    return stream.toDF(time, *key.names)


def state_rows(df: Any, name: str, spec: StateSpec | None, key: T.StructType) -> DataFrame:
    """A DataFrame with the key as a struct, then the columns of an entry of the state.

    Broadcast state has no key.

    Args:
        df: the user's DataFrame.
        name: the name of the state, or of timers.
        spec: the state; ``None`` for timers.
        key: the key's columns.

    Raises:
        DeclarationError: a column is missing, or `df` is no batch DataFrame.
        StateTypeError: a column has another type.
    """
    if not isinstance(df, DataFrame) or df.isStreaming:
        raise DeclarationError(f"state '{name}': expected a batch DataFrame, got {df!r}")
    check_distinct(df.schema, f"the DataFrame of state '{name}'")
    columns = [] if spec is not None and spec.kind == StateKind.BROADCAST else [_key(df, name, key)]
    if spec is not None and spec.kind == StateKind.LIST:
        given = "position" in df.columns
        columns.append(
            typed(df, name, "position", T.LongType(), "") if given
            else F.monotonically_increasing_id().alias("position")
        )  # fmt: skip
    for column, kind, field in _entry_columns(name, spec):
        columns.append(typed(df, name, column, kind, field))
    return df.select(*columns)


def rekeyed_rows(df: Any, name: str, spec: StateSpec | None, key: T.StructType) -> DataFrame:
    """The rows of :func:`state_rows`, for rows with a new key.

    Raises:
        DeclarationError: as for :func:`state_rows`, or the rows have both ``key`` and its fields:
            a struct of the same type may be the old key.
    """
    rows = state_rows(df, name, spec, key)
    of_state = {"key", "position", *(column for column, _, _ in _entry_columns(name, spec))}
    if (
        "key" in df.columns
        and _same(df.schema["key"].dataType, key)
        and all(name in df.columns and name not in of_state for name in key.names)
    ):
        raise DeclarationError(
            f"the rows of state '{name}' have their key twice, as the struct 'key' and as the "
            f"columns {', '.join(key.names)}: drop the one that is not the new key"
        )
    return rows


#: A window of a timer: its end and start, in ms.
_WINDOW = T.StructType([T.StructField(name, T.LongType()) for name in ("end", "start")])


def _entry_columns(name: str, spec: StateSpec | None) -> list[tuple[str, T.DataType, str]]:
    """Name and type of each column, and its field in the struct that Spark's reader returns."""
    if spec is None:
        timers: list[tuple[str, T.DataType, str]] = [
            ("time_domain", T.StringType(), ""),
            ("expiration_timestamp_ms", T.LongType(), ""),
        ]
        return timers if name == TIMERS else [*timers, ("window", _WINDOW, "")]
    if spec.kind == StateKind.LIST:
        return [("list_element", spec.value_type, "value")]
    if spec.key_type is not None:
        return [
            ("user_map_key", spec.key_type, "key"),
            ("user_map_value", spec.value_type, "value"),
        ]
    return [("value", spec.value_type, "value")]


def _key(df: DataFrame, state: str, key: T.StructType) -> Column:
    if "key" in df.columns and _same(df.schema["key"].dataType, key):
        return df["key"]
    missing = [name for name in key.names if name not in df.columns]
    if missing:
        raise DeclarationError(
            f"the rows of state '{state}' lack the key: they need a struct 'key' of type "
            f"{key.simpleString()}, or its fields as columns; there is no '{missing[0]}' among "
            f"{df.columns}"
        )
    return F.struct(*[typed(df, state, f.name, f.dataType, "") for f in key]).alias("key")


def typed(df: DataFrame, state: str, name: str, kind: T.DataType, field: str = "") -> Column:
    """A column of this type; if it is a struct of one field, that field."""
    if name not in df.columns:
        raise DeclarationError(
            f"the rows of state '{state}' lack the column '{name}', there are {df.columns}"
        )
    found, column = df.schema[name].dataType, df[quoted(name)]
    if _same(found, kind):
        return column
    if field and _same(found, T.StructType([T.StructField(field, kind)])):
        return column[field].alias(name)
    raise StateTypeError(
        f"state '{state}': column '{name}' is {found.simpleString()}, not {kind.simpleString()}: "
        "cast it"
    )


def _same(a: T.DataType, b: T.DataType) -> bool:
    """Whether two types are the same except for nullability."""
    return a.simpleString() == b.simpleString()
