"""The thread on which a policy follows a query's load."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any, Protocol

from pyspark.sql import SparkSession

from keystate.live.elastic.scaling import Load, ScalingPolicy

log = logging.getLogger("keystate")


class ScaledQuery(Protocol):
    """The methods of the query that the autoscaler needs."""

    @property
    def id(self) -> str:
        """The query's id."""

    @property
    def isActive(self) -> bool:
        """Whether the query runs."""

    def _of_this_start(self) -> list[Any]: ...

    def _scale(self, load: Load, wanted: int, reason: str, timeout_seconds: float) -> None: ...


class Autoscaler(threading.Thread):
    """Watches a query's progress, and rescales the query when its policy wants other partitions.

    Args:
        stopping: set to end the thread; the thread also ends with the query.
    """

    def __init__(
        self,
        query: ScaledQuery,
        policy: ScalingPolicy,
        spark: SparkSession,
        poll_seconds: float,
        stopping: threading.Event,
    ) -> None:
        super().__init__(name="keystate-elastic", daemon=True)
        self._query = query
        self._policy = policy
        self._spark = spark
        self._poll = poll_seconds
        self._stopping = stopping
        self._loads: list[Load] = []
        self._seen = ""

    def run(self) -> None:
        """Follows the query's load until the query ends."""
        changed: float | None = None
        while not self._stopping.wait(self._poll):
            if not self._query.isActive:
                return
            try:
                if self._follow(changed):
                    changed = time.time()
            except Exception:
                # The query continues, or reports an error of its own.
                log.warning("The partitions of %s stay as they are", self._query.id, exc_info=True)
                changed = time.time()

    def _follow(self, changed: float | None) -> bool:
        """Looks at the progress once; returns whether the policy wanted a change."""
        for progress in self._query._of_this_start():
            if progress.timestamp > self._seen and progress.stateOperators:
                self._seen = progress.timestamp
                self._loads = [*self._loads, Load.of(progress)][-100:]
        if not self._loads:
            return False
        last = self._loads[-1]
        wanted = self._policy.wanted(self._loads, changed, self._most_partitions())
        if wanted == last.partitions:
            return False
        target = self._policy.target_seconds
        reason = (
            f"micro-batches take {last.seconds:.1f} s, {last.seconds_to_catch_up():.1f} s with "
            f"what waits, and {target:g} s is the target"
        )
        self._query._scale(last, wanted, reason, 10 * target)
        return True

    def _most_partitions(self) -> int:
        """The most partitions if the policy sets no bound: the number of the executors' cores."""
        if self._policy.max_partitions is not None:
            return self._policy.max_partitions
        return int(self._spark.sparkContext.defaultParallelism)
