"""Setting up a Spark session for Keystate."""

from __future__ import annotations

import os
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyspark
from pyspark.sql import SparkSession

from keystate.backends import StateBackend
from keystate.errors import ConfigurationError

EXTENSION = "org.apache.spark.sql.keystate.KeystateExtension"
RESCALER = "org.apache.spark.sql.keystate.RescaleOnRestart"
PROVIDER = "org.apache.spark.sql.keystate.KeyGroupStateStoreProvider"

_PACKAGE = Path(__file__).parent


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """The versions that this package was built with, by name."""
    lines = (_PACKAGE / "versions.properties").read_text().splitlines()
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, value in pairs}


def jar_path() -> str:
    """The path of the bundled jar, for ``--jars``.

    Raises:
        ConfigurationError: the package was installed without its jar.
    """
    jars = sorted((_PACKAGE / "jars").glob("keystate-*.jar"))
    if not jars:
        raise ConfigurationError(
            f"no jar in {_PACKAGE / 'jars'}: build it with ./sbt package, or install a wheel"
        )
    return str(jars[-1])


def check_spark_version() -> None:
    """Raises ConfigurationError unless the installed PySpark is one that the jar was built for."""
    built_for = versions()["spark"].rsplit(".", 1)[0]
    installed = pyspark.__version__
    if installed.split(".")[:2] != built_for.split("."):
        raise ConfigurationError(
            f"Keystate {versions()['keystate']} supports Spark {built_for}.x, but pyspark "
            f"{installed} is installed: pip install 'pyspark=={built_for}.*', or install the "
            "Keystate release for your Spark version"
        )


def configure(
    builder: SparkSession.Builder,
    *,
    state_backend: StateBackend | None = None,
    max_parallelism: int | None = None,
    **conf: Any,
) -> SparkSession.Builder:
    """Adds Keystate to a session builder: jar, planner extension and state store provider.

    Lists that the builder already has are appended to. Python workers use the running interpreter,
    unless ``PYSPARK_PYTHON`` or ``spark.pyspark.python`` is set.

    Args:
        builder: as in ``keystate.configure(SparkSession.builder).getOrCreate()``.
        state_backend: where working state is kept; on the heap by default.
        max_parallelism: default number of key groups for new checkpoints, 1 to 32768.
        conf: more settings; as names can't have dots here, use ``**{"spark.x.y": value}``.

    Raises:
        ConfigurationError: pyspark's version is not supported, the jar is missing, or a session
            without Keystate is already running in this process.
    """
    check_spark_version()
    if not isinstance(builder, SparkSession.Builder):
        raise TypeError(f"expected SparkSession.builder, got {builder!r}")
    _check_not_running()
    options = builder._options
    if options.get("spark.remote"):
        raise ConfigurationError("Keystate needs a classic Spark session, not Spark Connect")
    for key, entry in {
        "spark.jars": jar_path(),
        "spark.sql.extensions": EXTENSION,
        "spark.sql.streaming.streamingQueryListeners": RESCALER,
    }.items():
        builder.config(key, _appended(options.get(key), entry))
    builder.config("spark.sql.streaming.stateStore.providerClass", PROVIDER)
    if max_parallelism is not None:
        builder.config("spark.keystate.maxParallelism", str(max_parallelism))
    if state_backend is not None:
        for key, value in state_backend.conf().items():
            builder.config(key, value)
    for key, value in conf.items():
        builder.config(key, value)
    if "PYSPARK_PYTHON" not in os.environ and not options.get("spark.pyspark.python"):
        os.environ["PYSPARK_PYTHON"] = sys.executable
    return builder


def _appended(existing: str | None, entry: str) -> str:
    entries = [e.strip() for e in (existing or "").split(",") if e.strip()]
    return ",".join(entries if entry in entries else [*entries, entry])


def _check_not_running() -> None:
    session = SparkSession.getActiveSession()
    if session is None:
        return
    if EXTENSION not in (session.conf.get("spark.sql.extensions", "") or ""):
        raise ConfigurationError(
            "a Spark session without Keystate is already running in this process: call "
            "keystate.configure before the first getOrCreate(), or stop() that session"
        )
