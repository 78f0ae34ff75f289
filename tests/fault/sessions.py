"""The session of a driver that a test kills, and what such a driver says of errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keystate
from pyspark.sql import SparkSession

from tests import jvm_archive


def builder(master: str, partitions: int | str) -> SparkSession.Builder:
    """To be configured further; knows soon that an executor is gone."""
    return (
        SparkSession.builder.master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", str(partitions))
        .config("spark.shuffle.io.maxRetries", "1")
        .config("spark.shuffle.io.retryWait", "100ms")
        .config("spark.driver.extraJavaOptions", jvm_archive.OPTIONS)
        .config("spark.executor.extraJavaOptions", jvm_archive.OPTIONS)
        .config(*jvm_archive.DAEMON)
        .config(map=jvm_archive.CODEGEN)
    )


def create(master: str, partitions: int | str, **settings: str) -> SparkSession:
    """The session, with the extension and these settings."""
    return keystate.configure(builder(master, partitions).config(map=settings)).getOrCreate()


def speculation(after: str) -> dict[str, str]:
    """Settings of a cluster here in which a task that runs longer than this runs twice."""
    return {
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": after,
        # Else only tasks that are slow for the number of their rows.
        "spark.speculation.efficiency.enabled": "false",
    }


def error(operation: Callable[[], Any]) -> str:
    """What it fails with."""
    try:
        operation()
    except Exception as e:
        return str(e)
    return ""
