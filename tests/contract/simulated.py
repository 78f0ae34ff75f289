"""Functions with a bug of each kind that a simulation finds, and some without."""

from __future__ import annotations

import datetime
import random
import time
from typing import Any

import keystate
from keystate import (
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    SortedMapStateDescriptor,
    StateTtlConfig,
    Time,
    ValueStateDescriptor,
)
from keystate.testing import rows_of
from keystate.windows import TumblingEventTimeWindows
from pyspark.sql import DataFrame

ROWS = "key string, value long, at timestamp"
LARGE = OutputTag("large", "key string, value long")


class Sums(KeyedProcessFunction):
    """Without a bug: sums up each minute, and emits when it is over."""

    def open(self, ctx: Any) -> None:
        self.sums = ctx.get_map_state(MapStateDescriptor("sums", "long", "long"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        end = ctx.timestamp() // 60_000 * 60_000 + 60_000
        self.sums[end] = (self.sums.get(end) or 0) + row.value
        ctx.timer_service().register_event_time_timer(end)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), self.sums[timestamp]
        del self.sums[timestamp]


class LastWins(KeyedProcessFunction):
    """Order: the value that came last counts, not the latest one."""

    def open(self, ctx: Any) -> None:
        self.last = ctx.get_state(ValueStateDescriptor("last", "long"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.last.update(row.value)
        ctx.timer_service().register_event_time_timer(10**13)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), self.last.value()


class LatestWins(KeyedProcessFunction):
    """Without a bug: the value of the latest time counts."""

    def open(self, ctx: Any) -> None:
        self.last = ctx.get_state(ValueStateDescriptor("last", "value long, at long"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        last = self.last.value()
        if last is None or (ctx.timestamp(), row.value) > (last.at, last.value):
            self.last.update((row.value, ctx.timestamp()))
        ctx.timer_service().register_event_time_timer(10**13)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), self.last.value().value


class Grows(KeyedProcessFunction):
    """Growth: all ids that were ever seen."""

    def __init__(self, live: int | None = None) -> None:
        self.live = live

    def open(self, ctx: Any) -> None:
        seen = MapStateDescriptor("seen", "long", "boolean")
        if self.live is not None:
            config = StateTtlConfig.new_builder(Time.milliseconds(self.live)).use_event_time()
            seen.enable_time_to_live(config.build())
        self.seen = ctx.get_map_state(seen)

    def process_element(self, row: Any, ctx: Any) -> Any:
        if row.value not in self.seen:
            self.seen[row.value] = True
            yield row.key, row.value


class TimersLeft(KeyedProcessFunction):
    """Growth: each row begins timers that never end."""

    def process_element(self, row: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60_000)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(timestamp + 60_000)


class Counts(KeyedProcessFunction):
    """Attributes: a field holds what must last."""

    def open(self, ctx: Any) -> None:
        self.seen: dict[str, int] = {}

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.seen[row.key] = self.seen.get(row.key, 0) + 1
        yield row.key, self.seen[row.key]


class OfClass(KeyedProcessFunction):
    """Outside: an attribute of the class, which a second attempt finds as the first one left it."""

    total = 0

    def process_element(self, row: Any, ctx: Any) -> Any:
        OfClass.total += 1
        yield row.key, OfClass.total


class ReadsClock(KeyedProcessFunction):
    """Clock: says when it was."""

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.key, time.time_ns()


class LooksAtHour(KeyedProcessFunction):
    """Clock: gives the same nearly always."""

    def process_element(self, row: Any, ctx: Any) -> Any:
        if datetime.datetime.now().year > 1990:
            yield row.key, row.value


class Draws(KeyedProcessFunction):
    """Random: samples."""

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.key, random.randint(0, 10**9)


class BySubtask(KeyedProcessFunction):
    """Subtasks: emits which one it is."""

    def open(self, ctx: Any) -> None:
        self.subtask = ctx.get_index_of_this_subtask()

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.key, self.subtask


class FirstOfBatch(KeyedProcessFunction):
    """Batches: one row is emitted for each micro-batch's time."""

    def open(self, ctx: Any) -> None:
        self.watermark = ctx.get_state(ValueStateDescriptor("watermark", "long"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        now = ctx.timer_service().current_watermark()
        if now != self.watermark.value():
            self.watermark.update(now)
            yield row.key, 1


class Expired(KeyedProcessFunction):
    """Error: takes for granted that what a timer is about has not expired."""

    def open(self, ctx: Any) -> None:
        sums = ValueStateDescriptor("sums", "long")
        sums.enable_time_to_live(StateTtlConfig.new_builder(Time.seconds(60)).build())
        self.sum = ctx.get_state(sums)

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.sum.update((self.sum.value() or 0) + row.value)
        service = ctx.timer_service()
        service.register_processing_time_timer(service.current_processing_time() + 60_000)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), self.sum.value() + 1


class Joins(KeyedCoProcessFunction):
    """Without a bug: pairs, whichever comes first; large ones to a side output too."""

    def open(self, ctx: Any) -> None:
        self.left = ctx.get_list_state(ListStateDescriptor("left", "long"))
        self.right = ctx.get_list_state(ListStateDescriptor("right", "long"))

    def process_element1(self, row: Any, ctx: Any) -> Any:
        yield from self._came(row, self.left, self.right, ctx)

    def process_element2(self, row: Any, ctx: Any) -> Any:
        yield from self._came(row, self.right, self.left, ctx)

    def _came(self, row: Any, mine: Any, theirs: Any, ctx: Any) -> Any:
        mine.add(row.value)
        for other in theirs.get():
            yield row.key, row.value * other
            if row.value * other > 50:
                yield LARGE, (row.key, row.value * other)
        ctx.timer_service().register_event_time_timer(10**13)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        self.left.clear()
        self.right.clear()


class JoinsFirst(Joins):
    """Order: what comes first on the one side is not paired."""

    def process_element1(self, row: Any, ctx: Any) -> Any:
        self.left.add(row.value)


class Sorted(KeyedProcessFunction):
    """Without a bug: buffers by time, and emits in order when the watermark has passed."""

    def open(self, ctx: Any) -> None:
        self.rows = ctx.get_sorted_map_state(
            SortedMapStateDescriptor("rows", "long", "array<long>")
        )
        self.last = ctx.get_state(ValueStateDescriptor("last", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        at = ctx.timestamp()
        self.rows[at] = sorted([*(self.rows.get(at) or []), row.value])
        ctx.timer_service().register_event_time_timer(at)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        while not self.rows.is_empty() and self.rows.first_entry()[0] <= timestamp:
            _, values = self.rows.pop_first()
            for value in values:
                yield ctx.get_current_key(), value - self.last.value()
                self.last.update(value)


def only_large(emitted: list[Any]) -> list[str]:
    """The rows of the side output, without their order."""
    return sorted(repr(row) for row in emitted if row[0] == "large")


def built(fn: Any) -> DataFrame:
    rows = rows_of(ROWS, event_time="at")
    return keystate.keyed(rows, "key").process(fn, "key string, value long")


def last_wins() -> DataFrame:
    return built(LastWins())


def latest_wins() -> DataFrame:
    return built(LatestWins())


def grows() -> DataFrame:
    return built(Grows())


def timers_left() -> DataFrame:
    return built(TimersLeft())


def counts() -> DataFrame:
    return built(Counts())


def of_class() -> DataFrame:
    return built(OfClass())


def reads_clock() -> DataFrame:
    return built(ReadsClock())


def looks_at_hour() -> DataFrame:
    return built(LooksAtHour())


def draws() -> DataFrame:
    return built(Draws())


def by_subtask() -> DataFrame:
    return built(BySubtask())


def first_of_batch() -> DataFrame:
    return built(FirstOfBatch())


def expired() -> DataFrame:
    return built(Expired())


def joined(fn: Any) -> DataFrame:
    one, two = (keystate.keyed(rows_of(ROWS, event_time="at"), "key") for _ in range(2))
    return one.connect(two).process(fn, "key string, value long")


def joins() -> DataFrame:
    return joined(Joins())


def joins_first() -> DataFrame:
    return joined(JoinsFirst())


def windows() -> DataFrame:
    rows = keystate.keyed(rows_of(ROWS, event_time="at"), "key")
    return rows.window(TumblingEventTimeWindows.of(Time.seconds(5))).reduce(
        lambda a, b: (a.key, a.value + b.value, max(a.at, b.at))
    )
