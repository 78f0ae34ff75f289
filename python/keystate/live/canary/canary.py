"""Canaries: new code that runs beside the old, on the input of a running query."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pyspark.sql import SparkSession

from keystate._jvm import bridge
from keystate._types.waiting import wait_until
from keystate.checkpoints.editor import CheckpointEditor
from keystate.errors import CheckpointError, ConfigurationError
from keystate.live.canary.fork import Fork, NewCodeFailed, check_mode
from keystate.live.canary.pace import Pace
from keystate.live.canary.promotion import Promotion
from keystate.live.canary.report import CanaryReport
from keystate.live.canary.rows import CanaryRows
from keystate.live.starts import is_same

__all__ = ["Canary", "CanaryReport", "CanaryRows", "Pace", "canary"]

#: The pause between two looks at the old query's committed micro-batches, in seconds.
POLL_SECONDS = 0.2


class Canary:
    """New code beside a running query; :func:`canary` makes it.

    Used as a context manager, it calls :meth:`drop` at the end.
    """

    def __init__(
        self, spark: SparkSession, checkpoint: str, query: Any, fork: Fork, version: int | None
    ) -> None:
        self._spark = spark
        self._checkpoint = checkpoint
        self._query = query
        self._fork = fork
        self._is_over = False
        self._compared = False
        self._batch = fork.make(version)

    @property
    def checkpoint(self) -> str:
        """The old query's checkpoint location."""
        return self._checkpoint

    @property
    def query(self) -> Any:
        """The old query, or the one that :meth:`promote` started; None if it is not known here."""
        return self._query

    @property
    def path(self) -> str:
        """The fork's location."""
        return self._fork.path

    @property
    def batch(self) -> int:
        """The old query's last micro-batch in the fork."""
        return self._batch

    def compare(
        self,
        micro_batches: int = 5,
        *,
        alone: int = 10,
        rows: CanaryRows | None = None,
        timeout_seconds: float = 300.0,
    ) -> CanaryReport:
        """Runs the new code on micro-batches of the old query, and compares.

        The new code runs micro-batches that the old query has committed since the fork, or commits
        now, each with the same number, input, clock and watermark. So states and rows can be
        compared key by key. For that the new code is started again for each micro-batch. Then it
        runs by itself for some time, next to the old query, which shows how fast both are. A second
        call makes a new fork.

        Args:
            micro_batches: how many to compare; fewer if the time is over before.
            alone: how many micro-batches with rows the new code runs by itself; 0: none.
            rows: how to read the output of both; None: rows are not compared.
            timeout_seconds: how long to wait for the old query, and for the new one with each
                micro-batch, and how long the new one runs by itself.

        Returns:
            The report. An error of the new code is in it, and is not raised.

        Raises:
            ValueError: a number is not positive.
            ConfigurationError: ``[KEYSTATE_CANARY_NO_INPUT]`` when the old query committed no
                micro-batch in time; ``[KEYSTATE_CANNOT_CANARY]`` when the canary is over, or
                `start_new` started another checkpoint.
            CheckpointError: the old query no longer keeps the versions or log entries; or a file is
                lost or damaged.
        """
        if micro_batches < 1 or alone < 0 or timeout_seconds <= 0:
            raise ValueError("micro_batches and timeout_seconds must be positive, alone 0 or more")
        self._check()
        if self._compared:
            self._batch = self._fork.make(None)
        self._compared = True
        first = self._batch + 1
        last = self._committed(self._batch + micro_batches, timeout_seconds)
        self._fork.keep(first, last)
        batch: int | None = first
        error = states_error = found = new = None
        states: list[dict[str, Any]] = []
        began = ""
        try:
            for batch in range(first, last + 1):
                self._fork.run(batch, timeout_seconds)
            try:
                states = self._fork.diff()
            except CheckpointError as e:
                states_error = str(e)
            if rows is not None:
                found = rows.compare(first, last)
            if alone:
                batch = None
                began = self._fork.query.lastProgress.timestamp
                # The first micro-batch catches up with all rows that came meanwhile.
                new = Pace.of(self._fork.run_on(alone + 1, timeout_seconds)[1:])
        except NewCodeFailed as e:
            error = str(e)
        finally:
            self._fork.stop()
        if error is not None and not states:
            states_error = states_error or "the new code failed before"
        return CanaryReport(
            self._checkpoint,
            first,
            last,
            states,
            states_error,
            found,
            error,
            batch if error is not None else None,
            self._old_pace(began) if new else None,
            new,
        )

    def promote(
        self,
        start: Callable[[str], Any],
        *,
        start_old: Callable[[str], Any] | None = None,
        to: str | None = None,
        timeout_seconds: float = 60.0,
    ) -> Any:
        """Replaces the old code by the new code.

        The old query ends at the end of its micro-batch, and the new code continues from its
        checkpoint. It does not continue from the fork, whose micro-batches differ: so a sink that
        knows micro-batches by their ids gets each of them once. If the old code has begun a
        micro-batch and not committed it, the new code runs it. If the canary has an ``edit``, it
        changes the state once more, in a copy that replaces the checkpoint. The fork is deleted
        first.

        If the new code does not start, or fails in its first micro-batch within half a minute, the
        promotion is undone.

        Args:
            start: takes a checkpoint location, starts the new code on it with the sink of the old
                code, and returns its query.
            start_old: starts the old code in the same way, to undo the promotion; None: the caller
                starts it again.
            to: with an ``edit``: a folder for the changed copy, which is the query's checkpoint
                from then on. No query starts on the old checkpoint any more; the error names the
                copy, and so does :func:`keystate.admin.moved_to`.
            timeout_seconds: how long to wait for the end of the old query's micro-batch. After that
                the micro-batch is cut off, and the new code runs it.

        Returns:
            The result of `start`.

        Raises:
            ValueError: `to` is missing, or is given without an ``edit``.
            ConfigurationError: ``[KEYSTATE_CANNOT_CANARY]`` when the canary is over, or `start`
                started another checkpoint.
            CheckpointError: ``[KEYSTATE_QUERY_IS_RUNNING]`` when the old query runs in another
                process: end it first; ``[KEYSTATE_CANNOT_CANARY]`` when `to` is another checkpoint;
                as for :meth:`~keystate.admin.CheckpointEditor.write`.
            Exception: the error of the new code's start. Then :attr:`query` is the old code's.
        """
        self._check()
        if (to is None) != (self._fork.edit is None):
            raise ValueError("to= is where a canary with edit= puts the changed checkpoint")
        self._fork.drop()
        self._compared = True  # so a comparison after this makes another fork
        promotion = Promotion(self._spark, self._checkpoint, self._fork.edit, to)
        try:
            self._query = promotion.run(self._query, start, timeout_seconds)
        except Exception:
            if promotion.may_go_back() and start_old is not None:
                self._query = promotion.go_back(start_old)
            raise
        self._is_over = True
        return self._query

    def drop(self) -> None:
        """Ends the new code, and deletes the fork. The old query is not touched."""
        self._fork.drop()
        self._is_over = True

    def __enter__(self) -> Canary:
        return self

    def __exit__(self, *error: Any) -> None:
        if not self._is_over:
            self.drop()

    def _check(self) -> None:
        if self._is_over:
            raise ConfigurationError(
                "this canary was dropped or promoted: make another one with keystate.canary",
                code="KEYSTATE_CANNOT_CANARY",
            )

    def _committed(self, wanted: int, seconds: float) -> int:
        """Waits for the wanted micro-batch; returns it, or the last one committed in time."""

        def is_there() -> bool:
            ended = self._query is not None and not self._query.isActive
            committed: int = bridge.call(self._spark, "lastBatch", self._checkpoint)
            return ended or committed >= wanted

        with suppress(TimeoutError):
            wait_until(is_there, f"micro-batch {wanted}", seconds, POLL_SECONDS)
        last: int = bridge.call(self._spark, "lastBatch", self._checkpoint)
        if last <= self._batch:
            raise ConfigurationError(
                f"the query on {self._checkpoint} has committed no micro-batch since "
                f"{self._batch}, so there is none to compare",
                code="KEYSTATE_CANARY_NO_INPUT",
            )
        return min(last, wanted)

    def _old_pace(self, began: str) -> Pace | None:
        if self._query is None:
            return None
        return Pace.of([one for one in self._query.recentProgress if one.timestamp >= began])


def canary(
    checkpoint_or_query: Any,
    start_new: Callable[[str], Any],
    *,
    at: str | None = None,
    edit: Callable[[CheckpointEditor], Any] | None = None,
    version: int | None = None,
    spark: SparkSession | None = None,
) -> Canary:
    """Forks a running query, to try new code beside it.

    The fork shares the files of the state where that is possible: it is ready at once, whatever the
    size of the state, and does not disturb the old query. Files that an earlier canary left at the
    same place when its driver died are deleted first.

    Args:
        checkpoint_or_query: the query, also one of :func:`keystate.elastic`; or its checkpoint
            location, and then the query may run in another process.
        start_new: takes a checkpoint location, starts the query of the new code on it, with a sink
            of its own, and returns the query. It is called several times. Its sources must be those
            of the old query, in the same order.
        at: a folder for the fork, which does not exist or is a canary's; by default the checkpoint
            location with ``.canary`` appended. Names that begin with this one are the canary's too.
        edit: takes a :class:`~keystate.admin.CheckpointEditor` and changes the state for the new
            code: it can add, drop and reorder operators, rename states, and so on. Edited operators
            are written again, and the rest is copied.
        version: N + 1 to fork after batch N, if that is kept; by default after the last committed
            one. With an older version the new code need not wait for the old query.
        spark: the session; by default the active one.

    Returns:
        The canary: :meth:`Canary.compare` compares, :meth:`Canary.promote` and
        :meth:`Canary.drop` end it.

    Raises:
        ConfigurationError: there is no active session; ``[KEYSTATE_QUERY_HAS_ENDED]``;
            ``[KEYSTATE_CANNOT_CANARY]`` for a query in real-time mode.
        CheckpointError: ``[KEYSTATE_CANNOT_CANARY]`` when `at` is another checkpoint;
            ``[KEYSTATE_QUERY_IS_RUNNING]`` when another canary is at work there; or as for
            :func:`keystate.admin.savepoint` and for what `edit` does.
    """
    session = bridge.session_or_active(spark, "keystate.canary")
    if isinstance(checkpoint_or_query, str):
        checkpoint = checkpoint_or_query.rstrip("/")
        query = next(
            (
                one
                for one in session.streams.active
                if is_same(session, bridge.checkpoint_of(session, str(one.id)), checkpoint)
            ),
            None,
        )
    else:
        query = checkpoint_or_query
        instead = "give keystate.canary the place of its checkpoint"
        checkpoint = bridge.checkpoint_of_running(session, query, instead)
    if query is not None:
        check_mode(session, query, lambda: None)
    fork = Fork(session, checkpoint, at or f"{checkpoint}.canary", start_new, edit)
    return Canary(session, checkpoint, query, fork, version)
