"""Reads the states in a checkpoint as DataFrames."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from keystate._checkpoint.operator_lists import OPERATOR_STATE, OperatorLists
from keystate._checkpoint.stored_types import foreign_types, stored_type
from keystate._jvm import bridge
from keystate._kinds import COLLECTIONS, KEYED, StateKind
from keystate.errors import CheckpointError

#: Why the key of an operator can't be told.
NO_KEY_TYPE = (
    "it has no keyed state, and its last batch was of a release that did not note the types of its "
    "keys. Let the query run one batch with this release"
)


class StateReader:
    """Reads states.

    Args:
        session: the session.
        found: what ``inspect`` found in the checkpoint.
    """

    def __init__(self, session: SparkSession, found: dict[str, Any]) -> None:
        self._session = session
        self.found = found
        self.checkpoint: str = found["checkpoint"]

    def read(
        self, state: str | None, operator: int | None = None, version: int | None = None
    ) -> DataFrame:
        """A state, as :func:`keystate.admin.read_state` tells."""
        chosen, kind = self._choose(state, operator)
        batch = self._batch(chosen, version)
        if kind["kind"] == StateKind.TIMERS:
            return self._timers(chosen, batch)
        if kind["kind"] == StateKind.BROADCAST:
            return bridge.broadcast_state(
                self._session, self.checkpoint, chosen["id"], batch, kind["name"]
            )
        if kind["kind"] == StateKind.OPERATOR_LIST:
            return self._lists(chosen, batch).read(self._session, kind["name"])
        if kind["kind"] == StateKind.RAW_KEYED:
            raise CheckpointError(
                f"the raw keyed state of operator {chosen['id']} can't be read: only the function "
                "that wrote it knows what its bytes mean",
                code="KEYSTATE_NO_SUCH_STATE",
            )
        return self._keyed(chosen["id"], batch, kind)

    def lists(self, operator: int) -> OperatorLists:
        """An operator's operator state after the last batch."""
        (chosen,) = (one for one in self.found["operators"] if one["id"] == operator)
        return self._lists(chosen, self._batch(chosen, None))

    def key_type(self, operator: int) -> T.StructType | None:
        """The key columns of an operator. ``None`` if nothing in the checkpoint tells them."""
        (chosen,) = (one for one in self.found["operators"] if one["id"] == operator)
        for state in chosen["states"]:
            if state["kind"] in KEYED:
                newest = self._batch(chosen, None)
                key = self._loaded(operator, newest, state).schema["key"].dataType
            elif state["kind"] == StateKind.TIMERS and "keyType" in state["properties"]:
                key = stored_type(state["properties"]["keyType"], state["name"])
            else:
                continue
            assert isinstance(key, T.StructType)
            return key
        return None

    def _lists(self, operator: dict[str, Any], batch: int) -> OperatorLists:
        (state,) = (one for one in operator["states"] if one["name"] == OPERATOR_STATE)
        return OperatorLists(
            json.loads(state["properties"].get("types", "{}")),
            bridge.operator_state(self._session, self.checkpoint, operator["id"], batch),
        )

    def _batch(self, operator: dict[str, Any], version: int | None) -> int:
        """The batch after which there is a version."""
        oldest, newest = operator["oldest_version"], operator["newest_version"]
        if version is not None and not oldest <= version <= newest:
            raise CheckpointError(
                f"version {version} of operator {operator['id']} of {self.checkpoint} is not kept: "
                f"there are versions {oldest} to {newest}",
                code="KEYSTATE_MISSING_VERSION",
            )
        number: int = (version or newest) - 1
        return number

    def _timers(self, operator: dict[str, Any], batch: int) -> DataFrame:
        key = self.key_type(operator["id"])
        if key is None:
            raise CheckpointError(
                f"the timers of operator {operator['id']} can't be read: {NO_KEY_TYPE}",
                code="KEYSTATE_NO_SUCH_STATE",
            )
        return bridge.timers(self._session, self.checkpoint, operator["id"], batch, key)

    def _keyed(self, operator: int, batch: int, state: dict[str, Any]) -> DataFrame:
        """A state that Spark's own reader understands."""
        unread = unread_type(state)
        if unread is not None:
            raise self._refused(operator, state, f"it has the type {unread}")
        return self._loaded(operator, batch, state)

    def _loaded(self, operator: int, batch: int, state: dict[str, Any]) -> DataFrame:
        reader = (
            self._session.read.format("statestore")
            .option("operatorId", operator)
            .option("batchId", batch)
            .option("stateVarName", state["name"])
        )
        if state["kind"] in COLLECTIONS:
            reader = reader.option("flattenCollectionTypes", True)
        try:
            df = reader.load(self.checkpoint)
            foreign = foreign_types(bridge.schema(df))
        except Exception as e:
            if "IncompatibleSchemaException" not in str(e):
                raise
            # Of states the query writes such types as others, from its next batch on.
            raise self._refused(
                operator,
                state,
                "its key, or a state beside it that an earlier build wrote, has a time of day, an "
                "interval or a map whose keys are no strings",
            ) from None
        if foreign:
            raise CheckpointError(
                f"state '{state['name']}' of operator {operator} of "
                f"{self.checkpoint} has the type {foreign[0]}, which is not one of Spark's: "
                "PySpark would run it to read the state",
                code="KEYSTATE_CORRUPT_FILE",
            )
        return df

    def _refused(self, operator: int, state: dict[str, Any], why: str) -> CheckpointError:
        return CheckpointError(
            f"state '{state['name']}' of operator {operator} of {self.checkpoint} can't be read by "
            f"Spark's statestore source: {why}. keystate.admin.lookup gives what a key has",
            code="KEYSTATE_NO_SUCH_STATE",
        )

    def _choose(
        self, state: str | None, operator: int | None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The operator and the state that are meant."""
        own = [op for op in self.found["operators"] if op["keystate"]]
        states = [(op, one) for op in own for one in readable_states(op)]
        there = "; ".join(f"operator {op['id']}: {one['name']}" for op, one in states) or "none"
        fitting = [
            (op, one)
            for op, one in states
            if (state is None or one["name"] == state)
            and (operator is None or op["id"] == operator)
        ]
        if state is None:
            fitting = [pair for pair in fitting if pair[1]["name"][:1] != "$"] or fitting
        what = f"state '{state}'" if state is not None else "state"
        where = f" of operator {operator}" if operator is not None else ""
        if not fitting:
            raise CheckpointError(
                f"there is no {what}{where} in {self.checkpoint}. There are: {there}",
                code="KEYSTATE_NO_SUCH_STATE",
            )
        if len(fitting) > 1:
            option = "state" if state is None else "operator"
            raise CheckpointError(
                f"more than one {what}{where} is in {self.checkpoint}: tell which one by {option}= "
                f"(--{option}). There are: {there}",
                code="KEYSTATE_NO_SUCH_STATE",
            )
        return fitting[0]


def unread_type(state: dict[str, Any]) -> str | None:
    """A type in a state that Spark's statestore source does not read; ``None`` if there is none."""
    known = state["properties"]
    for name in ("valueType", "keyType"):
        if name in known and state["kind"] in KEYED:
            found = _unread_part(stored_type(known[name], state["name"]))
            if found is not None:
                return found.simpleString()
    return None


def _unread_part(data_type: T.DataType) -> T.DataType | None:
    """Such a type, or the part of one that is: Avro, by which Spark reads, does not have it."""
    if isinstance(data_type, (T.TimeType, T.DayTimeIntervalType, T.YearMonthIntervalType)):
        return data_type
    parts: list[T.DataType] = []
    if isinstance(data_type, T.MapType):
        if not isinstance(data_type.keyType, T.StringType):
            return data_type
        parts = [data_type.valueType]
    elif isinstance(data_type, T.ArrayType):
        parts = [data_type.elementType]
    elif isinstance(data_type, T.StructType):
        parts = [field.dataType for field in data_type.fields]
    return next((found for found in map(_unread_part, parts) if found is not None), None)


def readable_states(operator: dict[str, Any]) -> list[dict[str, Any]]:
    """The states of an operator, with each list of its operator state as one of its own.

    Args:
        operator: as ``inspect`` describes it.
    """
    states = []
    for state in operator["states"]:
        if state["name"] == OPERATOR_STATE:
            types = json.loads(state["properties"].get("types", "{}"))
            states += [{"name": name, "kind": StateKind.OPERATOR_LIST} for name in types]
        elif state["kind"] != StateKind.BROADCAST_TAG:
            states.append(state)
    return states
