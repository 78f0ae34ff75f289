"""Windows that are open at a restart go on by the new trigger and lateness: against a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from keystate.testing import KeyedProcessHarness

from tests.contract.test_windows import harness_of
from tests.contract.window_cases import (
    Case,
    NewRules,
    Watermark,
    by_aggregate,
    by_list,
    by_reduce,
    case_of,
    table,
)
from tests.contract.window_model import Rules
from tests.contract.window_rules import ASSIGNERS, RULES, program

BUILDS = [by_aggregate, by_list, by_reduce]


def check(case: Case, build: Callable[[Any], Any], back: bool = False) -> None:
    harness = harness_of(build(case.windows))
    for i, (step, emitted) in enumerate(case.steps):
        if isinstance(step, NewRules):
            harness = KeyedProcessHarness.restore(harness.snapshot(), build(step.windows))
            continue
        if isinstance(step, Watermark):
            found = harness.advance_watermark(step.time)
        else:
            found = harness.process((step.key, step.value, None), step.time)
        so_far = (case.name, build, case.steps[: i + 1])
        assert sorted(map(tuple, found)) == sorted(emitted), so_far
    # What a trigger had when other rules took a window over stays until it is purged.
    if not back:
        assert harness.num_keys == 0, (case.name, "state is left behind")


@pytest.mark.parametrize("after", RULES, ids=str)
@pytest.mark.parametrize("name", ASSIGNERS)
def test_all_old_rules(name: str, after: Rules) -> None:
    for number, before in enumerate(RULES):
        check(case_of(program(name, [before, after], "pair")), BUILDS[number % 3])


@pytest.mark.parametrize("case", map(case_of, table("window_rules")), ids=lambda case: case.name)
@pytest.mark.parametrize("build", BUILDS)
def test_the_table_of_both_languages(case: Case, build: Callable[[Any], Any]) -> None:
    check(case, build)


@pytest.mark.parametrize("between", RULES[:7], ids=str)
@pytest.mark.parametrize("name", ASSIGNERS)
def test_there_and_back(name: str, between: Rules) -> None:
    """What the rules between do not know is there again: it must do no harm."""
    for number, rules in enumerate(RULES):
        there = between._replace(lateness=rules.lateness)
        check(case_of(program(name, [rules, there, rules], "back")), BUILDS[number % 3], back=True)
