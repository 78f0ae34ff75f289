"""What a checkpoint bears: batches cut short, files of others, a rescale at the wrong time."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import keystate
import pytest
from keystate import KeyedProcessFunction, ValueStateDescriptor
from keystate._jvm.session import FORMAT_KEY
from pyspark.errors import StreamingQueryException


class Count(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        yield row.key, self.count.value()


def counts(df: Any) -> Any:
    return keystate.keyed(df, "key").process(Count(), "key long, count long")


ROWS = [(key,) for key in range(20)]


@pytest.mark.parametrize(
    ("cut_short", "checkpoint_format"),
    [("limit", "1"), ("limit", "2"), ("unused", "1"), ("raises", "1")],
)
def test_a_batch_that_is_not_run_to_its_end(
    cut_short: str,
    checkpoint_format: str,
    spark: Any,
    stream: Any,
    settings: Callable[..., None],
) -> None:
    """A store did not commit: Spark fails the query; mended, it does the batch again."""
    settings(**{FORMAT_KEY: checkpoint_format})
    fed = stream("key long")
    fed.feed(ROWS)
    fed.run(counts)
    fed.feed(ROWS)

    def save(df: Any, batch: int) -> None:
        if cut_short != "unused":
            assert len(df.limit(1).collect()) == 1
        if cut_short == "raises":
            raise ValueError("of the user")

    source = spark.readStream.schema(fed._schema).parquet(str(fed._input))
    query = (
        counts(source)
        .writeStream.foreachBatch(save)
        .option("checkpointLocation", str(fed.checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    if cut_short == "raises":
        reason = "of the user"
    elif checkpoint_format == "2":
        reason = "CheckpointInfo length"
    else:
        # The state of STATE_STORE_COMMIT_VALIDATION_FAILED, which is a cause further down.
        reason = "SQLSTATE: XXKST"
    with pytest.raises(StreamingQueryException, match=reason):
        query.awaitTermination()
    commit = fed.checkpoint / "commits" / "1"
    # Without ids Spark looks only after it has written the commit log.
    assert commit.exists() == (reason == "SQLSTATE: XXKST")
    begun = fed.checkpoint / "offsets" / "2"
    if commit.exists():
        fed.feed([])
        cause = "KEYSTATE_MISSING_VERSION.*If a foreachBatch read only a part of its rows"
        with pytest.raises(StreamingQueryException, match=cause):
            fed.run(counts)
        assert begun.exists()
    for path in (commit, begun):
        path.unlink(missing_ok=True)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    assert sorted(map(tuple, fed.run(counts))) == [(key, 2) for key in range(20)]


def test_every_partition_has_every_version(stream: Any, settings: Callable[..., None]) -> None:
    """No rows, one key, no rows."""
    settings(**{"spark.sql.shuffle.partitions": "5"})
    fed = stream("key long")
    fed.feed([], [(1,)], [], [(1,)])
    assert [tuple(row) for row in fed.run(counts)] == [(1, 1), (1, 2)]
    versions = {
        int(folder.name): sorted(path.name for path in folder.glob("*.keystate"))
        for folder in (fed.checkpoint / "state/0").glob("[0-9]*")
    }
    assert set(versions) == set(range(5))
    assert set(map(tuple, versions.values())) == {
        tuple(f"{batch + 1}.keystate" for batch in range(len(versions[0])))
    }
    assert len(versions[0]) >= 3


@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
def test_files_of_others(
    checkpoint_format: str, spark: Any, stream: Any, settings: Callable[..., None]
) -> None:
    settings(**{FORMAT_KEY: checkpoint_format})
    fed = stream("key long")
    fed.feed(ROWS)
    fed.run(counts)
    strangers = []
    for folder in (".", "offsets", "commits", "state", "state/0", "state/0/_keystate", "state/0/0"):
        for name in ("_SUCCESS", ".nothing.crc", "notes~", ".1.keystate.swp", "1.keystate.bak"):
            strangers.append(fed.checkpoint / folder / name)
            strangers[-1].write_text("of somebody else")
        strangers.append(fed.checkpoint / folder / "lost+found")
        strangers[-1].mkdir()
    for partitions in ("2", "3", "1"):
        settings(**{"spark.sql.shuffle.partitions": partitions})
        fed.feed(ROWS)
        count = fed._files
        assert sorted(map(tuple, fed.run(counts))) == [(key, count) for key in range(20)]
    assert keystate.admin.verify(str(fed.checkpoint), spark=spark) == []
    assert all(path.exists() for path in strangers)


def test_a_first_log_entry_that_was_cut_off(spark: Any, stream: Any) -> None:
    """Spark itself never starts a query whose driver died there."""
    fed = stream("key long")
    fed.feed(ROWS)
    left = fed.checkpoint / "offsets" / f".0.{uuid.uuid4()}.tmp"
    left.parent.mkdir(parents=True)
    left.write_text("v1\n")
    assert sorted(map(tuple, fed.run(counts))) == [(key, 1) for key in range(20)]
    assert left.exists()


def test_a_running_query_is_not_rescaled(spark: Any, stream: Any) -> None:
    fed = stream("key long")
    fed.feed(ROWS)
    source = spark.readStream.schema(fed._schema).parquet(str(fed._input))
    emitted: list[Any] = []
    query = (
        counts(source)
        .writeStream.foreachBatch(lambda df, _: emitted.extend(df.collect()))
        .option("checkpointLocation", str(fed.checkpoint))
        .start()
    )
    try:
        query.processAllAvailable()
        for spelling in (f"{fed.checkpoint}", f"{fed.checkpoint}/", f"file:{fed.checkpoint}"):
            with pytest.raises(keystate.CheckpointError, match="KEYSTATE_QUERY_IS_RUNNING"):
                keystate.rescale(spelling, 3, spark=spark)
        fed.feed(ROWS)
        query.processAllAvailable()
    finally:
        query.stop()
    assert sorted(map(tuple, emitted)) == sorted((key, n) for key in range(20) for n in (1, 2))
    assert keystate.rescale(str(fed.checkpoint), 3, spark=spark) == 2
    state = keystate.admin.read_state(spark, str(fed.checkpoint), state="count")
    assert sorted(row.key.key for row in state.collect()) == list(range(20))
