"""The rows of a micro-batch, read again by the offsets that its query recorded."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from keystate._jvm import bridge
from keystate._operators.definition import Input
from keystate._types.codec import struct_codec
from keystate.errors import CheckpointError

#: Types of key columns that can be literals, by which Spark filters out the rows of other keys.
_LITERALS = (
    T.StringType,
    T.BooleanType,
    T.ByteType,
    T.ShortType,
    T.IntegerType,
    T.LongType,
    T.DecimalType,
    T.DateType,
)


def read_inputs(
    checkpoint: str,
    batch: int,
    inputs: Sequence[Input],
    key: Sequence[Any] | None,
    most: int | None,
) -> list[pa.Array]:
    """The rows that each input had in a batch, in Arrow; rows of other keys may be among them.

    A query without state runs the batch once more, from a copy of the checkpoint's logs in which
    the batch is pending. The checkpoint does not change.

    Args:
        checkpoint: the query's checkpoint location.
        batch: the micro-batch.
        inputs: the operator's inputs in the query.
        key: the values of the key columns; ``None`` for the rows of all keys.
        most: how many rows there may be; ``None`` for any number.

    Raises:
        CheckpointError: ``[KEYSTATE_CANNOT_REPLAY]``: the input can't be read again, or has more
            rows.
    """
    frames = [each.df if key is None else _of_key(each, key) for each in inputs]
    rows = frames[0] if len(frames) == 1 else _together(frames)
    folder = tempfile.mkdtemp(prefix="keystate-replay-")
    try:
        rows = bridge.batch_input(checkpoint, batch, rows, Path(folder).as_uri())
        found = _run(rows, Path(folder).as_uri(), batch, most)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if len(frames) == 1:
        return [_array(found.to_struct_array(), inputs[0].row_type)]
    which = found.column("input").to_pylist()
    arrays = []
    for i, each in enumerate(inputs):
        places = pa.array([at for at, of in enumerate(which) if of == i], pa.int64())
        arrays.append(_array(found.column(f"rows{i}").take(places), each.row_type))
    return arrays


def read_initial(
    initial: Input, batch: int, key: Sequence[Any] | None, most: int | None
) -> pa.Array:
    """The rows that initial state has now, in Arrow; rows of other keys may be among them.

    Args:
        initial: the operator's initial state in the query.
        batch: the micro-batch that takes it.
        key: the values of the key columns; ``None`` for the rows of all keys.
        most: how many rows there may be; ``None`` for any number.

    Raises:
        CheckpointError: ``[KEYSTATE_CANNOT_REPLAY]``: it can't be read, or has more rows.
    """
    rows = initial.df if key is None else _of_key(initial, key)
    try:
        found = _at_most(rows, most)
    except Exception as e:  # py4j's too; Spark Connect may lack py4j
        raise CheckpointError(
            f"The initial state, which batch {batch} took in, can't be read again: {_reason(e)}",
            code="KEYSTATE_CANNOT_REPLAY",
        ) from e
    _check(found, batch, most)
    return _array(found.to_struct_array(), initial.row_type)


def _at_most(df: DataFrame, most: int | None) -> pa.Table:
    """The rows, or one more than `most`, so that the caller sees that there are too many."""
    return (df if most is None else df.limit(most + 1)).toArrow()


def _check(found: pa.Table, batch: int, most: int | None) -> None:
    if most is not None and found.num_rows > most:
        raise CheckpointError(
            f"Batch {batch} has more than {most:,} rows, too many for a replay of all its keys: "
            "give key=",
            code="KEYSTATE_CANNOT_REPLAY",
        )


def _run(rows: DataFrame, folder: str, batch: int, most: int | None) -> pa.Table:
    """The rows of the pending batch of a checkpoint."""
    found: list[pa.Table] = []

    def take(df: DataFrame, batch_id: int) -> None:
        if batch_id == batch:
            found.append(_at_most(df, most))

    # It runs one batch, the pending one, and takes no new offsets. Sources are not notified.
    query = (
        rows.writeStream.foreachBatch(take)
        .option("checkpointLocation", folder)
        .queryName(f"replay of batch {batch}")
        .trigger(once=True)
        .start()
    )
    try:
        query.awaitTermination()
    except PySparkException as e:
        raise CheckpointError(
            f"The input of batch {batch} can't be read again: {_reason(e)}",
            code="KEYSTATE_CANNOT_REPLAY",
        ) from e
    finally:
        query.stop()
    if not found:
        raise CheckpointError(f"Batch {batch} did not run again", code="KEYSTATE_CANNOT_REPLAY")
    _check(found[0], batch, most)
    return found[0]


def _reason(error: Exception) -> str:
    """The first lines of Spark's message, without its stack trace."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if not isinstance(error, PySparkException):
        # py4j's message begins with calls; the actual error is their cause.
        causes = [i for i, line in enumerate(lines) if line.startswith("Caused by: ")]
        lines = lines[causes[0] :] if causes else lines
    told = [line for line in lines if not line.startswith(("at ", "===", "JVM stacktrace"))]
    return " ".join(told[:4])[:600]


def _of_key(each: Input, key: Sequence[Any]) -> DataFrame:
    df = each.df
    for column, field, value in zip(each.keys, each.key_type.fields, key):
        if value is None:
            df = df.where(column.isNull())
        elif isinstance(field.dataType, _LITERALS):
            df = df.where(column == F.lit(value).cast(field.dataType))
    return df


def _together(frames: Sequence[DataFrame]) -> DataFrame:
    """The rows of several inputs in one DataFrame, whose sources are in the order of the query."""
    parts = []
    for i, df in enumerate(frames):
        columns: list[Column] = [F.lit(i).alias("input")]
        for j, other in enumerate(frames):
            value = F.struct("*") if i == j else F.lit(None).cast(other.schema)
            columns.append(value.alias(f"rows{j}"))
        parts.append(df.select(*columns))
    first, *others = parts
    for other in others:
        first = first.unionAll(other)
    return first


def _array(found: pa.Array | pa.ChunkedArray, row_type: T.StructType) -> pa.Array:
    """Rows in the form that a worker gets."""
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    wanted = struct_codec(row_type).arrow
    columns = [one.cast(field.type) for one, field in zip(found.flatten(), wanted)]
    return pa.StructArray.from_arrays(columns, fields=list(wanted))
