"""What driver, worker and JVM agree on about an operator: its states with their types."""

from __future__ import annotations

import dataclasses
import datetime
import json
import typing
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pyspark.sql import types as T

from keystate._codec import Codec, Misfit, codec
from keystate._ordering import sort_key
from keystate.errors import DeclarationError
from keystate.state import NATURAL, KeyOrder, StateDescriptor, TypeLike, ValueStateDescriptor


@dataclass(frozen=True)
class StateSpec:
    """One declared state with its types resolved, picklable."""

    name: str
    kind: str
    descriptor: str
    value_type: T.DataType
    key_type: T.DataType | None
    value_class: type | None = None
    key_class: type | None = None
    order: KeyOrder = NATURAL

    def value_codec(self) -> Codec:
        """The codec of values, elements or accumulators."""
        return codec(self.value_type, self.value_class)

    def key_codec(self) -> Codec:
        """The codec of a map's keys."""
        assert self.key_type is not None
        return codec(self.key_type, self.key_class)

    def to_json(self) -> dict[str, Any]:
        """What the JVM reads."""
        return {
            "name": self.name,
            "kind": self.kind,
            "descriptor": self.descriptor,
            "value_type": self.value_type.jsonValue(),
            "order": self.order.value,
            "key_type": self.key_type.jsonValue() if self.key_type is not None else None,
        }


@dataclass(frozen=True)
class OperatorSpec:
    """One keyed operator."""

    name: str | None
    max_parallelism: int | None
    time_mode: str
    timers: bool
    states: tuple[StateSpec, ...]

    def to_json(self) -> str:
        """What the JVM reads."""
        fields = {"name": self.name, "max_parallelism": self.max_parallelism}
        states = [state.to_json() for state in self.states]
        return json.dumps(
            {**fields, "time_mode": self.time_mode, "timers": self.timers, "states": states}
        )


def resolve_state(descriptor: StateDescriptor) -> StateSpec:
    """Resolves the types of a descriptor. On the driver only: DDL is parsed by Spark."""
    place = f"state '{descriptor.name}'"
    value_type, value_class = resolve_type(descriptor.value_type, place)
    key_type, key_class = None, None
    if descriptor.key_type is not None:
        key_type, key_class = resolve_type(descriptor.key_type, f"the keys of {place}")
    spec = StateSpec(
        descriptor.name,
        descriptor.kind,
        descriptor.descriptor,
        value_type,
        key_type,
        value_class,
        key_class,
        descriptor.order,
    )
    try:
        spec.value_codec()
        if key_type is not None:
            spec.key_codec()
            sort_key(key_type, spec.order)
        if isinstance(descriptor, ValueStateDescriptor):
            spec.value_codec().encode([descriptor.default])
    except Misfit as e:
        raise DeclarationError(f"the default of {place}: {e}") from None
    except TypeError as e:
        raise DeclarationError(f"{place}: {e}") from None
    return spec


def resolve_type(declared: TypeLike, place: str) -> tuple[T.DataType, type | None]:
    """A declared type as a DataType, and the dataclass when it is one.

    Raises:
        DeclarationError: it is none of DDL, DataType or dataclass; the message names `place`.
    """
    if isinstance(declared, T.DataType):
        return declared, None
    if isinstance(declared, type) and dataclasses.is_dataclass(declared):
        return _struct_of(declared, place), declared
    if isinstance(declared, str):
        try:
            return T._parse_datatype_string(declared), None
        except Exception as e:
            reason = str(e).strip().splitlines()[0]
            raise DeclarationError(f"{place}: '{declared}' is not a type: {reason}") from e
    raise DeclarationError(
        f"{place}: expected a DDL string such as 'long' or 'count long, total long', a DataType "
        f"or a dataclass, got {declared!r}"
    )


def resolve_schema(declared: TypeLike, place: str) -> tuple[T.StructType, type | None]:
    """Like :func:`resolve_type`, for rows: a type that is no struct is a column named ``value``."""
    data_type, cls = resolve_type(declared, place)
    if isinstance(data_type, T.StructType):
        return data_type, cls
    return T.StructType([T.StructField("value", data_type)]), None


_PYTHON_TYPES: dict[Any, T.DataType] = {
    int: T.LongType(),
    float: T.DoubleType(),
    str: T.StringType(),
    bool: T.BooleanType(),
    bytes: T.BinaryType(),
    bytearray: T.BinaryType(),
    Decimal: T.DecimalType(38, 18),
    datetime.date: T.DateType(),
    datetime.datetime: T.TimestampType(),
    datetime.timedelta: T.DayTimeIntervalType(),
}


def _struct_of(cls: type, place: str) -> T.StructType:
    hints = typing.get_type_hints(cls)
    return T.StructType(
        [
            T.StructField(field.name, _type_of(hints[field.name], f"{place}, field {field.name}"))
            for field in dataclasses.fields(cls)
        ]
    )


def _type_of(hint: Any, place: str) -> T.DataType:
    if hint in _PYTHON_TYPES:
        return _PYTHON_TYPES[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (list, tuple) and arguments and (origin is list or arguments[1:] == (...,)):
        return T.ArrayType(_type_of(arguments[0], place))
    if origin is dict:
        return T.MapType(_type_of(arguments[0], place), _type_of(arguments[1], place))
    present = [argument for argument in arguments if argument is not type(None)]
    if len(present) == 1 and len(arguments) == 2:  # Optional[X] or X | None
        return _type_of(present[0], place)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _struct_of(hint, place)
    raise DeclarationError(f"{place}: no Spark type is known for {hint!r}; give the type as DDL")
