"""Spark's own stateful operators rescale on Keystate's provider too, and keep their state."""

from __future__ import annotations

import datetime
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pyspark
import pyspark.sql.functions as F
import pytest
from keystate._jvm.session import FORMAT_KEY
from keystate.errors import CheckpointError
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from tests.spark_queries import (
    SCHEMA,
    batches,
    check_python,
    check_sql,
    python_operators,
    sql_operators,
)

JOIN_FORMAT = "spark.sql.streaming.join.stateFormatVersion"
JOIN_FORMAT_4 = "spark.sql.streaming.join.stateFormatV4.enabled"
NO_DATA = "spark.sql.streaming.noDataMicroBatches.enabled"
PARTITIONS = "spark.sql.shuffle.partitions"
PROVIDER = "spark.sql.streaming.stateStore.providerClass"
SPARK_HDFS = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"

slow = pytest.mark.skipif("SLOW" not in os.environ, reason="takes half a minute; set SLOW=1")


def run(
    spark: Any, fed: Any, operators: Any, settings: Callable[..., None], explicit: bool
) -> list[tuple[str, ...]]:
    """With 2, 4, 3 and 1 partitions: what was together comes apart, and the other way round."""
    emitted: list[tuple[str, ...]] = []
    for batch, partitions in zip(batches(), [2, 4, 3, 1, 3], strict=True):
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
    settings(**{FORMAT_KEY: checkpoint_format, JOIN_FORMAT: join_format})
    emitted = run(spark, stream(SCHEMA), sql_operators, settings, checkpoint_format == "2")
    check_sql(spark, emitted)


@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
@pytest.mark.parametrize("has_metadata", [True, False])
def test_the_first_batch_is_pending(
    has_metadata: bool,
    checkpoint_format: str,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    """Its stores are written and not committed; or it ended before Spark had described them."""
    settings(**{FORMAT_KEY: checkpoint_format, PARTITIONS: "2", NO_DATA: "false"})
    fed, keys = stream("key long"), [(key,) for key in range(20)]

    def counted(df: DataFrame) -> DataFrame:
        return df.groupBy("key").count()

    fed.feed(keys)
    with pytest.raises(StreamingQueryException, match="after the state"):
        fed.run(
            lambda df: counted(df).selectExpr("*", "raise_error('after the state')"), mode="update"
        )
    assert (fed.checkpoint / "offsets/0").exists() and not (fed.checkpoint / "commits/0").exists()
    state = fed.checkpoint / "state" / "0"
    if not has_metadata:
        shutil.rmtree(state)
        state.mkdir()
    for batch, partitions in ((1, 3), (2, 3), (3, 2)):
        settings(**{PARTITIONS: str(partitions)})
        emitted = fed.run(counted, mode="update")
        assert sorted(map(tuple, emitted)) == [(key, batch) for (key,) in keys]
        fed.feed(keys)


@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
def test_the_state_is_read(
    spark: Any,
    checkpoint_format: str,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    """By Spark's reader, of the last two micro-batches, whatever folders stay."""
    settings(**{FORMAT_KEY: checkpoint_format, NO_DATA: "false"})
    fed, keys = stream("key long"), [(key,) for key in range(20)]

    def counts(batch: int) -> list[tuple[int, int]]:
        reader = spark.read.format("statestore").option("batchId", batch)
        state = reader.load(str(fed.checkpoint)).selectExpr("key.key", "value.count")
        return sorted(map(tuple, state.collect()))

    for batch, partitions in enumerate((2, 5, 3, 3, 4)):
        settings(**{PARTITIONS: str(partitions)})
        fed.feed(keys)
        fed.run(lambda df: df.groupBy("key").count(), mode="update")
        for read in range(max(0, batch - 1), batch + 1):
            assert counts(read) == [(key, read + 1) for (key,) in keys]


@pytest.mark.turns
@pytest.mark.parametrize("checkpoint_format", [pytest.param("1", marks=slow), "2"])
def test_python_operators(
    spark: Any,
    checkpoint_format: str,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    settings(**{FORMAT_KEY: checkpoint_format})
    emitted = run(spark, stream(SCHEMA), python_operators, settings, checkpoint_format == "1")
    check_python(spark, emitted)


def test_operators_without_keys(
    spark: Any, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """They have all in one partition, whatever the number of partitions is."""
    settings(**{FORMAT_KEY: "2"})
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


class Seen(StatefulProcessor):
    """Has one state of each kind."""

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "n long")
        self.all = handle.getListState("all", "x long")
        self.by_rest = handle.getMapState("by_rest", "rest long", "n long")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        for row in rows:
            self.count.update((1 + (self.count.get()[0] if self.count.exists() else 0),))
            self.all.appendValue((row.x,))
            before = self.by_rest.getValue((row.x % 3,))
            self.by_rest.updateValue((row.x % 3,), (1 + (before[0] if before else 0),))
        yield Row(kind="transform", key=key[0], result=self.told())

    def told(self) -> str:
        rests = sorted((k[0], v[0]) for k, v in self.by_rest.iterator())
        return f"{self.count.get()[0]} {sorted(e[0] for e in self.all.get())} {rests}"

    def close(self) -> None:
        pass


def joined(df: DataFrame) -> DataFrame:
    """An outer join by time, and rows without their repetitions; on a batch DataFrame too."""
    rows = df.withColumn("at", F.col("at").cast("timestamp")).withWatermark("at", "1 hour")
    right = (
        df.withColumn("time", F.col("at").cast("timestamp"))
        .withWatermark("time", "1 hour")
        .selectExpr("key AS k", "x AS y", "time")
        .where("y % 2 = 0")
    )
    near = F.expr("key = k AND y <> x AND time BETWEEN at - INTERVAL 5 SECONDS AND at")
    outer = rows.join(right, near, "left_outer").select(
        F.lit("join").alias("kind"), "key", F.concat_ws(" ", "x", "y", "time").alias("result")
    )
    names = ["key", "x"]
    distinct = (
        rows.dropDuplicatesWithinWatermark(names) if df.isStreaming else rows.dropDuplicates(names)
    )
    return outer.unionByName(distinct.selectExpr("'distinct' AS kind", "key", "'' || x AS result"))


def others(df: DataFrame) -> DataFrame:
    """Spark's stateful operators that the queries of `spark_queries` do not have."""
    result = "kind string, key string, result string"
    seen = df.groupBy("key").transformWithState(Seen(), result, "Append", "None")
    limited = df.limit(30).selectExpr("'limit' AS kind", "key", "'' || x AS result")
    return joined(df).unionByName(seen).unionByName(limited)


def seconds(first: int, last: int) -> list[tuple[str, int, datetime.datetime]]:
    """A row a second, of one of seven keys."""
    start = datetime.datetime(2024, 5, 1)
    return [(f"key-{i % 7}", i, start + datetime.timedelta(seconds=i)) for i in range(first, last)]


#: The newest of this Spark.
NEWEST_JOIN = "3" if pyspark.__version__.startswith("4.1.") else "4"


@pytest.mark.parametrize(
    ("checkpoint_format", "join_format"),
    [("1", NEWEST_JOIN), pytest.param("2", NEWEST_JOIN, marks=slow)],
)
def test_other_operators(
    spark: Any,
    checkpoint_format: str,
    join_format: str,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    settings(
        **{
            FORMAT_KEY: checkpoint_format,
            JOIN_FORMAT: join_format,
            JOIN_FORMAT_4: "true",
            NO_DATA: "false",
        }
    )
    fed = stream(SCHEMA)
    days = [("last", n, datetime.datetime(2024, 5, n)) for n in (2, 3)]
    # Some rows come again; the last one finds the watermark past all before it.
    data = [seconds(0, 24), [*seconds(18, 42), days[0]], [days[1]]]
    emitted, limits = [], []
    for batch, partitions in zip(data, [2, 4, 2], strict=True):
        settings(**{PARTITIONS: str(partitions)})
        fed.feed(batch)
        now = [tuple(row) for row in fed.run(others)]
        limits.append(sum(row[0] == "limit" for row in now))
        emitted.extend(now)
    assert limits == [24, 6, 0]

    whole = spark.createDataFrame([row for batch in data for row in batch], SCHEMA)
    expected = [tuple(row) for row in joined(whole).where("key <> 'last'").collect()]
    assert any(row[0] == "join" and row[2].count(" ") == 0 for row in expected), "outer rows"
    found = [row for row in emitted if row[0] in ("join", "distinct") and row[1] != "last"]
    assert sorted(found) == sorted(expected)

    seen: dict[str, list[int]] = {}
    told = []
    for batch in data:
        for key, x, _ in batch:
            seen.setdefault(key, []).append(x)
        for key in {key for key, _, _ in batch}:
            rests = sorted(Counter(x % 3 for x in seen[key]).items())
            told.append(("transform", key, f"{len(seen[key])} {sorted(seen[key])} {rests}"))
    assert sorted(row for row in emitted if row[0] == "transform") == sorted(told)


@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
def test_a_crash_with_a_batch_pending(
    spark: Any, checkpoint_format: str, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """What a crash leaves at each step of a rescale, of a query of which a batch was under way."""
    settings(**{FORMAT_KEY: checkpoint_format, PARTITIONS: "2"})

    def counted(df: DataFrame) -> DataFrame:
        new = df.dropDuplicates(["key", "x"]).selectExpr("key", "'new ' || x AS result")
        return df.groupBy("key").count().selectExpr("key", "'' || count AS result").unionByName(new)

    def failing(df: DataFrame) -> DataFrame:
        return counted(df).selectExpr("*", "raise_error('after the state')")

    fed = stream("key string, x long")
    first, second = ([(f"key-{i % 11}", i) for i in of] for of in (range(30), range(20, 50)))
    fed.feed(first)
    assert len(fed.run(counted, mode="update")) == 11 + 30
    fed.feed(second)
    with pytest.raises(StreamingQueryException, match="after the state"):
        fed.run(failing, mode="update")
    assert not (fed.checkpoint / "commits/1").exists()

    before = Path(f"{fed.checkpoint}-before")
    shutil.copytree(fed.checkpoint, before)
    assert keystate.rescale(str(fed.checkpoint), 4, spark=spark) == 2
    crashed = fed.checkpoint
    # The files that still are as they were.
    steps = {
        "version files": ["commits/0", "offsets/0", "offsets/1"],
        "commit log": ["offsets/0", "offsets/1"],
        "offset log": ["offsets/1"],
        "all": [],
    }
    counts = Counter(key for key, _ in first + second)
    expected = sorted(
        [(key, str(n)) for key, n in counts.items() if key in {key for key, _ in second}]
        + [(key, f"new {x}") for key, x in second if (key, x) not in first]
    )
    for (step, unchanged), partitions in zip(steps.items(), [4, 3, 4, 3], strict=True):
        fed.checkpoint = Path(f"{crashed}-{step}")
        shutil.copytree(crashed, fed.checkpoint)
        for name in unchanged:
            shutil.copy(before / name, fed.checkpoint / name)
            log = fed.checkpoint / name
            log.with_name(f".{log.name}.crc").unlink(missing_ok=True)
        if step == "version files":
            # The last ones were not written yet.
            written = list(fed.checkpoint.glob("state/*/3/*.keystate"))
            assert written
            written[0].unlink()
        settings(**{PARTITIONS: str(partitions)})
        emitted = [tuple(row) for row in fed.run(counted, mode="update")]
        assert sorted(emitted) == expected, step
        assert {op.numShufflePartitions for op in fed.progress[-1].stateOperators} == {partitions}
