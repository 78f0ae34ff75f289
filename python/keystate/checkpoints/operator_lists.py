"""The operator state of all subtasks of an operator, as DataFrames."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from keystate._spec.specs import StateSpec
from keystate._types.codec import codec
from keystate._types.codec.evolution import to_text
from keystate._worker.operator_state.stored_elements import element_as_declared
from keystate.checkpoints.new_state import typed
from keystate.checkpoints.stored_types import stored_type
from keystate.errors import CheckpointError, DeclarationError
from keystate.state.kinds import StateKind

#: The name under which a checkpoint has an operator's operator state.
OPERATOR_STATE = "$operator"

_PARTITION, _ELEMENT = "partition_id", "list_element"


class OperatorLists:
    """Lists by name; each subtask has a part of each list.

    Args:
        types: the element types of the declared lists, as parsed JSON.
        subtasks: each subtask's state, as the jar's ``OperatorState`` describes it; ``None`` for a
            subtask without state.
    """

    def __init__(self, types: Mapping[str, Any], subtasks: list[dict[str, Any] | None]) -> None:
        self._types = dict(types)
        self._batch = max((one["batch"] for one in subtasks if one is not None), default=0)
        self._parts: dict[str, list[list[str]]] = {}
        self._unions: set[str] = set()
        self._subtasks = len(subtasks)
        for name in types:
            self._part(name)
        for i, subtask in enumerate(subtasks):
            for entry in subtask["lists"] if subtask is not None else ():
                self._part(entry["name"])[i] = entry["elements"]
                if entry["union"]:
                    self._unions.add(entry["name"])

    def _part(self, name: str) -> list[list[str]]:
        return self._parts.setdefault(name, [[] for _ in range(self._subtasks)])

    @property
    def names(self) -> list[str]:
        """The names; ``$list`` and ``$raw`` have no declared type, and count if not empty."""
        return [name for name, parts in self._parts.items() if name in self._types or any(parts)]

    def read(self, session: SparkSession, name: str) -> DataFrame:
        """A list's rows: subtask and element. Elements without a declared type are binary."""
        spec = self._spec(name)
        elements, partitions = [], []
        for partition, texts in enumerate(self._part(name)):
            elements += [self._decoded(text, spec) for text in texts]
            partitions += [partition] * len(texts)
        arrow = codec(spec.value_type).arrow
        columns = [pa.array(partitions, pa.int32()), pa.concat_arrays([*elements, _none(arrow)])]
        schema = T.StructType().add(_PARTITION, T.IntegerType()).add(_ELEMENT, spec.value_type)
        return session.createDataFrame(pa.table(columns, names=schema.names), schema)

    def replace(self, name: str, df: DataFrame) -> None:
        """Gives a list the elements of a DataFrame, which is collected.

        Without a column ``partition_id`` the elements are spread evenly, in their order.
        """
        spec = self._spec(name)
        if not isinstance(df, DataFrame) or df.isStreaming:
            raise DeclarationError(f"state '{name}': expected a batch DataFrame, got {df!r}")
        typed(df, name, _ELEMENT, spec.value_type)
        given = _PARTITION in df.columns
        if given:
            typed(df, name, _PARTITION, T.IntegerType())
        table = df.select(*([_PARTITION] if given else []), _ELEMENT).toArrow()
        column = table.column(_ELEMENT).combine_chunks().cast(codec(spec.value_type).arrow)
        count = len(column)
        if given:
            owners = table.column(_PARTITION).to_pylist()
        else:
            owners = [i * self._subtasks // count for i in range(count)]
        parts: list[list[str]] = [[] for _ in range(self._subtasks)]
        for i, owner in enumerate(owners):
            if not column[i].is_valid:
                raise _refused(name, f"row {i}: its element is null")
            if owner is None or not 0 <= owner < self._subtasks:
                raise _refused(
                    name, f"row {i}: {_PARTITION} is {owner}, not 0 to {self._subtasks - 1}"
                )
            parts[owner].append(self._encoded(column.slice(i, 1), name))
        self._parts[name] = parts

    def drop(self, name: str) -> None:
        """Removes a list."""
        del self._parts[name]
        self._types.pop(name, None)

    def rename(self, name: str, to: str) -> None:
        """Gives a list another name."""
        if name not in self._types:
            raise DeclarationError(f"'{name}' has no other name")
        self._parts = {to if one == name else one: part for one, part in self._parts.items()}
        self._types = {to if one == name else one: kind for one, kind in self._types.items()}
        if name in self._unions:
            self._unions = self._unions - {name} | {to}

    def to_json(self) -> dict[str, Any]:
        """The lists in the form that the jar writes."""
        subtasks = [
            json.dumps(
                {
                    "batch": self._batch,
                    "lists": [
                        {"name": name, "union": name in self._unions, "elements": parts[i]}
                        for name, parts in self._parts.items()
                    ],
                }
            )
            for i in range(self._subtasks)
        ]
        return {"types": json.dumps(self._types) if self._types else None, "subtasks": subtasks}

    def _spec(self, name: str) -> StateSpec:
        known = name in self._types
        kind = stored_type(json.dumps(self._types[name]), name) if known else T.BinaryType()
        return StateSpec(name, StateKind.LIST, "list", kind, None)

    def _decoded(self, text: str, spec: StateSpec) -> pa.Array:
        if spec.name in self._types:
            return element_as_declared(text, spec, spec.value_codec())
        return pa.array([base64.b64decode(text)], pa.binary())

    def _encoded(self, element: pa.Array, name: str) -> str:
        if name in self._types:
            return to_text(element)
        return base64.b64encode(element[0].as_py()).decode()


def _none(arrow: pa.DataType) -> pa.Array:
    return pa.array([], arrow)


def _refused(state: str, problem: str) -> CheckpointError:
    return CheckpointError(f"state '{state}', {problem}", code="KEYSTATE_STATE_ROW")
