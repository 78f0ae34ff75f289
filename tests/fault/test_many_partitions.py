"""Hundreds of partitions on a cluster: an executor is killed, and the query rescaled twice."""

from __future__ import annotations

import json
import os
import signal
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from keystate import admin

from tests.fault import batch_files
from tests.fault import many_partitions_query as query
from tests.fault.drivers import Driver, committed, standalone
from tests.fault.events import logged

FEW, MANY = 4_000, 40_000
#: Partitions and micro-batches: of the driver with the kill, and of the one after it.
BEFORE = [(200, 3)]
AFTER = [(200, 1), (300, 2), (150, 1)]
KILLED = 1
MB = 1 << 20
#: How much more of the driver's heap may be alive with ten times the state: 18 MB more of it.
MORE_HEAP = 6 * MB


@pytest.mark.skipif("SLOW" not in os.environ, reason="takes minutes; set SLOW=1")
@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
def test_killed_and_rescaled(spark: Any, checkpoint_format: str, tmp_path: Path) -> None:
    """No row is lost or counted twice, and the driver's memory does not grow with the state."""
    heaps = {}
    with standalone(tmp_path, ["127.0.0.1", "127.0.0.2"], cores=2) as cluster:
        # With format v2 the driver has more of each partition.
        for keys in (FEW, MANY) if checkpoint_format == "2" else (FEW,):
            folder = tmp_path / str(keys)
            (folder / "events").mkdir(parents=True)
            starts = run_with_a_kill(folder, cluster.url, keys, checkpoint_format)
            starts += run(folder, cluster.url, keys, checkpoint_format, AFTER)
            for each in starts:
                print(keys, "keys", each, f"{each['heap'] / MB:.1f} MB")
            heaps[keys] = [each["heap"] for each in starts]
            check(folder, keys)
    if MANY in heaps:
        grown = [many - few for few, many in zip(heaps[FEW], heaps[MANY], strict=True)]
        assert max(grown) < MORE_HEAP, heaps


def run_with_a_kill(folder: Path, master: str, keys: int, version: str) -> list[Any]:
    """The executor of a task that is under way is killed in the micro-batch `KILLED`."""
    with started(folder, master, keys, version, BEFORE) as driver:
        driver.wait_for(lambda: committed(folder) == KILLED)
        (folder / "hold").touch()
        driver.wait_for((folder / "held").exists)
        assert committed(folder) == KILLED
        executor = int((folder / "held").read_text())
        assert b"ExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_bytes()
        os.kill(executor, signal.SIGKILL)
        (folder / "hold").unlink()
        assert driver.wait() == 0, driver.log
    assert not Path(f"/proc/{executor}").exists()
    # Four executors, and the one that came for the killed one; its task was run again.
    assert len(logged(folder, "ExecutorAdded")) == 5
    ends = [event["Task End Reason"]["Reason"] for event in logged(folder, "TaskEnd")]
    assert "ExecutorLostFailure" in ends, "no task was on the executor that was killed"
    return measured(folder)


def run(folder: Path, master: str, keys: int, version: str, starts: list[Any]) -> list[Any]:
    with started(folder, master, keys, version, starts) as driver:
        assert driver.wait(600) == 0, driver.log
    return measured(folder)


def started(folder: Path, master: str, keys: int, version: str, starts: list[Any]) -> Driver:
    arguments = [master, keys, version, *(f"{n}:{batches}" for n, batches in starts)]
    return Driver("many_partitions_query.py", folder / "log", folder, *arguments)


def measured(folder: Path) -> list[Any]:
    """What the last driver says of its starts."""
    return list(json.loads((folder / "measured.json").read_text()))


def check(folder: Path, keys: int) -> None:
    """Compares all output and the states of the end with a model, and verifies the checkpoint."""
    sums: dict[int, dict[int, int]] = defaultdict(dict)
    expected, fed = [], 0
    for number in range(sum(batches for _, batches in BEFORE + AFTER)):
        output = json.loads((folder / f"output/{number}.json").read_text())
        assert {total for _, _, _, total in output} == {fed}, "union list"
        for key, x in query.rows(number, keys):
            sums[key][x % 3] = sums[key].get(x % 3, 0) + x
            expected.append((key, x, json.dumps(sorted(sums[key].items()))))
            fed += 1
    emitted = batch_files.emitted(folder)
    assert sorted(row[:3] for row in emitted) == sorted(expected)
    states = json.loads((folder / "states.json").read_text())
    assert states["texts"] == [[key, zlib.crc32(query.text(key).encode())] for key in range(keys)]
    partitions, _ = AFTER[-1]
    assert sum(states["seen"]) == fed
    assert len(states["seen"]) == partitions
    checkpoint = str(folder / "checkpoint")
    assert admin.inspect(checkpoint)["partitions"] == partitions
    assert admin.verify(checkpoint) == []
