"""Makes savepoints and deletes checkpoints: functions of `keystate.admin`."""

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
    """Copies a query's checkpoint, with the state after a committed batch.

    The query may run meanwhile, in this process or another one: its clean-up keeps files that are
    being copied. The copy is a complete checkpoint: start a query with it as
    ``checkpointLocation``. It has the query's id; don't run both at the same time in one session.
    It has neither the data of sources nor the output of sinks.

    Args:
        checkpoint: the query's checkpoint location.
        path: a folder that does not exist, or is empty.
        version: N + 1 for the state after batch N, as long as it is kept; by default the last one
            that is committed.
        by_reference: share the state's files, which never change, instead of copying them. On one
            local disk the files get a second name (a hard link), and the copy does not depend on
            the original. Elsewhere the original keeps the files as long as the copy exists: delete
            either with :func:`delete` only. Only the newest two versions can be shared.
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
    """The savepoints of a checkpoint, in the order of their last batches.

    Args:
        checkpoint: the query's checkpoint location.
        spark: the session; by default the active one.

    Returns:
        For each ``savepoint`` (its location), ``name`` (its folder's), ``batch`` (-1 if it is not
        known), ``time`` (when it was made, ms since the epoch), ``kind`` (``copy``, ``links`` or
        ``references``), ``bytes`` (its own files), ``shared_bytes`` (files that it shares with the
        checkpoint) and ``state``: ``ok``; ``unfinished`` while it is made, or if that was cut off
        (:func:`delete` deletes it); ``used`` once a query has run on it; or ``missing`` for a
        savepoint by reference that was deleted or moved by other means, so that the checkpoint
        still keeps its files.
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
    """Copies a savepoint to a new checkpoint, which can start the query.

    Args:
        savepoint: the savepoint's location.
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

    Files that savepoints by reference share stay until the last of these savepoints is deleted too;
    the deleted checkpoint can't be read meanwhile.

    Args:
        checkpoint: the location.
        original: only for a savepoint by reference that was deleted by other means: the checkpoint
            that it was made from, which then no longer keeps the savepoint's files.
        spark: the session; by default the active one.

    Returns:
        The number of files that stay for savepoints.

    Raises:
        CheckpointError: ``[KEYSTATE_NO_CHECKPOINT]``, or ``[KEYSTATE_QUERY_IS_RUNNING]`` when a
            query runs on it in this session, or in another process of this machine.
    """
    session = bridge.session_or_active(spark, "delete")
    kept: int = bridge.call(session, "deleteCheckpoint", checkpoint, original or "")
    return kept


def moved_to(checkpoint: str, *, spark: SparkSession | None = None) -> str | None:
    """The checkpoint that replaced this one when a canary was promoted.

    For a driver that starts again: its query continues at ``moved_to(place) or place``.

    Args:
        checkpoint: the query's checkpoint location before.
        spark: the session; by default the active one.

    Returns:
        The location where the query continues, after all promotions; None if there was none.
    """
    session = bridge.session_or_active(spark, "moved_to")
    last = None
    while place := bridge.call(session, "movedTo", last or checkpoint):
        last = place
    return last
