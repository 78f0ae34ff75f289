"""Calls that read checkpoints, and ask that keys be forgotten."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from keystate._jvm.bridge import call, operation, pairs


def statistics(session: SparkSession, found: dict[str, Any]) -> dict[str, Any] | None:
    """How the state of an inspected checkpoint is spread; ``None`` before its first batch."""
    if found["batch"] is None:
        return None
    told: dict[str, Any] = operation(session, "statistics", found["checkpoint"])
    return told


def describe_state(
    session: SparkSession,
    checkpoint: str,
    operator: int | None,
    state: str | None,
    version: int | None,
) -> dict[str, Any]:
    """The operator, the kind and the key types of a state in a version."""
    found: dict[str, Any] = operation(
        session, "describeState", checkpoint, operator, state or "", version
    )
    return found


def look_up(
    session: SparkSession,
    checkpoint: str,
    operator: int,
    state: str,
    version: int | None,
    *ranges: Any,
) -> pa.RecordBatch:
    """What a key has in a state, as `StateLookup` in the jar gives it."""
    stream = call(session, "lookUp", checkpoint, operator, state, version, *ranges)
    return record_batch(stream)


def describe_operator(
    session: SparkSession, checkpoint: str, operator: int | None
) -> dict[str, Any]:
    """A keyed operator, with its key's columns; ``None`` for the only one."""
    found: dict[str, Any] = operation(session, "describeOperator", checkpoint, operator)
    return found


def history(
    session: SparkSession, checkpoint: str, operator: int, key: str, first: int, until: int
) -> dict[str, Any]:
    """What a key had in the versions from one to another, as `KeyHistory` in the jar gives it."""
    found: dict[str, Any] = operation(session, "history", checkpoint, operator, key, first, until)
    return found


def describe_forgetting(
    session: SparkSession, checkpoint: str, operator: int | None
) -> list[dict[str, Any]]:
    """The operators that forget a key, with their key's columns; ``None`` for all."""
    found: list[dict[str, Any]] = operation(session, "describeForgetting", checkpoint, operator)
    return found


def forget(
    session: SparkSession, checkpoint: str, operator: int | None, keys: dict[int, str]
) -> str:
    """Asks that a key be forgotten, told by operator; returns the request's id."""
    made = call(session, "forget", checkpoint, operator, _keys(keys))
    request: str = json.loads(made)["request"]
    return request


def traces(
    session: SparkSession, checkpoint: str, operator: int | None, keys: dict[int, str]
) -> dict[str, Any]:
    """Where something is left of a key, told by operator."""
    found: dict[str, Any] = operation(session, "traces", checkpoint, operator, _keys(keys))
    return found


def _keys(keys: dict[int, str]) -> str:
    return json.dumps([{"operator": operator, "key": key} for operator, key in keys.items()])


def clock(session: SparkSession, checkpoint: str, operator: int, batch: int) -> dict[str, Any]:
    """The recorded clock of a batch, its number of partitions, and whether it was in real time."""
    found: dict[str, Any] = operation(session, "clock", checkpoint, operator, batch)
    return found


def record_batch(stream: str) -> pa.RecordBatch:
    """The one batch of an Arrow stream in Base64."""
    return pa.ipc.open_stream(base64.b64decode(stream)).read_next_batch()


def last_batch(session: SparkSession, checkpoint: str) -> int:
    """The last committed batch."""
    batch: int = call(session, "lastBatch", checkpoint)
    return batch


def diff_operators(
    session: SparkSession, before: str, after: str, operators: Mapping[int, int]
) -> list[dict[str, Any]]:
    """As the operation ``diff``, of operators that have other numbers before and after."""
    found: list[dict[str, Any]] = operation(
        session, "diffOperators", before, after, pairs(operators)
    )
    return found


def operator_state(
    session: SparkSession, checkpoint: str, operator: int, batch: int
) -> list[dict[str, Any] | None]:
    """The operator state of each subtask after a batch."""
    found: list[dict[str, Any] | None] = operation(
        session, "operatorState", checkpoint, operator, batch
    )
    return found
