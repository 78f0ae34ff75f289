"""Executors and drivers that die at a known step of a commit."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.drawn import drawn
from tests.fault import batch_files
from tests.fault import restart_query as query
from tests.fault.drivers import CLUSTER, Driver, committed
from tests.fault.faults import Plan

# The process halts at the first such step on such a file. Batch N writes version N + 1.
EXECUTOR_DIES = {
    "before data": ("create", 1, r"state/0/0/3-[^/]*\.(sst|lz4)$"),
    "amid data": ("write", 2000, r"state/0/1/5-[^/]*\.(sst|lz4)$"),
    "after data, before the version": ("rename", 1, r"state/0/0/7(_[^/]*)?\.keystate$"),
    "after the version, before the report": ("renamed", 1, r"state/0/1/9(_[^/]*)?\.keystate$"),
}
DRIVER_DIES = {"after the state, before the commit log": ("create", 1, r"commits/10$")}


# With `auto` a store moves after its first commit, and reads what that wrote. On another executor
# it is loaded on the heap, and read a second time when it moves.
STORE_MOVES = {
    "amid a move after a commit": ("open", 1, r"state/0/0/1-[^/]*\.lz4$"),
    "amid a move at a load": ("open", 2, r"state/0/0/1-[^/]*\.lz4$"),
}

CASES = [("1", "rocksdb"), ("2", "auto"), ("1", "hashmap"), ("2", "hashmap"), ("2", "rocksdb")]


@pytest.mark.turns
@pytest.mark.parametrize(("checkpoint_format", "backend"), drawn("kill points", CASES, 1))
def test_killed_at_each_step(checkpoint_format: str, backend: str, tmp_path: Path) -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    expected = query.make_input(tmp_path, seed)
    plan = Plan(tmp_path / "plan")
    deaths = {**EXECUTOR_DIES, **DRIVER_DIES, **(STORE_MOVES if backend == "auto" else {})}
    for name, (step, nth, pattern) in deaths.items():
        plan.add(name, step, nth, "halt", pattern)

    def run(master: str) -> int:
        log = tmp_path / "driver.log"
        with Driver(
            "kill_points_query.py", log, tmp_path, checkpoint_format, backend, master
        ) as driver:
            return driver.wait()

    assert run(CLUSTER) != 0
    # One driver outlived all executors that died, and died when it was to.
    assert plan.happened() == set(deaths)
    assert committed(tmp_path) == 10
    for partition in range(2):
        assert list((tmp_path / f"checkpoint/state/0/{partition}").glob("11*.keystate"))
    assert run("local[2]") == 0, (tmp_path / "driver.log").read_text()
    assert committed(tmp_path) == query.FILES
    assert batch_files.emitted(tmp_path) == expected
