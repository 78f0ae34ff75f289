"""The JVM fires windows of column aggregates as a worker does, in each micro-batch."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import admin, agg
from keystate.windows import (
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)

from tests.contract.aggregated import AGGREGATES, LATE, SCHEMA, at, batch
from tests.drawn import drawn

#: All but those whose results only a worker can tell.
SIMPLE = AGGREGATES[:-2]


def windowed(df: Any, assigner: Any, in_worker: bool, lateness: int = 0, delay: int = 500) -> Any:
    """Where an output of late rows is read, a worker fires."""
    rows = keystate.keyed(df.withWatermark("time", f"{delay} milliseconds"), "key")
    windows = rows.window(assigner).allowed_lateness(lateness).side_output_late_data(LATE)
    made = windows.aggregate(*SIMPLE)
    return made.with_side_outputs(LATE) if in_worker else made


def of_windows(emitted: list[list[Any]], in_worker: bool) -> list[list[tuple[Any, ...]]]:
    """What is emitted in each micro-batch, in an order, without late rows."""
    rows = [[row.main for row in batch if row.main] for batch in emitted] if in_worker else emitted
    return [sorted(map(tuple, batch), key=repr) for batch in rows]


def stored(spark: Any, checkpoint: Path) -> list[list[str]]:
    """What is in the states, and the timers."""
    states = [
        admin.read_state(spark, str(checkpoint), state=name)
        for name in ("window-contents", "$timers")
    ]
    return [sorted(map(repr, state.drop("partition_id").collect())) for state in states]


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize(
    "assigner",
    [TumblingEventTimeWindows.of(1000, 300), SlidingEventTimeWindows.of(1000, 400)],
    ids=["tumbling", "sliding"],
)
@pytest.mark.parametrize("seed", drawn("ended windows", range(20), 1))
def test_as_in_a_worker(
    seed: int,
    assigner: Any,
    backend: str,
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    """With restarts on other partitions, and some by another lateness, which leaves windows."""
    settings(**{"spark.keystate.backend": backend})
    chance, watermark = random.Random(seed), 2000
    fed = {in_worker: stream(SCHEMA) for in_worker in (True, False)}
    emitted = 0
    for lateness in (0, chance.choice([0, 700]), 0):
        settings(**{"spark.sql.shuffle.partitions": str(chance.randint(1, 3))})
        batches = []
        for _ in range(3):
            batches.append([*batch(chance, watermark, 40), ("a", 1, at(watermark + 3000))])
            watermark += chance.randint(500, 4000)
        found = []
        for in_worker, each in fed.items():
            each.feed(*batches)
            made = windowed(each.source(), assigner, in_worker, lateness)
            rows = of_windows(each.micro_batches(made), in_worker)
            found.append((rows, stored(spark, each.checkpoint)))
            emitted += sum(map(len, rows))
        assert found[0] == found[1]
    assert emitted > 40


def test_no_worker_runs_where_no_rows_come(stream: Callable[..., Any]) -> None:
    """The metric of late rows is told all the same."""
    fed = stream(SCHEMA)
    fed.feed([("a", 1, at(0)), ("b", 2, at(500)), ("a", 3, at(9000))])
    made = windowed(fed.source(), TumblingEventTimeWindows.of(1000), False)
    with_rows, without = fed.micro_batches(made)
    assert (len(with_rows), len(without)) == (0, 2)
    first, second = (dict(p.stateOperators[0].customMetrics) for p in fed.progress)
    assert first["keystateWorkerMs"] > 0 and "keystateWorkerMs" not in second
    assert first["numLateRecordsDropped"] == second["numLateRecordsDropped"] == 0


def test_results_of_an_aggregate_that_is_added(stream: Callable[..., Any]) -> None:
    """Windows from before have nothing of it."""
    fed = stream(SCHEMA)

    def run(*aggregates: Any) -> list[Any]:
        rows = keystate.keyed(fed.source().withWatermark("time", "0 seconds"), "key")
        windows = rows.window(TumblingEventTimeWindows.of(1000))
        return [
            tuple(row)[3:]
            for batch in fed.micro_batches(windows.aggregate(*aggregates))
            for row in batch
        ]

    fed.feed([("a", 7, at(0))])
    assert run(agg.sum("value")) == []
    fed.feed([("b", 1, at(5000))])
    found = run(
        agg.count(), agg.avg("value"), agg.max("value"), agg.first("value"), agg.sum("value")
    )
    assert found == [(0, None, None, None, 7)]


def test_fewer_of_the_greatest_values_after_a_restart(stream: Callable[..., Any]) -> None:
    """A window without rows since then has more of them; and null, where they were added."""
    fed = stream(SCHEMA)

    def run(*aggregates: Any) -> list[Any]:
        rows = keystate.keyed(fed.source().withWatermark("time", "0 seconds"), "key")
        windows = rows.window(TumblingEventTimeWindows.of(1000))
        emitted = fed.micro_batches(windows.aggregate(*aggregates))
        return [tuple(row)[3:] for batch in emitted for row in batch]

    def top(n: int, name: str) -> Any:
        return agg.top_n("value", n).alias(name)

    fed.feed([("a", 7, at(0)), ("a", 5, at(0)), ("a", 6, at(1))])
    assert run(top(3, "top")) == []
    fed.feed([("b", 1, at(5000))])
    assert run(top(2, "top"), top(2, "added")) == [([7, 6], [])]


def test_windows_by_another_clock_go_on(
    stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """The timers that are due are by the clock from before: a worker sees to them."""
    settings(**{"spark.sql.shuffle.partitions": "1"})
    by_clock, by_time = TumblingProcessingTimeWindows.of(3000), TumblingEventTimeWindows.of(3000)
    for in_worker in (True, False):
        fed = stream(SCHEMA)
        fed.feed([("a", 1, at(9500)), ("b", 2, at(9500))])
        emitted = fed.micro_batches(windowed(fed.source(), by_clock, in_worker))
        time.sleep(3)
        tomorrow = at(int(time.time() * 1000) + 86_400_000)
        fed.feed([("a", 3, at(9600))], [("c", 4, tomorrow)])
        emitted += fed.micro_batches(windowed(fed.source(), by_time, in_worker))
        rows = itertools.chain(*of_windows(emitted, in_worker))
        assert sorted(row[5] for row in rows) == [1, 2, 3]
