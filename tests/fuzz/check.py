"""Runs the program of a seed in the harness, and compares it with its model."""

from __future__ import annotations

import random
import traceback
from dataclasses import dataclass
from typing import Any

from tests.fuzz import keyed, objects, operators, windows

#: Whose program a seed is, by its remainder. Each module has the same functions.
FAMILIES: tuple[Any, ...] = (keyed, keyed, windows, operators)
#: How many smaller programs are tried.
TRIES = 150


@dataclass
class Outcome:
    """What came of a program.

    Attributes:
        results: how many were compared.
        differences: what is different, for each way to run the program.
    """

    program: Any
    results: int
    restarts: int
    differences: list[str]


def family(seed: int) -> Any:
    # Of the keyed ones some, among which no seed of test_fuzz.py is.
    return objects if seed % 16 in (4, 8) else FAMILIES[seed % len(FAMILIES)]


def check(seed: int) -> Outcome:
    """Runs the program of a seed with one row a micro-batch, and with many."""
    of = family(seed)
    program = of.generate(random.Random(seed))
    results, differences = 0, []
    for by_row in (True, False):
        results += of.size(of.expected(program, by_row))
        differences += [f"{_way(by_row)}: {each}" for each in compare(of, program, by_row)]
    return Outcome(program, results, of.restarts(program), differences)


def compare(of: Any, program: Any, by_row: bool) -> list[str]:
    """What is different; an error is too."""
    wanted = of.expected(program, by_row)
    try:
        differences: list[str] = of.differences(wanted, of.found(program, by_row))
        return differences
    except Exception as e:
        return [f"{type(e).__name__}: {e}\n{''.join(traceback.format_tb(e.__traceback__)[-3:])}"]


def minimized(seed: int, program: Any) -> tuple[Any, list[str]]:
    """A smaller program that still differs, and how."""
    of, tries = family(seed), 0
    by_row = bool(compare(of, program, True))
    shrinking = True
    while shrinking:
        shrinking = False
        for each in of.smaller(program):
            tries += 1
            if tries > TRIES:
                break
            if compare(of, each, by_row):
                program, shrinking = each, True
                break
    return program, [f"{_way(by_row)}: {each}" for each in compare(of, program, by_row)]


def report(seed: int, outcome: Outcome) -> str:
    """Tells a difference, with a minimized program and how to run it again."""
    program, differences = minimized(seed, outcome.program)
    return (
        f"seed {seed} differs: {outcome.differences[0][:2000]}\n"
        f"minimized: {program.describe()}\n  -> {differences[0][:2000] if differences else ''}\n"
        f"again: python -m tests.fuzz --programs 1 --seed {seed}"
    )


def _way(by_row: bool) -> str:
    return "one row a micro-batch" if by_row else "large micro-batches"
