"""Windows by columns are as row by row however a micro-batch is cut into generations of keys."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.contract.generations import run
from tests.contract.test_windows import (
    EventTimeSessionWindows,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    check_one_by_one,
    window,
)
from tests.drawn import drawn


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("lateness", [0, 700])
@pytest.mark.parametrize(
    ("assigner", "kind"),
    [
        (TumblingEventTimeWindows.of(1000), "aggregate"),
        (TumblingEventTimeWindows.of(1000), "list"),
        (SlidingEventTimeWindows.of(1000, 300), "aggregate"),
        (SlidingEventTimeWindows.of(1000, 300), "list"),
        (EventTimeSessionWindows.with_gap(300), "aggregate"),
    ],
    ids=["tumbling", "lists", "sliding", "sliding lists", "sessions"],
)
@pytest.mark.parametrize("seed", drawn("generations of windows", range(40), 2))
@pytest.mark.long
def test_windows_in_generations(
    assigner: Any, lateness: int, kind: str, seed: int, restarts: bool
) -> None:
    """With late rows, restarts from one way to the other, and on other numbers of subtasks."""
    cuts = random.Random(seed)

    def cut(harness: Any) -> None:
        """Has its micro-batches come in generations."""
        job = harness._job
        job.run = lambda rows, elements, clock, before: run(job, cuts, rows, clock, before)

    chance = random.Random(f"{lateness} {seed}")
    windows = window(assigner).allowed_lateness(lateness)
    check_one_by_one(windows, kind, chance, [0, 1, 5, 30], restarts, cut)
