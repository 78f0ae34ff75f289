"""Operators in a row, which may stand in another order after a restart.

Each adds a column of its own: what it makes of the rows of a key so far. So the results are the
same in every order, if each operator has its own state. A query may also refuse to start.
"""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

from keystate import KeyedProcessFunction, ValueStateDescriptor

ROW = "k bigint, i bigint, total bigint, count bigint, last array<bigint>"
NAMES = ("total", "count", "last")
#: Begins the text of an error that says that operators have changed their places.
REFUSED = "KEYSTATE_"

Row = tuple[int, int]
Emitted = list[tuple[int, int, int, tuple[int, ...]]]


class Link(KeyedProcessFunction):
    def __init__(self, name: str) -> None:
        self._name = name

    def open(self, runtime_context: Any) -> None:
        kind = "array<bigint>" if self._name == "last" else "bigint"
        self._state: Any = runtime_context.get_state(ValueStateDescriptor(self._name, kind))

    def process_element(self, value: Any, ctx: Any) -> Any:
        held = self._state.value()
        if self._name == "last":
            held = [*(held or []), value.i][-3:]
        else:
            held = (held or 0) + (value.i if self._name == "total" else 1)
        self._state.update(held)
        yield {**value.asDict(), self._name: held}


@dataclass(frozen=True)
class Program:
    """The operators of each run, and its micro-batches."""

    orders: tuple[tuple[str, ...], ...]
    runs: tuple[tuple[tuple[Row, ...], ...], ...]

    def describe(self) -> str:
        return "\n  ".join(map(str, zip(self.orders, self.runs)))


def generate(rng: random.Random) -> Program:
    order, orders, runs, i = rng.sample(NAMES, 3), [], [], 0
    for _ in range(rng.randint(2, 3)):
        batches = []
        for _ in range(rng.randint(1, 3)):
            batches.append(tuple((rng.randrange(3), i + n) for n in range(rng.randint(1, 5))))
            i += 5
        orders.append(tuple(order))
        runs.append(tuple(batches))
        if rng.random() < 0.5:
            rng.shuffle(order)
    return Program(tuple(orders), tuple(runs))


def expected(program: Program) -> Emitted:
    seen: dict[int, list[int]] = defaultdict(list)
    emitted = []
    for run in program.runs:
        for key, i in (row for batch in run for row in batch):
            seen[key].append(i)
            emitted.append((i, sum(seen[key]), len(seen[key]), tuple(seen[key][-3:])))
    return emitted


def size(results: Emitted) -> int:
    return len(results)


def restarts(program: Program) -> int:
    return len(program.runs) - 1


def differences(wanted: Emitted, got: Emitted) -> list[str]:
    """What is wrong in what was emitted, if need be before the query was refused."""
    wrong = [each for each in got if each not in wanted]
    return [f"found {wrong[:4]}"] if wrong else []
