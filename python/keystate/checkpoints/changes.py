"""New checkpoints from other checkpoints or DataFrames: functions of `keystate.admin`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from keystate._jvm import bridge
from keystate.checkpoints.editor import CheckpointBuilder, CheckpointEditor
from keystate.checkpoints.spark_state import Successor, take_over
from keystate.checkpoints.state_reader import StateReader
from keystate.state import TypeLike


def import_checkpoint(source: str, target: str, *, spark: SparkSession | None = None) -> int:
    """Copies the checkpoint of a stopped query on a provider of Spark's to a Keystate checkpoint.

    The new checkpoint has the same operators, state, input and pending batch, with the state in
    Keystate's files: start the query with ``target`` as ``checkpointLocation``. The source does not
    change. Spark refuses to run both at the same time in one session.

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

    Use it when a new query replaces ``applyInPandasWithState``, ``transformWithState``,
    ``transformWithStateInPandas`` or similar operators by keyed functions. The new query continues
    from the offsets of the old one, which was stopped. Operators without a successor stay Spark's,
    as with :func:`import_checkpoint`. Spark numbers the operators of a query from its sink.

    Args:
        source: as for :func:`import_checkpoint`.
        target: a folder that does not exist, or is empty.
        operators: for each replaced operator, its number and the function.
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
        found = bridge.operation(session, "inspect", imported)
        editor = CheckpointEditor(session, StateReader(session, found))
        take_over(session, editor, imported, operators, found)
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
    time_mode: str = "auto",
    max_parallelism: int | None = None,
    partitions: int | None = None,
    sources: int = 1,
    spark: SparkSession | None = None,
) -> None:
    """Writes DataFrames to a checkpoint, which starts a new query with one stateful operator.

    A Spark job writes it, in parallel, for the session's backend and checkpoint format. The
    DataFrames have the columns of :func:`read_state` without ``partition_id``: the struct ``key``,
    or its fields as columns, and by the state's kind ``value``; ``list_element``, with ``position``
    if the rows are not in the order of the list; ``user_map_key`` and ``user_map_value``; for
    timers ``time_domain`` and ``expiration_timestamp_ms``. Time to live begins when the query
    starts. For a query with several operators see :func:`build`.

    Args:
        target: a folder that does not exist, or is empty. It appears once it is complete.
        operator: the query's function, which declares the states and their types.
        key: the key columns, with the names and types that they have in the query. A column that is
            ``not null`` must have no null.
        states: rows by the names of states; a state without rows begins empty.
        timers: the timers.
        time_mode: the operator's: ``"none"``, ``"processing_time"`` or ``"event_time"``. With
            ``"auto"`` it is the mode of the query that starts with the checkpoint.
        max_parallelism: the number of key groups, as for :func:`keystate.keyed`.
        partitions: the number of partitions; by default ``spark.sql.shuffle.partitions``.
        sources: the number of the query's sources. All of them begin at their start.
        spark: the session; by default the active one.

    Raises:
        DeclarationError: the function, the key or a DataFrame is not well declared.
        StateTypeError: a column has another type than the state.
        CheckpointError: ``[KEYSTATE_STATE_ROW]`` when a key is null or comes twice, when a value is
            null whose type is ``not null``, and in other cases that the message names;
            ``[KEYSTATE_TARGET_EXISTS]``. Then there is no target.
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
        sources: the number of the query's sources. All of them begin at their start.
        spark: the session; by default the active one.
    """
    session = bridge.session_or_active(spark, "build")
    if sources < 1:
        raise ValueError(f"a query has one source at least, got {sources}")
    number = partitions or int(session.conf.get("spark.sql.shuffle.partitions") or 200)
    return CheckpointBuilder(session, number, sources)


def edit(checkpoint: str, *, spark: SparkSession | None = None) -> CheckpointEditor:
    """Begins a changed copy of a stopped query's checkpoint, with the state after its last batch.

    States can be read, replaced by the rows of DataFrames, added, dropped and renamed; the number
    of key groups, the key columns and the time mode can be changed; operators can be added, dropped
    and put in another order. The copy has the offsets of the query's sources, so that the changed
    query continues where the old one ended. Operators that are not edited are copied unchanged.

    Args:
        checkpoint: the query's checkpoint location. It does not change.
        spark: the session; by default the active one.

    Raises:
        CheckpointError: there is no checkpoint, or it is damaged.
    """
    session = bridge.session_or_active(spark, "edit")
    found = bridge.operation(session, "inspect", checkpoint)
    return CheckpointEditor(session, StateReader(session, found))
