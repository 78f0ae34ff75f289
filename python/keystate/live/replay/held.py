"""Loads a key's state from a version of a checkpoint into the harness."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from keystate._jvm import bridge
from keystate._spec.protocol import Part, state_column
from keystate._spec.specs import StateSpec
from keystate._types.codec import codec
from keystate.state import KeyOrder
from keystate.state.kinds import StateKind
from keystate.testing._broadcast import Copy
from keystate.testing._job import Clock, Held
from keystate.testing._snapshot import StoredStates
from keystate.testing._steps import SteppingJob, one_list


def take_up(
    job: SteppingJob, key: Any, stored: dict[str, Any] | None, broadcast: Copy, clock: Clock
) -> None:
    """Loads a key's states and timers into an operator.

    Args:
        job: the operator.
        key: the key.
        stored: the jar's answer for the key; ``None`` for nothing.
        broadcast: the broadcast states.
        clock: the times of the version's batch.

    Raises:
        CheckpointError: a state has another kind or type in the checkpoint.
    """
    keys = job.keys.encode([key])
    states: StoredStates = {}
    timers: list[tuple[int, ...]] = []
    if stored is not None:
        for found in stored["states"]:
            made = _state(found, keys)
            if made is not None:
                states[found["state"]] = made
        timers = [tuple(timer) for timer in stored["timers"]]
    nothing: dict[str, Any] = {"subtasks": [None] * len(job.broadcast), "raw": {}}
    of_timers = (timers, job.keys.encode([key] * len(timers)))
    job.restore(Held(states, of_timers, nothing, [broadcast]), clock)


def broadcast_states(session: SparkSession, checkpoint: str, operator: int, version: int) -> Copy:
    """The broadcast states that an operator has in a version."""
    (found,) = (
        one
        for one in bridge.operation(session, "inspect", checkpoint)["operators"]
        if one["id"] == operator
    )
    names = [one["name"] for one in found["states"] if one["kind"] == StateKind.BROADCAST]
    copy: Copy = {}
    for name in names:
        df = bridge.state(session, checkpoint, operator, version, name)
        entries = df.select("user_map_key", "user_map_value")
        key_type, value_type = (field.dataType for field in entries.schema.fields)
        rows = entries.toArrow()
        spec = StateSpec(
            name=name,
            kind=StateKind.BROADCAST,
            descriptor=StateKind.BROADCAST.value,
            value_type=value_type,
            key_type=key_type,
        )
        columns = {
            part: rows.column(i).combine_chunks().cast(codec(kind).arrow)
            for i, (part, kind) in enumerate((("b_k", key_type), ("b", value_type)))
        }
        copy[name] = (spec, columns)
    return copy


def _state(found: dict[str, Any], keys: pa.Array) -> Any:
    rows = bridge.record_batch(found["rows"])
    if not rows.num_rows:
        return None
    kind = StateKind(found["kind"])
    key_type = found.get("key_type")
    spec = StateSpec(
        name=found["state"],
        kind=kind,
        descriptor=kind.value,
        value_type=T._parse_datatype_json_string(found["value_type"]),
        key_type=None if key_type is None else T._parse_datatype_json_string(key_type),
        order=KeyOrder(found["order"]),
    )
    values = rows.column("value").cast(codec(spec.value_type).arrow)
    times: list[Any] = found["times"]
    if kind == StateKind.VALUE:
        columns = {state_column(0): values}
    elif kind == StateKind.LIST:
        columns, times = {state_column(0): one_list(values)}, [times]
    else:
        entries = {Part.KEYS: rows.column("key"), Part.VALUES: values}
        columns = {state_column(0, part): one_list(each) for part, each in entries.items()}
        times = [times]
    return spec, keys, columns, times
