"""A query that is killed or stopped at any moment emits what an undisturbed one does."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import restart_query as query


@pytest.fixture(params=["1", "2"])
def checkpoint_format(request: Any, settings: Callable[..., None]) -> str:
    settings(**{query.FORMAT: request.param})
    return str(request.param)


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s in vain"
        time.sleep(0.01)


def kill_driver(folder: Path, checkpoint_format: str, commits: int, delay: float) -> None:
    """Runs a driver of its own and kills it, JVM and workers too, after so many commits more."""
    until = query.committed(folder) + commits
    log = folder / "driver.log"
    with log.open("wb") as output:
        driver = subprocess.Popen(
            [sys.executable, query.__file__, str(folder), checkpoint_format],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        wait_for(lambda: query.committed(folder) >= until or driver.poll() is not None, 120)
        assert driver.poll() is None, log.read_text()
        time.sleep(delay)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    wait_for(lambda: not alive(driver.pid), 30)


def alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def test_killed_drivers(spark: Any, checkpoint_format: str, tmp_path: Path) -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    expected = query.make_input(tmp_path, seed)
    for _ in range(2):
        kill_driver(tmp_path, checkpoint_format, rng.randint(1, 5), rng.uniform(0, 0.4))
    assert query.committed(tmp_path) < query.FILES, "it was not killed midway"
    query.start(spark, tmp_path, availableNow=True).awaitTermination()
    assert query.emitted(tmp_path) == expected


def test_many_stops(spark: Any, checkpoint_format: str, tmp_path: Path) -> None:
    """Stopping interrupts tasks, commits and the driver's own steps wherever they are."""
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    expected = query.make_input(tmp_path, seed)
    stops = 0
    while query.committed(tmp_path) < query.FILES // 2:
        running = query.start(spark, tmp_path, processingTime="0 seconds")
        time.sleep(rng.uniform(0.2, 1.5))
        running.stop()
        assert running.exception() is None
        stops += 1
        assert stops < 60, "it does not get on"
    query.start(spark, tmp_path, availableNow=True).awaitTermination()
    assert stops > 1
    assert query.emitted(tmp_path) == expected
