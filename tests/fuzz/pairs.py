"""Two operators by event time, one behind the other, and a plain model of both.

Rows come out of order and behind the watermark of their own micro-batch. Whatever the first
operator takes in, the second one has, and it fires once.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keystate
from keystate import (
    AggregateFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
)
from keystate.windows import (
    EventTimeSessionWindows,
    ProcessWindowFunction,
    TumblingEventTimeWindows,
    with_window_time,
)
from pyspark.sql import functions as F

from tests.contract.window_cases import at

SCHEMA = "key string, value long, time timestamp"
RESULT = "key string, n long, time timestamp"
FIRST, SECOND, GAP = 1000, 5000, 300
#: The key of the rows that come last.
END = "end"


class Count(AggregateFunction):
    def create_accumulator(self) -> int:
        return 0

    def add(self, value: Any, accumulator: int) -> int:
        return accumulator + value.value

    def get_result(self, accumulator: int) -> int:
        return accumulator

    def merge(self, acc_a: int, acc_b: int) -> int:
        return acc_a + acc_b


class Last(ProcessWindowFunction):
    """Emits with the last millisecond of the window."""

    def process(self, key: Any, context: Any, elements: Any) -> Any:
        n = sum(each if isinstance(each, int) else each.value for each in elements)
        yield key, n, at(context.window().max_timestamp())


class ByTimer(KeyedProcessFunction):
    """Windows by timers at their ends."""

    size, column = FIRST, "value"

    def open(self, ctx: Any) -> None:
        self.counts = ctx.get_map_state(MapStateDescriptor("counts", "long", "long"))

    def process_element(self, row: Any, ctx: Any) -> None:
        end = ctx.timestamp() // self.size * self.size + self.size - 1
        self.counts[end] = (self.counts.get(end) or 0) + row[self.column]
        ctx.timer_service().register_event_time_timer(end)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), self.counts.get(timestamp), at(timestamp)
        self.counts.remove(timestamp)


class OfTwo(ByTimer, KeyedCoProcessFunction):
    """The same of two inputs."""

    def process_element1(self, row: Any, ctx: Any) -> None:
        self.process_element(row, ctx)

    def process_element2(self, row: Any, ctx: Any) -> None:
        self.process_element(row, ctx)


def tumbling(rows: Any) -> Any:
    return keystate.keyed(rows, "key").window(TumblingEventTimeWindows.of(FIRST))


def of_two(rows: Any) -> Any:
    even = F.col("value") % 2 == 0
    sides = (keystate.keyed(rows.where(side), "key") for side in (even, ~even))
    first, second = sides
    return first.connect(second).process(OfTwo(), RESULT)


def of_columns(windows: Any) -> Any:
    return with_window_time(windows.aggregate(F.sum("value").alias("n")))


#: By name what it makes of rows.
BEFORE: dict[str, Callable[[Any], Any]] = {
    "columns": lambda rows: of_columns(tumbling(rows)),
    "aggregate": lambda rows: tumbling(rows).aggregate(Count(), "long", RESULT, Last()),
    "process": lambda rows: tumbling(rows).process(Last(), RESULT),
    "sessions": lambda rows: of_columns(
        keystate.keyed(rows, "key").window(EventTimeSessionWindows.with_gap(GAP))
    ),
    "timers": lambda rows: keystate.keyed(rows, "key").process(ByTimer(), RESULT),
    "two inputs": of_two,
}


class Kept(ByTimer):
    """Windows of the second size by timers."""

    size, column = SECOND, "n"

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        for key, n, _ in super().on_timer(timestamp, ctx):
            yield key, timestamp - SECOND + 1, n


def by_spark(rows: Any) -> Any:
    window = F.window("time", f"{SECOND} milliseconds")
    summed = rows.groupBy("key", window).agg(F.sum("n").alias("n"))
    return summed.select("key", F.unix_millis("window.start").alias("start"), "n")


AFTER: dict[str, Callable[[Any], Any]] = {
    "windows": lambda rows: (
        keystate.keyed(rows, "key")
        .window(TumblingEventTimeWindows.of(SECOND))
        .aggregate(F.sum("n").alias("n"))
        .select("key", F.unix_millis("window_start").alias("start"), "n")
    ),
    "process": lambda rows: keystate.keyed(rows, "key").process(
        Kept(), "key string, start long, n long"
    ),
    "Spark": by_spark,
}


#: A micro-batch: key, value and time in ms of each row.
Batch = list[tuple[str, int, int]]
#: What the second operator makes of each key and window, without those of the rows that come last.
Emitted = Counter[tuple[str, int]]


@dataclass(frozen=True)
class Program:
    """Which operators, and the micro-batches."""

    before: str
    after: str
    batches: list[Batch]

    def describe(self) -> str:
        return "\n  ".join([f"{self.before}, then {self.after}", *map(str, self.batches)])


def generate(rng: random.Random, before: str | None = None, after: str | None = None) -> Program:
    before, after = before or rng.choice([*BEFORE]), after or rng.choice([*AFTER])
    return Program(before, after, _batches(rng))


def _batches(rng: random.Random) -> list[Batch]:
    """The watermark leaps now and then."""
    now, batches = 10_000, []
    for _ in range(8):
        rows = []
        for _ in range(30):
            time = now + rng.randint(-6000, 3000)
            rows.append((f"k{rng.randrange(12)}", rng.randint(1, 9), time))
        now += rng.choice([1000, 2000, 9000])
        batches.append(rows)
    # The watermark of a micro-batch is of those before it: so all fires but these.
    return [*batches, *([(END, 0, now * 10**k)] for k in (2, 3, 4))]


def build(program: Program, rows: Any) -> Any:
    """The query of rows that have a watermark without delay."""
    return AFTER[program.after](BEFORE[program.before](rows))


def emitted(found: list[Any]) -> Emitted:
    """What the rows that a query has emitted say."""
    summed = Counter[tuple[str, int]]()
    for key, start, n in found:
        if (key, start) in summed:
            raise AssertionError(f"the window of {key} at {start} fired more than once")
        if key != END:
            summed[key, start] = n
    return summed


def size(results: Emitted) -> int:
    return len(results)


def restarts(program: Program) -> int:
    return 0


def differences(wanted: Emitted, got: Emitted) -> list[str]:
    return [
        f"{key}: wanted {wanted[key]}, found {got[key]}"
        for key in sorted({*wanted, *got})
        if wanted[key] != got[key]
    ]


def expected(program: Program) -> Emitted:
    """What the first operator takes in, by key and window of the second."""
    late, watermark, counted = 0, 0, Counter[tuple[str, int]]()
    sessions: dict[str, list[list[int]]] = {}
    for rows in program.batches:
        for key, value, time in rows:
            end = time // FIRST * FIRST + FIRST - 1
            if program.before == "sessions":
                _meet(sessions.setdefault(key, []), value, time, late)
            elif (time if program.before in ("timers", "two inputs") else end) > late:
                counted[key, time // SECOND * SECOND] += value
        # What was the watermark of this micro-batch is that by which rows of the next are late.
        late, watermark = watermark, max([watermark, *(time for *_, time in rows)])
        for key, mine in sessions.items():
            for each in [s for s in mine if s[1] - 1 <= late]:
                mine.remove(each)
                counted[key, (each[1] - 1) // SECOND * SECOND] += each[2]
    return Counter({key: n for key, n in counted.items() if key[0] != END})


def _meet(mine: list[list[int]], value: int, time: int, late: int) -> None:
    """Adds a row to a key's sessions: start, end and total of each."""
    new = [time, time + GAP, value]
    met = [each for each in mine if each[0] <= new[1] and new[0] <= each[1]]
    if not met and new[1] - 1 <= late:
        return
    for each in met:
        mine.remove(each)
    together = [*met, new]
    mine.append(
        [
            min(each[0] for each in together),
            max(each[1] for each in together),
            sum(each[2] for each in together),
        ]
    )
