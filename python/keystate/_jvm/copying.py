"""Calls that copy, make, put in another's place or delete checkpoints."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from keystate._jvm.bridge import call, pairs


def savepoint(
    session: SparkSession, checkpoint: str, path: str, version: int | None, by_reference: bool
) -> int:
    """Copies a checkpoint, or shares its files; returns the last batch in the copy."""
    batch: int = call(session, "savepoint", checkpoint, path, version, by_reference)
    return batch


def fork(session: SparkSession, checkpoint: str, path: str, version: int | None) -> int:
    """As `savepoint`, for a query beside that of the checkpoint: with another id."""
    batch: int = call(session, "fork", checkpoint, path, version)
    return batch


def keep_batches(session: SparkSession, checkpoint: str, fork: str, first: int, last: int) -> None:
    """Keeps in a fork what batches of the checkpoint began with, to begin the same ones there."""
    call(session, "keepBatches", checkpoint, fork, first, last)


def begin_batch(session: SparkSession, fork: str, batch: int) -> None:
    """Makes a batch that was kept the one that the next start of the fork's query runs."""
    call(session, "beginBatch", fork, batch)


def delete_fork(session: SparkSession, fork: str) -> None:
    """Deletes a fork, if it is there."""
    call(session, "deleteFork", fork)


def promote(
    session: SparkSession, checkpoint: str, successor: str, batch: int, same_keys: Mapping[int, int]
) -> None:
    """Puts a changed copy in the place of a checkpoint, of which this is the last batch."""
    call(session, "promote", checkpoint, successor, batch, pairs(same_keys))


def undo_promotion(
    session: SparkSession, checkpoint: str, successor: str, batch: int, same_keys: Mapping[int, int]
) -> bool:
    """Puts the checkpoint in its place again; false if the copy has committed a batch since."""
    undone: bool = call(session, "undoPromotion", checkpoint, successor, batch, pairs(same_keys))
    return undone


def moved_to(session: SparkSession, checkpoint: str) -> str:
    """The checkpoint that has the place of this one; empty if none has."""
    place: str = call(session, "movedTo", checkpoint)
    return place


def delete_checkpoint(session: SparkSession, checkpoint: str, original: str) -> int:
    """Deletes a checkpoint; returns how many run files stay for savepoints."""
    kept: int = call(session, "deleteCheckpoint", checkpoint, original)
    return kept


def import_checkpoint(session: SparkSession, source: str, target: str) -> int:
    """Makes a checkpoint of Keystate's from one of Spark's; returns the last batch in it."""
    batch: int = call(session, "importCheckpoint", source, target)
    return batch


def discard(session: SparkSession, imported: str) -> None:
    """Deletes a checkpoint that was imported only to be edited."""
    call(session, "discardImported", imported)


class WrittenOperator(NamedTuple):
    """An operator whose state is written.

    Attributes:
        number: its number in the new checkpoint.
        origin: its number in the checkpoint that is edited; ``None`` if it is new.
        stream: with the key columns, and no rows.
        keys: the names of the key columns.
        spec: JSON of the operator with those of its states that have rows.
        kept: by name the states that stay, and their new names.
        rows: of the states that are written.
        lists: its operator state; ``None`` if it has none.
    """

    number: int
    origin: int | None
    stream: DataFrame
    keys: Sequence[str]
    spec: str
    kept: dict[str, str]
    rows: dict[str, DataFrame]
    lists: dict[str, Any] | None


def create(
    session: SparkSession,
    target: str,
    operators: Sequence[WrittenOperator],
    partitions: int,
    sources: int,
) -> None:
    """Makes the checkpoint of a new query with these operators."""
    call(session, "create", target, *_arguments(operators), partitions, sources)


def edit(
    session: SparkSession,
    checkpoint: str,
    target: str,
    operators: Sequence[WrittenOperator],
    copied: Mapping[int, int],
    kind: str,
    same_keys: Mapping[int, int],
) -> int:
    """Makes a changed copy of a checkpoint; returns the last batch in it.

    Args:
        session: the session.
        checkpoint: the query's checkpoint location.
        target: where the copy is to be.
        operators: those that are written.
        copied: those that are copied as they are, and their numbers in the copy.
        kind: ``copy``; ``fork`` for one beside the checkpoint, ``successor`` for one that takes its
            place.
        same_keys: those whose key columns are as they were, and their numbers in the copy.
    """
    numbers = (list(copied), list(copied.values()))
    batch: int = call(
        session,
        "edit",
        checkpoint,
        target,
        *_arguments(operators),
        *numbers,
        kind,
        pairs(same_keys),
    )
    return batch


def _arguments(operators: Sequence[WrittenOperator]) -> tuple[Any, ...]:
    """The arguments that `create` and `edit` have in common."""
    described = [
        {
            "number": one.number,
            "from": one.origin,
            "spec": one.spec,
            "kept": one.kept,
            "rows": list(one.rows),
            "lists": one.lists,
        }
        for one in operators
    ]
    return (
        json.dumps(described),
        [one.stream for one in operators],
        [[one.stream[f"`{key}`"] for key in one.keys] for one in operators],
        [list(one.rows.values()) for one in operators],
    )
