"""Whether state grows without bound though the keys stay the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from keystate._kinds import TIMERS
from keystate.errors import KeystateError
from keystate.testing._base import OperatorHarness
from keystate.testing._simulation.checks import Finding, failing
from keystate.testing._simulation.lives import beginning
from keystate.testing._simulation.shrink import shrunk, without
from keystate.testing._simulation.story import Batch, Story
from keystate.testing._simulation.subject import Item, Subject, bare, furthest

#: The rows come so often; in the last ones a state must have stopped to grow.
ROUNDS = 24
_LAST = 8
#: So many micro-batches wait for timers after each round.
_QUIET = 5

Sizes = dict[tuple[str, Any], int]


def bounded(subject: Subject, rows: Callable[[int], Sequence[Item]]) -> Finding | None:
    """Whether the state of each key stops to grow when like rows come again and again.

    After each round there is silence: until all timers have fired, and all that has a time to live
    has expired.

    Args:
        subject: the operator.
        rows: gives the rows of a round.
    """
    given: list[Sequence[Item]] = [rows(number) for number in range(ROUNDS)]
    story, sizes, failed = _run(subject, given)
    if failed:
        return failing(subject, story)
    grown = _growing(sizes)
    if grown is None:
        return None
    at = grown

    def grows(chosen: Sequence[Sequence[Item]]) -> bool:
        return _growing(_run(subject, chosen)[1], at) is not None

    if all(items == given[0] for items in given):
        least = shrunk(tuple(given[0]), without, lambda items: grows([items] * ROUNDS))
        given = [least] * ROUNDS
    else:
        # Each round has other rows: only those of the key, one of each round.
        key = next(i.key for items in given for i in items if _is(subject, i, at[1]))
        of_key = [[item for item in items if item.key == key] for items in given]
        fewer: list[list[Sequence[Item]]] = [[items[:1] for items in of_key], list(of_key)]
        given = next((each for each in fewer if grows(each)), given)
    story, sizes, _ = _run(subject, given)
    mine = [each.get(at, 0) for each in sizes]
    name, key = at
    what = "timers" if name == TIMERS else f"state {name!r}"
    difference = (
        f"{what} of key {key!r}: {mine[0]:,} bytes after a round of rows, {mine[11]:,} after 12, "
        f"{mine[-1]:,} after {ROUNDS}"
    )
    return Finding("growth", difference, (story,), at)


def _is(subject: Subject, item: Item, key: Any) -> bool:
    return item.key == repr(list(key) if isinstance(key, tuple) else [key])


def _growing(sizes: list[Sizes], at: tuple[str, Any] | None = None) -> tuple[str, Any] | None:
    """A state and key that grew in each of the last rounds."""
    last = sizes[-_LAST:]
    for name in [at] if at is not None else sizes[-1] if sizes else ():
        found = [each.get(name, 0) for each in last]
        if len(found) == _LAST and all(a < b for a, b in pairwise(found)):
            return name
    return None


def _run(subject: Subject, rounds: Sequence[Sequence[Item]]) -> tuple[Story, list[Sizes], bool]:
    """The story of some rounds, the sizes after each, and whether the function failed."""
    harness = subject.start()
    story: list[Batch] = []
    sizes: list[Sizes] = []
    pause = max(subject.lives, default=0) + 1
    first = True
    try:
        for items in rounds:
            now = harness.watermark or 0
            times = [item.time // 1000 for item in items if item.time is not None]
            if times and not first:
                items = subject.later(items, max(0, now + 1 - min(times)))
            told = {"processing_time": beginning(items)} if first else {}
            first = False
            story.append(subject.batch(items, **told))
            subject.step(harness, story[-1])
            for _ in range(_QUIET):
                clocks = furthest(harness)
                if not clocks:
                    break
                story.append(subject.batch([], **clocks))
                subject.step(harness, story[-1])
            clocks = {"processing_time": harness.processing_time + pause}
            if subject.by_event_time:
                reached = [item.time // 1000 for item in items if item.time is not None]
                clocks["watermark"] = max([harness.watermark or 0, *reached]) + pause
            story.append(subject.batch([], **clocks))
            subject.step(harness, story[-1])
            sizes.append(_sizes(harness))
    except KeystateError:
        return tuple(story), sizes, True
    finally:
        harness.close()
    return tuple(story), sizes, False


def _sizes(harness: OperatorHarness) -> Sizes:
    """By state and key the bytes that are stored."""
    found: Sizes = {}
    for store in harness._job.stores:
        for key in store.cells:
            if store.cell(key) is not None:
                columns = store.columns([key]).values()
                found[store.spec.name, bare(key)] = sum(each.nbytes for each in columns)
    for timer in harness._job.timers:
        at = TIMERS, bare(timer.key)
        found[at] = found.get(at, 0) + 16
    return found
