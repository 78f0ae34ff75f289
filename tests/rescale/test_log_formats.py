"""Restarts with each form that Spark's logs have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import admin
from keystate._jvm.session import FORMAT_KEY
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from tests.rescale.test_rescale import Expected, history, rows

OFFSET_LOG = "spark.sql.streaming.offsetLog.formatVersion"


@pytest.mark.parametrize("offset_log", ["1", "2"])
@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
def test_restarts(
    checkpoint_format: str,
    offset_log: str,
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
    tmp_path: Path,
) -> None:
    """With other partitions, with a batch pending, from a savepoint and an edited copy."""
    if offset_log != "1" and spark.version.startswith("4.1"):
        pytest.skip("Spark 4.1 has one form of the offset log")
    settings(**{FORMAT_KEY: checkpoint_format, OFFSET_LOG: offset_log})
    fed, expected = stream("key string, x long"), Expected()
    for seed, partitions in enumerate((2, 3, 3, 1)):
        settings(**{"spark.sql.shuffle.partitions": str(partitions)})
        batch = rows(seed)
        fed.feed(batch)
        expected.check(batch, fed.run(history), partitions)
    assert (fed.checkpoint / "offsets" / "0").read_text().startswith(f"v{offset_log}")
    pending = rows(10)
    fed.feed(pending)
    with pytest.raises(StreamingQueryException):
        fed.run(lambda df: history(df).selectExpr("*", "raise_error('after the state')"))
    settings(**{"spark.sql.shuffle.partitions": "4"})
    expected.check(pending, fed.run(history), 4)
    assert admin.verify(str(fed.checkpoint)) == []
    assert admin.rescale(str(fed.checkpoint), 2) == 4
    for seed, copy in enumerate((admin.savepoint, lambda one, to: admin.edit(one).write(to))):
        to = tmp_path / f"copy{seed}"
        copy(str(fed.checkpoint), str(to))
        fed.checkpoint = to
        settings(**{"spark.sql.shuffle.partitions": str(2 + seed)})
        batch = rows(20 + seed)
        fed.feed(batch)
        expected.check(batch, fed.run(history), 2 + seed)
        assert admin.verify(str(to)) == []


@pytest.mark.parametrize("kind", ["sparks", "columns"])
def test_other_operators(
    kind: str, spark: Any, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    if spark.version.startswith("4.1"):
        pytest.skip("Spark 4.1 has one form of the offset log")
    settings(**{OFFSET_LOG: "2"})
    fed = stream("key string, x long")

    def build(df: Any) -> Any:
        if kind == "sparks":
            return df.groupBy("key").agg(F.count("*").alias("n"))
        return keystate.keyed(df, "key").aggregate(F.count("*").alias("n"))

    for number, partitions in enumerate((2, 3, 1), 1):
        settings(**{"spark.sql.shuffle.partitions": str(partitions)})
        fed.feed([("a", 1), ("b", 2), ("a", 3)])
        found = {row.key: row.n for row in fed.run(build, mode="update")}
        assert found == {"a": 2 * number, "b": number}
