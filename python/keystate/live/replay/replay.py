"""Runs micro-batches of a query again, in this process, to explain a key's state.

>>> out = keystate.keyed(df, "user").process(Sessions(), "user string, clicks long")
>>> print(keystate.replay(out, "/data/query/checkpoint", batch=7, key="ann"))
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, overload

from pyspark.sql import DataFrame

from keystate.functions import OutputTag
from keystate.live.replay.all_keys import Replays
from keystate.live.replay.every_key import run_all
from keystate.live.replay.run import Target
from keystate.live.replay.steps import Difference, Replay, Step

__all__ = ["Difference", "Replay", "Replays", "Step", "replay"]

_ALL = object()  # None is a key


@overload
def replay(
    query: DataFrame,
    checkpoint: str,
    *,
    key: Any,
    batch: int | None = None,
    batches: Iterable[int] | None = None,
    operator: int | None = None,
    side_outputs: Sequence[OutputTag] = (),
) -> Replay: ...


@overload
def replay(
    query: DataFrame,
    checkpoint: str,
    *,
    batch: int | None = None,
    batches: Iterable[int] | None = None,
    operator: int | None = None,
    side_outputs: Sequence[OutputTag] = (),
    max_keys: int = 100,
) -> Replays: ...


def replay(
    query: DataFrame,
    checkpoint: str,
    *,
    key: Any = _ALL,
    batch: int | None = None,
    batches: Iterable[int] | None = None,
    operator: int | None = None,
    side_outputs: Sequence[OutputTag] = (),
    max_keys: int = 100,
) -> Replay | Replays:
    """Runs a micro-batch of a query again for a key, with the function as it is now.

    The function gets the state and the timers that the key had before the batch, the rows that the
    batch read for it, and the batch's recorded clock and watermark. It runs in this process, row by
    row, so ``breakpoint()`` and a debugger work in it. The input is read again by the offsets that
    the query recorded, through the plan before the operator. The checkpoint does not change, and
    the query may be running. A function that calls another service, reads a clock of its own or
    draws random numbers may give another result than before; the replay lists where it used clocks
    and random numbers.

    Args:
        query: the operator's output, a DataFrame that a stream's method returned.
        checkpoint: the query's checkpoint location.
        key: the values of the key columns as a tuple, a dictionary or a Row; for one column also
            the bare value. Without it, the replay runs all keys with rows or due timers in the
            batches, one after the other. That is for small batches: the driver reads all their
            rows, and each key's state from files.
        batch: the micro-batch. It may also be one that was begun and not committed because it
            fails.
        batches: several consecutive micro-batches, such as ``range(3, 8)``: each continues from the
            replayed state of the one before.
        operator: the operator's number; may be left out if Keystate has only one, or if it has a
            name.
        side_outputs: the side outputs whose rows are wanted.
        max_keys: without ``key``, the most keys that the replay runs. A batch may have at most
            100,000 rows.

    Returns:
        The replay: rows and timers one by one, and whether the key then has the same state as in
        the checkpoint. Without ``key`` a replay for each key.

    Raises:
        CheckpointError: ``[KEYSTATE_CANNOT_REPLAY]`` when the input can't be read again, has too
            many keys, or the operator needs more than the key's state and input;
            ``[KEYSTATE_NO_CHECKPOINT]`` when the batch, or the state before it, is not kept any
            more.
        DeclarationError: no stream's method returned ``query``.
        FunctionError: the function failed.
        StateTypeError: the key does not fit the types of the key columns.
    """
    if (batch is None) == (batches is None):
        raise ValueError("give either batch= or batches=")
    numbers = [batch] if batch is not None else list(batches or ())
    if not numbers or numbers != list(range(numbers[0], numbers[0] + len(numbers))):
        raise ValueError(f"batches follow each other, as in range(3, 8); got {numbers}")
    target = Target(query, checkpoint, numbers, operator, tuple(side_outputs))
    if key is _ALL:
        return Replays(numbers, run_all(target, max_keys))
    return target.run(key)
