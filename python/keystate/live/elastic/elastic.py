"""Queries whose partitions change while they run."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from keystate import admin
from keystate._jvm import bridge
from keystate.checkpoints.rescale_requests import RescaleListener, Withdrawn
from keystate.errors import ConfigurationError
from keystate.live.elastic.autoscaler import Autoscaler
from keystate.live.elastic.scaling import Load, ScalingPolicy
from keystate.live.starts import AS_BEFORE, ON_RESTART, PARTITIONS, begin, make_sure
from keystate.live.stopping import held_after_batch, stop_with_savepoint

log = logging.getLogger("keystate")

#: How long a failed query waits until the process that asked for a change has the answer.
_TELL_SECONDS = 10.0

#: The number of polls for each look for requests, which reads the checkpoint's store.
POLLS_FOR_REQUESTS = 5


@dataclass(frozen=True)
class Rescale:
    """A change of a query's partitions.

    Attributes:
        before: the number of partitions before.
        after: the wanted number of partitions.
        reason: why the partitions change.
        batch_id: the last micro-batch that ran here before the change; None if none did.
        seconds: the time from the request to stop until the query had started again; None for a
            change that was only reported.
        error: why the change was undone; None if it was not.
    """

    before: int
    after: int
    reason: str
    batch_id: int | None
    seconds: float | None = None
    error: str | None = None


class ElasticQuery:
    """A streaming query that can change its partitions; :func:`elastic` makes it.

    It has the methods of Spark's ``StreamingQuery``. A change ends Spark's query and starts another
    one on the same checkpoint, so ``runId`` changes and ``id`` does not.
    """

    def __init__(
        self,
        start: Callable[[], Any],
        spark: SparkSession,
        policy: ScalingPolicy | None,
        dry_run: bool,
        poll_seconds: float,
    ) -> None:
        self._start = start
        self._spark = spark
        self._dry_run = dry_run
        self._changes = threading.RLock()
        self._stopping = threading.Event()
        self._rescales: list[Rescale] = []
        self._earlier: list[Any] = []
        self._known: int | None = None
        self._changing = False
        # The error of a change that ended it: Spark's query was only stopped, and has no error.
        self._failed: Exception | None = None
        self._query = self._begin(None)
        self._scaler: Autoscaler | None = None
        if policy is not None:
            self._scaler = Autoscaler(self, policy, spark, poll_seconds, self._stopping)
            self._scaler.start()
        self._listener = RescaleListener(
            self, spark, POLLS_FOR_REQUESTS * poll_seconds, self._stopping
        )
        self._listener.start()

    # Members that a StreamingQuery does not have.

    @property
    def partitions(self) -> int | None:
        """The number of the state's partitions; None before the first micro-batch has ended."""
        if self._known is None:
            progress = self._query.lastProgress
            if progress is not None and progress.stateOperators:
                self._known = progress.stateOperators[0].numShufflePartitions
        return self._known

    @property
    def rescales(self) -> list[Rescale]:
        """All changes, or with ``dry_run`` the wanted changes; the oldest first."""
        return list(self._rescales)

    def rescale(self, partitions: int, *, timeout_seconds: float = 60.0) -> Rescale:
        """Changes the number of partitions, between two micro-batches.

        If the query does not start with the new number, it is started with the old one.

        Args:
            partitions: the new number, from 1 to the operators' max parallelism.
            timeout_seconds: how long to wait for the end of the running micro-batch. After that
                it is cut off, and runs again with the new number.

        Returns:
            The change.

        Raises:
            ValueError: the number is not positive.
            ConfigurationError: ``[KEYSTATE_QUERY_HAS_ENDED]``: the query had ended; or it ends now,
                because it did not start with the old number either, or did not stop in time.
            Exception: the error of the new start; the query continues with the old number.
        """
        if partitions < 1:
            raise ValueError(f"the number of partitions must be at least 1, got {partitions}")
        return self._change(partitions, "asked for", timeout_seconds)

    def forget(self, key: Any, *, operator: int | None = None) -> dict[str, Any]:
        """Lets the query forget a key; see :func:`keystate.admin.forget`.

        Args:
            key: as for :func:`keystate.admin.lookup`.
            operator: the operator's number; by default all operators that have state by key.

        Returns:
            ``request``, the request's id, and ``operators``, the numbers of the operators that
            forget the key.

        Raises:
            ConfigurationError: ``[KEYSTATE_QUERY_HAS_ENDED]``.
            CheckpointError, StateTypeError: as for :func:`keystate.admin.forget`.
        """
        with self._changes:
            return admin.forget(self, key=key, operator=operator, spark=self._spark)

    # Members of a StreamingQuery.

    @property
    def id(self) -> str:
        """The query's id, the same after each start from its checkpoint."""
        return str(self._query.id)

    @property
    def runId(self) -> str:
        """The id of this start; a new one after each change."""
        return str(self._query.runId)

    @property
    def name(self) -> str | None:
        """The query's name; None without one."""
        name: str | None = self._query.name
        return name

    @property
    def isActive(self) -> bool:
        """Whether the query runs; it also counts as running during a change."""
        query = self._query
        if query.isActive or self._changing:
            return True
        with self._changes:
            return bool(self._query.isActive)

    @property
    def status(self) -> dict[str, Any]:
        """The query's current status."""
        status: dict[str, Any] = self._query.status
        return status

    @property
    def recentProgress(self) -> list[Any]:
        """The progress of the last hundred micro-batches, also from before changes."""
        return [*self._earlier, *self._query.recentProgress][-100:]

    @property
    def lastProgress(self) -> Any:
        """The progress of the last micro-batch; None before the first one has ended."""
        return next(reversed(self.recentProgress), None)

    def exception(self) -> Any:
        """The error that ended the query; None if it runs or was stopped.

        It is a ``ConfigurationError`` after a change that could neither be made nor undone.
        """
        with self._changes:
            if self._query.isActive:
                return None
            return self._failed or self._query.exception()

    def explain(self, extended: bool = False) -> None:
        """Prints the plans of the last micro-batch."""
        self._query.explain(extended)

    def processAllAvailable(self) -> None:
        """Waits until all available rows of the sources are processed. For tests."""
        while True:
            query = self._query
            query.processAllAvailable()
            with self._changes:
                if query is self._query:
                    return

    def awaitTermination(self, timeout: float | None = None) -> bool | None:
        """Waits until the query ends.

        Args:
            timeout: the longest wait in seconds; None: no limit.

        Returns:
            With a timeout, whether the query has ended.

        Raises:
            StreamingQueryException: the query ended with an error.
            ConfigurationError: ``[KEYSTATE_QUERY_HAS_ENDED]``: a change ended the query, see
                :meth:`rescale`.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            query = self._query
            left = 1.0 if deadline is None else min(1.0, max(deadline - time.monotonic(), 0.001))
            if query.awaitTermination(left):
                # If it ended for a change, another one runs when the change is done.
                wait = -1 if deadline is None else max(deadline - time.monotonic(), 0)
                if self._changes.acquire(timeout=wait):
                    try:
                        ended = query is self._query
                    finally:
                        self._changes.release()
                    if ended and self._failed is not None:
                        self._end_listener()
                        raise self._failed
                    if ended:
                        return None if timeout is None else True
            if deadline is not None and time.monotonic() >= deadline:
                return False

    def stop(self) -> None:
        """Ends the query; its checkpoint keeps the current number of partitions."""
        self._stopping.set()
        with self._changes:
            self._query.stop()
        for thread in (self._scaler, self._listener):
            if thread is not None and thread is not threading.current_thread():
                thread.join()

    def stop_with_savepoint(
        self, path: str, *, timeout_seconds: float = 60.0, by_reference: bool = False
    ) -> int:
        """Ends the query, and makes a savepoint; see :func:`keystate.stop_with_savepoint`."""
        with self._changes:  # waits for a running change; no change starts after it
            self._stopping.set()
        return stop_with_savepoint(
            self,
            path,
            timeout_seconds=timeout_seconds,
            by_reference=by_reference,
            spark=self._spark,
        )

    # Changes of partitions.

    def _last_batch(self) -> int | None:
        """The last micro-batch that ran. Spark reports others too, before the first one runs."""
        ran = (p.batchId for p in reversed(self.recentProgress) if "addBatch" in p.durationMs)
        return next(ran, None)

    def _of_this_start(self) -> list[Any]:
        """The progress of the last micro-batches, only those since the last change."""
        progress: list[Any] = self._query.recentProgress
        return progress

    def _scale(self, load: Load, wanted: int, reason: str, timeout_seconds: float) -> None:
        """Makes the change that the policy wants, or with ``dry_run`` only reports it."""
        if self._dry_run:
            self._rescales.append(Rescale(load.partitions, wanted, reason, self._last_batch()))
            log.info("Query %s should have %d partitions: %s", self.name, wanted, reason)
        else:
            self._change(wanted, reason, timeout_seconds)

    def _begin(self, partitions: int | None) -> Any:
        """Starts the query; None: with as many partitions as its checkpoint has."""
        settings = AS_BEFORE
        if partitions is not None:
            settings = {PARTITIONS: str(partitions), ON_RESTART: "auto"}
        return begin(self._spark, settings, self._start)

    def _rescale_if(self, partitions: int, is_wanted: Callable[[], bool]) -> Rescale:
        """Changes the partitions if the change is still wanted when a micro-batch has ended.

        Raises:
            Withdrawn: the change is not wanted any more.
        """
        return self._change(partitions, "asked for", 60.0, is_wanted)

    def _change(
        self,
        partitions: int,
        reason: str,
        timeout_seconds: float,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> Rescale:
        with self._changes:
            if self._stopping.is_set() or not self._query.isActive:
                raise ConfigurationError(
                    "the query has ended; start it with another spark.sql.shuffle.partitions, or "
                    "use keystate.rescale on its checkpoint",
                    code="KEYSTATE_QUERY_HAS_ENDED",
                )
            old = self._query
            try:
                with held_after_batch(self._spark, old, timeout_seconds):
                    before = self.partitions or int(self._spark.conf.get(PARTITIONS) or 200)
                    batch = self._last_batch()
                    if partitions == before:
                        return Rescale(before, before, reason, batch, 0.0)
                    if not is_wanted():
                        raise Withdrawn
                    began = time.monotonic()
                    self._changing = True
                    try:
                        old.stop()
                    except Exception as e:
                        took = time.monotonic() - began
                        self._rescales.append(
                            Rescale(before, partitions, reason, batch, took, _told(e))
                        )
                        raise self._fail(
                            f"it was stopped for a change from {before} to {partitions} partitions "
                            f"and did not end in time: {_told(e)}"
                        ) from e
                self._earlier = [*self._earlier, *old.recentProgress][-100:]
                error, started = self._start_again(before, partitions)
            finally:
                self._changing = False
            told = None if error is None else _told(error)
            done = Rescale(before, partitions, reason, batch, started - began, told)
            self._rescales.append(done)
            if self._failed is not None:
                log.error("Query %s: %s", self.name or self.id, self._failed)
                raise self._failed
            if error is not None:
                log.warning(
                    "Query %s goes on with %d partitions, for it does not start with %d: %s",
                    self.name or self.id,
                    before,
                    partitions,
                    error,
                )
                raise error
            log.info(
                "Query %s went from %d to %d partitions %s in %.2f s: %s",
                self.name or self.id,
                before,
                partitions,
                "before its first batch" if batch is None else f"after micro-batch {batch}",
                done.seconds,
                reason,
            )
            return done

    def _start_again(self, before: int, partitions: int) -> tuple[Exception | None, float]:
        """Starts the query, or on failure with `before`; returns the error and the start's time."""
        try:
            self._query, started = self._running(partitions)
            self._known = partitions
            return None, started
        except Exception as e:
            error = e
        try:
            self._query = self._begin(before)
            self._known = before
        except Exception as e:
            failed = self._fail(
                f"it starts neither with {partitions} partitions: {_told(error)}; nor with the "
                f"{before} that it had: {_told(e)}"
            )
            failed.__cause__ = e
        return error, time.monotonic()

    def _fail(self, reason: str) -> Exception:
        """Sets the error that ends the query, since Spark's query was only stopped; returns it."""
        self._failed = ConfigurationError(
            f"the query has ended: {reason}. Start it again",
            code="KEYSTATE_QUERY_HAS_ENDED",
        )
        self._stopping.set()
        return self._failed

    def _end_listener(self) -> None:
        """Lets the listener answer the request for the change, before this process may end."""
        if self._listener is not threading.current_thread():
            self._listener.join(_TELL_SECONDS)

    def _running(self, partitions: int) -> tuple[Any, float]:
        """The query, once it has read its checkpoint without failure; and when it started."""
        query = self._begin(partitions)
        started = time.monotonic()
        make_sure(self._spark, query)
        return query, started


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def elastic(
    start: Callable[[], Any],
    policy: ScalingPolicy | None = None,
    *,
    spark: SparkSession | None = None,
    dry_run: bool = False,
    poll_seconds: float = 1.0,
) -> ElasticQuery:
    """Starts a query whose partitions change while it runs: on request, and by a policy.

    Args:
        start: makes the query and starts it, as ``lambda: writer.start()`` does. It is called at
            each change, on a thread of its own if a policy asks for the change. It should not set
            ``spark.sql.shuffle.partitions``.
        policy: says when the query changes by itself; None: only :meth:`ElasticQuery.rescale`
            changes it.
        spark: the session; by default the active one.
        dry_run: changes that the policy wants are only reported, in the log and in
            :attr:`ElasticQuery.rescales`.
        poll_seconds: how often the policy looks at the query's progress. Each fifth time the query
            also looks for requests of other processes (:func:`keystate.admin.rescale`).

    Returns:
        The query. The first start takes as many partitions as the checkpoint has; for a new
        checkpoint as many as ``spark.sql.shuffle.partitions`` says.

    Raises:
        ConfigurationError: there is no active session, or it is a Spark Connect session and the
            policy has no ``max_partitions``.
    """
    session = bridge.session_or_active(spark, "keystate.elastic")
    if policy and policy.max_partitions is None and not hasattr(session, "_jsparkSession"):
        raise ConfigurationError(
            "through Spark Connect a policy needs max_partitions: the client does not see how many "
            "cores there are",
            code="KEYSTATE_BAD_SETTING",
        )
    return ElasticQuery(start, session, policy, dry_run, poll_seconds)
