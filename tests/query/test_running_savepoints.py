"""Savepoints of a query that runs, and of versions before the last one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import CheckpointError, admin
from keystate.session import FORMAT_KEY
from pyspark.sql import DataFrame

BATCHES, KEYS, PER_KEY = 14, 40, 3
#: Long, so that what a batch changes is a file of its own, which is merged and deleted soon.
TEXT = "x" * 400


class Counts(keystate.KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.state = ctx.get_state(
            keystate.ValueStateDescriptor("count", "count long, text string")
        )

    def process_element(self, row: Any, ctx: Any) -> Any:
        count = (self.state.value() or (0, ""))[0] + 1
        self.state.update((count, f"{row.key} {count} {TEXT}"))
        yield row.key, count


def build(df: DataFrame) -> DataFrame:
    return keystate.keyed(df, "key").process(Counts(), "key long, count long")


def counts(spark: Any, checkpoint: Path) -> dict[int, int]:
    state = admin.read_state(spark, str(checkpoint), state="count")
    return dict(map(tuple, state.select("key.key", "value.count").collect()))


def after(batch: int) -> dict[int, int]:
    return dict.fromkeys(range(KEYS), PER_KEY * (batch + 1))


@pytest.mark.parametrize(("checkpoint_format", "backend"), [("1", "hashmap"), ("2", "rocksdb")])
def test_while_it_runs(
    checkpoint_format: str,
    backend: str,
    spark: Any,
    stream: Callable[[str], Any],
    settings: Callable[..., None],
    running: list[Any],
    tmp_path: Path,
) -> None:
    """Each savepoint has the state of its batch, though the query keeps only two versions."""
    settings(
        **{
            FORMAT_KEY: checkpoint_format,
            "spark.keystate.backend": backend,
            "spark.sql.streaming.minBatchesToRetain": "2",
            "spark.sql.streaming.maintenanceInterval": "200ms",
        }
    )
    fed = stream("key long")
    rows = [(key,) for key in range(KEYS)] * PER_KEY
    fed.feed(*[rows] * BATCHES)
    query = (
        build(fed.source())
        .writeStream.option("checkpointLocation", str(fed.checkpoint))
        .foreachBatch(lambda df, _: df.collect() and None)
        .start()
    )
    running.append(query)
    saved: dict[int, Path] = {}
    while not query.lastProgress or query.lastProgress["batchId"] < BATCHES - 1:
        path = tmp_path / f"savepoint{time.monotonic_ns()}"
        try:
            saved[admin.savepoint(str(fed.checkpoint), str(path))] = path
        except CheckpointError as e:
            assert "KEYSTATE_NO_CHECKPOINT" in str(e)  # nothing is committed yet
            time.sleep(0.2)
    query.stop()
    assert len(saved) > 2, "it was not saved while it ran"
    first, *_, last = sorted(saved)
    for batch in (first, last):
        path = saved[batch]
        assert admin.verify(str(path)) == []
        assert counts(spark, path) == after(batch)
    assert list((fed.checkpoint / "state").rglob("*.pin*")) == [], "they go with the copy"
    # What came after it comes again.
    fed.checkpoint = saved[first]
    fed.run(build)
    assert counts(spark, fed.checkpoint) == after(BATCHES - 1)


def test_of_an_older_version(spark: Any, stream: Callable[[str], Any], tmp_path: Path) -> None:
    fed = stream("key long")
    rows = [(key,) for key in range(KEYS)] * PER_KEY
    fed.feed(*[rows] * 5)
    fed.run(build)
    older = tmp_path / "older"
    assert admin.savepoint(str(fed.checkpoint), str(older), version=3) == 2
    assert counts(spark, older) == after(2)
    assert admin.verify(str(older)) == []
    with pytest.raises(CheckpointError, match="don't have batch 41"):
        admin.savepoint(str(fed.checkpoint), str(tmp_path / "none"), version=42)
    assert not (tmp_path / "none").exists()
    fed.feed(rows)
    fed.checkpoint = older
    fed.run(build)
    assert counts(spark, older) == after(5)
