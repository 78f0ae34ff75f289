"""Stories that are made of a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from keystate.errors import KeystateError
from keystate.functions import TimeDomain
from keystate.testing._base import OperatorHarness
from keystate.testing._simulation.story import Batch, Event, Happening, Story
from keystate.testing._simulation.subject import FAR, Item, Subject

#: The most rows of a life.
MOST = 20
_SIZES = (1, 2, 3, 5, 8, 13, MOST)
#: Where there is no event time to begin with, in ms.
BEGINNING = 1_700_000_000_000


def some(items: Sequence[Item], rng: random.Random) -> list[Item]:
    """Some of the rows, in their order: mostly of a few keys."""
    keys = list(dict.fromkeys(item.key for item in items if item.key is not None))
    chosen = set(rng.sample(keys, min(len(keys), rng.choice((1, 1, 2, 3, len(keys) or 1)))))
    fit = [at for at, item in enumerate(items) if item.key is None or item.key in chosen]
    taken = sorted(rng.sample(fit, min(len(fit), rng.choice(_SIZES))))
    return [items[at] for at in taken]


def arrival(
    items: Sequence[Item], partition: Callable[[Item], Any], rng: random.Random
) -> list[int]:
    """An order in which the rows may come: those of an input partition in theirs."""
    waiting: dict[Any, list[int]] = {}
    for at, item in enumerate(items):
        waiting.setdefault(partition(item), []).append(at)
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


def batches(order: Sequence[int], rng: random.Random) -> list[tuple[int, ...]]:
    """The rows in micro-batches."""
    most = rng.choice((1, 2, 4, len(order) or 1))
    made, at = [], 0
    while at < len(order):
        size = rng.randint(1, most)
        made.append(tuple(order[at : at + size]))
        at += size
    return made


def beginning(items: Sequence[Item]) -> int:
    """The processing time that a story begins with."""
    times = [item.time for item in items if item.time is not None]
    return max(times) // 1000 + 1 if times else BEGINNING


def on_time(subject: Subject, items: Sequence[Item], made: Sequence[Sequence[int]]) -> Story:
    """Micro-batches of rows that are never late: the watermark waits for those that are to come."""
    story: list[Batch] = []
    seen: int | None = None
    watermark = 0
    for i, batch in enumerate(made):
        told: dict[str, int] = {} if i else {"processing_time": beginning(items)}
        if subject.by_event_time and seen is not None:
            waiting = [items[at].time for each in made[i:] for at in each]
            first = min((time for time in waiting if time is not None), default=seen)
            watermark = max(watermark, min(seen // 1000, (first - 1) // 1000))
            told["watermark"] = watermark
        story.append(subject.batch((items[at] for at in batch), **told))
        times = [items[at].time for at in batch]
        seen = max((time for time in [seen, *times] if time is not None), default=None)
    return tuple(story)


def disturbed(
    subject: Subject, items: Sequence[Item], made: Sequence[Sequence[int]], rng: random.Random
) -> Story:
    """Micro-batches at times that are the borders of timers and times to live, with events."""
    harness = subject.start()
    story: list[Batch] = []
    work: list[Sequence[int]] = list(made)
    for _ in range(rng.randint(1, 4)):
        work.insert(rng.randint(min(1, len(work)), len(work)), ())
    seen = 0
    try:
        for batch in work:
            rows = [items[at] for at in batch]
            told = _clocks(subject, harness, seen, rng)
            if not story:
                told["processing_time"] = beginning(items)
            bare = subject.batch(rows, **told)
            events = tuple(_events(len(story), rng))
            story.append(Batch(bare.rows, bare.watermark, bare.processing_time, events))
            seen = max([seen, *(item.time // 1000 for item in rows if item.time is not None)])
            subject.step(harness, bare)
    except KeystateError:
        pass  # the story ends where the function fails
    finally:
        harness.close()
    return tuple(story)


def _clocks(
    subject: Subject, harness: OperatorHarness, seen: int, rng: random.Random
) -> dict[str, int]:
    """The next times: often a border of something, or just before or after it."""
    told = {}
    now = harness.processing_time
    ends = [now + life for life in subject.lives]
    told["processing_time"] = _next(harness, TimeDomain.PROCESSING_TIME, now, ends, rng)
    if subject.by_event_time:
        watermark = harness.watermark or 0
        ends = [seen, *(watermark + life for life in subject.lives)]
        told["watermark"] = _next(harness, TimeDomain.EVENT_TIME, watermark, ends, rng)
    return told


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
    """What befalls the operator before a micro-batch."""
    if rng.random() < 0.6:
        return []
    what = rng.choice(list(Happening))
    if what is Happening.RESCALE:
        return [Event(what, rng.choice((2, 3, 5)))]
    if what is Happening.BACK:
        return [Event(what, rng.randint(1, before))] if before else []
    return [Event(what, 1)]
