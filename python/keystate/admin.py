"""Operations on the checkpoint of a query.

:func:`rescale` changes a checkpoint, :func:`forget` lets its query change it, and :func:`delete`
deletes it. :func:`savepoint`, :func:`restore`, :func:`import_checkpoint`, :func:`create`,
:func:`build` and :func:`edit` make new checkpoints. The others only read; they can read the
checkpoint of a running query too, and then see its last committed batch.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from keystate._jvm import bridge
from keystate.checkpoints.changes import build, create, edit, import_as, import_checkpoint
from keystate.checkpoints.forgetting import Forgetting
from keystate.checkpoints.history import Change, History, KeyReader, KeyVersion
from keystate.checkpoints.lookup import Target
from keystate.checkpoints.reports import CheckpointReport, Findings, Inspection
from keystate.checkpoints.rescale_requests import ask
from keystate.checkpoints.savepoints import delete, moved_to, restore, savepoint, savepoints
from keystate.checkpoints.spark_state import SparkOperatorState, Successor
from keystate.checkpoints.state_reader import StateReader

__all__ = [
    "Change",
    "CheckpointReport",
    "History",
    "KeyVersion",
    "SparkOperatorState",
    "Successor",
    "build",
    "create",
    "delete",
    "diff",
    "edit",
    "forget",
    "history",
    "import_as",
    "import_checkpoint",
    "inspect",
    "lookup",
    "moved_to",
    "read_state",
    "report",
    "rescale",
    "restore",
    "savepoint",
    "savepoints",
    "traces",
    "verify",
]


def rescale(
    checkpoint: str, n: int, *, wait_seconds: float = 120.0, spark: SparkSession | None = None
) -> int:
    """Changes the number of partitions of a stopped query, or of a running elastic one.

    A running query of :func:`keystate.elastic` gets a request, wherever it runs, and rescales
    between two micro-batches.

    State of keyed operators is not rewritten: the new partitions take over the files of the old
    ones. A Spark job rewrites state of Spark's own operators, unless ``n`` divides the number
    before. A batch that was started and not finished keeps its id and its input, and runs with
    the new number. A restart with another ``spark.sql.shuffle.partitions`` rescales too, unless
    ``spark.keystate.rescale.onRestart`` is ``off``.

    Args:
        checkpoint: the query's checkpoint location.
        n: the new number of partitions, from 1 to the operators' max parallelism.
        wait_seconds: how long to wait for the running query's answer.
        spark: the session; by default the active one.

    Returns:
        The number of partitions before.

    Raises:
        ConfigurationError: there is no active session.
        CheckpointError: ``[KEYSTATE_PARALLELISM_TOO_HIGH]`` when n is above the max parallelism,
            ``[KEYSTATE_CANNOT_RESCALE]`` when the state is in another provider's files,
            ``[KEYSTATE_QUERY_IS_RUNNING]`` when a running query is not elastic,
            ``[KEYSTATE_NO_RESCALE_ANSWER]`` when the running query does not answer,
            ``[KEYSTATE_RESCALE_UNDONE]`` when the query does not start with the new number and
            continues with the old one,
            ``[KEYSTATE_NO_CHECKPOINT]`` when no query was ever started there.
    """
    session = bridge.session_or_active(spark, "rescale")
    if not 1 <= n < 2**31:
        raise ValueError(f"the number of partitions must be 1 to {2**31 - 1}, got {n}")
    before = ask(session, checkpoint, n, wait_seconds)
    if before is None:
        before = bridge.call(session, "rescale", checkpoint, n)
    return before


def inspect(checkpoint: str, *, spark: SparkSession | None = None) -> dict[str, Any]:
    """The content of a checkpoint: operators, states and their types, partitions, sizes, sources.

    Args:
        checkpoint: the query's checkpoint location.
        spark: the session; by default the active one.

    Returns:
        A dictionary as ``keystate inspect --json`` prints it. A notebook shows it as tables.

    Raises:
        CheckpointError: there is no checkpoint, or it is damaged.
    """
    return Inspection(
        bridge.operation(bridge.session_or_active(spark, "inspect"), "inspect", checkpoint)
    )


def verify(checkpoint: str, *, spark: SparkSession | None = None) -> list[str]:
    """Reads every file of every kept version, and looks for missing files.

    Args:
        checkpoint: the query's checkpoint location.
        spark: the session; by default the active one.

    Returns:
        One message for each lost or damaged file; empty if there is none.

    Raises:
        CheckpointError: there is no checkpoint.
    """
    found = bridge.operation(bridge.session_or_active(spark, "verify"), "verify", checkpoint)
    return Findings(found["problems"])


def diff(before: str, after: str, *, spark: SparkSession | None = None) -> list[dict[str, Any]]:
    """How the states of two checkpoints differ, by key, after their last committed batches.

    Made for a checkpoint and its savepoint: operators are paired by number, states by name. Lists
    are the same if their elements are, whichever batches added them. Values that have expired by
    the clock of their checkpoint's last batch are left out, whether cleaned up or not.

    Args:
        before: a checkpoint location.
        after: another checkpoint location.
        spark: the session; by default the active one.

    Returns:
        For each state ``operator``, ``store``, ``state``, and the numbers of keys that are
        ``added``, ``removed``, ``changed`` and the ``same``; ``None`` if its kind differs.

    Raises:
        CheckpointError: a location has no checkpoint, or their numbers of key groups differ.
    """
    found: list[dict[str, Any]] = bridge.operation(
        bridge.session_or_active(spark, "diff"), "diff", before, after
    )
    return found


def read_state(
    spark: SparkSession,
    checkpoint: str,
    *,
    state: str | None = None,
    operator: int | None = None,
    version: int | None = None,
) -> DataFrame:
    """A state as a DataFrame.

    It has the columns ``partition_id``, ``key`` (a struct of the key columns) and, by the state's
    kind, ``value``; ``list_element``; ``user_map_key`` and ``user_map_value``; or, for timers,
    ``time_domain`` and ``expiration_timestamp_ms``. Broadcast state has ``user_map_key`` and
    ``user_map_value`` only, a list of operator state ``partition_id`` and ``list_element``. Tasks
    read keyed states; the driver reads timers, broadcast and operator state. Values that have
    expired by the clock of the version's batch are left out.

    Args:
        spark: the session.
        checkpoint: the query's checkpoint location.
        state: the state's name; ``"$timers"`` for the timers. May be left out if there is only one.
        operator: the operator's number; may be left out if only one operator has such a state.
        version: N + 1 for the state after batch N; by default the newest.

    Raises:
        CheckpointError: there is no such state, operator or version; the message lists those that
            exist.
    """
    found = inspect(checkpoint, spark=spark)
    return StateReader(spark, found).read(state, operator, version)


def lookup(
    checkpoint: str,
    *,
    key: Any,
    state: str | None = None,
    operator: int | None = None,
    version: int | None = None,
    map_key: Any = None,
    start: Any = None,
    end: Any = None,
    spark: SparkSession | None = None,
) -> Any:
    """Looks up one key's state after the last committed micro-batch.

    The driver reads only the parts of the state's files that can have the key, and runs no job.

    Args:
        checkpoint: the query's checkpoint location; the query may be running.
        key: the values of the key columns as a tuple, a dictionary or a Row; for one column also
            the bare value.
        state: the state's name; may be left out if there is only one.
        operator: the operator's number; may be left out if only one operator has such a state.
        version: N + 1 for the state after batch N, as long as it is kept; by default the last one.
        map_key: for a map, the key of the only entry to read.
        start: for a sorted map, the first key of the range, in the map's order.
        end: for a sorted map, the first key after the range.
        spark: the session; by default the active one.

    Returns:
        The value; for reducing, aggregating and folding state the accumulator; for a list a list;
        for a map a dictionary in the map's order, or with ``map_key`` a value. ``None`` if the key
        has nothing, or if its value has expired by the clock of that micro-batch.

    Raises:
        CheckpointError: ``[KEYSTATE_NO_SUCH_STATE]``, ``[KEYSTATE_NO_CHECKPOINT]``, or a file is
            lost or damaged.
        StateTypeError: a key does not fit the types of the key columns, or of the map's keys.
    """
    target = Target(bridge.session_or_active(spark, "lookup"), checkpoint, state, operator, version)
    return target.read(key, map_key, start, end)


def history(
    checkpoint: str,
    *,
    key: Any,
    operator: int | None = None,
    spark: SparkSession | None = None,
) -> History:
    """One key's states and timers in an operator, in each version that is kept.

    The driver reads only the parts of the files that can have the key, and the timers of its key
    group; it reads files that versions share once. It runs no job.

    Args:
        checkpoint: the query's checkpoint location; the query may be running.
        key: as for :func:`lookup`.
        operator: the operator's number; may be left out if Keystate has only one.
        spark: the session; by default the active one.

    Returns:
        A list of :class:`KeyVersion`, oldest first. Printed, it says what changed in which batch; a
        notebook shows it as a table.

    Raises:
        CheckpointError: ``[KEYSTATE_NO_SUCH_STATE]``, ``[KEYSTATE_NO_CHECKPOINT]``, or a file is
            lost or damaged.
        StateTypeError: the key does not fit the types of the key columns.
    """
    return KeyReader(bridge.session_or_active(spark, "history"), checkpoint, operator).history(key)


def forget(
    checkpoint: Any,
    *,
    key: Any,
    operator: int | None = None,
    spark: SparkSession | None = None,
) -> dict[str, Any]:
    """Lets a query forget a key: all states and timers that the key has.

    It writes a request into the checkpoint. The query takes the request with one of its next
    micro-batches: within some seconds if it runs, in this process or another one; else when it
    starts again. Before that micro-batch takes its rows, the key's states and timers are removed.
    Later rows of the key begin new state. Maintenance then merges the files of the key's partition,
    and once no version with the key is kept, no file has the key.

    Broadcast state, operator state, the output of sinks and the data of sources are not changed,
    nor are savepoints and other copies. A copy that is made before the query takes the request has
    the request too.

    Args:
        checkpoint: the query's checkpoint location; or a running query of this session, also one
            of :func:`keystate.elastic`.
        key: as for :func:`lookup`.
        operator: the operator's number; by default all operators that have state by key.
        spark: the session; by default the active one.

    Returns:
        ``request``, the request's id, and ``operators``, the numbers of the operators that forget
        the key.

    Raises:
        CheckpointError: ``[KEYSTATE_CANNOT_FORGET]`` when Keystate can't know what belongs to a
            key, ``[KEYSTATE_NO_SUCH_STATE]``, ``[KEYSTATE_NO_CHECKPOINT]``.
        ConfigurationError: ``[KEYSTATE_QUERY_HAS_ENDED]``.
        StateTypeError: the key does not fit the types of an operator's key columns.
    """
    session = bridge.session_or_active(spark, "forget")
    if not isinstance(checkpoint, str):
        instead = "give keystate.admin.forget the place of its checkpoint"
        checkpoint = bridge.checkpoint_of_running(session, checkpoint, instead)
    return Forgetting(session, checkpoint, operator).request(key)


def traces(
    checkpoint: str,
    *,
    key: Any,
    operator: int | None = None,
    spark: SparkSession | None = None,
) -> dict[str, Any]:
    """The traces of a key in a checkpoint: without any, :func:`forget` is done.

    The driver reads every file of the operators' state in all kept versions, and files that no
    version lists. It runs no job.

    Args:
        checkpoint: the query's checkpoint location; the query may be running.
        key: as for :func:`lookup`.
        operator: the operator's number; by default all operators that have state by key.
        spark: the session; by default the active one.

    Returns:
        ``key``, whether anything has the key; ``files``, the files with the key, even if only as a
        removed one, each with ``operator``, ``file`` and the ``versions`` that list the file;
        ``requests``, the ids of waiting requests; ``claims``, the batches that forgot the key and
        whose traces are not gone; and ``version``, the newest one. A file is deleted once none of
        its versions is kept.

    Raises:
        CheckpointError: as for :func:`forget`; or a file is damaged.
        StateTypeError: as for :func:`forget`.
    """
    session = bridge.session_or_active(spark, "traces")
    return Forgetting(session, checkpoint, operator).traces(key)


def report(checkpoint: str, *, spark: SparkSession | None = None) -> CheckpointReport:
    """Reports a checkpoint's content and damage; ``.html()`` makes one page of it.

    The page has charts if ``keystate[page]`` is installed: how states grew over the last batches,
    how they are spread over key groups and partitions, what a rescale would move, the largest keys,
    the sizes of values, when timers are due and entries expire. Nothing is loaded from elsewhere.
    For a state with many entries the charts use a sample, and the page says so. A table shows how
    fast each state grows, which states only grow, and when ``spark.keystate.state.maxEntries`` is
    reached, if the session has that setting.

    Args:
        checkpoint: the query's checkpoint location.
        spark: the session; by default the active one.

    Raises:
        CheckpointError: there is no checkpoint, or the newest version is damaged.
    """
    session = bridge.session_or_active(spark, "report")
    content = inspect(checkpoint, spark=session)
    problems = verify(checkpoint, spark=session)
    statistics = bridge.statistics(session, content)
    return CheckpointReport(content, problems, statistics, bridge.max_entries(session))
