"""Makes what fails smaller while it fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from keystate.testing._simulation.schedule import Event, EventKind, Schedule

S = TypeVar("S")
E = TypeVar("E")


def shrunk(
    start: S, smaller: Callable[[S], Iterator[S]], fails: Callable[[S], bool], tries: int = 1000
) -> S:
    """The smallest that is found of what still fails.

    Args:
        start: what fails.
        smaller: what is simpler than something, the simplest first.
        fails: whether something fails.
        tries: how often it is tried.
    """
    found, left = start, tries
    while left:
        for candidate in smaller(found):
            left -= 1
            if fails(candidate):
                found = candidate
                break
            if not left:
                break
        else:
            break
    return found


def without(parts: Sequence[E]) -> Iterator[tuple[E, ...]]:
    """A sequence without some of its parts, first without many."""
    size = len(parts)
    while size:
        for at in range(0, len(parts), size):
            yield (*parts[:at], *parts[at + size :])
        size //= 2


def smaller_schedules(schedule: Schedule) -> Iterator[Schedule]:
    """Schedules with less in them."""
    yield from (fewer for fewer in without(schedule) if fewer)
    for i, batch in enumerate(schedule):

        def put(at: int = i, **changed: object) -> Schedule:
            return (*schedule[:at], replace(schedule[at], **changed), *schedule[at + 1 :])  # type: ignore[arg-type]

        for events in without(batch.events):
            yield put(events=events)
        for at, event in enumerate(batch.events):
            for weaker in _weaker(event):
                yield put(events=(*batch.events[:at], weaker, *batch.events[at + 1 :]))
        for of, rows in enumerate(batch.rows):
            for fewer in without(rows):
                yield put(rows=(*batch.rows[:of], fewer, *batch.rows[of + 1 :]))
        if batch.watermark is not None:
            yield put(watermark=None)
        if batch.processing_time is not None:
            yield put(processing_time=None)


def _weaker(event: Event) -> Iterator[Event]:
    yield from (Event(kind) for kind in EventKind if kind < event.kind)
    least = 2 if event.kind is EventKind.RESCALE else 1
    if event.number > least:
        yield Event(event.kind, least)
