"""What one key has in a state of a checkpoint, without a Spark job."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import Row, SparkSession
from pyspark.sql import types as T

from keystate._codec import codec, struct_codec
from keystate._codec.misfits import Misfit
from keystate._jvm import bridge
from keystate._kinds import StateKind
from keystate._types.plain import from_json
from keystate.errors import StateTypeError


class Target:
    """A state, with what never changes of it: its operator, its kind, the types of its keys."""

    def __init__(
        self, session: SparkSession, checkpoint: str, state: str | None, operator: int | None
    ) -> None:
        self._session = session
        self._checkpoint = checkpoint
        found = bridge.describe_state(session, checkpoint, operator, state)
        self.operator: int = found["operator"]
        self.name: str = found["state"]
        self.kind = StateKind(found["kind"])
        self.key_type = T.StructType.fromJson(json.loads(found["key"]))
        self._value_codec = codec(T._parse_datatype_json_string(found["value_type"]))
        self.map_key_type: T.DataType | None = None
        if found.get("key_type") is not None:
            self.map_key_type = T._parse_datatype_json_string(found["key_type"])

    def read(self, key: Any, map_key: Any, start: Any, end: Any) -> Any:
        """What :func:`keystate.admin.lookup` gives."""
        chosen = [name for name, given in (("start", start), ("end", end)) if given is not None]
        if map_key is not None:
            chosen.append("map_key")
        if chosen and self.map_key_type is None:
            raise ValueError(f"state '{self.name}' is no map, and has no {chosen[0]}")
        if chosen and self.kind != StateKind.SORTED_MAP and chosen != ["map_key"]:
            raise ValueError(f"state '{self.name}' is no sorted map: it has no ranges")
        if map_key is not None and len(chosen) > 1:
            raise ValueError("map_key is for one entry, start and end are for a range: give either")
        found = bridge.look_up(
            self._session,
            self._checkpoint,
            self.operator,
            self.name,
            self._stream(self.key_type, self._columns(key), "key"),
            self._map_key(start if map_key is None else map_key, "map_key"),
            self._map_key(end, "end"),
            map_key is None,
        )
        if not found.num_rows:
            return None
        values = self._value_codec.decode(found.column("value"))
        if self.map_key_type is None:
            return values if self.kind == StateKind.LIST else values[0]
        if map_key is not None:
            return values[0]
        keys = codec(self.map_key_type).decode(found.column("key"))
        return dict(zip(map(_hashable, keys), values))

    def _columns(self, key: Any) -> Any:
        """A key as a row: a bare value stands for the only column."""
        if len(self.key_type) != 1:
            return key
        if isinstance(key, tuple) and len(key) == 1:
            return key
        if isinstance(key, dict) and set(key) == set(self.key_type.names):
            return key
        return (key,)

    def _map_key(self, value: Any, name: str) -> str:
        if value is None or self.map_key_type is None:
            return ""
        column = T.StructType([T.StructField("key", self.map_key_type)])
        return self._stream(column, (value,), name)

    def _stream(self, row_type: T.StructType, row: Any, name: str) -> str:
        codec = struct_codec(row_type)
        try:
            columns = codec.encode_columns([row])
        except Misfit as e:
            raise StateTypeError(f"{name} of state '{self.name}': {e}") from None
        schema = pa.schema(codec.arrow)
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, schema) as stream:
            stream.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
        return base64.b64encode(out.getvalue().to_pybytes()).decode()


def key_from_text(target: Target, text: str) -> tuple[Any, ...]:
    """A key as it is typed: JSON, of several columns a list; one of type string may be bare.

    Raises:
        StateTypeError: it is no key of the state.
    """
    columns = target.key_type
    if len(columns) == 1:
        return (_from_text(text, columns[0].dataType),)
    key: tuple[Any, ...] = from_json(_parsed(text), columns)
    return key


def map_key_from_text(target: Target, text: str | None) -> Any:
    """A map's key likewise; ``None`` where none is given."""
    if text is None or target.map_key_type is None:
        return text
    return _from_text(text, target.map_key_type)


def _from_text(text: str, data_type: T.DataType) -> Any:
    if isinstance(data_type, T.StringType) and not text.startswith('"') and text != "null":
        return text
    return from_json(_parsed(text), data_type)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text, parse_float=Decimal)  # a decimal keeps its digits
    except ValueError:
        return text  # such as a date: its type tells what to make of it


def _hashable(key: Any) -> Any:
    """A map's key as a dictionary can have it: with tuples for arrays."""
    if isinstance(key, Row):
        return T._create_row(key.__fields__, [_hashable(part) for part in key])
    if isinstance(key, bytearray):
        return bytes(key)
    return tuple(map(_hashable, key)) if isinstance(key, list) else key
