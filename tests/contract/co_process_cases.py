"""What functions of two keyed inputs do, as a table of cases.

They are those of Flink's tests of co-process, co-map and co-flat-map operators, with micro-batches
in the place of single elements: a timer fires in the first micro-batch after the one that set it
whose watermark has passed it, after that batch's rows.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
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


CASES: dict[str, Case] = {
    "timestamps and watermark": Case(
        Querying(),
        [
            Batch([one("a", 5, 17)], [two("a", "x", 18)], {"a": ["5 WM:0 TS:17", "x WM:0 TS:18"]}, (17, 18)),
            # The watermark is the lesser one.
            Batch([one("a", 6, 40)], [two("b", "y", 50)], {"a": ["6 WM:17 TS:40"], "b": ["y WM:17 TS:50"]}, (40, 50)),
            Batch([one("b", 7, None)], [two("b", "z", 60)], {"b": ["7 WM:40 TS:None", "z WM:40 TS:60"]}),
        ],
    ),
    "one input lags behind": Case(
        Querying(),
        [
            Batch([one("a", 1, 100)], [two("a", "x", 10)], {"a": ["1 WM:0 TS:100", "x WM:0 TS:10"]}, (100, 10)),
            Batch([one("a", 2, 200)], [], {"a": ["2 WM:10 TS:200"]}, (200, None)),
            # By the watermark of the batch before, 10: what is late of the second is not of the first.
            Batch([one("a", 3, 11)], [two("a", "y", 10), two("a", "z", 11)], {"a": ["3 WM:10 TS:11", "z WM:10 TS:11"]}, (None, 300), 1),
            Batch([one("a", 4, 11)], [], {"a": ["4 WM:200 TS:11"]}),
            Batch([one("a", 5, 200)], [two("a", "v", 201)], {"a": ["v WM:200 TS:201"]}, late=1),
        ],
    ),
    "event time timers": Case(
        EventTimers(),
        [
            Batch([one("a", 17), one("a", 42), one("b", 18)], [two("a", "18 17 41"), two("b", "5 -18")], {}, (17, 20)),
            Batch([], [two("a", "16")], {"a": ["17 EVENT_TIME"], "b": ["5 EVENT_TIME"]}, (42, 41)),
            # Taken back in the batch in which it would fire.
            Batch([], [two("a", "-18")], {"a": ["16 EVENT_TIME", "41 EVENT_TIME"]}, (43, 44)),
            Batch([], [], {"a": ["42 EVENT_TIME"]}),
        ],
    ),
    "event time timers with state": Case(
        TimersWithState(),
        [
            Batch([one("a", 17)], [two("b", "13")], {"a": ["INPUT:17"], "b": ["INPUT:13"]}, (2, 2)),
            # The second element of a key takes back, whichever input it is of.
            Batch([one("b", 42)], [two("c", "x")], {"c": ["INPUT:x"]}, (12, 15)),
            Batch([], [], {"a": ["STATE:17"]}, (22, 22)),
            Batch([one("a", 18)], [two("a", "y")], {"a": ["INPUT:18"], "c": ["STATE:x"]}, (99, 99)),
            Batch([], [], {}),
        ],
    ),
    "state that both share": Case(
        SharedState(),
        [
            # Input 1 before input 2.
            Batch([one("a", 1), one("b", 5)], [two("a", "x"), two("c", "n")], {"a": ["1 ", "x 1 []"], "b": ["5 "], "c": ["n 0 []"]}),
            Batch([one("a", 2)], [two("a", "y"), two("b", "z")], {"a": ["3 x", "y 3 [('x', 3)]"], "b": ["z 5 []"]}),
            Batch([], [two("a", "z")], {"a": ["z 3 [('x', 3)]"]}),
            Batch([one("a", 7)], [], {"a": ["10 xyz"]}),
            Batch([one(None, 1)], [two(None, "null")], {None: ["1 ", "null 1 []"]}),
        ],
    ),
    "by time": Case(
        SharedState(),
        [
            Batch(
                [one("a", 1, 10), one("a", 2, 30), one("b", 9, 5), one("a", 3, 30)],
                [two("a", "x", 20), two("b", "y", 1), two("a", "z", 30), two("a", "early", None)],
                {
                    "a": ["early 0 []", "1 early", "x 1 [('early', 1)]", "3 earlyx", "6 earlyx", "z 6 [('early', 6), ('x', 6)]"],
                    "b": ["y 0 []", "9 y"],
                },
            ),
        ],
        {"ordered_by": "time"},
    ),
    "map": Case(
        SharedMap(),
        [
            Batch([one("a", 1), one("a", 2)], [two("a", "x"), two("b", "y")], {"a": ["1 1", "2 2", "x 3"], "b": ["y 1"]}),
            Batch([one("b", 3)], [two("a", "z")], {"a": ["z 4"], "b": ["3 2"]}),
        ],
    ),
    "flat map": Case(
        Pairs(),
        [Batch([one("a", 1), one("a", 2)], [two("a", "p q"), two("b", "")], {"a": ["2", "2 again", "p", "q"]})],
    ),
}  # fmt: skip
# The lines of the table are long.
# ruff: noqa: E501


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
