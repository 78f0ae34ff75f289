"""Copies of rows and accumulators: what a function is handed is not what a window holds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import types as T

from keystate._codec import codec
from keystate._codec.base import Shape

Copy = Callable[[Any], Any]


def copies_of(data_type: T.DataType, shape: Shape | None = None) -> Copy:
    """What copies values of a type; those that can't be changed in place stay as they are."""
    return codec(data_type, shape).as_read if can_change(data_type, shape) else _same


def can_change(data_type: T.DataType, shape: Shape | None = None) -> bool:
    """Whether values of a type can be changed in place."""
    if isinstance(data_type, T.StructType):
        if shape is not None and shape.cls is not None:
            return True  # a dataclass
        parts = [None if shape is None else shape.part(i) for i in range(len(data_type.fields))]
        return any(can_change(f.dataType, part) for f, part in zip(data_type.fields, parts))
    return isinstance(data_type, (T.ArrayType, T.MapType))


def _same(value: Any) -> Any:
    return value
