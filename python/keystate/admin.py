"""Operations on the checkpoint of a query.

All but :func:`rescale`, :func:`savepoint` and :func:`import_checkpoint` only read, and can look at
the checkpoint of a running query too: they see its last committed batch.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from keystate import _bridge
from keystate._report import page
from keystate.errors import CheckpointError, ConfigurationError


def rescale(checkpoint: str, n: int, *, spark: SparkSession | None = None) -> int:
    """Changes the number of partitions of a stopped query.

    No state of a keyed operator is rewritten: the new partitions take over the files of the old
    ones. That of Spark's own operators is, by a Spark job, unless ``n`` divides the number
    before. A batch that was started and not finished keeps its id and its input, and runs with
    the new number. A restart with another ``spark.sql.shuffle.partitions`` does the same by
    itself, unless ``spark.keystate.rescale.onRestart`` is ``off``.

    Args:
        checkpoint: the query's checkpoint location.
        n: the new number of partitions, from 1 to the operators' max parallelism.
        spark: the session; by default the active one.

    Returns:
        The number of partitions before.

    Raises:
        ConfigurationError: there is no active session.
        CheckpointError: ``[KEYSTATE_PARALLELISM_TOO_HIGH]`` when n is above the max parallelism,
            ``[KEYSTATE_CANNOT_RESCALE]`` when the state is in another provider's files,
            ``[KEYSTATE_QUERY_IS_RUNNING]`` when the query runs in this session,
            ``[KEYSTATE_NO_CHECKPOINT]`` when no query was ever started there.
    """
    session = _session(spark, "rescale")
    if not 1 <= n < 2**31:
        raise ValueError(f"the number of partitions must be 1 to {2**31 - 1}, got {n}")
    return _bridge.rescale(session, checkpoint, n)


def inspect(checkpoint: str, *, spark: SparkSession | None = None) -> dict[str, Any]:
    """What is in a checkpoint: operators, states with kinds and types, partitions, sizes, sources.

    Args:
        checkpoint: the query's checkpoint location.
        spark: the session; by default the active one.

    Returns:
        A dictionary as ``keystate inspect --json`` prints it.

    Raises:
        CheckpointError: there is no checkpoint, or it is damaged.
    """
    found: dict[str, Any] = _bridge.operation(_session(spark, "inspect"), "inspect", checkpoint)
    return found


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
    found = _bridge.operation(_session(spark, "verify"), "verify", checkpoint)
    problems: list[str] = found["problems"]
    return problems


def savepoint(checkpoint: str, path: str, *, spark: SparkSession | None = None) -> int:
    """Copies what a stopped query goes on from, as it is after the last committed batch.

    The copy is a checkpoint in itself: start a query with it as ``checkpointLocation``. It has the
    query's id; don't run both at the same time in one session. Input that a source reads again, and
    what sinks wrote, is not in it.

    Args:
        checkpoint: the query's checkpoint location.
        path: a folder that does not exist, or is empty.
        spark: the session; by default the active one.

    Returns:
        The last batch that is in the copy.

    Raises:
        CheckpointError: ``[KEYSTATE_SAVEPOINT_EXISTS]``, ``[KEYSTATE_QUERY_IS_RUNNING]``, or a file
            is lost or damaged; then there is no copy.
    """
    return _bridge.savepoint(_session(spark, "savepoint"), checkpoint, path)


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
    return _bridge.import_checkpoint(_session(spark, "import_checkpoint"), source, target)


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
    found: list[dict[str, Any]] = _bridge.operation(_session(spark, "diff"), "diff", before, after)
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
    ``time_domain`` and ``expiration_timestamp_ms``. Timers are read by the driver, the other states
    by tasks.

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
    chosen, kind = _choose(found, state, operator)
    newest = chosen["newest_version"]
    if version is not None and not chosen["oldest_version"] <= version <= newest:
        raise CheckpointError(
            f"version {version} of operator {chosen['id']} of {checkpoint} is not kept: there are "
            f"versions {chosen['oldest_version']} to {newest}",
            code="KEYSTATE_MISSING_VERSION",
        )
    batch = (version or newest) - 1
    if kind["kind"] != "timers":
        return _read(spark, checkpoint, chosen["id"], batch, kind)
    others = [one for one in chosen["states"] if one["kind"] != "timers"]
    if not others:
        raise CheckpointError(
            f"the timers of operator {chosen['id']} can't be read: it has no other state, which "
            "would tell the types of its keys",
            code="KEYSTATE_NO_SUCH_STATE",
        )
    key = _read(spark, checkpoint, chosen["id"], newest - 1, others[0]).schema["key"].dataType
    assert isinstance(key, StructType)
    return _bridge.timers(spark, checkpoint, chosen["id"], batch, key)


def _read(
    spark: SparkSession, checkpoint: str, operator: int, batch: int, state: dict[str, Any]
) -> DataFrame:
    """A state that Spark's own reader understands."""
    reader = (
        spark.read.format("statestore")
        .option("operatorId", operator)
        .option("batchId", batch)
        .option("stateVarName", state["name"])
    )
    if state["kind"] in ("list", "map", "sorted_map"):
        reader = reader.option("flattenCollectionTypes", True)
    df = reader.load(checkpoint)
    foreign = _foreign_types(json.loads(df._jdf.schema().json()))
    if foreign:
        raise CheckpointError(
            f"[KEYSTATE_CORRUPT_FILE] state '{state['name']}' of operator {operator} of "
            f"{checkpoint} has the type {foreign[0]}, which is not one of Spark's: PySpark would "
            "run it to read the state"
        )
    return df


def _foreign_types(node: Any) -> list[str]:
    """Types in a type's JSON that PySpark would import and call, or unpickle."""
    if isinstance(node, list):
        return [name for part in node for name in _foreign_types(part)]
    if not isinstance(node, dict):
        return []
    if node.get("type") == "udt":
        name = str(node.get("pyClass"))
        known = name.startswith("pyspark.ml.linalg.") and "serializedClass" not in node
        return [] if known else [name]
    return _foreign_types(list(node.values()))


def report(checkpoint: str, path: str, *, spark: SparkSession | None = None) -> None:
    """Writes what :func:`inspect` and :func:`verify` find as one HTML page.

    Args:
        checkpoint: the query's checkpoint location.
        path: the local file to write.
        spark: the session; by default the active one.

    Raises:
        CheckpointError: there is no checkpoint, or the newest version is damaged.
    """
    session = _session(spark, "report")
    found = inspect(checkpoint, spark=session)
    Path(path).write_text(page(found, verify(checkpoint, spark=session)), encoding="utf-8")


def _choose(
    found: dict[str, Any], state: str | None, operator: int | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The operator and the state that are meant."""
    states = [(op, one) for op in found["operators"] if op["keystate"] for one in op["states"]]
    there = "; ".join(f"operator {op['id']}: {one['name']}" for op, one in states) or "none"
    fitting = [
        (op, one)
        for op, one in states
        if (state is None or one["name"] == state) and (operator is None or op["id"] == operator)
    ]
    if state is None:
        fitting = [pair for pair in fitting if pair[1]["name"] != "$timers"] or fitting
    what = f"state '{state}'" if state is not None else "state"
    where = f" of operator {operator}" if operator is not None else ""
    if not fitting:
        raise CheckpointError(
            f"there is no {what}{where} in {found['checkpoint']}. There are: {there}",
            code="KEYSTATE_NO_SUCH_STATE",
        )
    if len(fitting) > 1:
        raise CheckpointError(
            f"more than one {what}{where} is in {found['checkpoint']}: tell which "
            f"one by {'state' if state is None else 'operator'}= (--"
            f"{'state' if state is None else 'operator'}). There are: {there}",
            code="KEYSTATE_NO_SUCH_STATE",
        )
    return fitting[0]


def _session(spark: SparkSession | None, what: str) -> SparkSession:
    session = spark or SparkSession.getActiveSession()
    if session is None:
        raise ConfigurationError(
            f"{what} needs a Spark session: create one, or pass spark=", code="KEYSTATE_NO_SESSION"
        )
    return session
