"""Reads the states in a checkpoint as DataFrames."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from keystate._jvm import bridge
from keystate.checkpoints.operator_lists import OPERATOR_STATE, OperatorLists
from keystate.checkpoints.stored_types import foreign_types, stored_type
from keystate.errors import CheckpointError
from keystate.state.kinds import StateKind


class StateReader:
    """Reads states.

    Args:
        session: the session.
        found: the result of ``inspect`` for the checkpoint.
    """

    def __init__(self, session: SparkSession, found: dict[str, Any]) -> None:
        self._session = session
        self.found = found
        self.checkpoint: str = found["checkpoint"]

    def read(
        self, state: str | None, operator: int | None = None, version: int | None = None
    ) -> DataFrame:
        """A state, with the columns of :func:`keystate.admin.read_state`."""
        chosen, kind = self._choose(state, operator)
        wanted = self._version(chosen, version)
        if kind["kind"] == StateKind.OPERATOR_LIST:
            return self._lists(chosen, wanted).read(self._session, kind["name"])
        if kind["kind"] == StateKind.RAW_KEYED:
            raise CheckpointError(
                f"the raw keyed state of operator {chosen['id']} can't be read: only the function "
                "that wrote it knows what its bytes mean",
                code="KEYSTATE_NO_SUCH_STATE",
            )
        return self._table(chosen["id"], wanted, kind["name"])

    def lists(self, operator: int) -> OperatorLists:
        """An operator's operator state after the last batch."""
        (chosen,) = (one for one in self.found["operators"] if one["id"] == operator)
        return self._lists(chosen, chosen["newest_version"])

    def key_type(self, operator: int) -> T.StructType | None:
        """The key columns of an operator. ``None`` if it has no key."""
        (chosen,) = (one for one in self.found["operators"] if one["id"] == operator)
        if chosen["key"] is None:
            return None
        key = stored_type(chosen["key"], "key")
        assert isinstance(key, T.StructType)
        return key

    def _lists(self, operator: dict[str, Any], version: int) -> OperatorLists:
        (state,) = (one for one in operator["states"] if one["name"] == OPERATOR_STATE)
        return OperatorLists(
            json.loads(state["properties"].get("types", "{}")),
            bridge.operation(
                self._session, "operatorState", self.checkpoint, operator["id"], version - 1
            ),
        )

    def _version(self, operator: dict[str, Any], version: int | None) -> int:
        """The version to read, which must be kept."""
        oldest, newest = operator["oldest_version"], operator["newest_version"]
        if version is not None and not oldest <= version <= newest:
            raise CheckpointError(
                f"version {version} of operator {operator['id']} of {self.checkpoint} is not kept: "
                f"there are versions {oldest} to {newest}",
                code="KEYSTATE_MISSING_VERSION",
            )
        found: int = version or newest
        return found

    def _table(self, operator: int, version: int, state: str) -> DataFrame:
        df = bridge.state(self._session, self.checkpoint, operator, version, state)
        foreign = foreign_types(bridge.schema(df))
        if foreign:
            raise CheckpointError(
                f"state '{state}' of operator {operator} of {self.checkpoint} has the type "
                f"{foreign[0]}, which is not one of Spark's: PySpark would run it to read the "
                "state",
                code="KEYSTATE_CORRUPT_FILE",
            )
        return df

    def _choose(
        self, state: str | None, operator: int | None
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The chosen operator and state."""
        own = [op for op in self.found["operators"] if op["keystate"]]
        states = [(op, one) for op in own for one in self._readable(op)]
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

    def _readable(self, operator: dict[str, Any]) -> list[dict[str, Any]]:
        """The states of an operator; each list of its operator state counts as a state.

        Args:
            operator: as ``inspect`` describes it.
        """
        states = []
        for state in operator["states"]:
            if state["name"] == OPERATOR_STATE:
                # Lists without a declared type are known only from the stored elements.
                lists = self.lists(operator["id"]).names
                states += [{"name": name, "kind": StateKind.OPERATOR_LIST} for name in lists]
            elif state["kind"] != StateKind.BROADCAST_TAG:
                states.append(state)
        return states
