"""Windows that are due while late rows of their key fire others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keystate
import pytest
from keystate.windows import TumblingEventTimeWindows
from pyspark.sql import functions as F

from tests.contract.window_cases import Sum, at

SCHEMA = "key string, value long, time timestamp"


@pytest.mark.parametrize("kind", ["aggregate", "columns", "list"])
@pytest.mark.parametrize("cached", ["200000", "1"])
@pytest.mark.parametrize("others", [0, 500])
def test_a_window_fires_on_time_beside_a_late_row_of_another_generation(
    stream: Callable[..., Any], settings: Callable[..., None], kind: str, cached: str, others: int
) -> None:
    """Whatever the task has read of the worker's changes by the time that timers fire."""
    settings(
        **{
            "spark.keystate.worker.maxCachedKeys": cached,
            "spark.sql.execution.arrow.maxRecordsPerBatch": "5",
            "spark.sql.shuffle.partitions": "1",
        }
    )
    fed = stream(SCHEMA)
    fed.feed(
        [("z", 0, at(1100))],  # the next watermark passes the first window of a
        [("a", 1, at(500)), ("a", 2, at(1500)), ("z", 0, at(2100))],
        [("a", 4, at(600)), *((f"other {i}" * 2000, 0, at(2300)) for i in range(others))],
        [("z", 0, at(2300))],
    )
    rows = fed.source().withWatermark("time", "0 seconds")
    windows = keystate.keyed(rows, "key").window(TumblingEventTimeWindows.of(1000))
    if kind == "columns":
        made = windows.allowed_lateness(5000).aggregate(F.sum("value").alias("total"))
    elif kind == "aggregate":
        made = windows.allowed_lateness(5000).aggregate(Sum(), "long", "total long")
    else:
        made = windows.process(Listed(), "total long")
    found = [
        sorted(total for total in (row["total"] for row in rows) if total)
        for rows in fed.micro_batches(made)
    ]
    while found[-1] == []:
        found.pop()
    assert found == [[], [1], [2] if kind == "list" else [2, 5]]


class Listed(keystate.windows.ProcessWindowFunction):
    def process(self, key: Any, context: Any, elements: Any) -> Any:
        yield (sum(row.value for row in elements),)
