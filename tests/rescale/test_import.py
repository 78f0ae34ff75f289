"""A query moves from Spark's state store providers to Keystate's without losing state."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import KeyedProcessFunction, ValueStateDescriptor, admin
from keystate._jvm.session import FORMAT_KEY
from keystate.errors import CheckpointError

from tests.spark_queries import (
    SCHEMA,
    batches,
    check_python,
    check_sql,
    python_operators,
    sql_operators,
    summed,
)

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
SPARK = "org.apache.spark.sql.execution.streaming.state."
OURS = "org.apache.spark.sql.keystate.KeyGroupStateStoreProvider"

slow = pytest.mark.skipif("SLOW" not in os.environ, reason="takes half a minute; set SLOW=1")


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


@pytest.mark.turns
@pytest.mark.parametrize(
    ("provider", "checkpoint_format", "operators", "check"),
    [
        pytest.param("HDFSBacked", "1", sql_operators, check_sql, marks=slow),
        ("RocksDB", "1", sql_operators, check_sql),
        pytest.param("RocksDB", "2", sql_operators, check_sql, marks=slow),
        pytest.param("RocksDB", "1", python_operators, check_python, marks=slow),
        ("RocksDB", "2", python_operators, check_python),
    ],
)
def test_a_query_goes_on(
    spark: Any,
    provider: str,
    checkpoint_format: str,
    operators: Any,
    check: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
    tmp_path: Path,
) -> None:
    settings(
        **{
            PROVIDER: f"{SPARK}{provider}StateStoreProvider",
            FORMAT_KEY: checkpoint_format,
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
            "spark.sql.streaming.noDataMicroBatches.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
        }
    )
    fed = stream(SCHEMA)
    data = batches()
    fed.feed(*data[:2])
    emitted = [tuple(row) for row in fed.run(operators)]

    source, target = fed.checkpoint, tmp_path / "imported"
    before = content(source)
    assert admin.import_checkpoint(str(source), str(target), spark=spark) == 1
    assert content(source) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["imported", "stream1"]

    fed.checkpoint = target
    for batch, partitions in zip(data[2:], [2, 3, 3], strict=True):
        settings(**{PROVIDER: OURS, "spark.sql.shuffle.partitions": str(partitions)})
        fed.feed(batch)
        emitted.extend(map(tuple, fed.run(operators)))
        metrics = fed.progress[-1].stateOperators[0].customMetrics
        assert "keystateCommitSyncMs" in metrics
    check(spark, emitted)


class Summed(KeyedProcessFunction):
    """What `summed` does, as a function."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.total.update(self.total.value() + row.x)
        yield row.key, self.total.value()


def test_an_operator_of_sparks_becomes_a_function(
    spark: Any, stream: Callable[..., Any], settings: Callable[..., None], tmp_path: Path
) -> None:
    """As docs/operations.md says: its state and the query's offsets stay."""
    settings(**{PROVIDER: f"{SPARK}RocksDBStateStoreProvider"})

    def applied(df: Any) -> Any:
        result = "kind string, key string, result string"
        return df.groupBy("key").applyInPandasWithState(
            summed, result, "total long", "append", "NoTimeout"
        )

    fed = stream("key string, x long")
    fed.feed([("a", 1), ("b", 2)], [("a", 10)])
    assert len(fed.run(applied)) == 3
    imported, fresh = str(tmp_path / "imported"), tmp_path / "fresh"
    admin.import_checkpoint(str(fed.checkpoint), imported, spark=spark)
    stored = spark.read.format("statestore").load(imported)
    old = stored.selectExpr("key.*", "value.groupState.total AS value")
    editor = admin.edit(imported, spark=spark)
    editor.drop_operator(0)
    editor.add_operator(Summed(), key="key string", states={"total": old})
    editor.write(str(fresh))

    settings(**{PROVIDER: OURS, "spark.sql.shuffle.partitions": "3"})
    fed.checkpoint = fresh
    fed.feed([("a", 100), ("b", 200), ("c", 300)])
    found = fed.run(lambda df: keystate.keyed(df, "key").process(Summed(), "key string, n long"))
    assert sorted(map(tuple, found)) == [("a", 111), ("b", 202), ("c", 300)]


def test_operators_without_keys(
    spark: Any, stream: Callable[..., Any], settings: Callable[..., None], tmp_path: Path
) -> None:
    """A limit has all it has in the first partition."""
    settings(
        **{
            PROVIDER: f"{SPARK}RocksDBStateStoreProvider",
            FORMAT_KEY: "2",
        }
    )

    def limited(df: Any) -> Any:
        return df.dropDuplicates(["x"]).limit(3)

    fed = stream("x long")
    fed.feed([(1,), (2,)])
    assert len(fed.run(limited)) == 2
    target = tmp_path / "imported"
    admin.import_checkpoint(str(fed.checkpoint), str(target), spark=spark)
    fed.checkpoint = target
    found = admin.inspect(str(target), spark=spark)
    assert sorted(len(op["partitions"]) for op in found["operators"]) == [1, 2]
    settings(**{PROVIDER: OURS, "spark.sql.shuffle.partitions": "3"})
    fed.feed([(2,), (3,), (4,)])
    assert len(fed.run(limited)) == 1


def test_what_cannot_be_imported(
    spark: Any, stream: Callable[..., Any], settings: Callable[..., None], tmp_path: Path
) -> None:
    fed = stream("x long")
    with pytest.raises(CheckpointError, match="KEYSTATE_NO_CHECKPOINT"):
        admin.import_checkpoint(str(tmp_path / "none"), str(tmp_path / "target"), spark=spark)
    fed.feed([(1,)])
    fed.run(lambda df: df.groupBy("x").count(), mode="update")
    with pytest.raises(CheckpointError, match=r"KEYSTATE_CANNOT_IMPORT.*already"):
        admin.import_checkpoint(str(fed.checkpoint), str(tmp_path / "target"), spark=spark)
    settings(**{PROVIDER: f"{SPARK}HDFSBackedStateStoreProvider"})
    other = stream("x long")
    other.feed([(1,)])
    other.run(lambda df: df.groupBy("x").count(), mode="update")
    with pytest.raises(CheckpointError, match="KEYSTATE_IMPORT_EXISTS"):
        admin.import_checkpoint(str(other.checkpoint), str(fed.checkpoint), spark=spark)
    delta = next((other.checkpoint / "state/0/0").glob("*.delta"))
    delta.unlink()
    with pytest.raises(Exception, match=delta.name):
        admin.import_checkpoint(str(other.checkpoint), str(tmp_path / "target"), spark=spark)
    assert not (tmp_path / "target").exists()
    assert not list(tmp_path.glob(".target*"))
