"""Operations on the checkpoint of a query.

:func:`rescale` changes a checkpoint, :func:`forget` lets its query change it, and :func:`delete`
deletes it. :func:`savepoint`, :func:`restore`, :func:`import_checkpoint`, :func:`create`,
:func:`build` and :func:`edit` make new ones. The others only read, and can look at the checkpoint
of a running query too: they see its last committed batch.
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
    """Changes the number of partitions of a stopped query, or of an elastic one that runs.

    A query that :func:`keystate.elastic` started is asked, wherever it runs, and does it between
    two micro-batches.

    No state of a keyed operator is rewritten: the new partitions take over the files of the old
    ones. That of Spark's own operators is, by a Spark job, unless ``n`` divides the number
    before. A batch that was started and not finished keeps its id and its input, and runs with
    the new number. A restart with another ``spark.sql.shuffle.partitions`` does the same by
    itself, unless ``spark.keystate.rescale.onRestart`` is ``off``.

    Args:
        checkpoint: the query's checkpoint location.
        n: the new number of partitions, from 1 to the operators' max parallelism.
        wait_seconds: how long to wait for the answer of the query that runs.
        spark: the session; by default the active one.

    Returns:
        The number of partitions before.

    Raises:
        ConfigurationError: there is no active session.
        CheckpointError: ``[KEYSTATE_PARALLELISM_TOO_HIGH]`` when n is above the max parallelism,
            ``[KEYSTATE_CANNOT_RESCALE]`` when the state is in another provider's files,
            ``[KEYSTATE_QUERY_IS_RUNNING]`` when a query runs that is not elastic,
            ``[KEYSTATE_NO_RESCALE_ANSWER]`` when the one that runs does not answer,
            ``[KEYSTATE_RESCALE_UNDONE]`` when it does not start with the new number and goes on
            with the old one,
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
    """What is in a checkpoint: operators, states with kinds and types, partitions, sizes, sources.

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
    """Reads every file of every version that is kept, and looks for those that should be.

    Args:
        checkpoint: the query's checkpoint location.
        spark: the session; by default the active one.

    Returns:
        What is wrong: one message for each file that is lost or damaged. Empty if all is well.

    Raises:
        CheckpointError: there is no checkpoint.
    """
    found = bridge.operation(bridge.session_or_active(spark, "verify"), "verify", checkpoint)
    return Findings(found["problems"])


def diff(before: str, after: str, *, spark: SparkSession | None = None) -> list[dict[str, Any]]:
    """How the states of two checkpoints differ, by key, after their last committed batches.

    Made for a checkpoint and its savepoint: operators are paired by number, states by name. Lists
    are the same if their elements are, in whichever batches they came. What has expired by the
    clock of its checkpoint's last batch is left out, cleaned up or not.

    Args:
        before: a checkpoint location.
        after: another one.
        spark: the session; by default the active one.

    Returns:
        For each state ``operator``, ``store``, ``state``, and the numbers of keys that are
        ``added``, ``removed``, ``changed`` and the ``same``; ``None`` for another kind.

    Raises:
        CheckpointError: one is not a checkpoint, or they have other numbers of key groups.
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
    read the states of keys; the driver reads timers, broadcast and operator state. What has expired
    by the clock of the batch that left the version is left out.

    Args:
        spark: the session.
        checkpoint: the query's checkpoint location.
        state: the state's name; ``"$timers"`` for the timers. May be left out if there is only one.
        operator: the operator's number; may be left out if one operator only has such a state.
        version: N + 1 for the state after batch N; by default the newest.

    Raises:
        CheckpointError: there is no such state, operator or version; the message lists what there
            is.
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
    """What one key has in a state after the last committed micro-batch.

    The driver reads only the parts of the state's files that can have the key, and runs no job.

    Args:
        checkpoint: the query's checkpoint location; the query may be running.
        key: the values of the key columns as a tuple, a dictionary or a Row; for one column also
            the bare value.
        state: the state's name; may be left out if there is only one.
        operator: the operator's number; may be left out if one operator only has such a state.
        version: N + 1 for the state after batch N, as long as it is kept; by default the last one.
        map_key: of a map, the key of the one entry that is wanted.
        start: of a sorted map, the key that a range begins with, in the map's order.
        end: of a sorted map, the first key that is not in the range.
        spark: the session; by default the active one.

    Returns:
        The value; of reducing, aggregating and folding state the accumulator. Of a list a list, of
        a map a dictionary in its order, or with ``map_key`` a value. ``None`` if the key has
        nothing, or if it has expired by the clock of that micro-batch.

    Raises:
        CheckpointError: ``[KEYSTATE_NO_SUCH_STATE]``, ``[KEYSTATE_NO_CHECKPOINT]``, or a file is
            lost or damaged.
        StateTypeError: the key does not fit the types of the key columns, or of the map's keys.
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
    """What one key had in all states of an operator, and its timers, in each version that is kept.

    The driver reads only the parts of the files that can have the key, and the timers of its key
    group; what several versions share it reads once. It runs no job.

    Args:
        checkpoint: the query's checkpoint location; the query may be running.
        key: as for :func:`lookup`.
        operator: the operator's number; may be left out if there is one of Keystate's.
        spark: the session; by default the active one.

    Returns:
        A list of :class:`KeyVersion`, oldest first, which prints what changed in which batch, and
        which a notebook shows as a table.

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

    It writes a request into the checkpoint. The query takes it with one of its next micro-batches,
    within some seconds if it runs, in this process or another one; else when it starts again.
    Before that micro-batch takes its rows, the key has nothing any more. What rows bring after that
    is new state. Maintenance then merges the files of the key's partition, and once no version with
    the key is kept, no file has it.

    Broadcast state, operator state, what sinks have and what sources can read again are left alone,
    and so are savepoints and other copies. Copies that are made before the query takes the request
    have it too.

    Args:
        checkpoint: the query's checkpoint location; or a query of this session that runs, also what
            :func:`keystate.elastic` gave.
        key: as for :func:`lookup`.
        operator: the operator's number; by default all operators that have state by key.
        spark: the session; by default the active one.

    Returns:
        ``request``, its id, and ``operators``, the numbers of those that forget the key.

    Raises:
        CheckpointError: ``[KEYSTATE_CANNOT_FORGET]`` when Keystate can't tell what belongs to a
            key, ``[KEYSTATE_NO_SUCH_STATE]``, ``[KEYSTATE_NO_CHECKPOINT]``.
        ConfigurationError: ``[KEYSTATE_QUERY_HAS_ENDED]``.
        StateTypeError: the key does not fit the types of the key columns, of one of the operators.
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
    """What is left of a key in a checkpoint: it proves that :func:`forget` is done.

    The driver reads every file of the operators' state, also files that no version lists, of all
    versions that are kept. It runs no job.

    Args:
        checkpoint: the query's checkpoint location; the query may be running.
        key: as for :func:`lookup`.
        operator: the operator's number; by default all operators that have state by key.
        spark: the session; by default the active one.

    Returns:
        ``key``, whether anything has the key; ``files``, those that have it, also only as removed,
        with ``operator``, ``file`` and ``versions``, which list the file; ``requests``, the ids of
        those that wait; ``claims``, the batches that forgot it and whose traces are not gone; and
        ``version``, the newest one. A file goes once none of its versions is kept.

    Raises:
        CheckpointError: as for :func:`forget`; or a file is damaged.
        StateTypeError: as for :func:`forget`.
    """
    session = bridge.session_or_active(spark, "traces")
    return Forgetting(session, checkpoint, operator).traces(key)


def report(checkpoint: str, *, spark: SparkSession | None = None) -> CheckpointReport:
    """What is in a checkpoint, and what is wrong with it; ``.html()`` makes one page of it.

    The page has charts if ``keystate[page]`` is installed: how states grew over the last batches,
    how they are spread over key groups and partitions, what a rescale would move, the largest keys,
    the sizes of values, when timers are due and entries expire. Nothing is loaded from elsewhere.
    Of a state with many entries a sample is looked at, and the page says so. A table tells how fast
    each state grows, which ones only grow, and when ``spark.keystate.state.maxEntries`` is reached,
    if the session has that setting.

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
