"""Columns that a function of batches hands over, as Arrow arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from keystate._types.codec import Codec, shorten
from keystate._worker.operators.column_types import cast, check_fields

_TEXTS = (str, bytes, bytearray, memoryview)


class NoColumnError(TypeError):
    """A result of the function is no column, whatever the rows are."""


def as_array(values: Any, codec: Codec, kind: pa.DataType) -> pa.Array:
    """A column's values as an array.

    Python values mean what they do in a function of rows. Those of Arrow, NumPy and pandas that
    have a type of their own are cast by Arrow. The array may share their memory.

    Args:
        values: the column.
        codec: of its values.
        kind: the array's type, which may differ from the codec's by the time zone.

    Raises:
        NoColumnError: it is no column, or Arrow does not cast its type.
        TypeError: a value does not fit; so do ``ValueError`` and Arrow's exceptions.
    """
    if isinstance(values, pa.ChunkedArray):
        array = values.combine_chunks()
    elif isinstance(values, pa.Array):
        array = values
    elif _has_own_type(values):
        array = pa.array(values)
    else:
        array = codec.encode(_python_values(values))
    if isinstance(array, pa.ChunkedArray):  # as combine_chunks gives of no chunk in old versions
        array = pa.concat_arrays(array.chunks)
    check_fields(array.type, kind)
    try:
        return cast(array, kind)
    except pa.ArrowNotImplementedError as e:
        raise NoColumnError(str(e)) from None


def _has_own_type(values: Any) -> bool:
    kind = getattr(values, "dtype", None)
    if kind is not None and getattr(values, "ndim", 1) > 0:
        return str(kind) != "object"
    return hasattr(values, "__arrow_array__") or hasattr(values, "__arrow_c_array__")


def _python_values(values: Any) -> list[Any]:
    is_one = isinstance(values, (*_TEXTS, dict)) or getattr(values, "ndim", 1) == 0
    if is_one or not isinstance(values, Iterable):
        raise NoColumnError(
            f"a column is an array, a Series or a list of values, got {_got(values)}"
        )
    python = [value.as_py() if isinstance(value, pa.Scalar) else value for value in values]
    if type(values).__module__.startswith("pandas"):
        # Among objects too, pandas may have a NaN where there is no value.
        return [None if isinstance(v, float) and v != v else v for v in python]
    return python


def _got(values: Any) -> str:
    return f"{type(values).__name__} {shorten(values)}"


def columns_of(result: Any, names: list[str]) -> list[Any]:
    """The columns with these names of a table, a DataFrame or a dictionary.

    Raises:
        NoColumnError: it is none of these, or has no such column.
    """
    if isinstance(result, pa.StructArray):
        result = pa.RecordBatch.from_struct_array(result)
    if not isinstance(result, (pa.Table, pa.RecordBatch, dict)) and not _is_data_frame(result):
        try:
            result = pa.table(result)  # of other libraries
        except (TypeError, ValueError, pa.ArrowException):
            raise NoColumnError(
                "process_batch returns a table, a record batch, a DataFrame or a dictionary of "
                f"columns, or yields them, got {_got(result)}"
            ) from None
    there = result.schema.names if isinstance(result, (pa.Table, pa.RecordBatch)) else list(result)
    for name in names:
        if there.count(name) != 1:
            raise NoColumnError(f"it has {there.count(name) or 'no'} columns '{name}': {there}")
    return [result[name] for name in names]


def _is_data_frame(result: Any) -> bool:
    return type(result).__module__.startswith("pandas") and type(result).__name__ == "DataFrame"
