"""Queries that end between two micro-batches."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import KeyedProcessFunction, ValueStateDescriptor
from keystate._types.waiting import wait_until

ROUNDS = 4


class Count(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.n = ctx.get_state(ValueStateDescriptor("n", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.n.update(self.n.value() + 1)
        yield row.key, self.n.value()


class Sink:
    """Knows which micro-batches began and which ended."""

    def __init__(self) -> None:
        self.began: list[int] = []
        self.ended: list[int] = []
        self.rows: list[Any] = []

    def __call__(self, df: Any, batch: int) -> None:
        self.began.append(batch)
        rows = df.collect()
        self.rows += rows
        self.ended.append(batch)


def logged(checkpoint: Path, log: str) -> set[int]:
    return {int(path.name) for path in (checkpoint / log).iterdir() if path.name.isdigit()}


@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
def test_nothing_is_cut_off_or_pending(
    checkpoint_format: str,
    spark: Any,
    stream: Callable[[str], Any],
    settings: Callable[..., None],
    running: list[Any],
) -> None:
    """Rows wait all the time, so a next micro-batch would begin at once."""
    settings(**{keystate._jvm.session.FORMAT_KEY: checkpoint_format})
    fed = stream("key string")
    batches = [[(f"key {i}",), ("all",)] for i in range(150)]
    fed.feed(*batches)
    sink = Sink()

    def start() -> Any:
        counts = keystate.keyed(fed.source(), "key").process(Count(), "key string, n long")
        writer = counts.writeStream.foreachBatch(sink)
        query = writer.option("checkpointLocation", str(fed.checkpoint)).start()
        running.append(query)
        return query

    for _ in range(ROUNDS):
        before = len(sink.ended)
        query = start()
        while len(sink.ended) < before + 3:
            assert query.isActive, query.exception()
            time.sleep(0.01)
        assert keystate.stop_after_batch(query)
        assert not query.isActive and query.exception() is None
        assert sink.began == sink.ended == list(range(len(sink.ended)))
        assert logged(fed.checkpoint, "offsets") == logged(fed.checkpoint, "commits")
    # Spark's file source gives the file that it had for the next micro-batch with the one after it.
    keys = [row.key for row in sink.rows if row.n == 1 and row.key != "all"]
    assert sorted(keys) == sorted(f"key {i}" for i in range(len(keys)))
    counts = [row.n for row in sink.rows if row.key == "all"]
    assert sorted(counts) == list(range(1, len(keys) + 1))
    assert len(keys) < len(batches), "rows did not wait"


def test_one_that_is_idle_or_has_ended(
    spark: Any, stream: Callable[[str], Any], running: list[Any]
) -> None:
    fed = stream("key string")
    fed.feed([("ann",)])
    counts = keystate.keyed(fed.source(), "key").process(Count(), "key string, n long")
    writer = counts.writeStream.format("noop")
    query = writer.option("checkpointLocation", str(fed.checkpoint)).start()
    running.append(query)
    query.processAllAvailable()
    assert keystate.stop_after_batch(query, timeout_seconds=20)
    assert not query.isActive
    assert keystate.stop_after_batch(query)


def test_a_micro_batch_that_takes_too_long_is_cut_off(
    spark: Any, stream: Callable[[str], Any], running: list[Any]
) -> None:
    fed = stream("key string")
    fed.feed([("ann",)], [("bob",)])
    begun: list[int] = []

    def sink(df: Any, batch: int) -> None:
        begun.append(batch)
        df.collect()
        if len(begun) == 1:
            time.sleep(3)

    counts = keystate.keyed(fed.source(), "key").process(Count(), "key string, n long")
    writer = counts.writeStream.foreachBatch(sink)
    query = writer.option("checkpointLocation", str(fed.checkpoint)).start()
    running.append(query)
    wait_until(lambda: begun, "a micro-batch")
    assert not keystate.stop_after_batch(query, timeout_seconds=0.2)
    assert not query.isActive
    # It is not held any more: the next start does all of it.
    again = writer.trigger(availableNow=True).start()
    running.append(again)
    again.awaitTermination()
    assert begun == [0, 0, 1]
