"""Workers that are still at work when their task has ended: nothing of theirs reaches the state."""

from __future__ import annotations

import gc
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    KeyedBroadcastProcessFunction,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from keystate._types.waiting import wait_until

RULES = MapStateDescriptor("rules", "string", "long")
TOTAL = ValueStateDescriptor("total", "long", default=0)
BACKEND = "spark.keystate.backend"


def wait_for(path: Path, seconds: float = 90) -> None:
    wait_until(path.exists, path.name, seconds)


def send_results() -> None:
    """Sends what the worker holds back until it is more: so its task can end early."""
    for written in gc.get_objects():
        if isinstance(written, io.BufferedWriter) and not written.closed:
            written.flush()


class Bonus(KeyedBroadcastProcessFunction):
    """Adds what is broadcast to every total; its first worker is late.

    The late one goes on when the worker of the next attempt has the store, and that one waits until
    the late one has had its answer.
    """

    def __init__(self, folder: Path) -> None:
        self.asleep, self.loaded, self.late = folder / "asleep", folder / "loaded", folder / "late"

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(TOTAL)

    def process_broadcast_element(self, rule: Any, ctx: Any) -> Any:
        if rule.factor == 0:
            return [(-1, 0)]
        first = not self.asleep.exists()
        if not first:
            self.loaded.touch()
            wait_for(self.late)

        def add(key: Any, total: Any) -> None:
            total.update(total.value() + rule.factor)
            if not self.asleep.exists():
                self.asleep.touch()
                send_results()
                wait_for(self.loaded)

        outcome = "it was answered"
        try:
            ctx.apply_to_keyed_state(TOTAL, add)
        except BaseException as e:
            outcome = f"{type(e).__name__}: {e}"
            raise
        finally:
            if first:
                self.late.with_suffix(".part").write_text(outcome)
                self.late.with_suffix(".part").rename(self.late)
        return None

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.total.update(self.total.value() + row.x)
        yield row.key, self.total.value()


def _is_empty(df: Any, folder: Path) -> None:
    assert not df.isEmpty()


def _take(df: Any, folder: Path) -> None:
    assert df.take(1) == [(-1, 0)]


def _limit(df: Any, folder: Path) -> None:
    assert df.limit(1).count() == 1


@pytest.mark.turns
@pytest.mark.parametrize(
    ("first", "backend"),
    [(_is_empty, "hashmap"), (_take, "rocksdb"), (_limit, "hashmap")],
)
def test_a_late_worker_changes_nothing(
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
    tmp_path: Path,
    first: Callable[[Any, Path], None],
    backend: str,
) -> None:
    """A batch is first read in part, by a task whose worker goes on, and then wholly."""
    # With more than one row in a message the first result would come with the last.
    settings(
        **{
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
            BACKEND: backend,
        }
    )
    rows, rules = stream("key long, x long"), stream("factor long")
    rows.feed([(key, 20) for key in range(3)], [(key, 3) for key in range(3)])
    rules.feed([], [(0,), (10,)])
    emitted: list[Any] = []

    def each(df: Any, batch: int) -> None:
        if batch == 1:
            first(df, tmp_path)
        emitted.append(sorted(tuple(row) for row in df.collect() if row.key >= 0))

    source = spark.readStream.schema(rules._schema).option("maxFilesPerTrigger", 1)
    query = (
        keystate.keyed(
            spark.readStream.schema(rows._schema)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(rows._input)),
            "key",
        )
        .connect(keystate.broadcast(source.parquet(str(rules._input)), RULES))
        .process(Bonus(tmp_path), "key long, total long")
        .writeStream.outputMode("append")
        .option("checkpointLocation", str(rows.checkpoint))
        .foreachBatch(each)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    outcome = (tmp_path / "late").read_text()
    assert emitted == [[(0, 20), (1, 20), (2, 20)], [(0, 33), (1, 33), (2, 33)]], outcome
    assert "KeystateError" in outcome and "ended" in outcome
