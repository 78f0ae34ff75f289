"""Calls into the jar. Only the driver, or the client of a Spark Connect server, imports this.

Nothing above it knows which kind of session it has: that is what a
:class:`~keystate._jvm.base.Jvm` is for.
"""

from __future__ import annotations

import base64
import importlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.sql.datasource import DataSource

from keystate._jvm.base import Jvm
from keystate._jvm.session import (
    EXTENSION,
    PROVIDER,
    PROVIDER_KEY,
    check_spark_version,
    state_store_provider,
)
from keystate._operators.aggregates import AggregateOperator, check_rows
from keystate._operators.definition import Input, Operator
from keystate._operators.joins import AsOfOperator, JoinAllOperator
from keystate._operators.patterns import PatternOperator
from keystate._operators.schema_rows import SchemaRows
from keystate._operators.task import task_function
from keystate._worker.pickles.pickled import SETTING
from keystate.errors import (
    STORAGE,
    CheckpointError,
    ConfigurationError,
    DeclarationError,
    KeystateError,
    StorageError,
    code_in,
)

_HINT = "build the session with keystate.configure(SparkSession.builder).getOrCreate()"


def _jvm(session: Any) -> Jvm:
    """The calls that a kind of session makes; of other kinds not even the imports are needed."""
    if hasattr(session, "_jsparkSession"):
        kind = "classic"
    else:
        kind = "local" if hasattr(session, "bridge") else "connect"
    jvm: Jvm = importlib.import_module(f"keystate._jvm.{kind}").JVM
    return jvm


def session_or_active(spark: SparkSession | None, what: str) -> SparkSession:
    """The session, or the active one; raises ConfigurationError if there is none."""
    session = spark or SparkSession.getActiveSession()
    if session is None:
        raise ConfigurationError(
            f"{what} needs a Spark session: create one, or pass spark=", code="KEYSTATE_NO_SESSION"
        )
    return session


def check_session(df: Any) -> None:
    """Raises ConfigurationError when a DataFrame's session can't run Keystate's operators."""
    check_spark_version()
    if not isinstance(df, DataFrame):
        raise TypeError(f"expected a DataFrame, got {type(df).__name__}")
    if isinstance(df, SchemaRows):
        return
    session = df.sparkSession
    _jvm(session).check(session)
    extensions = session.conf.get("spark.sql.extensions", "") or ""
    if EXTENSION not in [name.strip() for name in extensions.split(",")]:
        raise ConfigurationError(
            f"spark.sql.extensions lacks {EXTENSION}: {_HINT}. An extension can't be added to a "
            "session that is already running",
            code="KEYSTATE_EXTENSION_MISSING",
        )
    if not df.isStreaming:
        return
    provider = state_store_provider(session)
    if provider != PROVIDER:
        raise ConfigurationError(
            f"{PROVIDER_KEY} is {provider}, not {PROVIDER}: {_HINT}",
            code="KEYSTATE_PROVIDER_MISSING",
        )


def allowed_pickles(session: SparkSession) -> tuple[str, ...]:
    """The names that pickles in a checkpoint may load, from the session's setting."""
    names = session.conf.get(SETTING, "") or ""
    return tuple(name.strip() for name in names.split(",") if name.strip())


def check_source_session(session: SparkSession) -> None:
    """Raises ConfigurationError when a session can't stream from a stateful source."""
    check_spark_version()
    _jvm(session).check(session)


def process(operator: Operator) -> DataFrame:
    """The output of an operator.

    Raises:
        DeclarationError: the operator is not well declared.
    """
    first = operator.rows.df
    if isinstance(first, SchemaRows):
        return SchemaRows(task_function(operator).declared.output, operator=operator)
    session = first.sparkSession
    task = task_function(replace(operator, pickles=allowed_pickles(session)))
    jvm = _jvm(session)
    role = "" if operator.second_input is None else operator.second_input.role.value
    with _keystate_errors(jvm, DeclarationError):
        return jvm.frame(
            session,
            "process",
            *_read(operator.inputs),
            role,
            jvm.task(task),
            task.declared.output.json(),
            task.declared.spec.to_json(),
        )


def _read(inputs: Sequence[Input]) -> tuple[list[Any], list[Any], list[Any]]:
    """The rows, keys and orders of inputs."""
    return (
        [rows.df for rows in inputs],
        [list(rows.keys) for rows in inputs],
        [list(rows.order) for rows in inputs],
    )


def aggregate(operator: AggregateOperator) -> DataFrame:
    """The output of aggregates.

    Raises:
        DeclarationError: an aggregate is none that a key's state can have.
    """
    check_rows(operator.rows, repr(operator.aggregates[0]))
    rows = operator.rows
    session = rows.df.sparkSession
    jvm = _jvm(session)
    with _keystate_errors(jvm, DeclarationError):
        return jvm.frame(
            session,
            "aggregate",
            rows.df,
            list(rows.keys),
            list(rows.order),
            list(operator.aggregates),
            operator.to_json(),
        )


def join_asof(operator: AsOfOperator) -> DataFrame:
    """The output of an as-of join.

    Raises:
        DeclarationError: the join is not well declared.
    """
    return _joined("joinAsOf", operator, (operator.left, operator.right))


def join_all(operator: JoinAllOperator) -> DataFrame:
    """The output of a join of many streams.

    Raises:
        DeclarationError: the join is not well declared.
    """
    return _joined("joinAll", operator, operator.inputs)


def _joined(
    method: str, operator: AsOfOperator | JoinAllOperator, inputs: Sequence[Input]
) -> DataFrame:
    operator.check()
    session = inputs[0].df.sparkSession
    jvm = _jvm(session)
    with _keystate_errors(jvm, DeclarationError):
        return jvm.frame(session, method, *_read(inputs), operator.to_json())


def pattern(operator: PatternOperator) -> DataFrame:
    """The matches of a pattern.

    Raises:
        DeclarationError: the pattern is not well declared.
    """
    operator.check()
    rows = operator.rows
    conditions, spec = operator.declared()
    session = rows.df.sparkSession
    jvm = _jvm(session)
    with _keystate_errors(jvm, DeclarationError):
        return jvm.frame(
            session,
            "pattern",
            rows.df,
            list(rows.keys),
            list(rows.order),
            conditions,
            list(operator.results),
            spec,
        )


def match_recognize(df: DataFrame, text: str, name: str | None) -> DataFrame:
    """What SQL's MATCH_RECOGNIZE makes of a DataFrame.

    Raises:
        DeclarationError: the text makes no sense.
    """
    check_session(df)
    jvm = _jvm(df.sparkSession)
    with _keystate_errors(jvm, DeclarationError):
        return jvm.frame(df.sparkSession, "matchRecognize", df, text, name or "")


def add_files(
    df: DataFrame,
    batch_id: int,
    path: str,
    file_format: str,
    partition_by: Sequence[str],
    options: Mapping[str, str],
) -> None:
    """Adds a micro-batch to the files of Spark's file sink, unless it is there."""
    session = df.sparkSession
    jvm = _jvm(session)
    flat = [text for option in options.items() for text in option]
    with _keystate_errors(jvm, DeclarationError):
        jvm.value(session, "addFiles", df, batch_id, path, file_format, list(partition_by), flat)


def source(
    session: SparkSession,
    name: str,
    row_type: T.StructType,
    data_source: DataSource,
    available_now_rows: int,
    available_now_millis: int,
) -> DataFrame:
    """The streaming DataFrame of a stateful source."""
    jvm = _jvm(session)
    reader = jvm.reader(session, data_source)
    limits = (available_now_rows, available_now_millis)
    return jvm.frame(session, "source", name, row_type.json(), reader, *limits)


def schema(df: DataFrame) -> Any:
    """A DataFrame's schema as Spark writes it in JSON: nothing in it was imported or unpickled."""
    return json.loads(_jvm(df.sparkSession).value(df.sparkSession, "schema", df))


def max_entries(session: SparkSession) -> int | None:
    """How many entries an operator may have by the session's settings, if it has some."""
    conf = getattr(session, "conf", None)
    limit = None if conf is None else conf.get("spark.keystate.state.maxEntries", None)
    return None if limit is None else int(limit)


def operation(session: SparkSession, method: str, *arguments: Any) -> Any:
    """Calls a method that returns JSON; returns the parsed JSON. For arguments see :func:`call`."""
    return json.loads(call(session, method, *arguments))


def checkpoint_of(session: SparkSession, query_id: str) -> str:
    """Where the checkpoint of a running query is; empty if it does not run."""
    place: str = call(session, "checkpointOf", query_id)
    return place


def checkpoint_of_running(session: SparkSession, query: Any, instead: str) -> str:
    """Where the checkpoint of a query is that has to run.

    Args:
        session: the session.
        query: a ``StreamingQuery``, or what :func:`keystate.elastic` gave.
        instead: what to do if it has ended.

    Raises:
        ConfigurationError: ``[KEYSTATE_QUERY_HAS_ENDED]``.
    """
    place = checkpoint_of(session, str(query.id)) if query.isActive else ""
    if not place:
        raise ConfigurationError(f"the query has ended: {instead}", code="KEYSTATE_QUERY_HAS_ENDED")
    return place


def statistics(session: SparkSession, found: dict[str, Any]) -> dict[str, Any] | None:
    """How the state of an inspected checkpoint is spread; ``None`` before its first batch."""
    if found["batch"] is None:
        return None
    told: dict[str, Any] = operation(session, "statistics", found["checkpoint"])
    return told


def record_batch(stream: str) -> pa.RecordBatch:
    """The one batch of an Arrow stream in Base64."""
    return pa.ipc.open_stream(base64.b64decode(stream)).read_next_batch()


def batch_input(checkpoint: str, batch: int, rows: DataFrame, target: str) -> DataFrame:
    """Makes a checkpoint by which a query of these rows reads a batch's input again.

    Returns the rows, whose sources fail where some are gone.
    """
    session = rows.sparkSession
    jvm = _jvm(session)
    jvm.check(session)
    with _keystate_errors(jvm, CheckpointError):
        return jvm.frame(session, "batchInput", checkpoint, batch, rows, target)


def state(
    session: SparkSession, checkpoint: str, operator: int, version: int, state: str
) -> DataFrame:
    """A state of an operator, or its timers, in a version."""
    jvm = _jvm(session)
    with _keystate_errors(jvm, CheckpointError):
        return jvm.frame(session, "state", checkpoint, operator, version, state)


def pairs(numbers: Mapping[int, int]) -> str:
    """Numbers of operators, and what they become, as the jar takes them."""
    return json.dumps([list(pair) for pair in numbers.items()])


def call(session: SparkSession, method: str, *arguments: Any) -> Any:
    """Calls a method of the jar that reads or writes checkpoints.

    A number that is ``None`` goes as a negative one.

    Raises:
        CheckpointError: what Keystate's own code in the JVM throws; a StorageError for what the
            disk or the object store refuses.
    """
    for one in arguments:
        if isinstance(one, int) and not -(2**63) <= one < 2**63:
            raise ValueError(f"{one} does not fit into 64 bits")
    jvm = _jvm(session)
    jvm.check(session)
    with _keystate_errors(jvm, CheckpointError):
        return jvm.value(session, method, *(-1 if one is None else one for one in arguments))


@contextmanager
def _keystate_errors(jvm: Jvm, kind: type[KeystateError]) -> Iterator[None]:
    """Raises what Keystate's own JVM code throws, for which PySpark has no class, as this error."""
    try:
        yield
    except jvm.error as e:
        message = jvm.message(e)
        if message.startswith("[KEYSTATE_"):
            raise (StorageError if code_in(message) == STORAGE else kind)(message) from None
        refused = jvm.refused(e)
        if refused is None:
            raise
        raise StorageError(
            f"the disk or the object store refuses to go on: {refused}. What was begun is undone, "
            "or is told as unfinished: make room there, or let this user read and write there, "
            "and try again"
        ) from None
