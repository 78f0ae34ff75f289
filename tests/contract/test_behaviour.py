"""The table of behaviour cases over the harness and over every backend of a query."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate.testing import KeyedProcessHarness
from pyspark.sql import SparkSession

from tests.contract.behaviour_cases import (
    BATCHES,
    INPUT,
    OUTPUT,
    TABLE,
    Interpreter,
    expected,
)
from tests.real_time import MIN_DURATION, Source, lines, needs_real_time, start, wait_for

NOW = 1_700_000_000_000


@pytest.mark.parametrize("parallelism", [1, 4])
def test_harness(parallelism: int) -> None:
    harness = KeyedProcessHarness(
        Interpreter(), INPUT, "name", OUTPUT, event_time="time", parallelism=parallelism
    )
    table = expected()
    for i in range(BATCHES):
        emitted = harness.process_batch(table.rows[i], watermark=100 * i, processing_time=NOW)
        assert sorted(emitted) == sorted(table.results[i])
        # As a restart does, with one subtask more.
        harness = KeyedProcessHarness.restore(
            harness.snapshot(), Interpreter(), parallelism=parallelism + i
        )


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
@pytest.mark.parametrize("inline", ["1000", "0"])
def test_query(
    backend: str, inline: str, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings(**{"spark.keystate.backend": backend, "spark.keystate.worker.inlineEntries": inline})
    table = expected()
    fed = stream(INPUT)
    fed.feed(*table.rows)
    emitted = fed.run(
        lambda df: keystate.keyed(df.withWatermark("time", "0 seconds"), "name").process(
            Interpreter(), OUTPUT
        )
    )
    # What fires tells its watermark, and so its micro-batch.
    assert sorted(map(tuple, emitted)) == sorted(row for batch in table.results for row in batch)


@needs_real_time
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_real_time(
    backend: str, spark: SparkSession, tmp_path: Path, settings: Callable[..., None]
) -> None:
    """The same states. When timers fire is not the same, see test_real_time.py."""
    settings(
        **{
            "spark.keystate.backend": backend,
            "spark.sql.shuffle.partitions": "1",
            MIN_DURATION: "100",
        }
    )
    table = expected()
    source = Source(spark)
    rows = source.rows(INPUT).withWatermark("time", "0 seconds")
    query = start(keystate.keyed(rows, "name").process(Interpreter(), OUTPUT), tmp_path, "1 second")
    given = 0
    try:
        for batch in table.rows:
            source.add((*row[:-1], row[-1].astimezone().isoformat()) for row in batch)
            given += len(batch)
            # One at least ends in between, so that all is stored and read again.
            wait_for(query, lambda: sum(p.numInputRows for p in query.recentProgress) == given)  # noqa: B023
    finally:
        query.stop()
    with_timers = {case["name"] for case in TABLE["cases"] if "fires" in case}
    emitted = [tuple(line) for line in lines(tmp_path / "out")]
    wanted = [row for batch in table.results for row in batch]
    for results in (emitted, wanted):
        results[:] = sorted(row for row in results if row[0] not in with_timers)
    assert len(wanted) > 100
    assert emitted == wanted
