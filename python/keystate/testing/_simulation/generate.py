"""Schedules, generated of a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from keystate.functions import TimeDomain
from keystate.testing._base import OperatorHarness
from keystate.testing._simulation.records import Record, beginning
from keystate.testing._simulation.schedule import Batch, Event, EventKind, Schedule
from keystate.testing._simulation.system_under_test import FAR, SystemUnderTest

#: The most rows of a schedule.
MOST = 20
_SIZES = (1, 2, 3, 5, 8, 13, MOST)


def sample(records: Sequence[Record], rng: random.Random) -> list[Record]:
    """Some of the rows, in their order: mostly of a few keys."""
    keys = list(dict.fromkeys(record.key for record in records if record.key is not None))
    chosen = set(rng.sample(keys, min(len(keys), rng.choice((1, 1, 2, 3, len(keys) or 1)))))
    fit = [at for at, record in enumerate(records) if record.key is None or record.key in chosen]
    taken = sorted(rng.sample(fit, min(len(fit), rng.choice(_SIZES))))
    return [records[at] for at in taken]


def arrival_order(
    records: Sequence[Record], partition: Callable[[Record], Any], rng: random.Random
) -> list[int]:
    """An order in which the rows may come: those of an input partition in theirs."""
    waiting: dict[Any, list[int]] = {}
    for at, record in enumerate(records):
        waiting.setdefault(partition(record), []).append(at)
    order = []
    # Some partitions are far ahead of others.
    weights = {name: rng.choice((1, 1, 5, 50)) for name in waiting}
    while waiting:
        names = list(waiting)
        (name,) = rng.choices(names, [weights[each] for each in names])
        order.append(waiting[name].pop(0))
        if not waiting[name]:
            del waiting[name]
    return order


def split(order: Sequence[int], rng: random.Random) -> tuple[tuple[int, ...], ...]:
    """The rows in micro-batches."""
    most = rng.choice((1, 2, 4, len(order) or 1))
    made, at = [], 0
    while at < len(order):
        size = rng.randint(1, most)
        made.append(tuple(order[at : at + size]))
        at += size
    return tuple(made)


def with_events(
    system: SystemUnderTest,
    records: Sequence[Record],
    split: Sequence[Sequence[int]],
    rng: random.Random,
) -> Schedule:
    """Micro-batches at times that are the borders of timers and times to live, with events.

    The schedule ends where the function fails.
    """
    work: list[Sequence[int]] = list(split)
    for _ in range(rng.randint(1, 4)):
        work.insert(rng.randint(min(1, len(work)), len(work)), ())
    run = system.start()
    schedule: list[Batch] = []

    def batches() -> Iterator[Batch]:
        seen = 0
        for places in work:
            chosen = [records[at] for at in places]
            clocks = _clocks(system, run.harness, seen, rng)
            if not schedule:
                clocks["processing_time"] = beginning(records)
            batch = system.batch(chosen, **clocks)
            schedule.append(replace(batch, events=tuple(_events(len(schedule), rng))))
            yield batch
            seen = max([seen, *(one.time // 1000 for one in chosen if one.time is not None)])

    run.outcome(batches())
    return tuple(schedule)


def _clocks(
    system: SystemUnderTest, harness: OperatorHarness, seen: int, rng: random.Random
) -> dict[str, int]:
    """The next times: often a border of something, or just before or after it."""
    now = harness.processing_time
    ends = [now + ttl for ttl in system.ttls]
    clocks = {"processing_time": _next(harness, TimeDomain.PROCESSING_TIME, now, ends, rng)}
    if system.by_event_time:
        watermark = harness.watermark or 0
        ends = [seen, *(watermark + ttl for ttl in system.ttls)]
        clocks["watermark"] = _next(harness, TimeDomain.EVENT_TIME, watermark, ends, rng)
    return clocks


def _next(
    harness: OperatorHarness, domain: TimeDomain, now: int, ends: list[int], rng: random.Random
) -> int:
    times: list[int] = [
        timer.time
        for timer in harness._job.timers
        if timer.domain == domain.value and timer.time < FAR
    ]
    borders = [*rng.sample(times, min(3, len(times))), *ends]
    if not borders or rng.random() < 0.4:
        return now + rng.choice((0, 0, 1, 1000))
    return max(now, rng.choice(borders) + rng.choice((-1, 0, 1)))


def _events(before: int, rng: random.Random) -> list[Event]:
    """Random events of the operator before a micro-batch."""
    if rng.random() < 0.6:
        return []
    kind = rng.choice(list(EventKind))
    if kind is EventKind.RESCALE:
        return [Event(kind, rng.choice((2, 3, 5)))]
    if kind is EventKind.RESTORE:
        return [Event(kind, rng.randint(1, before))] if before else []
    return [Event(kind)]
