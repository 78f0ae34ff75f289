"""A schedule: micro-batches, and the events before each of them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from keystate._types.canonical import canonical, same


class EventKind(enum.IntEnum):
    """The kinds of events of an operator, from the least to the most severe."""

    #: The worker ends; the next one unpickles the function again.
    WORKER_RESTART = 0
    #: An attempt at the micro-batch runs elsewhere, and what it did is lost.
    LOST_ATTEMPT = 1
    #: The query starts again from an older state, and micro-batches run once more.
    RESTORE = 2
    #: It starts again with another number of subtasks.
    RESCALE = 3


class Event(NamedTuple):
    """An event of an operator before a micro-batch.

    Attributes:
        kind: its kind.
        number: for ``RESTORE`` the number of micro-batches, for ``RESCALE`` that of subtasks.
    """

    kind: EventKind
    number: int = 1


@dataclass(frozen=True)
class Batch:
    """A micro-batch.

    Attributes:
        rows: those of each input.
        watermark: in ms; ``None`` where it stays as it is.
        processing_time: in ms; ``None`` where it stays as it is.
        events: what happens before it.
    """

    rows: tuple[tuple[Any, ...], ...]
    watermark: int | None = None
    processing_time: int | None = None
    events: tuple[Event, ...] = ()


Schedule = tuple[Batch, ...]


def without_events(schedule: Schedule) -> Schedule:
    """The same micro-batches, and nothing happens."""
    return tuple(replace(batch, events=()) for batch in schedule)


@dataclass
class Outcome:
    """The outcome of a schedule.

    Attributes:
        results: the rows that each micro-batch emitted; rows of a side output with its tag's id.
        states: the stored values by the state's name and the key; under ``$timers`` the timers.
        error: the function's error; ``None`` if it did not fail.
    """

    results: list[list[Any]]
    states: dict[tuple[str, Any], Any]
    error: str | None = None

    def difference(self, other: Outcome) -> str | None:
        """How another outcome of the same micro-batches differs; ``None`` if it does not."""
        if self.error != other.error:
            return f"it {_failed(self.error)}, and then it {_failed(other.error)}"
        for i, (mine, theirs) in enumerate(zip(self.results, other.results)):
            if sorted(map(canonical, mine)) != sorted(map(canonical, theirs)):
                return f"micro-batch {i} emits {mine}, and then {theirs}"
        found = self.differing_state(other)
        if found is None:
            return None
        name, key = found
        was, now = self.states.get(found), other.states.get(found)
        return f"{name!r} of key {key!r} is {was!r}, and then {now!r}"

    def differing_state(self, other: Outcome) -> tuple[str, Any] | None:
        """The first state and key that are not the same."""
        for at in {**self.states, **other.states}:
            if not same(self.states.get(at), other.states.get(at)):
                return at
        return None


def _failed(error: str | None) -> str:
    return "does not fail" if error is None else f"fails: {error}"
