"""Operations on the checkpoint of a stopped query."""

from __future__ import annotations

from pyspark.sql import SparkSession

from keystate import _bridge
from keystate.errors import ConfigurationError


def rescale(checkpoint: str, n: int, *, spark: SparkSession | None = None) -> int:
    """Changes the number of partitions of a stopped query.

    No state is rewritten: the new partitions take over the files of the old ones. A batch that was
    started and not finished keeps its id and its input, and runs with the new number. A restart
    with another ``spark.sql.shuffle.partitions`` does the same by itself, unless
    ``spark.keystate.rescale.onRestart`` is ``off``.

    Args:
        checkpoint: the query's checkpoint location.
        n: the number of partitions from now on: 1 to the max parallelism of the query's operators.
        spark: the session to work with; the active one by default.

    Returns:
        The number of partitions before.

    Raises:
        ConfigurationError: there is no active session.
        CheckpointError: ``[KEYSTATE_PARALLELISM_TOO_HIGH]`` when n is above the max parallelism,
            ``[KEYSTATE_CANNOT_RESCALE]`` when an operator is not one of Keystate's,
            ``[KEYSTATE_QUERY_IS_RUNNING]`` when the query runs in this session.
    """
    session = spark or SparkSession.getActiveSession()
    if session is None:
        raise ConfigurationError("rescale needs a Spark session: create one, or pass spark=")
    if n < 1:
        raise ValueError(f"the number of partitions must be at least 1, got {n}")
    return _bridge.rescale(session, checkpoint, n)
