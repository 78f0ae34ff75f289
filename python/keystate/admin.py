"""Operations on the checkpoint of a query.

:func:`rescale` changes a checkpoint, :func:`forget` lets its query change it, and :func:`delete`
deletes it. :func:`savepoint`, :func:`restore`, :func:`import_checkpoint`, :func:`create`,
:func:`build` and :func:`edit` make new ones. The others only read, and can look at the checkpoint
of a running query too: they see its last committed batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from keystate._checkpoint.editor import CheckpointBuilder, CheckpointEditor
from keystate._checkpoint.forgetting import Forgetting
from keystate._checkpoint.history import Change, History, KeyReader, KeyVersion
from keystate._checkpoint.lookup import Target
from keystate._checkpoint.state_reader import StateReader
from keystate._checkpoint.successor import SparkOperatorState, Successor, take_over
from keystate._jvm import bridge
from keystate._page import Findings, Inspection, document
from keystate._rescale_requests import ask
from keystate.state import TypeLike

__all__ = [
    "Change",
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


def savepoint(
    checkpoint: str,
    path: str,
    *,
    version: int | None = None,
    by_reference: bool = False,
    spark: SparkSession | None = None,
) -> int:
    """Copies what a query goes on from, as it is after a committed batch.

    The query may run meanwhile, in this process or another one: its clean-up leaves alone what is
    being copied. The copy is a checkpoint in itself: start a query with it as
    ``checkpointLocation``. It has the query's id; don't run both at the same time in one session.
    Input that a source reads again, and what sinks wrote, is not in it.

    Args:
        checkpoint: the query's checkpoint location.
        path: a folder that does not exist, or is empty.
        version: N + 1 for the state after batch N, as long as it is kept; by default the last one
            that is committed.
        by_reference: share the state's files, which never change, instead of copying them. On one
            local disk they get a second name (a hard link), and the copy needs nothing of the
            original. Elsewhere the original keeps them as long as the copy is there: delete either
            with :func:`delete` only. It can be of the newest two versions.
        spark: the session; by default the active one.

    Returns:
        The last batch that is in the copy.

    Raises:
        CheckpointError: ``[KEYSTATE_SAVEPOINT_EXISTS]``, the version is not kept any more, or a
            file is lost or damaged; then there is no copy. ``[KEYSTATE_CANNOT_SHARE]``: the
            version is too old to be shared.
    """
    session = bridge.session_or_active(spark, "savepoint")
    batch: int = bridge.call(session, "savepoint", checkpoint, path, version, by_reference)
    return batch


def savepoints(checkpoint: str, *, spark: SparkSession | None = None) -> list[dict[str, Any]]:
    """The savepoints that were made of a checkpoint, oldest first.

    Args:
        checkpoint: the query's checkpoint location.
        spark: the session; by default the active one.

    Returns:
        For each ``savepoint`` (where it is), ``batch``, ``time`` (when it was made, ms since the
        epoch), ``kind`` (``copy``, ``links`` or ``references``), ``bytes`` (of its own),
        ``shared_bytes`` (that it has in common with the checkpoint) and ``state``: ``ok``;
        ``unfinished``, which :func:`delete` deletes; or ``missing``, of one by reference that was
        deleted or moved by other means, so that the checkpoint still keeps its files.
    """
    session = bridge.session_or_active(spark, "savepoints")
    found: list[dict[str, Any]] = bridge.operation(session, "savepoints", checkpoint)
    return found


def restore(
    savepoint: str,
    checkpoint: str,
    *,
    by_reference: bool = False,
    spark: SparkSession | None = None,
) -> int:
    """Makes a checkpoint of a savepoint, which stays as it is; start the query with it.

    Args:
        savepoint: where it is.
        checkpoint: a folder that does not exist, or is empty.
        by_reference: as for :func:`savepoint`.
        spark: the session; by default the active one.

    Returns:
        The last batch that is in the checkpoint.

    Raises:
        CheckpointError: as for :func:`savepoint`.
    """
    session = bridge.session_or_active(spark, "restore")
    batch: int = bridge.call(session, "savepoint", savepoint, checkpoint, None, by_reference)
    return batch


def delete(
    checkpoint: str, *, original: str | None = None, spark: SparkSession | None = None
) -> int:
    """Deletes a checkpoint of a stopped query, or a savepoint.

    What savepoints by reference need of it stays, until the last of these is deleted too; nobody
    can read it meanwhile.

    Args:
        checkpoint: where it is.
        original: only for a savepoint by reference that is gone already, by other means than this:
            the checkpoint it was made from, which then no longer keeps its files.
        spark: the session; by default the active one.

    Returns:
        How many of its files stay for savepoints.

    Raises:
        CheckpointError: ``[KEYSTATE_NO_CHECKPOINT]``, or ``[KEYSTATE_QUERY_IS_RUNNING]`` when a
            query runs on it in this session, or in another process of this machine.
    """
    session = bridge.session_or_active(spark, "delete")
    kept: int = bridge.call(session, "deleteCheckpoint", checkpoint, original or "")
    return kept


def moved_to(checkpoint: str, *, spark: SparkSession | None = None) -> str | None:
    """The checkpoint that has the place of another one since a canary was promoted.

    For a driver that starts again: ``moved_to(place) or place`` is where its query goes on.

    Args:
        checkpoint: the query's checkpoint location before.
        spark: the session; by default the active one.

    Returns:
        Where the query goes on, after as many promotions as there were; None if it does so in its
        own place.
    """
    session = bridge.session_or_active(spark, "moved_to")
    last = None
    while place := bridge.call(session, "movedTo", last or checkpoint):
        last = place
    return last


def import_checkpoint(source: str, target: str, *, spark: SparkSession | None = None) -> int:
    """Makes a checkpoint of Keystate's from that of a stopped query on one of Spark's providers.

    The query has the same operators, state, input and pending batch there, and the state is in
    Keystate's files: start it with ``target`` as ``checkpointLocation``. The source stays as it
    is. Spark refuses to run both at the same time in one session.

    Args:
        source: the checkpoint location of a query that ran on Spark's RocksDB or HDFS-backed state
            store provider.
        target: a folder that does not exist, or is empty.
        spark: the session; by default the active one.

    Returns:
        The last batch that is in the new checkpoint.

    Raises:
        CheckpointError: ``[KEYSTATE_CANNOT_IMPORT]`` when another provider wrote the state,
            ``[KEYSTATE_IMPORT_EXISTS]``, ``[KEYSTATE_QUERY_IS_RUNNING]``, or there is no
            checkpoint; then there is no target.
    """
    session = bridge.session_or_active(spark, "import_checkpoint")
    batch: int = bridge.call(session, "importCheckpoint", source, target)
    return batch


def import_as(
    source: str,
    target: str,
    operators: Mapping[int, Successor],
    *,
    spark: SparkSession | None = None,
) -> int:
    """Imports a checkpoint, and gives the state of Spark's operators to functions.

    For ``applyInPandasWithState``, ``transformWithState``, ``transformWithStateInPandas`` and the
    like that a new query has as keyed functions. The new query goes on from the offsets of the old
    one, which was stopped. Operators without a successor stay Spark's, as
    :func:`import_checkpoint` moves them. Spark numbers the operators of a query from its sink.

    Args:
        source: as for :func:`import_checkpoint`.
        target: a folder that does not exist, or is empty.
        operators: the functions, by the numbers of the operators that they replace.
        spark: the session; by default the active one.

    Returns:
        The last batch that is in the new checkpoint. A pending batch runs there under its number.

    Raises:
        CheckpointError: as for :func:`import_checkpoint`; ``[KEYSTATE_TARGET_EXISTS]``,
            ``[KEYSTATE_NO_SUCH_STATE]`` when there is no such operator. Then there is no target.
        DeclarationError, StateTypeError: as for :func:`create`.
    """
    session = bridge.session_or_active(spark, "import_as")
    path = target.rstrip("/")
    folder, _, name = path.rpartition("/")
    imported = f"{folder + '/' if folder or path[:1] == '/' else ''}.{name}.{uuid4()}"
    bridge.call(session, "importCheckpoint", source, imported)
    try:
        editor = edit(imported, spark=session)
        all_operators = [one["id"] for one in inspect(imported, spark=session)["operators"]]
        take_over(session, editor, imported, operators, all_operators)
        return editor.write(target)
    finally:
        bridge.call(session, "discardImported", imported)


def create(
    target: str,
    operator: Any,
    *,
    key: TypeLike,
    states: Mapping[str, DataFrame] | None = None,
    timers: DataFrame | None = None,
    time_mode: str = "none",
    max_parallelism: int | None = None,
    partitions: int | None = None,
    sources: int = 1,
    spark: SparkSession | None = None,
) -> None:
    """Makes a checkpoint of DataFrames, for a new query with one stateful operator to begin from.

    A Spark job writes it, in parallel, for the session's backend and checkpoint format. The
    DataFrames have the columns that :func:`read_state` gives, without
    ``partition_id``: the struct ``key``, or its fields as columns, and by the state's kind
    ``value``; ``list_element``, with ``position`` if the order of its rows is not that of the list;
    ``user_map_key`` and ``user_map_value``; for timers ``time_domain`` and
    ``expiration_timestamp_ms``. Time to live begins when the query starts. For a query with several
    operators see :func:`build`.

    Args:
        target: a folder that does not exist, or is empty. It is there once it is complete.
        operator: the query's function, which tells the states and their types.
        key: the key columns, with the names and types that they have in the query.
        states: rows by the names of states; a state that is not there begins empty.
        timers: the timers.
        time_mode: the operator's: ``"none"``, ``"processing_time"`` or ``"event_time"``. With
            ``"auto"`` it is the last in a query whose input has a watermark, else the first.
        max_parallelism: the number of key groups, as for :func:`keystate.keyed`.
        partitions: the number of partitions; by default ``spark.sql.shuffle.partitions``.
        sources: how many sources the query has. All of them begin at their start.
        spark: the session; by default the active one.

    Raises:
        DeclarationError: the function, the key or a DataFrame is not well declared.
        StateTypeError: a column has another type than the state.
        CheckpointError: ``[KEYSTATE_STATE_ROW]`` when a key is null or comes twice, and what the
            message says; ``[KEYSTATE_TARGET_EXISTS]``. Then there is no target.
    """
    builder = build(partitions=partitions, sources=sources, spark=spark)
    builder.add_operator(
        operator,
        key=key,
        states=states,
        timers=timers,
        time_mode=time_mode,
        max_parallelism=max_parallelism,
    )
    builder.write(target)


def build(
    *, partitions: int | None = None, sources: int = 1, spark: SparkSession | None = None
) -> CheckpointBuilder:
    """Begins a checkpoint of DataFrames, for a new query with several stateful operators.

    Args:
        partitions: the number of partitions; by default ``spark.sql.shuffle.partitions``.
        sources: how many sources the query has. All of them begin at their start.
        spark: the session; by default the active one.
    """
    session = bridge.session_or_active(spark, "build")
    if sources < 1:
        raise ValueError(f"a query has one source at least, got {sources}")
    number = partitions or int(session.conf.get("spark.sql.shuffle.partitions") or 200)
    return CheckpointBuilder(session, number, sources)


def edit(checkpoint: str, *, spark: SparkSession | None = None) -> CheckpointEditor:
    """Begins a changed copy of a stopped query's checkpoint, as it is after its last batch.

    States can be read, replaced by the rows of DataFrames, added, dropped and renamed; the number
    of key groups, the key columns and the time mode can be changed; operators can be added, dropped
    and put in another order. The copy has the offsets of the query's sources, so that the changed
    query goes on where the old one ended. Operators that are not edited are copied as they are.

    Args:
        checkpoint: the query's checkpoint location. It stays as it is.
        spark: the session; by default the active one.

    Raises:
        CheckpointError: there is no checkpoint, or it is damaged.
    """
    session = bridge.session_or_active(spark, "edit")
    return CheckpointEditor(session, StateReader(session, inspect(checkpoint, spark=session)))


def diff(before: str, after: str, *, spark: SparkSession | None = None) -> list[dict[str, Any]]:
    """How the states of two checkpoints differ, by key, after their last committed batches.

    Made for a checkpoint and its savepoint: operators are paired by number, states by name.

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
    read the states of keys; the driver reads timers, broadcast and operator state.

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


def report(checkpoint: str, path: str, *, spark: SparkSession | None = None) -> None:
    """Writes what is in a checkpoint, and what is wrong with it, as one HTML page.

    It has charts if ``keystate[page]`` is installed: how states grew over the last batches, how
    they are spread over key groups and partitions, what a rescale would move, the largest keys, the
    sizes of values, when timers are due and entries expire. Nothing is loaded from elsewhere. Of a
    state with many entries a sample is looked at, and the page says so. A table tells how fast each
    state grows, which ones only grow, and when ``spark.keystate.state.maxEntries`` is reached, if
    the session has that setting.

    Args:
        checkpoint: the query's checkpoint location.
        path: the local file to write.
        spark: the session; by default the active one.

    Raises:
        CheckpointError: there is no checkpoint, or the newest version is damaged.
    """
    session = bridge.session_or_active(spark, "report")
    found = inspect(checkpoint, spark=session)
    problems = verify(checkpoint, spark=session)
    told, limit = bridge.statistics(session, found), bridge.max_entries(session)
    made = document(found, told, problems, limit=limit)
    Path(path).write_text(made, encoding="utf-8")
