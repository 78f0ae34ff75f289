"""What driver, worker and JVM agree on about an operator: its states with their types."""

from __future__ import annotations

import dataclasses
import datetime
import json
import typing
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import pyspark
from pyspark.sql import types as T

from keystate._spec.protocol import OperatorFields, StateFields, TtlFields
from keystate._spec.time_mode import TimeMode
from keystate._types.codec import Codec, Misfit, Shape, codec
from keystate._types.codec.evolution import with_defaults
from keystate._types.codec.objects import why_not_restored
from keystate._types.ddl import parse_ddl
from keystate._types.ordering import sort_key
from keystate.errors import DeclarationError
from keystate.state import (
    NATURAL,
    AggregatingStateDescriptor,
    FoldingStateDescriptor,
    KeyOrder,
    ReducingStateDescriptor,
    StateDescriptor,
    StateTtlConfig,
    TypeLike,
    ValueStateDescriptor,
)
from keystate.state.kinds import StateKind

#: The metadata of the column that a watermark goes by.
DELAY_KEY = "spark.watermarkDelayMs"
#: The column of the main output where there are side outputs too.
MAIN_OUTPUT = "main"


@dataclass(frozen=True)
class StateSpec:
    """One declared state with its types resolved, picklable.

    Attributes:
        kind: how it is stored.
        descriptor: what it is called in messages.
        has_function: whether a function of the descriptor's makes its values, as of a reducing one.
    """

    name: str
    kind: StateKind
    descriptor: str
    value_type: T.DataType
    key_type: T.DataType | None
    value_shape: Shape | None = None
    key_shape: Shape | None = None
    order: KeyOrder = NATURAL
    ttl: StateTtlConfig | None = None
    default: Any = None
    has_function: bool = False
    max_entries: int | None = None

    def type_with_defaults(self) -> T.DataType:
        """The value's type, with what fields are that older values do not have."""
        return with_defaults(self.value_type, self.value_shape, self.default)

    def value_codec(self) -> Codec:
        """The codec of values, elements or accumulators."""
        return codec(self.value_type, self.value_shape)

    def key_codec(self) -> Codec:
        """The codec of a map's keys."""
        assert self.key_type is not None
        return codec(self.key_type, self.key_shape)

    def to_json(self) -> dict[str, Any]:
        """The JSON that the JVM reads."""
        names = StateFields
        return {
            names.NAME: self.name,
            names.KIND: self.kind.value,
            names.DESCRIPTOR: self.descriptor,
            names.VALUE_TYPE: self.type_with_defaults().jsonValue(),
            names.ORDER: self.order.value,
            names.KEY_TYPE: self.key_type.jsonValue() if self.key_type is not None else None,
            names.TTL: _ttl_json(self.ttl) if self.ttl is not None else None,
            names.MAX_ENTRIES: self.max_entries,
        }


def _ttl_json(ttl: StateTtlConfig) -> dict[str, Any]:
    cleanup = ttl.get_cleanup_strategies()
    times, visibilities = StateTtlConfig.TtlTimeCharacteristic, StateTtlConfig.StateVisibility
    names = TtlFields
    return {
        names.MILLIS: ttl.to_milliseconds(),
        names.EVENT_TIME: ttl.get_ttl_time_characteristic() is times.EventTime,
        names.UPDATED_ON_READ: ttl.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite,
        names.RETURN_EXPIRED: ttl.get_state_visibility()
        is visibilities.ReturnExpiredIfNotCleanedUp,
        names.SWEEP_SIZE: cleanup.cleanup_size,
        names.SWEEP_ON_RECORDS: cleanup.run_cleanup_for_every_record,
        names.DROP_ON_MERGE: cleanup.in_full_snapshot,
    }


@dataclass(frozen=True)
class InputSpec:
    """An input whose rows the function takes.

    Attributes:
        late_output: the index of the output that its late rows go to; ``None`` if they are dropped.
        shape: how rows become objects of a dataclass; ``None`` if they are Rows.
    """

    late_output: int | None = None
    shape: Shape | None = None


@dataclass(frozen=True)
class SubtaskStateSpec:
    """The state that each subtask keeps without keys.

    Attributes:
        lists: the operator states, and which of them are union states.
        raw_keyed: whether there can be raw keyed state.
        pickles: what pickles may name.
    """

    lists: tuple[tuple[StateSpec, bool], ...] = ()
    raw_keyed: bool = False
    pickles: tuple[str, ...] = ()


@dataclass(frozen=True)
class Takes:
    """How a function takes rows.

    Attributes:
        late_rows: whether it takes late rows as it takes others.
        columns: whether what calls it reads columns of Arrow, not rows.
        windows: what the checkpoint records of its windows, if it puts rows into some: then its
            timers belong to a key and a window.
    """

    late_rows: bool = False
    columns: bool = False
    windows: str | None = None


@dataclass(frozen=True)
class OperatorSpec:
    """One operator.

    Attributes:
        name: its name, if it is given.
        max_parallelism: the number of key groups, if it is given.
        time_mode: its time mode.
        timers: whether the function can have timers.
        states: the keyed states.
        broadcast: the broadcast states.
        subtask_state: the operator state; ``None`` if the function takes no part in checkpoints.
        side_outputs: whether its output has a struct for the main output and for each side output.
        metrics: whether the function has metrics of its own.
        inputs: the inputs whose rows the function takes.
        takes: how the function takes rows.
    """

    name: str | None
    max_parallelism: int | None
    time_mode: TimeMode
    timers: bool
    states: tuple[StateSpec, ...]
    broadcast: tuple[StateSpec, ...] = ()
    subtask_state: SubtaskStateSpec | None = None
    side_outputs: bool = False
    metrics: bool = False
    inputs: tuple[InputSpec, ...] = ()
    takes: Takes = Takes()

    @property
    def windows(self) -> str | None:
        """What the checkpoint records of its windows, if it has some."""
        return self.takes.windows

    @property
    def lists(self) -> tuple[StateSpec, ...]:
        """The operator states."""
        return tuple(state for state, _ in self.subtask_state.lists) if self.subtask_state else ()

    def to_json(self) -> str:
        """The JSON that the JVM reads."""
        names = OperatorFields
        return json.dumps(
            {
                names.NAME: self.name,
                names.MAX_PARALLELISM: self.max_parallelism,
                names.TIME_MODE: self.time_mode.value,
                names.TIMERS: self.timers,
                names.STATES: [state.to_json() for state in self.states],
                names.BROADCAST: [state.to_json() for state in self.broadcast],
                names.CHECKPOINTED: self.subtask_state is not None,
                names.RAW_KEYED: self.subtask_state is not None and self.subtask_state.raw_keyed,
                names.OPERATOR_STATES: [state.to_json() for state in self.lists],
                names.SIDE_OUTPUTS: self.side_outputs,
                names.METRICS: self.metrics,
                names.LATE_OUTPUTS: [each.late_output for each in self.inputs],
                names.TAKES_LATE_ROWS: self.takes.late_rows,
                names.TAKES_COLUMNS: self.takes.columns,
                names.WINDOWS: self.windows,
            }
        )


def check_names(spec: OperatorSpec) -> None:
    """Raises DeclarationError when two states of an operator have one name."""
    names: set[str] = set()
    for state in (*spec.states, *spec.broadcast, *spec.lists):
        if state.name in names:
            raise DeclarationError(
                f"two states are named '{state.name}': every state of a function, of whatever "
                "kind, needs a name of its own"
            )
        names.add(state.name)


_WITH_FUNCTION = (ReducingStateDescriptor, AggregatingStateDescriptor, FoldingStateDescriptor)


def resolve_state(descriptor: StateDescriptor) -> StateSpec:
    """Resolves the types of a descriptor. On the driver only, where Spark can parse DDL."""
    place = f"state '{descriptor.name}'"
    check_name(descriptor.name)
    value_type, value_shape = resolve_type(descriptor.value_type, place)
    key_type, key_shape = None, None
    if descriptor.key_type is not None:
        key_type, key_shape = resolve_type(descriptor.key_type, f"the keys of {place}")
        _check_key(key_type, key_shape, f"the keys of {place}")
    spec = StateSpec(
        name=descriptor.name,
        kind=descriptor.kind,
        descriptor=descriptor.descriptor,
        value_type=value_type,
        key_type=key_type,
        value_shape=value_shape,
        key_shape=key_shape,
        order=descriptor.order,
        ttl=descriptor.ttl,
        default=_default_of(descriptor),
        has_function=isinstance(descriptor, _WITH_FUNCTION),
        max_entries=descriptor.max_entries,
    )
    try:
        spec.value_codec()
        if key_type is not None:
            spec.key_codec()
            sort_key(key_type, spec.order)
        spec.value_codec().encode([spec.default])
        spec.type_with_defaults()
    except Misfit as e:
        raise DeclarationError(f"the default of {place}: {e}") from None
    except TypeError as e:
        raise DeclarationError(f"{place}: {e}") from None
    return spec


def resolve_lasting_state(descriptor: StateDescriptor, kind: str) -> StateSpec:
    """The spec of a state without keys, which can't have a time to live."""
    if descriptor.ttl is not None:
        raise DeclarationError(
            f"state '{descriptor.name}' has a time to live, and {kind} state can't have one: only "
            "the states of a key expire. Leave out enable_time_to_live()"
        )
    return resolve_state(descriptor)


def check_name(name: str) -> None:
    """Names that Spark and Keystate use for themselves would be taken for theirs at run time."""
    if (
        not isinstance(name, str)
        or not name
        or name != name.strip()
        or name == "default"
        or name.startswith("$")
    ):
        raise DeclarationError(
            f"a state can't be named {name!r}: a name is a string, and must not be empty, "
            "'default', begin with '$', or begin or end with white space",
            code="KEYSTATE_RESERVED_NAME",
        )


def _default_of(descriptor: StateDescriptor) -> Any:
    """The descriptor's default value for a key's state, if it has one."""
    if isinstance(descriptor, ValueStateDescriptor):
        return descriptor.default
    return descriptor.initial_value if isinstance(descriptor, FoldingStateDescriptor) else None


def check_columns(schema: T.StructType, place: str) -> None:
    """Raises DeclarationError for a column whose type has no Python value."""
    for field in schema.fields:
        try:
            codec(field.dataType)
        except TypeError as e:
            raise DeclarationError(f"column '{field.name}' of {place}: {e}") from None


def check_distinct(schema: T.StructType, place: str) -> None:
    """Raises DeclarationError when two columns have the same name, ambiguous in a row."""
    for name, count in Counter(schema.fieldNames()).items():
        if count > 1:
            raise DeclarationError(
                f"{place} has {count} columns named '{name}': rename or drop all but one, as "
                "after a join"
            )


def _check_fields(data_type: T.DataType, place: str) -> None:
    """Refuses structs, at any depth, in which two fields have one name: rows are taken by names."""
    if isinstance(data_type, T.StructType):
        check_distinct(data_type, place)
        for field in data_type.fields:
            _check_fields(field.dataType, f"{place}, field '{field.name}',")
    elif isinstance(data_type, T.ArrayType):
        _check_fields(data_type.elementType, f"an element of {place}")
    elif isinstance(data_type, T.MapType):
        _check_fields(data_type.keyType, f"a key of {place}")
        _check_fields(data_type.valueType, f"a value of {place}")


def _check_key(key_type: T.DataType, shape: Shape | None, place: str) -> None:
    """Keys are found by hash here, and kept in their order on the JVM's side."""
    if shape is not None and shape.cls is not None and shape.cls.__hash__ is None:
        raise DeclarationError(
            f"{place}: objects of {shape.cls.__name__} have no hash: declare it with "
            "@dataclass(frozen=True)"
        )
    parts: list[T.DataType] = [key_type]
    for part in parts:
        if isinstance(part, T.StructType):
            parts += [field.dataType for field in part.fields]
        elif isinstance(part, T.ArrayType):
            parts.append(part.elementType)
        elif isinstance(part, T.MapType):
            raise DeclarationError(f"{place}: a map has no order, so it can't be or be in a key")
        elif isinstance(part, T.StringType) and not part.isUTF8BinaryCollation():
            raise DeclarationError(f"{place}: {part.simpleString()} can't be or be in a key")


def resolve_type(declared: TypeLike, place: str) -> tuple[T.DataType, Shape | None]:
    """A declared type as a DataType, and the shape of its values when it is a dataclass.

    Raises:
        DeclarationError: it is none of DDL, DataType or dataclass, or a struct in it has two
            fields of one name; the message names `place`.
    """
    if isinstance(declared, T.DataType):
        _check_fields(declared, place)
        return declared, None
    if (isinstance(declared, type) and declared in _PYTHON_TYPES) or typing.get_origin(
        declared
    ) is not None:
        return _type_of(declared, place)  # int, or list[int]
    if isinstance(declared, type) and dataclasses.is_dataclass(declared):
        try:
            return _struct_of(declared, place)
        except RecursionError:
            raise DeclarationError(f"{place}: {declared.__name__} contains itself") from None
    if isinstance(declared, str):
        try:
            parsed = _parse(declared)
        except Exception as e:
            reason = str(e).strip().splitlines()[0]
            raise DeclarationError(f"{place}: '{declared}' is not a type: {reason}") from e
        _check_fields(parsed, place)
        return parsed, None
    objects = ". NumPy's arrays are kept as 'array<double>', other objects as bytes, in 'binary'"
    raise DeclarationError(
        f"{place}: expected a DDL string such as 'long' or 'count long, total long', a DataType, "
        "a dataclass or a Python type such as int or list[str], "
        f"got {declared!r}{objects if isinstance(declared, type) else ''}"
    )


def _parse(ddl: str) -> T.DataType:
    # Spark's own parser where there is a Spark. The package pyspark-client has no such class.
    context = getattr(pyspark, "SparkContext", None)
    if context is None or context._active_spark_context is None:
        return parse_ddl(ddl)
    return T._parse_datatype_string(ddl)


def resolve_schema(declared: TypeLike, place: str) -> T.StructType:
    """Like :func:`resolve_type`, for rows: a type that is no struct is a column named ``value``."""
    data_type, _ = resolve_type(declared, place)
    if isinstance(data_type, T.StructType):
        return data_type
    return T.StructType([T.StructField("value", data_type)])


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
    datetime.time: T.TimeType(),
}


def _struct_of(cls: type, place: str) -> tuple[T.StructType, Shape]:
    fields = [field.name for field in dataclasses.fields(cls)]
    try:
        hints = typing.get_type_hints(cls)
    except (NameError, TypeError) as e:
        raise DeclarationError(f"{place}: the fields of {cls.__name__} have no types: {e}") from e
    if (reason := why_not_restored(cls)) is not None:
        raise DeclarationError(f"{place}: {reason}")
    resolved = [_type_of(hints[name], f"{place}, field {name}") for name in fields]
    types = [T.StructField(name, kind) for name, (kind, _) in zip(fields, resolved)]
    return T.StructType(types), Shape(cls, tuple(shape for _, shape in resolved))


def _type_of(hint: Any, place: str) -> tuple[T.DataType, Shape | None]:
    if hint in _PYTHON_TYPES:
        return _PYTHON_TYPES[hint], None
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (list, tuple) and arguments and (origin is list or arguments[1:] == (...,)):
        element, shape = _type_of(arguments[0], place)
        return T.ArrayType(element), Shape(tuple if origin is tuple else None, (shape,))
    if origin is dict:
        key, key_shape = _type_of(arguments[0], place)
        _check_key(key, key_shape, f"{place}, keys")
        value, value_shape = _type_of(arguments[1], place)
        return T.MapType(key, value), Shape(None, (key_shape, value_shape))
    present = [argument for argument in arguments if argument is not type(None)]
    if len(present) == 1 and len(arguments) == 2:  # Optional[X] or X | None
        return _type_of(present[0], place)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _struct_of(hint, place)
    raise DeclarationError(f"{place}: no Spark type is known for {hint!r}; give the type as DDL")
