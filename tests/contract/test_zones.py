"""Values are the same in whatever time zone the processes are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = [
    HERE / "test_types.py",
    HERE / "test_codec.py",
    HERE / "test_read_now.py",
    HERE.parent / "query" / "test_batches.py",
    HERE.parent / "query" / "test_broadcast.py",
    HERE.parent / "query" / "test_operator_state.py",
    HERE.parent / "query" / "test_sources.py",
]


@pytest.mark.skipif("not os.environ.get('SLOW')", reason="SLOW: the tests of types once more")
def test_types_in_another_zone() -> None:
    """Of the driver, its JVM and the workers; the session's is another one, as in all tests."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *map(str, FILES)],
        env={**os.environ, "KEYSTATE_TEST_TZ": "America/New_York"},
        cwd=HERE.parents[1],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:]
