"""Spark's own stateful operators rescale on Keystate's provider too, and keep their state."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import keystate
import pytest
from keystate.errors import CheckpointError
from spark_queries import (
    SCHEMA,
    batches,
    check_python,
    check_sql,
    python_operators,
    sql_operators,
)

FORMAT = "spark.sql.streaming.stateStore.checkpointFormatVersion"
JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
PARTITIONS = "spark.sql.shuffle.partitions"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
SPARK_HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"

slow = pytest.mark.skipif("SLOW" not in os.environ, reason="takes half a minute; set SLOW=1")


def run(
    spark: Any, fed: Any, operators: Any, settings: Callable[..., None], explicit: bool
) -> list[tuple[str, ...]]:
    """With 2, 4 and 3 partitions."""
    emitted: list[tuple[str, ...]] = []
    for batch, partitions in zip(batches(), [2, 4, 3, 3, 3], strict=True):
        if explicit and partitions == 3:
            keystate.rescale(str(fed.checkpoint), partitions, spark=spark)
        settings(**{PARTITIONS: str(partitions), NO_DATA: "false"})
        fed.feed(batch)
        emitted.extend(map(tuple, fed.run(operators)))
        found = fed.progress[-1].stateOperators
        assert {op.numShufflePartitions for op in found} == {partitions}
    return emitted


@pytest.mark.parametrize(
    ("checkpoint_format", "join_format"),
    [("1", "2"), pytest.param("2", "2", marks=slow), ("2", "3")],
)
def test_sql_operators(
    spark: Any,
    checkpoint_format: str,
    join_format: str,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    settings(**{FORMAT: checkpoint_format, JOIN_FORMAT: join_format})
    emitted = run(spark, stream(SCHEMA), sql_operators, settings, checkpoint_format == "2")
    check_sql(spark, emitted)


@pytest.mark.parametrize("checkpoint_format", [pytest.param("1", marks=slow), "2"])
def test_python_operators(
    spark: Any,
    checkpoint_format: str,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    settings(**{FORMAT: checkpoint_format})
    emitted = run(spark, stream(SCHEMA), python_operators, settings, checkpoint_format == "1")
    check_python(spark, emitted)


def test_operators_without_keys(
    spark: Any, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """They have all in one partition, whatever the number of partitions is."""
    settings(**{FORMAT: "2"})
    fed = stream("x long")
    for partitions, total in [(2, 3), (4, 6), (3, 9)]:
        settings(**{PARTITIONS: str(partitions)})
        fed.feed([(1,), (2,)])
        emitted = fed.run(lambda df: df.groupBy().sum("x"), mode="complete")
        assert [row[0] for row in emitted] == [total]


def test_another_provider_stays_as_it_is(
    spark: Any, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings(**{PROVIDER: SPARK_HDFS, PARTITIONS: "2"})
    fed = stream("x long")
    for partitions, total in [(2, 1), (4, 2)]:
        settings(**{PARTITIONS: str(partitions)})
        fed.feed([(1,)])
        emitted = fed.run(lambda df: df.groupBy("x").count(), mode="update")
        assert [tuple(row) for row in emitted] == [(1, total)]
    with pytest.raises(CheckpointError, match=r"KEYSTATE_CANNOT_RESCALE.*HDFSBacked.*import"):
        keystate.rescale(str(fed.checkpoint), 3, spark=spark)
