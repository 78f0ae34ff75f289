"""Runs micro-batches of a query again, in this process: to see why a key is as it is.

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
    the query recorded, through the plan before the operator. Nothing of the checkpoint is changed,
    and the query may be running. A function in which something outside answers, or that looks at a
    clock of its own, may give something else than it gave; of clocks and random numbers the result
    says where.

    Args:
        query: the operator as the application makes it: what a stream makes of a function.
        checkpoint: the query's checkpoint location.
        key: the values of the key columns as a tuple, a dictionary or a Row; for one column also
            the bare value. Without it all keys that have rows or due timers in the batches, one
            after the other: for small batches, as the driver reads all their rows, and for each key
            its state from files.
        batch: the micro-batch. One that was begun and not committed, as it fails, is possible too.
        batches: several that follow each other, such as ``range(3, 8)``: each goes on from what the
            function made of the one before.
        operator: the operator's number; may be left out if there is one of Keystate's, or if it has
            a name.
        side_outputs: the side outputs whose rows are wanted.
        max_keys: without ``key``, how many keys there may be. Of rows there may be 100,000 in a
            batch.

    Returns:
        What happened: rows and timers one by one, and whether the key then has what it has in the
        checkpoint. Without ``key`` that by key.

    Raises:
        CheckpointError: ``[KEYSTATE_CANNOT_REPLAY]`` when the input can't be read again, has too
            many keys, or the operator needs more than the key's state and input;
            ``[KEYSTATE_NO_CHECKPOINT]`` when the batch, or the state before it, is not kept any
            more.
        DeclarationError: ``query`` is not what a stream makes of a function.
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
