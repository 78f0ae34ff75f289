"""Windows that are open at a restart go on by the new trigger and lateness: against a model."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import pytest
from keystate.testing import KeyedProcessHarness

from tests.contract.test_windows import LATE, harness_of, millis
from tests.contract.window_cases import (
    Case,
    NewRules,
    Watermark,
    by_aggregate,
    by_list,
    by_opened_aggregate,
    by_opened_list,
    by_reduce,
    case_of,
    table,
)
from tests.contract.window_rules import ASSIGNERS, RULES, program
from tests.drawn import drawn

pytestmark = pytest.mark.long

BUILDS = [by_aggregate, by_list, by_reduce, by_opened_aggregate, by_opened_list]


def check(case: Case, build: Callable[[Any], Any], back: bool = False) -> None:
    harness = harness_of(build(case.windows.side_output_late_data(LATE)))
    late: list[Any] = []
    for i, (step, emitted) in enumerate(case.steps):
        if isinstance(step, NewRules):
            late += harness.side_output(LATE)
            function = build(step.windows.side_output_late_data(LATE))
            harness = KeyedProcessHarness.restore(harness.snapshot(), function)
            continue
        if isinstance(step, Watermark):
            found = harness.advance_watermark(step.time)
        else:
            found = harness.process((step.key, step.value, None), step.time)
        so_far = (case.name, build, case.steps[: i + 1])
        assert sorted(map(tuple, found)) == sorted(emitted), so_far
    late += harness.side_output(LATE)
    assert [(row.key, row.value, millis(row.time)) for row in late] == list(case.late), case.name
    # What a trigger had when other rules took a window over stays until it is purged.
    if not back:
        assert harness.num_keys == 0, (case.name, "state is left behind")


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize("name", ASSIGNERS)
def test_every_pair_of_rules(name: str, build: Callable[[Any], Any]) -> None:
    pairs = [(before, after) for before in RULES for after in RULES]
    for pair in drawn(f"rules of {name} {build.__name__}", pairs, 16):
        check(case_of(program(name, pair, "pair")), build)


@pytest.mark.parametrize(
    "case", [case_of(case) for case in table("window_rules")], ids=lambda case: case.name
)
@pytest.mark.parametrize("build", BUILDS)
def test_the_table_of_both_languages(case: Case, build: Callable[[Any], Any]) -> None:
    check(case, build)


@pytest.mark.parametrize(
    "ways",
    [(by_aggregate, by_opened_aggregate), (by_list, by_opened_list)],
    ids=["aggregate", "list"],
)
@pytest.mark.parametrize("opened_first", [False, True])
@pytest.mark.parametrize("name", ASSIGNERS)
def test_one_way_goes_on_from_the_other(name: str, opened_first: bool, ways: Any) -> None:
    """Rows that a worker adds many at a time, and rows one by one, by turns at each restart."""
    pairs = [(before, after) for before in RULES for after in RULES]
    for before, after in drawn(f"by turns, {name} {opened_first}", pairs, 24):
        # As below: there and back again only where all of that is known.
        is_known = before.trigger != "continuous" and before.lateness == after.lateness
        rules = [before, after, before] if is_known else [before, after]
        turns = cycle(ways[:: -1 if opened_first else 1])
        case = case_of(program(name, rules, "turns"))
        check(case, lambda windows, turns=turns: next(turns)(windows), back=is_known)


@pytest.mark.parametrize("name", ASSIGNERS)
def test_there_and_back(name: str) -> None:
    """What the rules between do not know is there again: it must do no harm."""
    # A continuous trigger that comes back may make up for the times between.
    others = [rules for rules in RULES if rules.trigger != "continuous"]
    pairs = [(rules, each) for rules in others for each in RULES if rules.lateness == each.lateness]
    for rules, between in drawn(f"there and back, {name}", pairs, len(pairs) // 9):
        case = case_of(program(name, [rules, between, rules], "back"))
        check(case, BUILDS[(RULES.index(rules) + RULES.index(between)) % len(BUILDS)], back=True)
