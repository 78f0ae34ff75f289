"""Slow tasks are run a second time on another host while the first attempt goes on."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from keystate import admin

from tests.fault import batch_files, speculation_query
from tests.fault import restart_query as query
from tests.fault.drivers import Driver, committed, standalone
from tests.fault.events import logged
from tests.fault.faults import Plan

FORMATS = ["1", "2"]
#: The task that is the first to put this version of this partition in place is held back there: it
#: gets a twin, which commits; the first one does so later, when it is let go.
HELD = {"first": (0, 3), "second": (1, 5)}


@pytest.mark.skipif("not os.environ.get('SLOW')", reason="SLOW: minutes, and two idle cores")
def test_twins_on_two_hosts(spark: Any, tmp_path: Path) -> None:
    """Both write what they have made, one after the other or at once; the state is that of one."""
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    (tmp_path / "events").mkdir()
    plan = Plan(tmp_path / "plan")
    expected = {}
    for version in FORMATS:
        (tmp_path / version).mkdir()
        rows = query.make_input(tmp_path / version, seed + int(version))
        expected[version] = rows[: speculation_query.FILES * query.ROWS]
        for path in sorted((tmp_path / version / "input").iterdir())[speculation_query.FILES :]:
            path.unlink()
        for name, (partition, number) in HELD.items():
            file = rf"/{version}/checkpoint/state/0/{partition}/{number}(_[^/]*)?\.keystate$"
            plan.add(f"{name}{version}", "rename", 1, "hold", file)
    with (
        standalone(tmp_path, ["127.0.0.1", "127.0.0.2"], cores=3) as cluster,
        Driver(
            "speculation_query.py", tmp_path / "log", tmp_path, "rocksdb", cluster.url, *FORMATS
        ) as driver,
    ):
        for name, (partition, number) in HELD.items():
            for version in FORMATS:
                folder = tmp_path / version
                driver.wait_for(lambda n=f"{name}{version}": n in plan.happened())
                # Its twin commits the batch, and the query goes on.
                driver.wait_for(lambda f=folder, n=number: committed(f) > n)
                files = folder / f"checkpoint/state/0/{partition}"
                before = written(files, number)
                assert len(before) == 1
                plan.release(f"{name}{version}")
                # A new file under the same name, or another one.
                driver.wait_for(lambda f=files, n=number, b=before: written(f, n) - b != set(), 30)
                assert len(written(files, number)) == (1 if version == "1" else 2)
        assert driver.wait() == 0, driver.log
    assert plan.happened() == {f"{name}{version}" for name in HELD for version in FORMATS}
    for version in FORMATS:
        folder = tmp_path / version
        for number in speculation_query.MEETINGS:
            assert len(speculation_query.attempts(folder, number)) == 2, "they did not meet"
        assert committed(folder) == speculation_query.FILES
        assert batch_files.emitted(folder) == expected[version]
        assert admin.verify(str(folder / "checkpoint")) == []
    tasks = [event["Task Info"] for event in logged(tmp_path, "TaskEnd")]
    twins = [task for task in tasks if task["Speculative"]]
    hosts = {task["Host"] for task in twins}
    print(f"{len(twins)} twins on {hosts}")
    assert len([task for task in twins if not task["Failed"] and not task["Killed"]]) >= len(
        HELD
    ) * len(FORMATS)


def written(files: Path, number: int) -> set[tuple[str, int]]:
    """The files of a version, each with what tells it from one that had its name before."""
    found = files.glob(f"{number}*.keystate")
    return {
        (path.name, path.stat().st_ino)
        for path in found
        if path.name.split(".")[0].split("_")[0] == str(number)
    }
