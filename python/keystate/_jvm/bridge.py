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
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T
from pyspark.sql.datasource import DataSource

from keystate._jvm.base import Jvm
from keystate._operators.declared import Operator
from keystate._operators.schema_rows import SchemaRows
from keystate._operators.task import task_function
from keystate._worker.pickles.pickled import SETTING
from keystate.errors import CheckpointError, ConfigurationError, DeclarationError, KeystateError
from keystate.session import (
    EXTENSION,
    PROVIDER,
    PROVIDER_KEY,
    check_spark_version,
    state_store_provider,
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
    """What pickles in a checkpoint may name, by the session's setting."""
    names = session.conf.get(SETTING, "") or ""
    return tuple(name.strip() for name in names.split(",") if name.strip())


def check_source_session(session: SparkSession) -> None:
    """Raises ConfigurationError when a session can't stream from a stateful source."""
    check_spark_version()
    _jvm(session).check(session)


def process(operator: Operator) -> DataFrame:
    """What an operator emits.

    Raises:
        DeclarationError: it is not well declared.
    """
    first = operator.rows.df
    if isinstance(first, SchemaRows):
        return SchemaRows(task_function(operator).output_type, operator=operator)
    session = first.sparkSession
    task = task_function(replace(operator, pickles=allowed_pickles(session)))
    jvm = _jvm(session)
    role = "" if operator.right is None else operator.right.side.value
    with _keystate_errors(jvm, DeclarationError):
        return jvm.frame(
            session,
            "process",
            [rows.df for rows in operator.inputs],
            [list(rows.keys) for rows in operator.inputs],
            [list(rows.order) for rows in operator.inputs],
            role,
            jvm.task(task),
            task.output_type.json(),
            task.spec.to_json(),
        )


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
    return jvm.frame(session, "source", session, name, row_type.json(), reader, *limits)


def schema(df: DataFrame) -> Any:
    """A DataFrame's schema as Spark writes it in JSON: nothing in it was imported or unpickled."""
    return json.loads(_jvm(df.sparkSession).value(df.sparkSession, "schema", df))


def rescale(session: SparkSession, checkpoint: str, partitions: int) -> int:
    """Changes a stopped query's number of partitions; returns what it was before."""
    before: int = _of_checkpoint(session, "rescale", checkpoint, partitions)
    return before


def listen_for_rescales(session: SparkSession, checkpoint: str, is_on: bool) -> None:
    """Lets other processes ask a running query for other partitions, or no longer."""
    _of_checkpoint(session, "listenForRescales", checkpoint, is_on)


def waiting_rescales(session: SparkSession, checkpoint: str) -> dict[str, int]:
    """The numbers of partitions that were asked for, by the requests' ids."""
    waiting: dict[str, int] = operation(session, "waitingRescales", checkpoint)
    return waiting


def answer_rescale(
    session: SparkSession, checkpoint: str, request: str, answer: dict[str, Any]
) -> None:
    """Tells who asked what has come of it."""
    _of_checkpoint(session, "answerRescale", checkpoint, request, json.dumps(answer))


def ask_rescale(session: SparkSession, checkpoint: str, partitions: int) -> str:
    """Asks a running query for other partitions; returns the request's id, empty if none runs."""
    request: str = _of_checkpoint(session, "askRescale", checkpoint, partitions)
    return request


def rescale_answer(session: SparkSession, checkpoint: str, request: str) -> dict[str, Any] | None:
    """Takes the answer to a request; None if there is none yet."""
    answer = _of_checkpoint(session, "rescaleAnswer", checkpoint, request)
    return json.loads(answer) if answer else None


def withdraw_rescale(session: SparkSession, checkpoint: str, request: str) -> None:
    """Takes a request back."""
    _of_checkpoint(session, "withdrawRescale", checkpoint, request)


def check_start(session: SparkSession, query_id: str) -> None:
    """Raises what the start of a running query failed with."""
    _of_checkpoint(session, "checkStart", query_id)


def checkpoint_of(session: SparkSession, query_id: str) -> str:
    """Where the checkpoint of a running query is; empty if it does not run."""
    place: str = _of_checkpoint(session, "checkpointOf", query_id)
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


def max_entries(session: SparkSession) -> int | None:
    """How many entries an operator may have by the session's settings, if it has some."""
    conf = getattr(session, "conf", None)
    limit = None if conf is None else conf.get("spark.keystate.state.maxEntries", None)
    return None if limit is None else int(limit)


def stop_at_shutdown(session: SparkSession, query_id: str, grace_millis: int) -> None:
    """Lets the JVM end a query at the end of its micro-batch when it is told to end itself."""
    _of_checkpoint(session, "stopAtShutdown", query_id, grace_millis)


def operation(session: SparkSession, name: str, *checkpoints: str) -> Any:
    """What an operation that only reads finds."""
    return json.loads(_of_checkpoint(session, name, *checkpoints))


def statistics(session: SparkSession, found: dict[str, Any]) -> dict[str, Any] | None:
    """How the state of an inspected checkpoint is spread; ``None`` before its first batch."""
    if found["batch"] is None:
        return None
    told: dict[str, Any] = operation(session, "statistics", found["checkpoint"])
    return told


def describe_state(
    session: SparkSession,
    checkpoint: str,
    operator: int | None,
    state: str | None,
    version: int | None,
) -> dict[str, Any]:
    """The operator, the kind and the key types of a state in a version."""
    found: dict[str, Any] = json.loads(
        _of_checkpoint(
            session, "describeState", checkpoint, _number(operator), state or "", _number(version)
        )
    )
    return found


def look_up(
    session: SparkSession,
    checkpoint: str,
    operator: int,
    state: str,
    version: int | None,
    *ranges: Any,
) -> pa.RecordBatch:
    """What a key has in a state, as `StateLookup` in the jar gives it."""
    stream = _of_checkpoint(
        session, "lookUp", checkpoint, operator, state, _number(version), *ranges
    )
    return record_batch(stream)


def describe_operator(
    session: SparkSession, checkpoint: str, operator: int | None
) -> dict[str, Any]:
    """A keyed operator, with its key's columns; ``None`` for the only one."""
    found: dict[str, Any] = json.loads(
        _of_checkpoint(session, "describeOperator", checkpoint, _number(operator))
    )
    return found


def history(
    session: SparkSession, checkpoint: str, operator: int, key: str, first: int, until: int
) -> dict[str, Any]:
    """What a key had in the versions from one to another, as `KeyHistory` in the jar gives it."""
    found: dict[str, Any] = json.loads(
        _of_checkpoint(session, "history", checkpoint, operator, key, first, until)
    )
    return found


def describe_forgetting(
    session: SparkSession, checkpoint: str, operator: int | None
) -> list[dict[str, Any]]:
    """The operators that forget a key, with their key's columns; ``None`` for all."""
    found: list[dict[str, Any]] = json.loads(
        _of_checkpoint(session, "describeForgetting", checkpoint, _number(operator))
    )
    return found


def forget(
    session: SparkSession, checkpoint: str, operator: int | None, keys: dict[int, str]
) -> str:
    """Asks that a key be forgotten, told by operator; returns the request's id."""
    made = _of_checkpoint(session, "forget", checkpoint, _number(operator), _keys(keys))
    request: str = json.loads(made)["request"]
    return request


def traces(
    session: SparkSession, checkpoint: str, operator: int | None, keys: dict[int, str]
) -> dict[str, Any]:
    """Where something is left of a key, told by operator."""
    found: dict[str, Any] = json.loads(
        _of_checkpoint(session, "traces", checkpoint, _number(operator), _keys(keys))
    )
    return found


def _keys(keys: dict[int, str]) -> str:
    return json.dumps([{"operator": operator, "key": key} for operator, key in keys.items()])


def clock(session: SparkSession, checkpoint: str, operator: int, batch: int) -> dict[str, Any]:
    """The recorded clock of a batch, its number of partitions, and whether it was in real time."""
    found: dict[str, Any] = json.loads(
        _of_checkpoint(session, "clock", checkpoint, operator, batch)
    )
    return found


def batch_input(checkpoint: str, batch: int, rows: DataFrame, target: str) -> DataFrame:
    """Makes a checkpoint by which a query of these rows reads a batch's input again.

    Returns the rows, whose sources fail where some are gone.
    """
    session = rows.sparkSession
    jvm = _jvm(session)
    jvm.check(session)
    with _keystate_errors(jvm, CheckpointError):
        return jvm.frame(session, "batchInput", session, checkpoint, batch, rows, target)


def record_batch(stream: str) -> pa.RecordBatch:
    """The one batch of an Arrow stream in Base64."""
    return pa.ipc.open_stream(base64.b64decode(stream)).read_next_batch()


def _number(given: int | None) -> int:
    return -1 if given is None else given


def savepoint(
    session: SparkSession, checkpoint: str, path: str, version: int | None, by_reference: bool
) -> int:
    """Copies a checkpoint, or shares its files; returns the last batch in the copy."""
    batch: int = _of_checkpoint(
        session, "savepoint", checkpoint, path, _number(version), by_reference
    )
    return batch


def fork(session: SparkSession, checkpoint: str, path: str, version: int | None) -> int:
    """As `savepoint`, for a query beside that of the checkpoint: with another id."""
    batch: int = _of_checkpoint(session, "fork", checkpoint, path, _number(version))
    return batch


def keep_batches(session: SparkSession, checkpoint: str, fork: str, first: int, last: int) -> None:
    """Keeps in a fork what batches of the checkpoint began with, to begin the same ones there."""
    _of_checkpoint(session, "keepBatches", checkpoint, fork, first, last)


def begin_batch(session: SparkSession, fork: str, batch: int) -> None:
    """Makes a batch that was kept the one that the next start of the fork's query runs."""
    _of_checkpoint(session, "beginBatch", fork, batch)


def limit_batches(session: SparkSession, checkpoint: str, last: int | None) -> bool:
    """Lets a query begin no batch after this one; ``None``: any. False if that can't be."""
    works: bool = _of_checkpoint(session, "limitBatches", checkpoint, _number(last))
    return works


def is_real_time(session: SparkSession, query_id: str) -> bool:
    """Whether a running query is in real-time mode."""
    answer: bool = _of_checkpoint(session, "isRealTime", query_id)
    return answer


def check_stopped(session: SparkSession, checkpoint: str) -> None:
    """Raises CheckpointError if a query is running on a checkpoint."""
    _of_checkpoint(session, "checkStopped", checkpoint)


def promote(
    session: SparkSession, checkpoint: str, successor: str, batch: int, same_keys: Mapping[int, int]
) -> None:
    """Puts a changed copy in the place of a checkpoint, of which this is the last batch."""
    _of_checkpoint(session, "promote", checkpoint, successor, batch, _pairs(same_keys))


def undo_promotion(
    session: SparkSession, checkpoint: str, successor: str, batch: int, same_keys: Mapping[int, int]
) -> bool:
    """Puts the checkpoint in its place again; false if the copy has committed a batch since."""
    undone: bool = _of_checkpoint(
        session, "undoPromotion", checkpoint, successor, batch, _pairs(same_keys)
    )
    return undone


def moved_to(session: SparkSession, checkpoint: str) -> str:
    """The checkpoint that has the place of this one; empty if none has."""
    place: str = _of_checkpoint(session, "movedTo", checkpoint)
    return place


def delete_fork(session: SparkSession, fork: str) -> None:
    """Deletes a fork, if it is there."""
    _of_checkpoint(session, "deleteFork", fork)


def last_batch(session: SparkSession, checkpoint: str) -> int:
    """The last committed batch."""
    batch: int = _of_checkpoint(session, "lastBatch", checkpoint)
    return batch


def diff_operators(
    session: SparkSession, before: str, after: str, operators: Mapping[int, int]
) -> list[dict[str, Any]]:
    """As the operation ``diff``, of operators that have other numbers before and after."""
    found: list[dict[str, Any]] = json.loads(
        _of_checkpoint(session, "diffOperators", before, after, _pairs(operators))
    )
    return found


def delete_checkpoint(session: SparkSession, checkpoint: str, original: str) -> int:
    """Deletes a checkpoint; returns how many run files stay for savepoints."""
    kept: int = _of_checkpoint(session, "deleteCheckpoint", checkpoint, original)
    return kept


def import_checkpoint(session: SparkSession, source: str, target: str) -> int:
    """Makes a checkpoint of Keystate's from one of Spark's; returns the last batch in it."""
    batch: int = _of_checkpoint(session, "importCheckpoint", source, target)
    return batch


def discard(session: SparkSession, imported: str) -> None:
    """Deletes a checkpoint that was imported only to be edited."""
    _of_checkpoint(session, "discardImported", imported)


def state(
    session: SparkSession, checkpoint: str, operator: int, version: int, state: str
) -> DataFrame:
    """A state of an operator, or its timers, in a version."""
    jvm = _jvm(session)
    with _keystate_errors(jvm, CheckpointError):
        return jvm.frame(session, "state", session, checkpoint, operator, version, state)


def operator_state(
    session: SparkSession, checkpoint: str, operator: int, batch: int
) -> list[dict[str, Any] | None]:
    """The operator state of each subtask after a batch."""
    found: list[dict[str, Any] | None] = json.loads(
        _of_checkpoint(session, "operatorState", checkpoint, operator, batch)
    )
    return found


class WrittenOperator(NamedTuple):
    """An operator whose state is written.

    Attributes:
        number: its number in the new checkpoint.
        origin: its number in the checkpoint that is edited; ``None`` if it is new.
        stream: with the key columns, and no rows.
        keys: the names of the key columns.
        spec: JSON of the operator with those of its states that have rows.
        kept: by name the states that stay, and their new names.
        rows: of the states that are written.
        lists: its operator state; ``None`` if it has none.
    """

    number: int
    origin: int | None
    stream: DataFrame
    keys: Sequence[str]
    spec: str
    kept: dict[str, str]
    rows: dict[str, DataFrame]
    lists: dict[str, Any] | None


def create(
    session: SparkSession,
    target: str,
    operators: Sequence[WrittenOperator],
    partitions: int,
    sources: int,
) -> None:
    """Makes the checkpoint of a new query with these operators."""
    _of_checkpoint(session, "create", target, *_arguments(operators), partitions, sources)


def edit(
    session: SparkSession,
    checkpoint: str,
    target: str,
    operators: Sequence[WrittenOperator],
    copied: Mapping[int, int],
    kind: str,
    same_keys: Mapping[int, int],
) -> int:
    """Makes a changed copy of a checkpoint; returns the last batch in it.

    Args:
        session: the session.
        checkpoint: the query's checkpoint location.
        target: where the copy is to be.
        operators: those that are written.
        copied: those that are copied as they are, and their numbers in the copy.
        kind: ``copy``; ``fork`` for one beside the checkpoint, ``successor`` for one that takes its
            place.
        same_keys: those whose key columns are as they were, and their numbers in the copy.
    """
    numbers = (list(copied), list(copied.values()))
    batch: int = _of_checkpoint(
        session,
        "edit",
        checkpoint,
        target,
        *_arguments(operators),
        *numbers,
        kind,
        _pairs(same_keys),
    )
    return batch


def _arguments(operators: Sequence[WrittenOperator]) -> tuple[Any, ...]:
    """The arguments that `create` and `edit` have in common."""
    described = [
        {
            "number": one.number,
            "from": one.origin,
            "spec": one.spec,
            "kept": one.kept,
            "rows": list(one.rows),
            "lists": one.lists,
        }
        for one in operators
    ]
    return (
        json.dumps(described),
        [one.stream for one in operators],
        [[one.stream[f"`{key}`"] for key in one.keys] for one in operators],
        [list(one.rows.values()) for one in operators],
    )


def _pairs(numbers: Mapping[int, int]) -> str:
    return json.dumps([list(pair) for pair in numbers.items()])


def _of_checkpoint(session: SparkSession, method: str, *arguments: Any) -> Any:
    """Calls a method of the jar that reads or writes checkpoints."""
    jvm = _jvm(session)
    jvm.check(session)
    with _keystate_errors(jvm, CheckpointError):
        return jvm.value(session, method, session, *arguments)


@contextmanager
def _keystate_errors(jvm: Jvm, kind: type[KeystateError]) -> Iterator[None]:
    """Raises what Keystate's own JVM code throws, for which PySpark has no class, as this error."""
    try:
        yield
    except jvm.error as e:
        message = jvm.message(e)
        if not message.startswith("[KEYSTATE_"):
            raise
        raise kind(message) from None
