"""The same aggregates of a column of longs by Keystate's columns and by a function of rows."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator
from typing import Any

from keystate import AggregateFunction, OutputTag, agg
from keystate.windows import TimeWindow, WindowFunction

SCHEMA = "key string, value long, time timestamp"
LATE = OutputTag("late", SCHEMA)

AGGREGATES = (
    agg.count().alias("n"),
    agg.count("value").alias("known"),
    agg.sum("value").alias("total"),
    agg.min("value").alias("least"),
    agg.max("value").alias("greatest"),
    agg.avg("value").alias("mean"),
    agg.first("value").alias("first"),
    agg.last("value", ignore_nulls=True).alias("last"),
    agg.top_n("value", 2).alias("top"),
    agg.approx_count_distinct("value").alias("different"),
)
RESULTS = (
    "n long, known long, total long, least long, greatest long, mean double, first long, "
    "last long, top array<long>, different long"
)
OUTPUT = f"key string, window_start timestamp, window_end timestamp, {RESULTS}"


def results(values: list[int | None]) -> tuple[Any, ...]:
    """What the aggregates make of these values."""
    known = [value for value in values if value is not None]
    return (
        len(values),
        len(known),
        sum(known) if known else None,
        min(known, default=None),
        max(known, default=None),
        sum(known) / len(known) if known else None,
        values[0],
        known[-1] if known else None,
        sorted(known, reverse=True)[:2],
        len(set(known)),
    )


class ByRow(AggregateFunction[Any, Any, Any]):
    """Keeps all values."""

    def create_accumulator(self) -> list[int | None]:
        return []

    def add(self, value: Any, accumulator: list[int | None]) -> list[int | None]:
        return [*accumulator, value.value]

    def get_result(self, accumulator: list[int | None]) -> list[int | None]:
        return accumulator

    def merge(self, acc_a: list[int | None], acc_b: list[int | None]) -> list[int | None]:
        return acc_a + acc_b


class Count(AggregateFunction[Any, Any, Any]):
    """Its accumulator is that of columns."""

    def create_accumulator(self) -> Any:
        return (0,)

    def add(self, value: Any, accumulator: Any) -> Any:
        return (accumulator[0] + 1,)

    def get_result(self, accumulator: Any) -> Any:
        return accumulator[0]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return (acc_a[0] + acc_b[0],)


class OpenedCount(Count):
    """It is given rows one by one."""

    def open(self, ctx: Any) -> None:
        pass


class WithWindow(WindowFunction):
    def apply(self, key: Any, window: Any, inputs: Any) -> Iterator[Any]:
        assert isinstance(window, TimeWindow)
        for values in inputs:
            yield (key, at(window.start), at(window.end), *results(values))


def by_columns(windows: Any) -> Any:
    return windows.aggregate(*AGGREGATES)


def by_rows(windows: Any) -> Any:
    return windows.aggregate(ByRow(), "array<long>", OUTPUT, WithWindow())


def at(millis: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(millis / 1000)


def batch(chance: random.Random, watermark: int, most: int = 20) -> list[Any]:
    """Rows around a watermark, some of which are late, and some of which are null."""
    return [
        (
            chance.choice(["a", "b", "c", "d", None]),
            chance.choice([None, chance.randint(-50, 50), chance.randint(-50, 50)]),
            at(watermark + chance.randint(-1500, 3000)),
        )
        for _ in range(chance.randint(0, most))
    ]


class NumberAndFirst(AggregateFunction[Any, Any, Any]):
    """Has an accumulator of which the first value is stored alone."""

    def create_accumulator(self) -> tuple[int, int | None]:
        return 0, None

    def add(self, value: Any, accumulator: tuple[int, int | None]) -> tuple[int, int | None]:
        n, first = accumulator
        return n + 1, first if n else value.value

    def get_result(self, accumulator: tuple[int, int | None]) -> tuple[int, int | None]:
        return accumulator
