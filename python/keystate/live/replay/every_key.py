"""Runs batches again for all their keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F

from keystate import admin
from keystate._types.codec import struct_codec
from keystate.errors import CheckpointError
from keystate.functions import TimeDomain
from keystate.live.replay.run import Target
from keystate.live.replay.steps import Replay
from keystate.state.kinds import TIMERS
from keystate.testing._keys import Keys

#: How many rows a batch may have of which all keys are replayed: the driver holds them.
MOST_ROWS = 100_000

#: A key's rows in a batch, for each input.
_Input = dict[int, list[pa.Array]]


def run_all(target: Target, most: int) -> list[Replay]:
    """Replays of the keys that have rows in the batches, or timers that were due.

    Args:
        target: what is replayed.
        most: how many keys there may be.

    Raises:
        CheckpointError: ``[KEYSTATE_CANNOT_REPLAY]``: there are more.
    """
    keys = Keys(target.setup)
    codec = struct_codec(target.operator.rows.key_type)
    given = {batch: target.input_of(batch, None, MOST_ROWS) for batch in target.batches}
    elements = {
        batch: [arrays.pop()] if target.operator.broadcast_input is not None else []
        for batch, arrays in given.items()
    }
    by_key: dict[Any, _Input] = {}
    for batch, arrays in given.items():
        for i, array in enumerate(arrays):
            places: dict[Any, list[int]] = {}
            for at, key in enumerate(keys.of_input(array, i)):
                places.setdefault(key, []).append(at)
            for key, of_key in places.items():
                rows = by_key.setdefault(key, {}).setdefault(batch, [each[:0] for each in arrays])
                rows[i] = array.take(pa.array(of_key, pa.int64()))
            _check(len(by_key), most, target)
    for key in _due(target, keys, most):
        by_key.setdefault(key, {})
    _check(len(by_key), most, target)
    nothing = [array[:0] for array in given[target.batches[0]]]
    replays = []
    for key, mine in by_key.items():
        (row,) = codec.decode(keys.encode([key]))

        def input_of(batch: int, mine: _Input = mine) -> list[pa.Array]:
            return [*mine.get(batch, nothing), *elements[batch]]

        replays.append(target.run(tuple(row), input_of))
    return replays


def _due(target: Target, keys: Keys, most: int) -> Iterator[Any]:
    """Keys with timers that were set before the first batch and were due in the last one."""
    first, last = target.batches[0], target.clocks[target.batches[-1]]
    if first == 0 or not target.setup.task.declared.spec.timers:
        return
    found = admin.inspect(target.checkpoint, spark=target.session)
    states = next(one for one in found["operators"] if one["id"] == target.reader.operator)
    if TIMERS not in [state["name"] for state in states["states"]]:
        return
    timers = admin.read_state(
        target.session,
        target.checkpoint,
        state=TIMERS,
        operator=target.reader.operator,
        version=first,
    )
    until = {TimeDomain.PROCESSING_TIME: last["began_at"]}
    if target.setup.by_event_time:
        until[TimeDomain.EVENT_TIME] = last["watermark"]
    due = F.lit(False)
    for domain, time in until.items():
        of_domain = F.col("time_domain") == F.lit(domain.name)
        due = due | (of_domain & (F.col("expiration_timestamp_ms") <= F.lit(time)))
    rows = timers.where(due).select("key").distinct().limit(most + 1).collect()
    yield from (keys.of_user(row.key[0] if len(row.key) == 1 else tuple(row.key)) for row in rows)


def _check(count: int, most: int, target: Target) -> None:
    if count > most:
        of = ", ".join(map(str, target.batches[:3])) + (", ..." if len(target.batches) > 3 else "")
        raise CheckpointError(
            f"More than {most} keys have rows or timers in batch {of}: give key=, or a greater "
            "max_keys=",
            code="KEYSTATE_CANNOT_REPLAY",
        )
