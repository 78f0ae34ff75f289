"""Values of an older type of a state, read as values of the one that it has now.

The same rules as the JVM's ``SchemaEvolution``, on Arrow arrays: fields are found by their names;
they may be added, if they have a default or may be null, removed, reordered and widened.
"""

from __future__ import annotations

import base64
import dataclasses
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import types as T
from pyspark.sql.pandas.types import from_arrow_type

from keystate._types.codec import Shape, codec, offsets
from keystate.errors import CheckpointError

#: In a field's metadata: its value in what was stored before it was added.
DEFAULT = "keystate.default"


class Unreadable(Exception):
    """A value of the old type is none of the new one; the message says why."""


def to_text(array: pa.Array) -> str:
    """An array as text: an Arrow stream in Base64."""
    batch = pa.RecordBatch.from_arrays([array], ["element"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return base64.b64encode(sink.getvalue()).decode()


def from_text(text: str) -> pa.Array:
    """The array in a text that :func:`to_text` made; lengths in it that are wrong are refused."""
    column = pa.ipc.open_stream(base64.b64decode(text)).read_all().column(0)
    column.validate(full=True)  # before anything that relies on its lengths, as the next call does
    return column.combine_chunks()


def stored_element(text: str, state: str) -> pa.Array:
    """The array in a checkpoint's text, of which nothing is believed.

    Raises:
        CheckpointError: it is damaged.
    """
    try:
        return from_text(text)
    except Exception as e:
        raise CheckpointError(
            f"an element of state '{state}' in the checkpoint can't be "
            f"read: {type(e).__name__}: {e}. Go on from an older checkpoint",
            code="KEYSTATE_CORRUPT_FILE",
        ) from e


def with_defaults(data_type: T.DataType, shape: Shape | None, whole: Any = None) -> T.DataType:
    """The type with the defaults of its fields in their metadata.

    Args:
        data_type: the type.
        shape: where the dataclasses are that have defaults.
        whole: a value of the type, whose fields come first, at any depth; but an element of a list
            or map in it stands for no other element.

    Raises:
        Misfit: a default does not fit its field.
    """
    shape = shape or Shape()
    if isinstance(data_type, T.ArrayType):
        element = with_defaults(data_type.elementType, shape.part(0))
        return T.ArrayType(element, data_type.containsNull)
    if isinstance(data_type, T.MapType):
        value = with_defaults(data_type.valueType, shape.part(1))
        return T.MapType(data_type.keyType, value, data_type.valueContainsNull)
    if not isinstance(data_type, T.StructType):
        return data_type
    of = codec(data_type, shape)
    # A whole value may stand for none, as pandas' NA does.
    (stored,) = of.decode(of.encode([whole]))
    if stored is not None:
        values = [getattr(stored, name) if shape.cls else stored[i] for i, name in
                  enumerate(data_type.names)]  # fmt: skip
    else:
        values = _dataclass_defaults(shape.cls) if shape.cls else [None] * len(data_type.fields)
    fields = []
    for i, (field, value) in enumerate(zip(data_type.fields, values)):
        inside = value if isinstance(field.dataType, T.StructType) else None
        inner = with_defaults(field.dataType, shape.part(i), inside)
        if value is not None:
            encoded = codec(field.dataType, shape.part(i)).encode([value])
            fields.append(T.StructField(field.name, inner, True, {DEFAULT: to_text(encoded)}))
        else:
            fields.append(T.StructField(field.name, inner, field.nullable))
    return T.StructType(fields)


def _dataclass_defaults(cls: Any) -> list[Any]:
    return [_default_of(field) for field in dataclasses.fields(cls)]


def _default_of(field: dataclasses.Field[Any]) -> Any:
    # Not by identity: a class that was pickled by its value has another MISSING.
    missing = type(dataclasses.MISSING)
    factory: Any = field.default_factory
    if not isinstance(factory, missing):
        return factory()
    return None if isinstance(field.default, missing) else field.default


def read_as(array: pa.Array, data_type: T.DataType) -> pa.Array:
    """An array of an older type as one of this type.

    Args:
        array: the values as they were stored.
        data_type: the type that they have now, :func:`with_defaults`.

    Raises:
        Unreadable: the type has changed in another way than fields may.
    """
    return _convert(array, data_type, codec(data_type).arrow, "the value")


def _convert(array: pa.Array, to: T.DataType, arrow: pa.DataType, place: str) -> pa.Array:
    old = array.type
    if old == arrow:
        return array
    if isinstance(to, T.StructType) and pa.types.is_struct(old):
        columns = _fields(array, to, arrow, place)
        return pa.StructArray.from_arrays(columns, fields=list(arrow), mask=array.is_null())
    if isinstance(to, T.ArrayType) and pa.types.is_list(old):
        element = to.elementType
        values = _convert(array.values, element, arrow.value_type, f"an element of {place}")
        return pa.ListArray.from_arrays(_offsets(array), values, type=arrow, mask=array.is_null())
    if isinstance(to, T.MapType) and pa.types.is_map(old) and old.key_type == arrow.key_type:
        items = _convert(array.items, to.valueType, arrow.item_type, f"a value of {place}")
        return pa.MapArray.from_arrays(
            _offsets(array), array.keys, items, type=arrow, mask=array.is_null()
        )
    if _is_wider(old, arrow):
        return array.cast(arrow)
    raise Unreadable(f"{place} was {type_name(old)} and can't become {to.simpleString()}")


def _fields(
    array: pa.StructArray, to: T.StructType, arrow: pa.StructType, place: str
) -> Sequence[pa.Array]:
    columns = []
    for field, target in zip(to.fields, arrow):
        at = array.type.get_field_index(field.name)
        if at >= 0:
            inside = f"field '{field.name}' of {place}"
            columns.append(_convert(array.field(at), field.dataType, target.type, inside))
        elif DEFAULT in field.metadata:
            default = from_text(field.metadata[DEFAULT])
            columns.append(default.take(pa.array([0] * len(array), pa.int32())))
        elif field.nullable:
            columns.append(pa.nulls(len(array), target.type))
        else:
            raise Unreadable(
                f"field '{field.name}' of {place} is new and must not be null: give it a default"
            )
    return columns


_INTEGERS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]


def _offsets(array: pa.Array) -> pa.Array:
    return pa.array(offsets(array), pa.int32())


def _is_wider(old: pa.DataType, new: pa.DataType) -> bool:
    if pa.types.is_decimal128(old) and pa.types.is_decimal128(new):
        digits = [t.precision - t.scale for t in (old, new)]
        return bool(new.scale >= old.scale and digits[1] >= digits[0])
    if old in _INTEGERS and new in _INTEGERS:
        return _INTEGERS.index(old) < _INTEGERS.index(new)
    return bool(old == pa.float32() and new == pa.float64())


def type_name(arrow: pa.DataType) -> str:
    """The Spark name of an Arrow type; Arrow's own where Spark has none (of a damaged file)."""
    try:
        return from_arrow_type(arrow).simpleString()
    except PySparkException:
        return str(arrow)
