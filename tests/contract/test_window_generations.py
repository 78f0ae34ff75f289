"""Windows by columns are as row by row however a micro-batch is cut into generations of keys."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.contract.generations import run
from tests.contract.test_windows import (
    LATE,
    EventTimeSessionWindows,
    InOrder,
    Keyed,
    KeyedProcessHarness,
    OpenedInOrder,
    OpenedKeyed,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    at,
    harness_of,
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
    chance = random.Random(f"{lateness} {seed}")
    windows = window(assigner).allowed_lateness(lateness).side_output_late_data(LATE)
    if kind == "list":
        functions = [windows.apply(Keyed()), windows.apply(OpenedKeyed())]
    else:
        functions = [
            windows.aggregate(i, "array<string>", Keyed()) for i in (InOrder(), OpenedInOrder())
        ]
    output = "key string, named string, start long"
    cuts = random.Random(seed)

    def cut(harness: Any) -> None:
        """Has its micro-batches come in generations."""
        job = harness._job
        job.run = lambda rows, elements, clock, before: run(job, cuts, rows, clock, before)

    harnesses = [harness_of(f, output, parallelism=2) for f in functions]
    cut(harnesses[0])
    keys = chance.choice(["abc", "abcdefghijklmnopqrst"])
    watermark = 1000
    for n in range(30):
        batch = []
        for _ in range(chance.choice([0, 1, 5, 30])):
            time = max(0, watermark + chance.randint(-1500, 1500))
            batch.append((chance.choice(keys), chance.randint(1, 100), at(time)))
        watermark += chance.randint(0, 800)
        until = watermark if chance.random() < 0.5 else None
        found = [each.process_batch(batch, watermark=until) for each in harnesses]
        one, other = [sorted(rows, key=lambda row: row.key) for rows in found]
        assert one == other, n
        if restarts and chance.random() < 0.1:
            parallelism = chance.randint(1, 3)
            harnesses = [
                KeyedProcessHarness.restore(each.snapshot(), f, parallelism=parallelism)
                for each, f in zip(harnesses, functions[:: chance.choice([1, -1])])
            ]
            cut(harnesses[0])
    for each in harnesses:
        each.advance_watermark(10**6)
        assert each.num_keys == 0
    one, other = [sorted(each.side_output(LATE)) for each in harnesses]
    assert one == other
