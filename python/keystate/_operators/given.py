"""The columns of an input that a function of rows is given."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import functions as F
from pyspark.sql import types as T

from keystate._operators.definition import Input
from keystate._operators.schema_rows import SchemaRows
from keystate._types.codec import NOT_GIVEN, codec
from keystate._types.ddl import quoted
from keystate._worker.calls.function_spec import Style

_ONE_BY_ONE = {Style.PROCESS, Style.FLAT_MAP, Style.MAP, Style.SINK, Style.ASYNC}


def given(rows: Input, style: Style) -> Input:
    """An input without the columns whose type has no Python value, such as a variant.

    For functions of batches the columns are left out. Rows have a placeholder instead, which names
    the column to a function that reads it. Keys, orders and windows must not have such columns.

    Args:
        rows: the input.
        style: the function's style.
    """
    if style not in _ONE_BY_ONE and style is not Style.BATCHES:
        return rows
    fields = rows.row_type.fields
    without = {field.name for field in fields if not _has_python_value(field.dataType)}
    if not without.difference(rows.key_names or ()) or isinstance(rows.df, SchemaRows):
        return rows
    if rows.order or (rows.keys and rows.key_names is None):
        return rows  # which may be made of them
    columns = []
    for field in fields:
        if field.name not in without or field.name in (rows.key_names or ()):
            columns.append(rows.df[quoted(field.name)])
        elif style is not Style.BATCHES:
            metadata = {NOT_GIVEN: field.dataType.simpleString()}
            null = F.lit(None).cast("boolean")
            columns.append(null.alias(field.name, metadata=metadata))
    df = rows.df.select(*columns)
    return replace(rows, df=df, keys=[df[quoted(name)] for name in rows.key_names or ()])


def _has_python_value(data_type: T.DataType) -> bool:
    try:
        codec(data_type)
    except TypeError:
        return False
    return True
