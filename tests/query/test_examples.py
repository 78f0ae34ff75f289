"""The examples run as a user runs them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import jvm_archive

pytestmark = pytest.mark.spark

EXAMPLES = Path(__file__).parents[2] / "examples"
#: What they print that is not by the way.
EXPECTED = {
    "count_window_average": ["(1,4)", "(1,5)"] * 2,
    "count_window_first_entry": [
        *["(1,3,1)", "(1,3,1)", "(1,3,2)", "(1,3,2)", "(1,3,2)"],
        *["(1,2,1)", "(1,2,2)", "(1,1,1)"],
    ],
    "rules": [
        "day 0",
        "day 1",
        "('ann', 'toys', 110)",
        "day 2",
        "('ann', 'toys', 111)",
        "('bob', 'books', 700)",
        "day 3",
    ],
    "enrichment": [
        "('o1', 'apples for 20')",
        "('o2', 'pears for 30')",
        "('o4', 'figs for 50')",
        "('o6', 'nuts for 10')",
        "('o3', 'plums, not paid')",
        "('o5', '70 for nothing')",
        "('o7', 'dates for 5')",
    ],
    "fraud": [
        "('alert', '4711', 50)",
        "('alert', '4713', 1500)",
        "('alert', '4714', 2000)",
        "('too late', '4712', 500)",
    ],
    "async_lookups": [
        "day 0: 400 orders",
        *["('Customer 3', 3)", "('Customer 4', 4)", "('unknown', 7)"],
        "day 1: 400 orders",
        *["('Customer 3', 13)", "('Customer 4', 14)", "('unknown', 17)"],
    ],
    "buffering_sink": ["100 numbers were written, each of them once"],
}

# As scripts, each with a session of its own that it ends; they share what takes longest, a JVM.
RUN = """
import runpy, sys
folder, *names = sys.argv[1:]
sys.path[0] = folder
for name in names:
    print(f"# {name}", flush=True)
    runpy.run_path(f"{folder}/{name}.py", run_name="__main__")
    print(flush=True)
"""


@pytest.fixture(scope="module")
def printed() -> dict[str, str]:
    """What each example prints, run from another folder."""
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(EXAMPLES), *EXPECTED],
        cwd="/",
        env={**os.environ, **jvm_archive.session_environment()},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-10_000:]
    return dict(re.findall(r"^# (\w+)\n(.*?)(?=^# |\Z)", done.stdout, re.M | re.S))


@pytest.mark.parametrize("name", EXPECTED)
def test_example(name: str, printed: dict[str, str]) -> None:
    lines = printed[name].splitlines()
    assert [line for line in lines if line.startswith(("(", "day", "100 "))] == EXPECTED[name]
