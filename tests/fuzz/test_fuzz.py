"""A few fixed seeds of the fuzzer, and those that found something; with SLOW=1 hours of them."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.fuzz import behaviours, query
from tests.fuzz.check import check, report

SLOW = bool(os.environ.get("SLOW"))

#: The seeds by which a defect was found in the harness; see the table in __init__.py.
FOUND = {
    "a tuple's list changes after update": (11, 23, 63),
    "a generator refills what a list takes": (71, 131, 135),
    "the same with a time to live": (2140, 2141),
    "results change afterwards": (19, 55, 79),
    "what windows hold and emit changes": (22, 54, 186),
    "open windows go on by new rules": (170, 246, 378),
    "bytewise order before 1970": (13, 96, 217),
    "is_empty and time to live": (341,),
    "elements are added at the time that others have": (1157,),
    "defaults of nested fields": (17, 317),
}


@pytest.mark.parametrize("defect", FOUND)
def test_what_was_found(defect: str) -> None:
    for seed in FOUND[defect]:
        outcome = check(seed)
        assert not outcome.differences, report(seed, outcome)


@pytest.mark.turns
@pytest.mark.parametrize("compiled", ["1", "0"])
@pytest.mark.long
def test_programs_do_in_the_harness_what_their_models_do(compiled: str) -> None:
    """In a process of its own, because it is decided at the start what is compiled."""
    much = ["--seconds", "1800"] if SLOW else ["--programs", "40"]
    command = [sys.executable, "-m", "tests.fuzz", "--seed", "1000", "--stop", *much]
    environment = {**os.environ, "KEYSTATE_NATIVE": compiled}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr


#: Windows, chains, windows, keyed state; objects, tables, lost parts, replays, backups, keys.
SEEDS = (2, 7, 110, 5145, 20, 24, 26, 28, 31, 13, 109, 10, 47, 23)


@pytest.mark.parametrize("seed", range(1000, 1400) if SLOW else SEEDS)
def test_programs_do_in_queries_what_their_models_do(seed: int, spark: Any) -> None:
    outcome = query.check(seed, spark)
    assert not outcome.differences, query.report(seed, outcome)


def test_the_drawn_behaviour_cases_are_those_of_their_seed() -> None:
    assert behaviours.KEPT.read_text() == behaviours.text(behaviours.SEED)
