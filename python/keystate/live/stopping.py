"""Ending a query at the border of a micro-batch."""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import SparkSession

from keystate._jvm import bridge

log = logging.getLogger("keystate")

# The length of one wait in the JVM; between two waits Python can be interrupted.
_SLICE_MILLIS = 500


def stop_after_batch(
    query: Any, *, timeout_seconds: float = 60.0, spark: SparkSession | None = None
) -> bool:
    """Stops a query when the running micro-batch has ended, before the next one begins.

    In real-time mode, and if another checkpoint file manager than Keystate's writes the query's
    logs, the next one may have begun. A micro-batch that is cut off runs at the next start with
    the same id.

    Args:
        query: a ``StreamingQuery``, or a query of :func:`keystate.elastic`.
        timeout_seconds: how long to wait for the end of the micro-batch. After that it is cut off.
        spark: the session; by default the active one.

    Returns:
        Whether the micro-batch ended in time.

    Raises:
        ConfigurationError: there is no active session.
    """
    session = bridge.session_or_active(spark, "keystate.stop_after_batch")
    with held_after_batch(session, query, timeout_seconds) as ended:
        query.stop()
    return ended


def stop_with_savepoint(
    query: Any,
    path: str,
    *,
    timeout_seconds: float = 60.0,
    by_reference: bool = False,
    spark: SparkSession | None = None,
) -> int:
    """Stops a query at the end of its micro-batch, and makes a savepoint of its state then.

    Args:
        query: a running ``StreamingQuery``, or a query of :func:`keystate.elastic`.
        path: the savepoint's location, as for :func:`keystate.admin.savepoint`.
        timeout_seconds: how long to wait for the end of the running micro-batch. After that it is
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
    stop_after_batch(query, timeout_seconds=timeout_seconds, spark=session)
    batch: int = bridge.call(session, "savepoint", checkpoint, path, None, by_reference)
    return batch


class _Sigterm:
    """The queries to stop when the process gets SIGTERM."""

    def __init__(self) -> None:
        self._queries: list[tuple[Any, float, SparkSession]] = []
        self._threads: list[threading.Thread] = []

    def add(self, query: Any, grace_seconds: float, spark: SparkSession) -> None:
        if not self._queries:
            signal.signal(signal.SIGTERM, self._end)
        self._queries.append((query, grace_seconds, spark))

    def _end(self, *_: Any) -> None:
        # In threads of their own: this one may be in the middle of a call of the JVM.
        for stopped in self._queries:
            thread = threading.Thread(target=self._stop, args=stopped, name="keystate-sigterm")
            thread.start()
            self._threads.append(thread)
        self._queries = []

    @staticmethod
    def _stop(query: Any, grace_seconds: float, spark: SparkSession) -> None:
        log.info("SIGTERM: query %s ends after its micro-batch", query.name or query.id)
        if not stop_after_batch(query, timeout_seconds=grace_seconds, spark=spark):
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

    Then ``query.awaitTermination()`` returns, and the program continues to its end. Both processes
    of a driver handle the signal, Python's and its JVM: a container manager may signal either. Call
    this in the main thread, once for each query; it replaces the program's own handler of SIGTERM.

    Args:
        query: a ``StreamingQuery``, or a query of :func:`keystate.elastic`.
        grace_seconds: how long to wait for the end of the running micro-batch. After that it is cut
            off, and runs again at the next start. Choose less than the manager allows: Kubernetes
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
    _sigterm.add(query, grace_seconds, session)


@contextmanager
def held_after_batch(spark: SparkSession, query: Any, seconds: float) -> Iterator[bool]:
    """Keeps a query from beginning a micro-batch while the context lasts, where that is possible.

    Args:
        spark: the session.
        query: as for :func:`keystate.stop_after_batch`.
        seconds: how long to wait for the end of the running micro-batch.

    Yields:
        Whether that micro-batch has ended.
    """
    deadline = time.monotonic() + seconds
    name = str(query.id)
    checkpoint = bridge.checkpoint_of(spark, name) if query.isActive else ""

    def hold() -> bool:
        millis = max(0, min(_SLICE_MILLIS, round((deadline - time.monotonic()) * 1000)))
        held: bool = bridge.call(spark, "holdAfterBatch", name, millis)
        return held

    try:
        ended = not checkpoint or hold()
        while not ended and time.monotonic() < deadline:
            ended = hold()
        yield ended
    finally:
        if checkpoint:
            bridge.call(spark, "letGo", checkpoint)
