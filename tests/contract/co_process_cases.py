"""What functions of two keyed inputs do, by co_process_cases.json, which Scala has too."""

from __future__ import annotations

import datetime
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from keystate import (
    CoFlatMapFunction,
    CoMapFunction,
    KeyedCoProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)

FIRST = "key string, number long, time timestamp"
SECOND = "time timestamp, text string, id string"
OUTPUT = "key string, result string"
#: Rows with this key only move the watermark.
CLOCK = "clock"


def at(millis: int | None) -> datetime.datetime | None:
    if millis is None:
        return None
    return datetime.datetime.fromtimestamp(millis / 1000, datetime.timezone.utc)


def one(key: str | None, number: int, millis: int | None = None) -> Any:
    """A row of the first input."""
    return key, number, at(millis)


def two(key: str | None, text: str, millis: int | None = None) -> Any:
    """A row of the second input."""
    return at(millis), text, key


class Querying(KeyedCoProcessFunction):
    """Flink's testTimestampAndWatermarkQuerying, and testGetCurrentKeyFromContext."""

    def process_element1(self, row: Any, ctx: Any) -> Any:
        watermark = ctx.timer_service().current_watermark()
        yield ctx.get_current_key(), f"{row.number} WM:{watermark} TS:{ctx.timestamp()}"

    def process_element2(self, row: Any, ctx: Any) -> Any:
        watermark = ctx.timer_service().current_watermark()
        yield ctx.get_current_key(), f"{row.text} WM:{watermark} TS:{ctx.timestamp()}"


class EventTimers(KeyedCoProcessFunction):
    """Flink's testEventTimeTimers: timers of both inputs fire in one order."""

    def process_element1(self, row: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(row.number)

    def process_element2(self, row: Any, ctx: Any) -> Any:
        for time in row.text.split():
            if time.startswith("-"):
                ctx.timer_service().delete_event_time_timer(int(time[1:]))
            else:
                ctx.timer_service().register_event_time_timer(int(time))

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        assert ctx.timestamp() == timestamp
        yield ctx.get_current_key(), f"{timestamp} {ctx.time_domain().name}"


class TimersWithState(KeyedCoProcessFunction):
    """Flink's testEventTimeTimerWithState: a second element, of either input, takes back."""

    def open(self, ctx: Any) -> None:
        self.seen = ctx.get_state(ValueStateDescriptor("seen", "string"))

    def handle(self, key: str, value: str, ctx: Any, wait: int) -> Any:
        service = ctx.timer_service()
        if self.seen.value() is None:
            self.seen.update(f"{value} {service.current_watermark() + wait}")
            service.register_event_time_timer(service.current_watermark() + wait)
            yield key, f"INPUT:{value}"
        else:
            service.delete_event_time_timer(int(self.seen.value().split()[1]))
            self.seen.clear()

    def process_element1(self, row: Any, ctx: Any) -> Any:
        return self.handle(row.key, str(row.number), ctx, 10)

    def process_element2(self, row: Any, ctx: Any) -> Any:
        return self.handle(row.id, row.text, ctx, 20)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), f"STATE:{self.seen.value().split()[0]}"
        self.seen.clear()


class SharedState(KeyedCoProcessFunction):
    """Every kind of state, written by one input and read by the other, in their order."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "long", default=0))
        self.texts = ctx.get_list_state(ListStateDescriptor("texts", "string"))
        self.both = ctx.get_map_state(MapStateDescriptor("both", "string", "long"))

    def process_element1(self, row: Any, ctx: Any) -> Any:
        self.total.update(self.total.value() + row.number)
        for text in self.texts:
            self.both[text] = self.total.value()
        yield row.key, f"{self.total.value()} {''.join(self.texts)}"

    def process_element2(self, row: Any, ctx: Any) -> Any:
        self.texts.add(row.text)
        yield row.id, f"{row.text} {self.total.value()} {sorted(self.both.items())}"


class SharedMap(CoMapFunction):
    """Flink's CoStreamMapTest, with a count that both inputs share."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def counted(self) -> int:
        self.count.update(self.count.value() + 1)
        return int(self.count.value())

    def map1(self, row: Any) -> Any:
        return row.key, f"{row.number} {self.counted()}"

    def map2(self, row: Any) -> Any:
        return row.id, f"{row.text} {self.counted()}"


class Pairs(CoFlatMapFunction):
    """Flink's CoStreamFlatMapTest: any number of results for each."""

    def flat_map1(self, row: Any) -> Any:
        if row.number % 2 == 0:
            yield row.key, f"{row.number}"
            yield row.key, f"{row.number} again"

    def flat_map2(self, row: Any) -> Any:
        return [(row.id, part) for part in row.text.split()]


@dataclass(frozen=True)
class Batch:
    """A micro-batch.

    Attributes:
        first: rows of the first input.
        second: rows of the second input.
        expected: what is emitted, by key in its order.
        clocks: up to which event times the inputs have come with this batch, in ms.
        late: how many rows are dropped.
    """

    first: list[Any]
    second: list[Any]
    expected: dict[str | None, list[str]]
    clocks: tuple[int | None, int | None] = (None, None)
    late: int = 0


@dataclass(frozen=True)
class Case:
    """Micro-batches of a function."""

    fn: Any
    batches: list[Batch]
    options: dict[str, Any] = field(default_factory=dict)


_FUNCTIONS: dict[str, Any] = {
    fn.__name__: fn
    for fn in (Querying, EventTimers, TimersWithState, SharedState, SharedMap, Pairs)
}


def _batch(first: list[Any], second: list[Any], expected: list[Any], **rest: Any) -> Batch:
    return Batch(
        [one(*row) for row in first], [two(*row) for row in second], dict(expected), **rest
    )


def _case(
    function: str, batches: list[dict[str, Any]], name: str, **options: Any
) -> tuple[str, Case]:
    return name, Case(_FUNCTIONS[function](), [_batch(**batch) for batch in batches], options)


_TABLE = Path(__file__).with_suffix(".json")
CASES: dict[str, Case] = dict(_case(**case) for case in json.loads(_TABLE.read_text())["cases"])


def fed(case: Case) -> list[tuple[list[Any], list[Any]]]:
    """The rows of a case's micro-batches, with those that move the watermark."""
    batches = []
    for batch in case.batches:
        first, second = batch.clocks
        batches.append(
            (
                batch.first + ([] if first is None else [one(CLOCK, 0, first)]),
                batch.second + ([] if second is None else [two(CLOCK, "", second)]),
            )
        )
    return batches


def watermarks(case: Case) -> list[int]:
    """The watermark of each micro-batch: the lesser of the inputs', after the batch before."""
    found, clocks = [], [0, 0]
    for batch in case.batches:
        found.append(min(clocks))
        times = (
            [row[2] for row in batch.first] + [at(batch.clocks[0])],
            [row[0] for row in batch.second] + [at(batch.clocks[1])],
        )
        for i, mine in enumerate(times):
            seen = [round(time.timestamp() * 1000) for time in mine if time is not None]
            clocks[i] = max([clocks[i], *seen])
    return found


def by_key(emitted: list[Any]) -> dict[str | None, list[str]]:
    """What was emitted for each key, in its order."""
    found: dict[str | None, list[str]] = {}
    for key, result in emitted:
        if key != CLOCK:
            found.setdefault(key, []).append(result)
    return found
