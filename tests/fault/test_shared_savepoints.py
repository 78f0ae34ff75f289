"""Savepoints by reference where there are no hard links: both sides go on, are deleted, and die."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.fault.drivers import Driver
from tests.fault.faults import Plan

SLOW = "SLOW" in os.environ
#: Each how many requests the process is dead from then on.
EVERY = int(os.environ.get("KEYSTATE_EVERY", 3 if SLOW else 70))
slow = pytest.mark.skipif(not SLOW, reason="takes minutes; set SLOW=1")


@pytest.mark.turns
@pytest.mark.parametrize(
    ("checkpoint_format", "backend"),
    [
        pytest.param("1", "hashmap", marks=slow),
        pytest.param("1", "rocksdb", marks=slow),
        ("2", "hashmap"),
        pytest.param("2", "rocksdb", marks=slow),
    ],
)
def test_files_are_there_as_long_as_somebody_needs_them(
    checkpoint_format: str, backend: str, tmp_path: Path
) -> None:
    """And no longer; also if whoever makes or deletes a savepoint dies at any request."""
    Plan(tmp_path / "plan")
    arguments = (tmp_path, checkpoint_format, backend, EVERY)
    with Driver("shared_savepoint_query.py", tmp_path / "log", *arguments) as driver:
        assert driver.wait(2400) == 0, driver.log
    found = json.loads((tmp_path / "found.json").read_text())
    works(found["works"])
    killed = found["killed"]
    least = 10 if SLOW else 1
    assert killed["made"] >= 1 and killed["not made"] >= least and killed["deletions"] >= least
    assert killed["left"] == [False, False]


def works(of: dict[str, Any]) -> None:
    assert of["batch"] == 2
    assert of["files"][0] == 0 < of["files"][1]
    assert "KEYSTATE_CANNOT_SHARE" in of["old"] and not of["never"]
    kind, batch, state, place = of["listed"]
    assert (kind, batch, state) == ("references", 2, "ok") and place.endswith("/first")
    shared, own = of["shared"]
    assert shared > 1000 and own > 0
    assert (of["first"], of["original"]) == ([3], [9])
    assert of["kept"] > 0 and "KEYSTATE_UNFINISHED" in of["deleted"]
    assert of["after"] == [[3], [3], [3]]
    assert of["gone on"] == [[9], [9]]
    assert of["kept of second"] == 0
    assert of["left"] == [False, False, False]
    assert of["restored"] == [9]
    assert of["missing"] == ["missing", []]
