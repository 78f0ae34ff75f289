"""Programs of windows that go on by other rules after a restart, with what a model says of them.

``python -m tests.contract.window_rules`` writes some of them to ``window_rules.json``, which Scala
runs too.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.contract.window_model import Model, Rules

SECOND = 1000

#: Assigners as in the table of cases, and their size and slide in the model.
ASSIGNERS: dict[str, tuple[list[Any], int, int]] = {
    "tumbling": (["TumblingEventTimeWindows", 8 * SECOND], 8 * SECOND, 8 * SECOND),
    "sliding": (["SlidingEventTimeWindows", 8 * SECOND, 3 * SECOND], 8 * SECOND, 3 * SECOND),
    "sessions": (["EventTimeSessionWindows", 4 * SECOND], 4 * SECOND, 0),
}

TRIGGERS = [
    Rules(0, "event"),
    Rules(0, "event", 0, True),
    Rules(0, "count", 2),
    Rules(0, "count", 3, True),
    Rules(0, "count", 100),
    Rules(0, "continuous", 2 * SECOND),
    Rules(0, "continuous", 3 * SECOND, True),
]
RULES = [each._replace(lateness=late * SECOND) for late in (0, 2, 6) for each in TRIGGERS]

_END = 10**6


def in_table(rules: Rules) -> dict[str, Any]:
    """Rules as in the table of cases."""
    trigger = {
        "event": ["EventTimeTrigger"],
        "count": ["CountTrigger", rules.limit],
        "continuous": ["ContinuousEventTimeTrigger", rules.limit],
    }[rules.trigger]
    if rules.purging:
        trigger = ["PurgingTrigger", trigger]
    return {"lateness": rules.lateness, "trigger": trigger}


def program(name: str, rules: Sequence[Rules], seed: Any) -> dict[str, Any]:
    """A case of random rows and watermarks, with a restart to each of the rules in turn."""
    chance = random.Random(f"{name} {rules} {seed}")
    assigner, size, slide = ASSIGNERS[name]
    model = Model(size, slide, rules[0])
    steps: list[list[Any]] = []
    watermark, number = 0, 6 + 5 * len(rules)
    restarts = dict(zip(sorted(chance.sample(range(1, number), len(rules) - 1)), rules[1:]))
    for step in range(number):
        if step in restarts:
            model.restart(restarts[step])
            steps.append(["rules", in_table(restarts[step])])
        if chance.random() < 0.6:
            time, value = max(0, watermark + chance.randint(-8, 10) * 500), 1 << step
            steps.append(["row", "a", value, time, *_emitted(model.row(time, value))])
        else:
            watermark += chance.choice([1, 3, 6, 7]) * 500 - chance.randint(0, 1)
            steps.append(["watermark", watermark, *_emitted(model.watermark(watermark))])
    steps.append(["watermark", _END, *_emitted(model.watermark(_END))])
    told = ", then ".join(map(_told, rules))
    late = [["a", *each] for each in model.late]
    case = {"name": f"{name}: {told}", "assigner": assigner, **in_table(rules[0]), "steps": steps}
    return {**case, "late": late} if late else case


def _emitted(fired: list[tuple[int, int, int]]) -> list[Any]:
    return [[["a", *each] for each in fired]] if fired else []


def _told(rules: Rules) -> str:
    trigger = f"{rules.trigger} {rules.limit}" if rules.limit else rules.trigger
    return f"{'purging ' if rules.purging else ''}{trigger}, {rules.lateness} ms"


def _write() -> None:
    chance = random.Random("table")
    cases = [
        program(name, [before, chance.choice(RULES)], 0) for name in ASSIGNERS for before in RULES
    ]
    about = (
        "Windows that are open at a restart go on by its trigger and lateness: random programs as "
        "in window_cases.json, with the results of tests/contract/window_model.py. "
        "python -m tests.contract.window_rules writes it."
    )
    lines = ",\n    ".join(json.dumps(case) for case in cases)
    path = Path(__file__).with_suffix(".json")
    path.write_text(f'{{\n  "about": "{about}",\n  "cases": [\n    {lines}\n  ]\n}}\n')


if __name__ == "__main__":
    _write()
