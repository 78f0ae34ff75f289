"""The table of behaviour cases over the harness and over every backend of a query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keystate
import pytest
from keystate.testing import KeyedProcessHarness

from tests.contract.behaviour_cases import BATCHES, INPUT, OUTPUT, Interpreter, expected

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
