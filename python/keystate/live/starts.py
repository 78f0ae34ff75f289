"""Starts queries for Keystate with settings of their own, and checks that they work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from keystate._jvm import bridge
from keystate.errors import ConfigurationError

PARTITIONS = "spark.sql.shuffle.partitions"
ON_RESTART = "spark.keystate.rescale.onRestart"

#: The settings with which a query gets as many partitions as its checkpoint has.
AS_BEFORE = {ON_RESTART: "off"}

#: A query that has neither ended nor run a micro-batch after these seconds counts as running.
SURE_SECONDS = 30.0

# Settings belong to the session, so queries start one after the other. The lock is reentrant: a
# start may call `keystate.elastic`, which takes the lock too.
_starting = threading.RLock()


def begin(spark: SparkSession, settings: Mapping[str, str], start: Callable[[], Any]) -> Any:
    """Starts a query with these settings, which the session has only during the start."""
    conf = spark.conf
    with _starting:
        before = {key: conf.get(key, None) for key in settings}
        try:
            for key, value in settings.items():
                conf.set(key, value)
            # The query copies the settings before `start` returns.
            return start()
        finally:
            for key, old in before.items():
                if old is None:
                    conf.unset(key)
                else:
                    conf.set(key, old)


def begin_at(spark: SparkSession, start: Callable[[str], Any], checkpoint: str) -> Any:
    """Starts a query on a checkpoint, with the checkpoint's number of partitions.

    Raises:
        ConfigurationError: the query was started on another checkpoint; it is stopped.
    """
    query = begin(spark, AS_BEFORE, lambda: start(checkpoint))
    started_on = bridge.checkpoint_of(spark, str(query.id))
    if started_on and not is_same(spark, started_on, checkpoint):
        query.stop()
        raise ConfigurationError(
            f"the query was to be started on {checkpoint}, and was on {started_on}: use what the "
            "function is called with as checkpointLocation",
            code="KEYSTATE_CANNOT_CANARY",
        )
    return query


def is_same(spark: SparkSession, resolved: str, place: str) -> bool:
    """Whether a checkpoint location, as Spark resolved it, is the one that a user has given.

    Spark's is empty if its query has ended.
    """
    same: bool = resolved != "" and bridge.call(spark, "isSamePlace", resolved, place)
    return same


def make_sure(spark: SparkSession, query: Any) -> None:
    """Returns once a query has read its checkpoint without failure.

    Raises:
        Exception: the query's error; the query is stopped.
    """
    started = time.monotonic()
    try:
        while query.lastProgress is None and time.monotonic() < started + SURE_SECONDS:
            if query.awaitTermination(0.02):  # raises the query's error
                break
            if query.status["message"].startswith("Waiting"):
                break
        # Without rows the query would not fail yet.
        bridge.call(spark, "checkStart", str(query.id))
    except Exception:
        query.stop()
        raise
