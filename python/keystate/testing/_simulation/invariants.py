"""Invariants that must hold for an operator in every schedule."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from keystate._types.canonical import canonical, same
from keystate.testing._clocks import CLOCK, RANDOM, noticed
from keystate.testing._simulation.records import Record
from keystate.testing._simulation.schedule import EventKind, Outcome, Schedule, without_events
from keystate.testing._simulation.shrink import shrunk, smaller_schedules, without
from keystate.testing._simulation.system_under_test import SystemUnderTest

Results = Callable[[list[Any]], Any]
#: The places of the rows in each micro-batch.
Split = tuple[tuple[int, ...], ...]

_NOT_EACH_TIME = "not the same each time"

#: The invariant that an event tests.
_OF_EVENT = {
    EventKind.WORKER_RESTART: "attributes",
    EventKind.LOST_ATTEMPT: "outside",
    EventKind.RESTORE: "outside",
    EventKind.RESCALE: "subtasks",
}

#: By name what must hold, and what is said where it does not.
INVARIANTS = {
    "clock": "the function reads a clock: a micro-batch that runs again sees another time",
    "random": "the function draws random numbers: a micro-batch that runs again draws others",
    "outside": "a micro-batch that runs again gives something else: the function depends on "
    "something outside of its states, as an attribute of its class, a module or a service",
    "attributes": "the results depend on what the function holds in its attributes, which is lost "
    "when a worker ends: what must last belongs in a state",
    "subtasks": "the results depend on the number of subtasks",
    "batches": "the results depend on how rows are spread over micro-batches",
    "order": "the results depend on the order in which the rows of different input partitions come",
    "growth": "state grows without bound though the keys stay the same",
    "error": "the function fails",
    "old state": "state of an earlier time can't be gone on from",
}


@dataclass(frozen=True)
class Finding:
    """Something that does not hold.

    Attributes:
        invariant: its name.
        difference: what is different, or what the function failed with.
        schedules: the smallest that show it: one that fails or grows, or two that differ.
        state: the state and key that differ where results do not.
    """

    invariant: str
    difference: str
    schedules: tuple[Schedule, ...]
    state: tuple[str, Any] | None = None


# -- the same micro-batches, with events ---------------------------------------------------------


def hold_with_events(system: SystemUnderTest, schedule: Schedule) -> Finding | None:
    """Whether an operator gives the same whatever happens to it."""
    calm = without_events(schedule)
    outcome = system.run(calm)
    if outcome.error is not None:
        return failing(system, calm)
    if outcome.difference(system.run(schedule)) is None:
        return None
    least = shrunk(schedule, smaller_schedules, lambda one: _difference(system, one) is not None)
    calm = without_events(least)
    difference = _difference(system, least) or _NOT_EACH_TIME
    kinds = [event.kind for batch in least for event in batch.events]
    name = _OF_EVENT[max(kinds)] if kinds else "outside"
    if name == "outside" and (read := _reads(system, calm)) is not None:
        name, difference = read[0], f"{read[1]}; {difference}"
    state = system.run(calm).differing_state(system.run(least))
    return Finding(name, difference, (calm, least), state)


def _difference(system: SystemUnderTest, schedule: Schedule) -> str | None:
    """The difference that a schedule's events make; none if the function fails without them too."""
    outcome = system.run(without_events(schedule))
    return None if outcome.error is not None else outcome.difference(system.run(schedule))


def _reads(system: SystemUnderTest, schedule: Schedule) -> tuple[str, str] | None:
    """The invariant that reads of clocks or random numbers violate, and where they are."""
    calls: dict[str, str] = {}
    with noticed(calls):
        system.run(schedule)
    for name in (CLOCK, RANDOM):
        found = [call for call, looks_at in calls.items() if looks_at == name]
        if found:
            return name, "; ".join(found)
    return None


def reads_nothing_else(system: SystemUnderTest, schedule: Schedule) -> Finding | None:
    """Whether a function reads no clock and no random numbers, whatever it does with them."""
    schedule = without_events(schedule)
    read = _reads(system, schedule)
    if read is None:
        return None
    found = hold_with_events(system, schedule)
    return found if found is not None and found.invariant == read[0] else Finding(*read, ())


def failing(system: SystemUnderTest, schedule: Schedule) -> Finding:
    """A schedule in which the function fails."""
    least = shrunk(schedule, smaller_schedules, lambda one: system.run(one).error is not None)
    return Finding("error", system.run(least).error or _NOT_EACH_TIME, (least,))


# -- the same rows, in another order -------------------------------------------------------------


class Splits(NamedTuple):
    """Two ways in which the same rows come."""

    one: Split
    other: Split


def hold_in_any_order(
    system: SystemUnderTest,
    records: Sequence[Record],
    split: Split,
    invariants: Collection[str],
    results: Results,
) -> Finding | None:
    """Whether an operator gives the same results for the same rows.

    Args:
        system: the operator.
        records: the rows.
        split: an order and micro-batches in which they may come.
        invariants: which of ``batches`` and ``order`` must hold.
        results: what is compared of the rows that are emitted.
    """
    known: dict[Split, tuple[Schedule, Outcome]] = {}

    def run(split: Split) -> tuple[Schedule, Outcome]:
        if split not in known:
            known[split] = system.run_to_end(system.on_time(records, split))
        return known[split]

    def emitted(outcome: Outcome) -> Any:
        return results([row for rows in outcome.results for row in rows])

    def difference(splits: Splits) -> str | None:
        (_, one), (_, other) = map(run, splits)
        if one.error is not None or other.error is not None:
            return None if one.error == other.error else "one fails"
        mine, theirs = emitted(one), emitted(other)
        return None if same(mine, theirs) else f"{mine!r}, and then {theirs!r}"

    singly = tuple((at,) for at in range(len(records)))
    given = _sized(singly, split)
    for name, splits, smaller in (
        ("batches", Splits(singly, given), _smaller_splits),
        ("order", Splits(given, split), _smaller_orders),
    ):
        if name not in invariants:
            continue
        for schedule, outcome in map(run, splits):
            if outcome.error is not None:
                return failing(system, schedule)
        if difference(splits) is not None:
            least = shrunk(splits, smaller, lambda one: difference(one) is not None)
            schedules = tuple(run(each)[0] for each in least)
            return Finding(name, difference(least) or _NOT_EACH_TIME, schedules)
    return None


def all_results(rows: list[Any]) -> Any:
    """The default value to compare: all emitted rows, in any order."""
    return sorted(rows, key=canonical)


def _smaller_splits(splits: Splits) -> Iterator[Splits]:
    one, other = splits
    for kept in without(sorted(at for batch in one for at in batch)):
        yield Splits(_only(set(kept), one), _only(set(kept), other))
    yield from (Splits(one, fewer) for fewer in _merged(other))
    yield from (Splits(fewer, other) for fewer in _merged(one))


def _smaller_orders(splits: Splits) -> Iterator[Splits]:
    """With micro-batches of the same sizes in both."""
    for one, other in _smaller_splits(splits):
        smaller = Splits(one, _sized(other, one))
        if smaller != splits:
            yield smaller


def _only(kept: set[int], split: Split) -> Split:
    fewer = (tuple(at for at in batch if at in kept) for batch in split)
    return tuple(batch for batch in fewer if batch)


def _merged(split: Split) -> Iterator[Split]:
    """With two neighbouring micro-batches in one."""
    for i in range(len(split) - 1):
        yield (*split[:i], split[i] + split[i + 1], *split[i + 2 :])


def _sized(split: Split, like: Split) -> Split:
    """The rows in their order, in micro-batches of the sizes of others."""
    places = (at for batch in split for at in batch)
    return tuple(tuple(islice(places, len(batch))) for batch in like)
