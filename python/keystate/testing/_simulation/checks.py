"""Holds the lives of an operator to what must not change."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from keystate._types.canonical import canonical, same
from keystate.testing._simulation.lives import on_time
from keystate.testing._simulation.shrink import shrunk, smaller_stories, without
from keystate.testing._simulation.story import Happening, Outcome, Story
from keystate.testing._simulation.subject import Item, Subject
from keystate.testing._simulation.watch import Watch

Results = Callable[[list[Any]], Any]

#: What is found, by the event that it takes.
_OF_EVENT = {
    Happening.NEW_WORKER: "attributes",
    Happening.LOST: "outside",
    Happening.BACK: "outside",
    Happening.RESCALE: "subtasks",
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
        stories: the smallest that show it: one that fails or grows, or two that differ.
        state: the state and key that differ where results do not.
    """

    invariant: str
    difference: str
    stories: tuple[Story, ...]
    state: tuple[str, Any] | None = None


# -- the same micro-batches, disturbed -----------------------------------------------------------


def undisturbed(story: Story) -> Story:
    """A story without its events."""
    return tuple(replace(batch, events=()) for batch in story)


def hold_when_disturbed(subject: Subject, story: Story) -> Finding | None:
    """Whether an operator gives the same whatever befalls it."""
    calm = subject.run(undisturbed(story))
    if calm.error is not None:
        return failing(subject, undisturbed(story))
    found = calm.difference(subject.run(story))
    if found is None:
        return None
    least = shrunk(story, smaller_stories, lambda one: _disturbance(subject, one) is not None)
    found = _disturbance(subject, least) or "not the same each time"
    events = [event.what for batch in least for event in batch.events]
    name = _OF_EVENT[max(events)] if events else "outside"
    if name == "outside":
        name, found = _cause(subject, least, found)
    one, other = subject.run(undisturbed(least)), subject.run(least)
    return Finding(name, found, (undisturbed(least), least), one.differing_state(other))


def _disturbance(subject: Subject, story: Story) -> str | None:
    calm = subject.run(undisturbed(story))
    return None if calm.error is not None else calm.difference(subject.run(story))


def _cause(subject: Subject, story: Story, found: str) -> tuple[str, str]:
    """Why it gives something else."""
    with Watch() as watch:
        subject.run(undisturbed(story))
    for name, reads in (("clock", watch.clocks), ("random", watch.randomness)):
        if reads:
            return name, f"{_told(reads)}; {found}"
    return "outside", found


def watched(subject: Subject, story: Story) -> Finding | None:
    """Whether a function reads a clock or random numbers, whatever it does with them."""
    story = undisturbed(story)
    with Watch() as watch:
        subject.run(story)
    for name, reads in (("clock", watch.clocks), ("random", watch.randomness)):
        if reads:
            differs = hold_when_disturbed(subject, story)
            if differs is not None and differs.invariant == name:
                return differs
            return Finding(name, _told(reads), ())
    return None


def _told(reads: dict[str, str]) -> str:
    return ", ".join(f"{what} in {where}" for what, where in reads.items())


def failing(subject: Subject, story: Story) -> Finding:
    """A story in which the function fails."""
    least = shrunk(story, smaller_stories, lambda one: subject.run(one).error is not None)
    return Finding("error", subject.run(least).error or "not each time", (least,))


# -- the same rows, in another order -------------------------------------------------------------


class Orders(NamedTuple):
    """Two ways in which the same rows come, as the places of the rows in each micro-batch."""

    one: tuple[tuple[int, ...], ...]
    other: tuple[tuple[int, ...], ...]


def hold_in_any_order(
    subject: Subject, items: Sequence[Item], ways: Sequence[Orders], results: Results
) -> Finding | None:
    """Whether an operator gives the same results for the same rows."""
    known: dict[Any, tuple[Story, Outcome]] = {}

    def run(made: tuple[tuple[int, ...], ...]) -> tuple[Story, Outcome]:
        if made not in known:
            known[made] = subject.run_to_end(on_time(subject, items, made))
        return known[made]

    def compared(*outcomes: Outcome) -> str | None:
        mine, theirs = (
            results([row for rows in outcome.results for row in rows]) for outcome in outcomes
        )
        return None if same(mine, theirs) else f"{mine!r}, and then {theirs!r}"

    def difference(of: Orders) -> str | None:
        (_, one), (_, other) = run(of.one), run(of.other)
        if one.error is not None or other.error is not None:
            return None if one.error == other.error else "one fails"
        return compared(one, other)

    for orders in ways:
        for story, outcome in map(run, orders):
            if outcome.error is not None:
                return failing(subject, story)
    differing = next((orders for orders in ways if difference(orders) is not None), None)
    if differing is None:
        return None
    least = shrunk(differing, _smaller_orders, lambda one: difference(one) is not None)
    # By the same micro-batches, or else by the same order, one sees which of both it is.
    same_batches = Orders(_as_given(least.other), least.other)
    same_order = Orders(least.one, _as_given(least.other))
    name = "order"
    if difference(same_batches) is not None:
        least = same_batches
    elif difference(same_order) is not None:
        name, least = "batches", same_order
    stories = (run(least.one)[0], run(least.other)[0])
    return Finding(name, difference(least) or "not the same each time", stories)


def all_results(rows: list[Any]) -> Any:
    """What is compared if nothing else is asked for: all that was emitted, in any order."""
    return sorted(rows, key=canonical)


def _smaller_orders(orders: Orders) -> Iterator[Orders]:
    places = sorted(at for batch in orders.one for at in batch)
    for kept in without(places):
        yield Orders(*(_only(set(kept), way) for way in orders))
    one, other = orders
    if len(one) > 1:
        yield Orders((tuple(places),), other)
    for i in range(len(other) - 1):
        yield Orders(one, (*other[:i], other[i] + other[i + 1], *other[i + 2 :]))
    for i in range(len(one) - 1):
        yield Orders((*one[:i], one[i] + one[i + 1], *one[i + 2 :]), other)
    if other != _as_given(other):
        yield Orders(one, _as_given(other))


def _only(kept: set[int], way: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    fewer = (tuple(at for at in batch if at in kept) for batch in way)
    return tuple(batch for batch in fewer if batch)


def _as_given(way: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], ...]:
    """The rows in the order in which they were given, in micro-batches of the same sizes."""
    places = iter(sorted(at for batch in way for at in batch))
    return tuple(tuple(next(places) for _ in batch) for batch in way)
