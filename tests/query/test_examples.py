"""The examples run as a user runs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(name: str) -> list[str]:
    """What an example prints, as a script of its own, from another folder."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith(("(", "day", "100 "))]


def test_count_window_average() -> None:
    assert run("count_window_average.py") == ["(1,4)", "(1,5)"] * 2


def test_count_window_first_entry() -> None:
    assert run("count_window_first_entry.py") == [
        *["(1,3,1)", "(1,3,1)", "(1,3,2)", "(1,3,2)", "(1,3,2)"],
        *["(1,2,1)", "(1,2,2)", "(1,1,1)"],
    ]


def test_rules() -> None:
    assert run("rules.py") == [
        "day 0",
        "day 1",
        "('ann', 'toys', 110)",
        "day 2",
        "('ann', 'toys', 111)",
        "('bob', 'books', 700)",
        "day 3",
    ]


def test_enrichment() -> None:
    assert run("enrichment.py") == [
        "('o1', 'apples for 20')",
        "('o2', 'pears for 30')",
        "('o4', 'figs for 50')",
        "('o6', 'nuts for 10')",
        "('o3', 'plums, not paid')",
        "('o5', '70 for nothing')",
        "('o7', 'dates for 5')",
    ]


def test_buffering_sink() -> None:
    assert run("buffering_sink.py") == ["100 numbers were written, each of them once"]
