"""Calls about queries that run, and about their numbers of partitions."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import SparkSession

from keystate._jvm.bridge import call, operation
from keystate.errors import ConfigurationError


def rescale(session: SparkSession, checkpoint: str, partitions: int) -> int:
    """Changes a stopped query's number of partitions; returns what it was before."""
    before: int = call(session, "rescale", checkpoint, partitions)
    return before


def listen_for_rescales(session: SparkSession, checkpoint: str, is_on: bool) -> None:
    """Lets other processes ask a running query for other partitions, or no longer."""
    call(session, "listenForRescales", checkpoint, is_on)


def waiting_rescales(session: SparkSession, checkpoint: str) -> dict[str, int]:
    """The numbers of partitions that were asked for, by the requests' ids."""
    waiting: dict[str, int] = operation(session, "waitingRescales", checkpoint)
    return waiting


def answer_rescale(
    session: SparkSession, checkpoint: str, request: str, answer: dict[str, Any]
) -> None:
    """Tells who asked what has come of it."""
    call(session, "answerRescale", checkpoint, request, json.dumps(answer))


def ask_rescale(session: SparkSession, checkpoint: str, partitions: int) -> str:
    """Asks a running query for other partitions; returns the request's id, empty if none runs."""
    request: str = call(session, "askRescale", checkpoint, partitions)
    return request


def rescale_answer(session: SparkSession, checkpoint: str, request: str) -> dict[str, Any] | None:
    """Takes the answer to a request; None if there is none yet."""
    answer = call(session, "rescaleAnswer", checkpoint, request)
    return json.loads(answer) if answer else None


def withdraw_rescale(session: SparkSession, checkpoint: str, request: str) -> None:
    """Takes a request back."""
    call(session, "withdrawRescale", checkpoint, request)


def check_start(session: SparkSession, query_id: str) -> None:
    """Raises what the start of a running query failed with."""
    call(session, "checkStart", query_id)


def checkpoint_of(session: SparkSession, query_id: str) -> str:
    """Where the checkpoint of a running query is; empty if it does not run."""
    place: str = call(session, "checkpointOf", query_id)
    return place


def checkpoint_of_running(session: SparkSession, query: Any, instead: str) -> str:
    """Where the checkpoint of a query is that has to run.

    Args:
        session: the session.
        query: a ``StreamingQuery``, or what :func:`keystate.elastic` gave.
        instead: what to do if it has ended.

    Raises:
        ConfigurationError: ``[KEYSTATE_QUERY_HAS_ENDED]``.
    """
    place = checkpoint_of(session, str(query.id)) if query.isActive else ""
    if not place:
        raise ConfigurationError(f"the query has ended: {instead}", code="KEYSTATE_QUERY_HAS_ENDED")
    return place


def stop_at_shutdown(session: SparkSession, query_id: str, grace_millis: int) -> None:
    """Lets the JVM end a query at the end of its micro-batch when it is told to end itself."""
    call(session, "stopAtShutdown", query_id, grace_millis)


def is_real_time(session: SparkSession, query_id: str) -> bool:
    """Whether a running query is in real-time mode."""
    answer: bool = call(session, "isRealTime", query_id)
    return answer


def limit_batches(session: SparkSession, checkpoint: str, last: int | None) -> bool:
    """Lets a query begin no batch after this one; ``None``: any. False if that can't be."""
    works: bool = call(session, "limitBatches", checkpoint, last)
    return works


def check_stopped(session: SparkSession, checkpoint: str) -> None:
    """Raises CheckpointError if a query is running on a checkpoint."""
    call(session, "checkStopped", checkpoint)
