"""Timers that are due while rows of their key change them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keystate
import pytest
from keystate import KeyedProcessFunction

from tests.contract.window_cases import at

SCHEMA = "key string, what string, time timestamp"


class Reminder(KeyedProcessFunction):
    """A timer at the tenth second."""

    def process_element(self, row: Any, ctx: Any) -> None:
        timers = ctx.timer_service()
        if row.what == "set":
            timers.register_event_time_timer(10_000)
        elif row.what == "delete":
            timers.delete_event_time_timer(10_000)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), timestamp


@pytest.mark.parametrize("cached", ["200000", "1"])
@pytest.mark.parametrize("others", [0, 500])
def test_deleted_and_set_again_in_the_micro_batch_that_fires_it(
    stream: Callable[..., Any], settings: Callable[..., None], cached: str, others: int
) -> None:
    """Whatever the task has read of the worker's changes by the time that timers fire."""
    settings(
        **{
            "spark.keystate.worker.maxCachedKeys": cached,
            "spark.sql.execution.arrow.maxRecordsPerBatch": "2",
            "spark.sql.shuffle.partitions": "1",
        }
    )
    fed = stream(SCHEMA)
    late = at(60_000_000)
    fed.feed(
        [("ann", "set", at(1_000)), ("bob", "set", at(1_000))],
        [("eve", "", late)],  # the watermark goes to a minute, for the next micro-batch
        [
            ("ann", "delete", late),
            ("bob", "delete", late),
            *((f"other {i}", "", late) for i in range(others)),
            ("ann", "set", late),
        ],
        [("eve", "", late)],
    )
    rows = fed.source().withWatermark("time", "0 seconds")
    fired = keystate.keyed(rows, "key").process(Reminder(), "key string, time long")
    assert list(fed.micro_batches(fired)) == [[], [], [("ann", 10_000)], []]
