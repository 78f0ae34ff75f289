"""Rows as objects of a dataclass, and output schemas from a function's type parameters."""

from __future__ import annotations

import dataclasses
import inspect
import typing
from typing import Any, TypeVar

from pyspark.sql import types as T

from keystate._spec.specs import DELAY_KEY, resolve_type
from keystate._types.codec import Shape
from keystate.errors import DeclarationError
from keystate.state import TypeLike

_GROUPS = (
    (T.ByteType, T.ShortType, T.IntegerType, T.LongType),
    (T.FloatType, T.DoubleType),
    (T.DecimalType,),
    (T.TimestampType, T.TimestampNTZType),
)


def typed_rows(schema: T.StructType, row_type: Any) -> tuple[list[str], Shape]:
    """The columns that a dataclass has fields for, in its order, and how rows become objects of it.

    Raises:
        DeclarationError: it is no dataclass, or its fields do not fit the columns.
    """
    if not (isinstance(row_type, type) and dataclasses.is_dataclass(row_type)):
        raise DeclarationError(f"row_type is a dataclass, got {row_type!r}")
    place = f"row_type {row_type.__name__}"
    declared, shape = resolve_type(row_type, place)
    assert isinstance(declared, T.StructType) and shape is not None
    _check_made(shape, place)
    columns = {field.name: field for field in schema.fields}
    for field in declared.fields:
        if field.name not in columns:
            raise DeclarationError(
                f"{place} has a field '{field.name}', and the input no such column: "
                f"{schema.fieldNames()}"
            )
        found = columns.pop(field.name).dataType
        if not _fits(found, field.dataType):
            raise DeclarationError(
                f"{place}: the field '{field.name}' is {field.dataType.simpleString()}, and the "
                f"column {found.simpleString()}"
            )
    marked = [name for name, column in columns.items() if DELAY_KEY in column.metadata]
    if marked:
        raise DeclarationError(
            f"{place} needs a field for the column '{marked[0]}', which the watermark goes by"
        )
    return declared.fieldNames(), shape


def _check_made(shape: Shape, place: str) -> None:
    """Raises DeclarationError for a class that does not make objects of just its fields."""
    if shape.cls is not None and dataclasses.is_dataclass(shape.cls):
        names = [field.name for field in dataclasses.fields(shape.cls)]
        try:
            inspect.signature(shape.cls).bind(**dict.fromkeys(names))
        except TypeError as e:
            raise DeclarationError(
                f"{place}: {shape.cls.__name__} can't be made from its fields: {e}. A row has a "
                "column for each field of its class"
            ) from e
    for part in filter(None, shape.parts):
        _check_made(part, place)


def _fits(found: T.DataType, declared: T.DataType) -> bool:
    """Whether the Python values of both are of one class."""
    if isinstance(found, T.StructType) and isinstance(declared, T.StructType):
        return found.fieldNames() == declared.fieldNames() and all(
            _fits(f.dataType, d.dataType) for f, d in zip(found.fields, declared.fields)
        )
    if isinstance(found, T.ArrayType) and isinstance(declared, T.ArrayType):
        return _fits(found.elementType, declared.elementType)
    if isinstance(found, T.MapType) and isinstance(declared, T.MapType):
        return _fits(found.keyType, declared.keyType) and _fits(found.valueType, declared.valueType)
    if type(found) is type(declared):
        return True
    return any(isinstance(found, group) and isinstance(declared, group) for group in _GROUPS)


def output_schema_of(fn: Any, output_schema: TypeLike | None) -> TypeLike:
    """The output schema, if need be that of the function's last type parameter.

    Raises:
        DeclarationError: there is none.
    """
    if output_schema is not None:
        return output_schema
    for cls in type(fn).__mro__:
        for base in getattr(cls, "__orig_bases__", ()):
            origin, arguments = typing.get_origin(base), typing.get_args(base)
            declares = any(getattr(p, "__name__", "") == "OUT" for p in _parameters(origin))
            if declares and not isinstance(arguments[-1], TypeVar) and arguments[-1] is not Any:
                found: TypeLike = arguments[-1]
                return found
    raise DeclarationError(
        f"{type(fn).__name__} does not tell what it emits: give an output schema, or derive its "
        "class from one with type parameters, of which the last is a dataclass, as in "
        "KeyedProcessFunction[str, Trade, Alert]"
    )


def _parameters(cls: Any) -> tuple[Any, ...]:
    parameters: tuple[Any, ...] = getattr(cls, "__parameters__", ())
    return parameters[-1:]
