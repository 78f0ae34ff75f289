"""Snapshots of a harness, and how another one reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from keystate._spec.protocol import WINDOW_CONTENTS, Part
from keystate._spec.specs import OperatorSpec, StateSpec
from keystate._types.codec.evolution import Unreadable, read_as
from keystate.errors import CheckpointError
from keystate.state.kinds import StateKind
from keystate.testing._broadcast import Copy

#: By name each state, the keys that have it, what they have, and when that was last used.
StoredStates = dict[str, tuple[StateSpec, pa.Array, dict[str, pa.Array], list[Any] | None]]

#: Domain and time of each timer that is set, with its window if it has one, and their keys.
StoredTimers = tuple[list[tuple[int, ...]], pa.Array]


@dataclass(frozen=True)
class Snapshot:
    """A harness's state between two micro-batches; can be pickled.

    Attributes:
        arguments: what the harness was made with, apart from its function; ``None`` if it was made
            of an operator.
        clock: watermarks, processing time and the number of the last micro-batch.
        states: by name each state, the keys that have it, what they have, and when that was last
            used if it has a time to live.
        timers: domain and time of each timer that is set, and their keys.
        operator: the operator state of each subtask, and raw streams.
        broadcast: the copy of the broadcast states that each subtask has.
        windows: what is recorded of the windows, if the function has some.
        initial: the initial state, if there was no micro-batch yet that takes it.
    """

    arguments: dict[str, Any] | None
    clock: dict[str, Any]
    states: StoredStates
    timers: StoredTimers
    operator: dict[str, Any]
    broadcast: list[Copy]
    windows: str | None
    initial: pa.Array | None = None


def readable(
    kept: StateSpec, declared: StateSpec, columns: dict[str, pa.Array]
) -> dict[str, pa.Array]:
    """A state's columns from a snapshot, converted to the types that are declared now."""
    before, now = kept.to_json(), declared.to_json()
    for what in ("kind", "key_type", "order"):
        if before[what] != now[what]:
            raise CheckpointError(
                f"state '{kept.name}' has another {what.replace('_', ' ')} in the snapshot: "
                f"{before[what]}, not {now[what]}",
                code="KEYSTATE_STATE_CHANGED",
            )
    value_type = declared.type_with_defaults()
    alone = declared.kind in (StateKind.VALUE, StateKind.BROADCAST)
    stored = value_type if alone else T.ArrayType(value_type)
    try:
        return {
            name: column if name.endswith(f"_{Part.KEYS}") else read_as(column, stored)
            for name, column in columns.items()
        }
    except Unreadable as e:
        raise CheckpointError(
            f"state '{kept.name}' has another value type in the snapshot: "
            f"{kept.value_type.simpleString()}, not {declared.value_type.simpleString()}: {e}",
            code="KEYSTATE_STATE_CHANGED",
        ) from None


def check_windows(
    kept: str | None,
    declared: OperatorSpec,
    timers: Sequence[tuple[int, ...]],
    states: StoredStates,
) -> None:
    """Refuses windows of another kind while some are open, as a query does.

    Args:
        kept: what the snapshot says of its windows.
        declared: the function.
        timers: those that are set.
        states: what the states have.

    Raises:
        CheckpointError: ``[KEYSTATE_OPEN_WINDOWS]``.
    """
    if kept in (None, declared.windows):
        return
    found = [f"the window from {start} to {end} ms" for _, _, end, start in dict.fromkeys(timers)]
    gone = set(WINDOW_CONTENTS) - {state.name for state in declared.states}
    found += [
        f"windows of {len(states[name][1])} keys"
        for name in sorted(gone & states.keys())
        if len(states[name][1])
    ]
    if found:
        raise CheckpointError(
            f"the windows in the snapshot are ({kept}), but those of the function are "
            f"({declared.windows or 'none'}). This can change only while no window is open, and "
            f"there are: {'; '.join(found[:3])}. Let these end first",
            code="KEYSTATE_OPEN_WINDOWS",
        )
