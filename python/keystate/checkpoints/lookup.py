"""Looks up one key in a state of a checkpoint, without a Spark job."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from keystate._jvm import bridge
from keystate._types.codec import codec, hashable, struct_codec
from keystate._types.codec.misfits import Misfit
from keystate._types.plain import from_json
from keystate.errors import StateTypeError
from keystate.state.kinds import StateKind


class Target:
    """A state of a checkpoint, with its operator, its kind and the types of its keys.

    Args:
        session: the session.
        checkpoint: the query's checkpoint location.
        state: the state's name; ``None`` if there is only one.
        operator: the operator's number; ``None`` if only one operator has such a state.
        version: the version of the state, N + 1 after batch N; ``None`` for the last one.
    """

    def __init__(
        self,
        session: SparkSession,
        checkpoint: str,
        state: str | None,
        operator: int | None,
        version: int | None = None,
    ) -> None:
        self._session = session
        self._checkpoint = checkpoint
        self._version = version
        found = bridge.operation(
            session, "describeState", checkpoint, operator, state or "", version
        )
        self.operator: int = found["operator"]
        self.name: str = found["state"]
        self.kind = StateKind(found["kind"])
        self.key_type = T.StructType.fromJson(json.loads(found["key"]))
        self._value_type = T._parse_datatype_json_string(found["value_type"])
        self.map_key_type: T.DataType | None = None
        if found.get("key_type") is not None:
            self.map_key_type = T._parse_datatype_json_string(found["key_type"])

    def read(self, key: Any, map_key: Any, start: Any, end: Any) -> Any:
        """The result of :func:`keystate.admin.lookup`."""
        chosen = [name for name, given in (("start", start), ("end", end)) if given is not None]
        if map_key is not None:
            chosen.append("map_key")
        if chosen and self.map_key_type is None:
            raise ValueError(f"state '{self.name}' is no map, and has no {chosen[0]}")
        if chosen and self.kind != StateKind.SORTED_MAP and chosen != ["map_key"]:
            raise ValueError(f"state '{self.name}' is no sorted map: it has no ranges")
        if map_key is not None and len(chosen) > 1:
            raise ValueError("map_key is for one entry, start and end are for a range: give either")
        of_state = f"state '{self.name}'"
        found = bridge.call(
            self._session,
            "lookUp",
            self._checkpoint,
            self.operator,
            self.name,
            self._version,
            key_stream(self.key_type, key, of_state),
            self._map_key(start if map_key is None else map_key, "map_key"),
            self._map_key(end, "end"),
            map_key is None,
        )
        value = decoded(bridge.record_batch(found), self.kind, self._value_type, self.map_key_type)
        return next(iter(value.values())) if map_key is not None and value else value

    def _map_key(self, value: Any, name: str) -> str:
        if value is None or self.map_key_type is None:
            return ""
        column = T.StructType([T.StructField("key", self.map_key_type)])
        return _stream(column, (value,), f"{name} of state '{self.name}'")


def decoded(
    found: pa.RecordBatch, kind: StateKind, value_type: T.DataType, map_key_type: T.DataType | None
) -> Any:
    """A key's rows in the form that a function sees: value, list or dictionary; or ``None``."""
    if not found.num_rows:
        return None
    values = codec(value_type).decode(found.column("value"))
    if map_key_type is None:
        return values if kind == StateKind.LIST else values[0]
    keys = codec(map_key_type).decode(found.column("key"))
    return dict(zip(map(hashable, keys), values))


def key_stream(key_type: T.StructType, key: Any, of: str) -> str:
    """A key in the form that the jar takes. A bare value stands for the only column.

    Raises:
        StateTypeError: the key has other types; the message names its owner, `of`.
    """
    return _stream(key_type, key_columns(key_type, key), f"key of {of}")


def key_columns(key_type: T.StructType, key: Any) -> Any:
    """A key as a row: a bare value stands for the only column."""
    if len(key_type) != 1:
        return key
    if isinstance(key, tuple) and len(key) == 1:
        return key
    if isinstance(key, dict) and set(key) == set(key_type.names):
        return key
    return (key,)


def _stream(row_type: T.StructType, row: Any, name: str) -> str:
    codec = struct_codec(row_type)
    try:
        columns = codec.encode_columns([row])
    except Misfit as e:
        raise StateTypeError(f"{name}: {e}") from None
    schema = pa.schema(codec.arrow)
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, schema) as stream:
        stream.write_batch(pa.RecordBatch.from_arrays(columns, schema=schema))
    return base64.b64encode(out.getvalue().to_pybytes()).decode()


def key_from_text(columns: T.StructType, text: str) -> tuple[Any, ...]:
    """A key from typed text: JSON, a list for several columns; a bare text for one string column.

    Raises:
        StateTypeError: the text is no key of these columns.
    """
    if len(columns) == 1:
        return (_from_text(text, columns[0].dataType),)
    key: tuple[Any, ...] = from_json(_parsed(text), columns)
    return key


def map_key_from_text(target: Target, text: str | None) -> Any:
    """A map's key from typed text, JSON or a bare text; ``None`` without a text."""
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
        return text  # such as a date, which is parsed by its type
