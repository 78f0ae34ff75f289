"""Replays of a query with numbers that do not equal themselves: nothing is different.

Each micro-batch is replayed for all keys, twice, and written as a test, which is run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keystate
from keystate import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from pyspark.sql import DataFrame

from tests.fuzz.values import _DOUBLES

INPUT = "k bigint, x double, xs array<double>, of struct<a:double,b:array<struct<c:double>>>"
OUTPUT = "k bigint, x double, sum double, xs array<double>"

Row = tuple[int, float | None, list[float | None] | None, Any]


@dataclass(frozen=True)
class Program:
    batches: tuple[tuple[Row, ...], ...]

    def describe(self) -> str:
        return "\n  ".join(map(str, self.batches))


def generate(rng: random.Random) -> Program:
    def number() -> float | None:
        return None if rng.random() < 0.1 else rng.choice((*_DOUBLES, -0.0, float("nan")))

    def row() -> Row:
        numbers = [number() for _ in range(rng.randint(0, 3))]
        return rng.randrange(3), number(), numbers, (number(), [(number(),)])

    batches = (tuple(row() for _ in range(rng.randint(1, 6))) for _ in range(rng.randint(1, 3)))
    return Program(tuple(batches))


class Sum(AggregateFunction[Any, Any, Any]):
    """Its accumulator has what is no number too."""

    def create_accumulator(self) -> list[float]:
        return [0.0]

    def add(self, value: float | None, accumulator: list[float]) -> list[float]:
        return [accumulator[0] + (value or 0.0)]

    def get_result(self, accumulator: list[float]) -> float:
        return accumulator[0]


def least(a: Any, b: Any) -> Any:
    return b if a is None or (b is not None and b < a) else a


class Numbers(KeyedProcessFunction):
    """Keeps what it is given in a state of each kind."""

    def open(self, ctx: Any) -> None:
        self.value = ctx.get_state(ValueStateDescriptor("value", "double"))
        self.whole = ctx.get_state(
            ValueStateDescriptor("whole", "a double, b array<struct<c:double>>")
        )
        self.list = ctx.get_list_state(ListStateDescriptor("list", "array<double>"))
        self.map = ctx.get_map_state(MapStateDescriptor("map", "double", "double"))
        self.least = ctx.get_reducing_state(ReducingStateDescriptor("least", least, "double"))
        self.sum = ctx.get_aggregating_state(
            AggregatingStateDescriptor("sum", Sum(), "array<double>")
        )

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.value.update(row.x)
        self.whole.update(row.of)
        self.list.add(row.xs)
        if row.x is not None:
            self.map.put(row.x, row.x)
            self.least.add(row.x)
        self.sum.add(row.x)
        yield row.k, row.x, self.sum.get(), row.xs


def build(df: DataFrame) -> DataFrame:
    return keystate.keyed(df, "k").process(Numbers(), OUTPUT)


def differences(
    program: Program, stream: Any, folder: Path, counted: Callable[[], None]
) -> Iterator[str]:
    """What replays of a query that has run tell as different."""
    query, checkpoint = build(stream.source()), str(stream.checkpoint)
    for batch, rows in enumerate(program.batches):
        once, again = (keystate.replay(query, checkpoint, batch=batch) for _ in range(2))
        yield from differs(once, f"batch {batch}")
        for key in {row[0] for row in rows}:
            counted()
            if (first := once[key].first_difference(again[key])) is not None:
                yield f"batch {batch}, key {key}: two replays differ first in {first}"
            test = folder / f"test_{batch}_{key}.py"
            once[key].as_test(str(test))
            names: dict[str, Any] = {}
            exec(test.read_text(), names)
            try:
                names[f"test_batch_{batch}"]()
            except AssertionError as e:
                yield f"batch {batch}, key {key}: the test fails: {e}"


def differs(replays: Any, what: str) -> Iterator[str]:
    if not replays.same:
        yield f"{what}, a replay: {replays.verdict()}"
