"""Timers of batch queries: all fire once the input has ended, in the function as it was opened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    SortedMapStateDescriptor,
    ValueStateDescriptor,
)

ROWS = "key long, value long"
OUTPUT = "key long, time long, list array<long>, map array<long>, sorted array<long>"


class Countdown(KeyedProcessFunction):
    """Each timer sets the next one, until the key's value has come down to nothing."""

    def __init__(self, log: Path) -> None:
        self.log = log

    def note(self, what: str) -> None:
        with self.log.open("a") as file:
            file.write(what + "\n")

    def open(self, ctx: Any) -> None:
        self.note("open")
        self.value = ctx.get_state(ValueStateDescriptor("value", "long", default=0))
        self.list = ctx.get_list_state(ListStateDescriptor("list", "long"))
        self.map = ctx.get_map_state(MapStateDescriptor("map", "long", "long"))
        self.sorted = ctx.get_sorted_map_state(SortedMapStateDescriptor("sorted", "long", "long"))

    def process_element(self, row: Any, ctx: Any) -> None:
        self.value.update(self.value.value() + row.value)
        self.keep(row.value)
        service = ctx.timer_service()
        service.register_event_time_timer(1)
        service.register_event_time_timer(10**6)
        service.delete_event_time_timer(10**6)

    def keep(self, number: int) -> None:
        self.list.add(number)
        self.map[number] = number
        self.sorted[-number] = number
        self.map.remove(number - 2)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        assert ctx.timer_service().current_watermark() == 2**63 - 1
        yield (
            ctx.get_current_key(),
            timestamp,
            list(self.list),
            sorted(self.map.values()),
            list(self.sorted.values()),
        )
        left = self.value.value() - 1
        self.value.update(left)
        if left > 0:
            self.keep(100 + timestamp)
            ctx.timer_service().register_event_time_timer(timestamp + 1)
            ctx.timer_service().register_processing_time_timer(timestamp + 1)

    def close(self) -> None:
        self.note("close")


def expected(key: int, value: int) -> list[tuple[Any, ...]]:
    """What a countdown emits of a key with two rows: one of 1, and one of `value`."""
    kept, fired = [1, value], []
    entries: dict[int, int] = {1: 1}
    entries[value] = value
    entries.pop(value - 2, None)
    left, due = value + 1, [1]
    while due:
        following = []
        for time in due:
            ordered = sorted(set(kept), reverse=True)
            fired.append((key, time, list(kept), sorted(entries), ordered))
            left -= 1
            if left > 0:
                kept.append(100 + time)
                entries[100 + time] = 100 + time
                entries.pop(98 + time, None)
                following.append(time + 1)
        # By event time and by processing time; setting one twice is setting it once.
        due = sorted([*set(following), *set(following)])
    return fired


@pytest.mark.parametrize("cached", ["200000", "20"])
@pytest.mark.parametrize("inline", ["1000", "0"])
def test_a_task_opens_its_function_once(
    spark: Any, settings: Callable[..., None], tmp_path: Path, cached: str, inline: str
) -> None:
    settings(
        **{
            "spark.keystate.worker.maxCachedKeys": cached,
            "spark.keystate.worker.inlineEntries": inline,
            "spark.sql.execution.arrow.maxRecordsPerBatch": "30",
        }
    )
    rows = [(key, value) for key in range(100) for value in (1, key % 7 + 3)]
    log = tmp_path / "log"
    df = spark.createDataFrame(rows, ROWS).coalesce(1)
    found = keystate.keyed(df, "key").process(Countdown(log), OUTPUT).collect()
    by_key: dict[int, list[tuple[Any, ...]]] = {}
    for row in found:
        by_key.setdefault(row.key, []).append(tuple(row))
    for key in range(100):
        assert by_key[key] == expected(key, key % 7 + 3)
    # Once on the driver, to learn the states, and once in the task.
    assert log.read_text().split() == ["open", "close"] * 2


def test_a_task_may_end_early(spark: Any, tmp_path: Path) -> None:
    log = tmp_path / "log"
    df = spark.createDataFrame([(key, 3) for key in range(100)], ROWS).coalesce(1)
    out = keystate.keyed(df, "key").process(Countdown(log), OUTPUT)
    assert len(out.limit(3).collect()) == 3
    assert len(out.collect()) > 100


class Fees(KeyedBroadcastProcessFunction):
    def open(self, ctx: Any) -> None:
        self.sum = ctx.get_state(ValueStateDescriptor("sum", "long", default=0))

    def process_broadcast_element(self, row: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(FEES)[row.key] = row.value

    def process_element(self, row: Any, ctx: Any) -> None:
        self.sum.update(self.sum.value() + row.value)
        ctx.timer_service().register_event_time_timer(1)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        if timestamp < 3:
            ctx.timer_service().register_event_time_timer(timestamp + 1)
        self.sum.update(self.sum.value() + ctx.get_broadcast_state(FEES)[timestamp])
        yield ctx.get_current_key(), self.sum.value()


FEES = MapStateDescriptor("fees", "long", "long")


def test_broadcast_state_is_there_for_all_timers(spark: Any) -> None:
    df = spark.createDataFrame([(1, 5), (2, 7)], ROWS).coalesce(1)
    fees = spark.createDataFrame([(1, 10), (2, 100), (3, 1000)], ROWS)
    connected = keystate.keyed(df, "key").connect(keystate.broadcast(fees, FEES))
    found = connected.process(Fees(), ROWS).collect()
    assert sorted(map(tuple, found)) == [
        (1, 15), (1, 115), (1, 1115), (2, 17), (2, 117), (2, 1117)
    ]  # fmt: skip
