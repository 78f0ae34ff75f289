"""Calls into the JVM. Only the driver imports this."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.sql.datasource import DataSource
from pyspark.sql.udf import UserDefinedFunction, _wrap_function
from pyspark.util import PythonEvalType

from keystate._worker.pickled import SETTING
from keystate._worker.task import TaskFunction
from keystate.errors import CheckpointError, ConfigurationError, DeclarationError, KeystateError
from keystate.session import (
    EXTENSION,
    PROVIDER,
    PROVIDER_KEY,
    check_spark_version,
    state_store_provider,
)

_BRIDGE = "org.apache.spark.sql.keystate.PythonBridge"
_HINT = "build the session with keystate.configure(SparkSession.builder).getOrCreate()"


def check_session(df: Any) -> None:
    """Raises ConfigurationError when a DataFrame's session can't run Keystate's operators."""
    check_spark_version()
    if not isinstance(df, DataFrame):
        raise TypeError(f"expected a DataFrame, got {type(df).__name__}")
    if not hasattr(df, "_jdf"):
        raise ConfigurationError(
            "Keystate needs a classic Spark session; this DataFrame is from Spark Connect",
            code="KEYSTATE_SPARK_CONNECT",
        )
    session = df.sparkSession
    _check_jar(session)
    extensions = session.conf.get("spark.sql.extensions", "") or ""
    if EXTENSION not in [name.strip() for name in extensions.split(",")]:
        raise ConfigurationError(
            f"spark.sql.extensions lacks {EXTENSION}: {_HINT}. An extension can't be added to a "
            "session that is already running",
            code="KEYSTATE_EXTENSION_MISSING",
        )
    provider = state_store_provider(session)
    if df.isStreaming and provider != PROVIDER:
        raise ConfigurationError(
            f"{PROVIDER_KEY} is {provider}, not {PROVIDER}: {_HINT}",
            code="KEYSTATE_PROVIDER_MISSING",
        )


def allowed_pickles(session: SparkSession) -> tuple[str, ...]:
    """What pickles in a checkpoint may name, by the session's setting."""
    names = session.conf.get(SETTING, "") or ""
    return tuple(name.strip() for name in names.split(",") if name.strip())


def check_source_session(session: SparkSession) -> None:
    """Raises ConfigurationError when a session can't stream from a stateful source."""
    check_spark_version()
    if not hasattr(session, "_jsparkSession"):
        raise ConfigurationError(
            "Keystate needs a classic Spark session, not Spark Connect",
            code="KEYSTATE_SPARK_CONNECT",
        )
    _check_jar(session)


def _check_jar(session: SparkSession) -> None:
    if not _has_class(session):
        raise ConfigurationError(
            f"Keystate's jar is not on the session's class path: {_HINT}, or pass the path that "
            "keystate.jar_path() gives to --jars",
            code="KEYSTATE_JAR_MISSING",
        )


def _has_class(session: SparkSession) -> bool:
    loader = _jvm(session).java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(_BRIDGE)
    except Exception:
        return False
    return True


def _jvm(session: SparkSession) -> Any:
    return session.sparkContext._jvm


def process(
    df: DataFrame,
    keys: list[Column],
    task: TaskFunction,
    broadcast: DataFrame | None = None,
    order: Sequence[Column] = (),
) -> DataFrame:
    """The DataFrame that a task makes of another one, and of one that is broadcast to all tasks."""
    session = df.sparkSession
    function = _function(task)
    bridge = getattr(_jvm(session), _BRIDGE)
    with _keystate_errors(DeclarationError):
        types = (task.output_type.json(), task.spec.to_json())
        columns = ([column._jc for column in each] for each in (keys, order))
        rest = (function()._jc, *columns, *types)
        if broadcast is None:
            jdf = bridge.process(df._jdf, *rest)
        else:
            jdf = bridge.processBroadcast(df._jdf, broadcast._jdf, *rest)
    return DataFrame(jdf, session)


def process_two(
    inputs: Sequence[DataFrame],
    keys: Sequence[Sequence[Column]],
    orders: Sequence[Sequence[Column]],
    merged: bool,
    task: TaskFunction,
) -> DataFrame:
    """The DataFrame that a task makes of two others with the same keys."""
    session = inputs[0].sparkSession
    function = _function(task)
    with _keystate_errors(DeclarationError):
        jdf = getattr(_jvm(session), _BRIDGE).processTwo(
            *(df._jdf for df in inputs),
            function()._jc,
            *([column._jc for column in columns] for columns in (*keys, *orders)),
            merged,
            task.output_type.json(),
            task.spec.to_json(),
        )
    return DataFrame(jdf, session)


def _function(task: TaskFunction) -> UserDefinedFunction:
    return UserDefinedFunction(
        task,
        returnType=task.output_type,
        name=task.spec.name or "keystate",
        evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF,
    )


def source(
    session: SparkSession,
    name: str,
    row_type: T.StructType,
    data_source: DataSource,
    available_now_rows: int,
    available_now_millis: int,
) -> DataFrame:
    """The streaming DataFrame of a stateful source."""
    function = _wrap_function(session.sparkContext, data_source)  # type: ignore[arg-type]
    jdf = getattr(_jvm(session), _BRIDGE).source(
        session._jsparkSession,
        name,
        row_type.json(),
        function,
        available_now_rows,
        available_now_millis,
    )
    return DataFrame(jdf, session)


def rescale(session: SparkSession, checkpoint: str, partitions: int) -> int:
    """Changes a stopped query's number of partitions; returns what it was before."""
    before: int = _of_checkpoint(session, "rescale", checkpoint, partitions)
    return before


def operation(session: SparkSession, name: str, *checkpoints: str) -> Any:
    """What an operation that only reads finds."""
    _check_jar(session)
    return json.loads(_of_checkpoint(session, name, *checkpoints))


def timers(
    session: SparkSession, checkpoint: str, operator: int, batch: int, key_type: T.StructType
) -> DataFrame:
    """The timers of an operator after a batch."""
    jdf = _of_checkpoint(session, "timers", checkpoint, operator, batch, key_type.json())
    return DataFrame(jdf, session)


def savepoint(session: SparkSession, checkpoint: str, path: str) -> int:
    """Copies a checkpoint; returns the last batch in the copy."""
    _check_jar(session)
    batch: int = _of_checkpoint(session, "savepoint", checkpoint, path)
    return batch


def import_checkpoint(session: SparkSession, source: str, target: str) -> int:
    """Makes a checkpoint of Keystate's from one of Spark's; returns the last batch in it."""
    _check_jar(session)
    batch: int = _of_checkpoint(session, "importCheckpoint", source, target)
    return batch


def _of_checkpoint(session: SparkSession, method: str, *arguments: Any) -> Any:
    """Calls a method of the bridge that reads or writes checkpoints."""
    call = getattr(getattr(_jvm(session), _BRIDGE), method)
    with _keystate_errors(CheckpointError):
        return call(session._jsparkSession, *arguments)


@contextmanager
def _keystate_errors(kind: type[KeystateError]) -> Iterator[None]:
    """Raises what Keystate's own JVM code throws, for which PySpark has no class, as this error."""
    try:
        yield
    except Py4JJavaError as e:
        message = e.java_exception.getMessage() or ""
        if not message.startswith("[KEYSTATE_"):
            raise
        raise kind(message) from None
