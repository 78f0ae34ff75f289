"""The examples run as a user runs them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_count_window_average() -> None:
    """As a script of its own, from another folder."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "count_window_average.py")],
        cwd="/",
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    printed = [line for line in done.stdout.splitlines() if line.startswith("(")]
    assert printed == ["(1,4)", "(1,5)"] * 2
