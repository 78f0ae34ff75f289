"""Whether state grows without bound though the keys stay the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from keystate.state.kinds import TIMERS
from keystate.testing._base import OperatorHarness
from keystate.testing._simulation.invariants import Finding, failing
from keystate.testing._simulation.records import Record, beginning
from keystate.testing._simulation.schedule import Batch
from keystate.testing._simulation.shrink import shrunk, without
from keystate.testing._simulation.system_under_test import Run, SystemUnderTest, bare

#: The rows come so often; in the last ones a state must have stopped to grow.
ROUNDS = 24
_LAST = 8
#: So many micro-batches wait for timers after each round.
_QUIET = 5

Sizes = dict[tuple[str, Any], int]


def bounded(system: SystemUnderTest, rows: Callable[[int], Sequence[Record]]) -> Finding | None:
    """Whether the state of each key stops to grow when like rows come again and again.

    After each round there is silence: until all timers have fired, and all that has a time to live
    has expired.

    Args:
        system: the operator.
        rows: gives the rows of a round.
    """
    given: list[Sequence[Record]] = [rows(number) for number in range(ROUNDS)]
    run, sizes = _run(system, given)
    if len(sizes) < ROUNDS:
        return failing(system, tuple(run.batches))
    at = _growing(sizes)
    if at is None:
        return None
    name, key = at

    def grows(chosen: Sequence[Sequence[Record]]) -> bool:
        return _growing(_run(system, chosen)[1], at) is not None

    if all(records == given[0] for records in given):
        least = shrunk(tuple(given[0]), without, lambda records: grows([records] * ROUNDS))
        given = [least] * ROUNDS
    else:
        # Each round has other rows: only those of the key, one of each round.
        text = repr(list(key) if isinstance(key, tuple) else [key])
        of_key = [[record for record in records if record.key == text] for records in given]
        fewer: list[list[Sequence[Record]]] = [[records[:1] for records in of_key], list(of_key)]
        given = next((each for each in fewer if grows(each)), given)
    run, sizes = _run(system, given)
    mine = [each.get(at, 0) for each in sizes]
    what = "timers" if name == TIMERS else f"state {name!r}"
    difference = (
        f"{what} of key {key!r}: {mine[0]:,} bytes after a round of rows, {mine[11]:,} after 12, "
        f"{mine[-1]:,} after {ROUNDS}"
    )
    return Finding("growth", difference, (tuple(run.batches),), at)


def _growing(sizes: list[Sizes], at: tuple[str, Any] | None = None) -> tuple[str, Any] | None:
    """A state and key that grew in each of the last rounds."""
    last = sizes[-_LAST:]
    for name in [at] if at is not None else sizes[-1]:
        found = [each.get(name, 0) for each in last]
        if len(found) == _LAST and all(a < b for a, b in pairwise(found)):
            return name
    return None


def _run(system: SystemUnderTest, rounds: Sequence[Sequence[Record]]) -> tuple[Run, list[Sizes]]:
    """A run of some rounds that has ended, and the sizes after each."""
    run = system.start()
    sizes: list[Sizes] = []
    pause = max(system.ttls, default=0) + 1

    def batches() -> Iterator[Batch]:
        for records in rounds:
            clocks = {}
            if not run.batches:
                clocks["processing_time"] = beginning(records)
            elif times := _times(records):
                now = run.harness.watermark or 0
                records = system.inputs.later(records, max(0, now + 1 - min(times)))
            yield system.batch(records, **clocks)
            yield from run.until_timers_have_fired(_QUIET)
            clocks = {"processing_time": run.harness.processing_time + pause}
            if system.by_event_time:
                reached = max([run.harness.watermark or 0, *_times(records)])
                clocks["watermark"] = reached + pause
            yield system.batch([], **clocks)
            sizes.append(_sizes(run.harness))

    run.outcome(batches())
    return run, sizes


def _times(records: Sequence[Record]) -> list[int]:
    return [record.time // 1000 for record in records if record.time is not None]


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
