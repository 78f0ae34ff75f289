"""Ending a query at the border of a micro-batch."""

from __future__ import annotations

import logging
import signal
import threading
import time
from typing import Any

from pyspark.sql import SparkSession

from keystate._jvm import bridge

log = logging.getLogger("keystate")


def stop_at_border(query: Any, *, border_seconds: float = 60.0) -> bool:
    """Stops a query when the micro-batch that runs has ended.

    A micro-batch that is cut off, or is just about to begin, runs at the next start under its id.

    Args:
        query: a ``StreamingQuery``, or what :func:`keystate.elastic` gave.
        border_seconds: how long to wait for the end of the micro-batch. After that it is cut off.

    Returns:
        Whether the micro-batch ended in time.
    """
    ended = wait_for_border(query, border_seconds)
    query.stop()
    return ended


def stop_with_savepoint(
    query: Any,
    path: str,
    *,
    border_seconds: float = 60.0,
    by_reference: bool = False,
    spark: SparkSession | None = None,
) -> int:
    """Stops a query at the end of its micro-batch, and makes a savepoint of what it has then.

    Args:
        query: a ``StreamingQuery`` that runs, or what :func:`keystate.elastic` gave.
        path: where the savepoint is to be, as for :func:`keystate.admin.savepoint`.
        border_seconds: how long to wait for the end of the micro-batch that runs. After that it is
            cut off, and is not in the savepoint.
        by_reference: as for :func:`keystate.admin.savepoint`.
        spark: the session; by default the active one.

    Returns:
        The last batch that is in the savepoint.

    Raises:
        ConfigurationError: there is no active session, or ``[KEYSTATE_QUERY_HAS_ENDED]``.
        CheckpointError: as for :func:`keystate.admin.savepoint`; the query has ended then.
    """
    session = bridge.session_or_active(spark, "keystate.stop_with_savepoint")
    instead = "use keystate.admin.savepoint on its checkpoint"
    checkpoint = bridge.checkpoint_of_running(session, query, instead)
    stop_at_border(query, border_seconds=border_seconds)
    batch: int = bridge.call(session, "savepoint", checkpoint, path, None, by_reference)
    return batch


class _Sigterm:
    """What is to be stopped when the process is told to end."""

    def __init__(self) -> None:
        self._queries: list[tuple[Any, float]] = []
        self._threads: list[threading.Thread] = []

    def add(self, query: Any, grace_seconds: float) -> None:
        if not self._queries:
            signal.signal(signal.SIGTERM, self._end)
        self._queries.append((query, grace_seconds))

    def _end(self, *_: Any) -> None:
        # In threads of their own: this one may be in the middle of a call of the JVM.
        for query, grace_seconds in self._queries:
            thread = threading.Thread(
                target=self._stop, args=(query, grace_seconds), name="keystate-sigterm"
            )
            thread.start()
            self._threads.append(thread)
        self._queries = []

    @staticmethod
    def _stop(query: Any, grace_seconds: float) -> None:
        log.info("SIGTERM: query %s ends after its micro-batch", query.name or query.id)
        if not stop_at_border(query, border_seconds=grace_seconds):
            log.warning(
                "Query %s did not end its micro-batch within %g s; it runs again at the next start",
                query.name or query.id,
                grace_seconds,
            )


_sigterm = _Sigterm()


def stop_on_sigterm(
    query: Any, *, grace_seconds: float = 25.0, spark: SparkSession | None = None
) -> None:
    """Ends a query at the end of its micro-batch when the driver gets SIGTERM.

    Then ``query.awaitTermination()`` returns, and the program goes on to its end. Both processes of
    a driver do so, Python's and its JVM: a container manager may signal either. To be called in the
    main thread, once for each query; it replaces the program's own handler of SIGTERM.

    Args:
        query: a ``StreamingQuery``, or what :func:`keystate.elastic` gave.
        grace_seconds: how long to wait for the end of the micro-batch that runs. After that it is
            cut off, and runs again at the next start. Less than what the manager allows: Kubernetes
            and Spark's own shutdown (``spark.shutdown.timeout``) kill after 30 s.
        spark: the session; by default the active one.

    Raises:
        ConfigurationError: there is no active session.
        ValueError: this is not the main thread.
    """
    session = bridge.session_or_active(spark, "keystate.stop_on_sigterm")
    if threading.current_thread() is not threading.main_thread():
        raise ValueError("stop_on_sigterm must be called in the main thread: it handles a signal")
    if grace_seconds < 0:
        raise ValueError(f"grace_seconds must not be negative, got {grace_seconds}")
    bridge.call(session, "stopAtShutdown", str(query.id), round(grace_seconds * 1000))
    _sigterm.add(query, grace_seconds)


def wait_for_border(query: Any, seconds: float) -> bool:
    """Until a micro-batch has just ended, or none runs; false when the time is over before that."""
    ended = _last_batch(query)
    deadline = time.monotonic() + seconds
    while query.isActive and query.status["isTriggerActive"] and _last_batch(query) == ended:
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.01)
    return True


def _last_batch(query: Any) -> tuple[str, int] | None:
    progress = query.lastProgress
    return None if progress is None else (progress.timestamp, progress.batchId)
