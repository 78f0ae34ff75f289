"""Windows that are open at a restart go on by the new trigger and lateness: against a model."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from keystate.testing import KeyedProcessHarness
from keystate.windows import (
    ContinuousEventTimeTrigger,
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    NeverTrigger,
    PurgingTrigger,
    SlidingEventTimeWindows,
    Trigger,
    TumblingEventTimeWindows,
    window,
)

from tests.contract.test_windows import harness_of
from tests.contract.window_cases import by_aggregate, by_list, by_reduce
from tests.contract.window_model import Model, Rules

SECOND = 1000

#: Assigners, and their size and slide in the model.
ASSIGNERS: dict[str, tuple[Any, int, int]] = {
    "tumbling": (TumblingEventTimeWindows.of(8 * SECOND), 8 * SECOND, 8 * SECOND),
    "sliding": (SlidingEventTimeWindows.of(8 * SECOND, 3 * SECOND), 8 * SECOND, 3 * SECOND),
    "sessions": (EventTimeSessionWindows.with_gap(4 * SECOND), 4 * SECOND, 0),
}
BUILDS = [by_aggregate, by_list, by_reduce]

RULES = [
    Rules(lateness * SECOND, *trigger)
    for lateness in (0, 2, 6)
    for trigger in (
        ("event",),
        ("event", 0, True),
        ("count", 2),
        ("count", 3, True),
        ("count", 100),
        ("continuous", 2 * SECOND),
        ("continuous", 3 * SECOND, True),
    )
] + [Rules(2 * SECOND, "never")]


def trigger_of(rules: Rules) -> Trigger:
    made: dict[str, Callable[[], Trigger]] = {
        "event": EventTimeTrigger.create,
        "count": lambda: CountTrigger.of(rules.limit),
        "continuous": lambda: ContinuousEventTimeTrigger.of(rules.limit),
        "never": NeverTrigger,
    }
    trigger = made[rules.trigger]()
    return PurgingTrigger.of(trigger) if rules.purging else trigger


def built(assigner: Any, rules: Rules, build: Callable[[Any], Any]) -> Any:
    return build(
        window(assigner).trigger(trigger_of(rules)).allowed_lateness(rules.lateness)
    )


def check(name: str, rules: list[Rules], build: Callable[[Any], Any], seed: str) -> None:
    """Runs random rows and watermarks, with a restart to each of the rules in turn."""
    chance = random.Random(seed)
    assigner, size, slide = ASSIGNERS[name]
    harness = harness_of(built(assigner, rules[0], build))
    model = Model(size, slide, rules[0])
    told: list[str] = []
    watermark, steps = 0, 5 + 5 * len(rules)
    restarts = dict(zip(sorted(chance.sample(range(1, steps), len(rules) - 1)), rules[1:]))
    for step in range(steps):
        if step in restarts:
            told.append(f"{restarts[step]}")
            harness = KeyedProcessHarness.restore(
                harness.snapshot(), built(assigner, restarts[step], build)
            )
            model.restart(restarts[step])
        if chance.random() < 0.6:
            time = max(0, watermark + chance.randint(-8, 10) * 500)
            told.append(f"row {1 << step} at {time}")
            found = harness.process(("a", 1 << step, None), time)
            expected = model.row(time, 1 << step)
        else:
            watermark += chance.choice([1, 3, 6, 7]) * 500 - chance.randint(0, 1)
            told.append(f"watermark {watermark}")
            found = harness.advance_watermark(watermark)
            expected = model.watermark(watermark)
        told.append(f"    {expected}")
        assert sorted(row[1:] for row in found) == sorted(expected), (rules[0], "\n".join(told))
    found = harness.advance_watermark(10**6)
    assert sorted(row[1:] for row in found) == sorted(model.watermark(10**6)), "\n".join(told)
    assert harness.num_keys == 0, "\n".join(told)


@pytest.mark.parametrize("after", RULES, ids=str)
@pytest.mark.parametrize("name", ASSIGNERS)
def test_new_rules(name: str, after: Rules) -> None:
    for number, before in enumerate(RULES):
        check(name, [before, after], BUILDS[number % 3], f"{name} {before} {after}")
