"""``keystate demo``: the stream in the terminal, as a new user starts it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.turns
@pytest.mark.spark
def test_demo(tmp_path: Path) -> None:
    """Outside of the repository, without a terminal; nothing else is printed."""
    command = [sys.executable, "-m", "keystate", "demo", "--seconds", "2", "--folder", "kept"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    assert "Using incubator modules" not in run.stdout
    counted = re.search(r"There were ([\d,]+) clicks, and each click was counted once", run.stdout)
    assert counted is not None
    assert int(counted[1].replace(",", "")) > 100
    tables = re.findall(r"micro-batch \d+, (\d) partitions, ([\d,]+) clicks", run.stdout)
    assert {partitions for partitions, _ in tables} == {"2", "4"}
    clicks = [int(n.replace(",", "")) for _, n in tables]
    assert clicks == sorted(clicks)  # the second run goes on where the first one stopped
    for table in run.stdout.split("micro-batch ")[1:]:
        # The most frequent user's session never ends: all clicks are in its pages.
        ann = re.search(r"^ann +\d +([\d,]+) +(cart.*)", table, re.M)
        assert ann is not None
        pages = [int(n) for n in re.findall(r" (\d+)", ann[2])]
        assert sum(pages) == int(ann[1].replace(",", ""))
    assert (tmp_path / "kept" / "checkpoint" / "state").is_dir()
    # The last line replays the last batch: what it left is what the last table has.
    last = run.stdout.splitlines()[-1].partition(": keystate ")[2].split()
    assert last == ["demo", "--folder", "kept", "--replay", "ann"]
    replayed = subprocess.run(
        [sys.executable, "-m", "keystate", *last],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert replayed.returncode == 0, replayed.stderr
    assert re.search(r"^Key 'ann', batch \d+: \d+ steps", replayed.stdout, re.M)
    assert "The function gives what it gave" in replayed.stdout
