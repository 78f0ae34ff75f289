"""Requests of other processes that an elastic query changes its number of partitions."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Protocol

from pyspark.sql import SparkSession

from keystate._jvm import bridge
from keystate._types.waiting import wait_until
from keystate.errors import CheckpointError

log = logging.getLogger("keystate")

#: The pause, in seconds, between two looks for the answer.
_LOOK_SECONDS = 0.2


class Withdrawn(Exception):
    """The requesting process no longer waits, so nothing was done."""


class RescaledQuery(Protocol):
    """The methods of the query that the listener needs."""

    @property
    def id(self) -> str:
        """The query's id."""

    @property
    def isActive(self) -> bool:
        """Whether the query runs."""

    def _rescale_if(self, partitions: int, is_wanted: Callable[[], bool]) -> Any: ...


def ask(session: SparkSession, checkpoint: str, partitions: int, wait_seconds: float) -> int | None:
    """Sends a request to the driver of the query on a checkpoint, and waits for the answer.

    Returns:
        The number of partitions before; None if no elastic query runs there.

    Raises:
        CheckpointError: the reason why the query was not rescaled, or
            ``[KEYSTATE_NO_RESCALE_ANSWER]``.
    """
    good_for = round(wait_seconds * 1000)
    request = bridge.call(session, "askRescale", checkpoint, partitions, good_for)
    if not request:
        return None

    def look() -> str | None:
        answer: str | None = bridge.call(session, "rescaleAnswer", checkpoint, request)
        return answer

    answer = None
    try:
        with suppress(TimeoutError):
            answer = wait_until(look, "the driver's answer", wait_seconds, _LOOK_SECONDS)
    finally:  # Ctrl-C withdraws it too
        bridge.call(session, "withdrawRescale", checkpoint, request)
    # The answer may have come just before.
    answer = answer or look()
    if answer:
        return _before(answer)
    raise CheckpointError(
        f"the driver of the query on {checkpoint} has not answered within {wait_seconds:g} s. If "
        "its micro-batches take longer, wait longer. If its machine is gone, start the query with "
        f"spark.sql.shuffle.partitions={partitions}",
        code="KEYSTATE_NO_RESCALE_ANSWER",
    )


def _before(text: str) -> int:
    answer = json.loads(text)
    if answer["error"] is not None:
        raise CheckpointError(answer["error"], code=answer["code"])
    return int(answer["before"])


class RescaleListener(threading.Thread):
    """Carries out requests of other processes for an elastic query, and answers them.

    Args:
        stopping: set to end the thread; the thread also ends with the query.
    """

    def __init__(
        self,
        query: RescaledQuery,
        spark: SparkSession,
        poll_seconds: float,
        stopping: threading.Event,
    ) -> None:
        super().__init__(name="keystate-rescale-requests", daemon=True)
        self._query = query
        self._spark = spark
        self._poll = poll_seconds
        self._stopping = stopping
        self._checkpoint = ""

    def run(self) -> None:
        """Looks for requests until the query ends."""
        try:
            while not self._stopping.wait(self._poll) and self._query.isActive:
                try:
                    self._look()
                except Exception:
                    log.warning("Can't look who asks for other partitions", exc_info=True)
        finally:
            if self._checkpoint:
                bridge.call(self._spark, "listenForRescales", self._checkpoint, False)

    def _look(self) -> None:
        if not self._checkpoint:
            checkpoint = bridge.checkpoint_of(self._spark, self._query.id)
            if not checkpoint:
                return  # a change is under way
            bridge.call(self._spark, "listenForRescales", checkpoint, True)
            self._checkpoint = checkpoint
        waiting = bridge.operation(self._spark, "waitingRescales", self._checkpoint)
        for request, partitions in waiting.items():
            try:
                answer = json.dumps(self._answer(request, partitions))
            except Withdrawn:
                log.info("Nobody waits any more for a change to %d partitions", partitions)
                continue
            bridge.call(self._spark, "answerRescale", self._checkpoint, request, answer)

    def _answer(self, request: str, partitions: int) -> dict[str, Any]:
        is_wanted = partial(bridge.call, self._spark, "isRescaleWanted", self._checkpoint, request)
        try:
            before = self._query._rescale_if(partitions, is_wanted).before
        except Withdrawn:
            raise
        except Exception as e:
            code = getattr(e, "code", "KEYSTATE_RESCALE_UNDONE")
            return {"before": None, "error": f"the query can't be rescaled: {e}", "code": code}
        return {"before": before, "error": None, "code": None}
