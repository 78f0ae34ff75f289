"""Savepoints of a checkpoint, and how a checkpoint is deleted: functions of `keystate.admin`."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from keystate._jvm import bridge


def savepoint(
    checkpoint: str,
    path: str,
    *,
    version: int | None = None,
    by_reference: bool = False,
    spark: SparkSession | None = None,
) -> int:
    """Copies what a query goes on from, as it is after a committed batch.

    The query may run meanwhile, in this process or another one: its clean-up leaves alone what is
    being copied. The copy is a checkpoint in itself: start a query with it as
    ``checkpointLocation``. It has the query's id; don't run both at the same time in one session.
    Input that a source reads again, and what sinks wrote, is not in it.

    Args:
        checkpoint: the query's checkpoint location.
        path: a folder that does not exist, or is empty.
        version: N + 1 for the state after batch N, as long as it is kept; by default the last one
            that is committed.
        by_reference: share the state's files, which never change, instead of copying them. On one
            local disk they get a second name (a hard link), and the copy needs nothing of the
            original. Elsewhere the original keeps them as long as the copy is there: delete either
            with :func:`delete` only. It can be of the newest two versions.
        spark: the session; by default the active one.

    Returns:
        The last batch that is in the copy.

    Raises:
        CheckpointError: ``[KEYSTATE_SAVEPOINT_EXISTS]``, the version is not kept any more, or a
            file is lost or damaged; then there is no copy. ``[KEYSTATE_CANNOT_SHARE]``: the
            version is too old to be shared.
    """
    session = bridge.session_or_active(spark, "savepoint")
    batch: int = bridge.call(session, "savepoint", checkpoint, path, version, by_reference)
    return batch


def savepoints(checkpoint: str, *, spark: SparkSession | None = None) -> list[dict[str, Any]]:
    """The savepoints that were made of a checkpoint, in the order of what they have.

    Args:
        checkpoint: the query's checkpoint location.
        spark: the session; by default the active one.

    Returns:
        For each ``savepoint`` (where it is), ``name`` (its folder's), ``batch`` (-1 if it is not
        known), ``time`` (when it was made, ms since the epoch), ``kind`` (``copy``, ``links`` or
        ``references``), ``bytes`` (of its own), ``shared_bytes`` (that it has in common with the
        checkpoint) and ``state``: ``ok``; ``unfinished``, which is being made or was cut off, and
        :func:`delete` deletes; ``used`` once a query has gone on from it; or ``missing``, of one
        by reference that was deleted or moved by other means, so that the checkpoint still keeps
        its files.
    """
    session = bridge.session_or_active(spark, "savepoints")
    found: list[dict[str, Any]] = bridge.operation(session, "savepoints", checkpoint)
    return found


def restore(
    savepoint: str,
    checkpoint: str,
    *,
    by_reference: bool = False,
    spark: SparkSession | None = None,
) -> int:
    """Makes a checkpoint of a savepoint, which stays as it is; start the query with it.

    Args:
        savepoint: where it is.
        checkpoint: a folder that does not exist, or is empty.
        by_reference: as for :func:`savepoint`.
        spark: the session; by default the active one.

    Returns:
        The last batch that is in the checkpoint.

    Raises:
        CheckpointError: as for :func:`savepoint`.
    """
    session = bridge.session_or_active(spark, "restore")
    batch: int = bridge.call(session, "savepoint", savepoint, checkpoint, None, by_reference)
    return batch


def delete(
    checkpoint: str, *, original: str | None = None, spark: SparkSession | None = None
) -> int:
    """Deletes a checkpoint of a stopped query, or a savepoint.

    What savepoints by reference need of it stays, until the last of these is deleted too; nobody
    can read it meanwhile.

    Args:
        checkpoint: where it is.
        original: only for a savepoint by reference that is gone already, by other means than this:
            the checkpoint it was made from, which then no longer keeps its files.
        spark: the session; by default the active one.

    Returns:
        How many of its files stay for savepoints.

    Raises:
        CheckpointError: ``[KEYSTATE_NO_CHECKPOINT]``, or ``[KEYSTATE_QUERY_IS_RUNNING]`` when a
            query runs on it in this session, or in another process of this machine.
    """
    session = bridge.session_or_active(spark, "delete")
    kept: int = bridge.call(session, "deleteCheckpoint", checkpoint, original or "")
    return kept


def moved_to(checkpoint: str, *, spark: SparkSession | None = None) -> str | None:
    """The checkpoint that has the place of another one since a canary was promoted.

    For a driver that starts again: ``moved_to(place) or place`` is where its query goes on.

    Args:
        checkpoint: the query's checkpoint location before.
        spark: the session; by default the active one.

    Returns:
        Where the query goes on, after as many promotions as there were; None if it does so in its
        own place.
    """
    session = bridge.session_or_active(spark, "moved_to")
    last = None
    while place := bridge.call(session, "movedTo", last or checkpoint):
        last = place
    return last
