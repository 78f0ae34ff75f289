"""A stateful source, keyed state behind it and files: exactly once through killed drivers."""

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
import source_query
from pyspark.errors import StreamingQueryException

from examples import counter_source

KILLS = 10 if os.environ.get("SLOW") else 3
ROOT = Path(__file__).parents[2]


def committed(folder: Path) -> int:
    return len(list((folder / "checkpoint" / "commits").glob("[0-9]*")))


def kill_driver(folder: Path, partitions: int, commits: int, delay: float) -> None:
    """Kills a driver with its JVM and all workers, after so many commits more and a delay."""
    until = committed(folder) + commits
    log = folder / "driver.log"
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    with log.open("wb") as output:
        driver = subprocess.Popen(
            [sys.executable, source_query.__file__, str(folder), str(partitions)],
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        )
    try:
        deadline = time.monotonic() + 120
        while committed(folder) < until and driver.poll() is None:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.01)
        assert driver.poll() is None, log.read_text()
        time.sleep(delay)
    finally:
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def test_killed_drivers(spark: Any, settings: Callable[..., None], tmp_path: Path) -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    for _ in range(KILLS):
        kill_driver(tmp_path, rng.choice([2, 3]), rng.randint(1, 3), rng.uniform(0, 0.8))
    assert committed(tmp_path) < source_query.UNTIL // source_query.ROWS, "not killed midway"
    settings(**{"spark.sql.shuffle.partitions": "2"})
    counter_source.start(
        spark, str(tmp_path), source_query.UNTIL, source_query.ROWS
    ).awaitTermination()
    check(spark, tmp_path)


def check(spark: Any, folder: Path) -> None:
    """Every number came once, and was added once to its key's sum."""
    rows = spark.read.parquet(str(folder / "output")).collect()
    assert sorted(row.n for row in rows) == list(range(source_query.UNTIL))
    for key in range(counter_source.KEYS):
        count = total = 0
        for row in sorted((row for row in rows if row.key == key), key=lambda row: row["count"]):
            count, total = count + 1, total + row.n
            assert (row["count"], row.total) == (count, total)


def test_killed_source(spark: Any, settings: Callable[..., None], tmp_path: Path) -> None:
    """The source's own process dies: the query fails, and goes on when it is started again."""
    settings(**{"spark.sql.shuffle.partitions": "2"})

    def start() -> Any:
        return counter_source.start(spark, str(tmp_path), source_query.UNTIL, source_query.ROWS * 5)

    query = start()
    deadline = time.monotonic() + 60
    while committed(tmp_path) < 2:
        assert time.monotonic() < deadline and query.isActive
        time.sleep(0.01)
    for pid in source_processes():
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(StreamingQueryException, match=r"KEYSTATE_SOURCE_DIED.*CounterSource"):
        query.awaitTermination()
    assert committed(tmp_path) < 8, "not killed midway"
    start().awaitTermination()
    check(spark, tmp_path)
    deadline = time.monotonic() + 10
    while source_processes():
        assert time.monotonic() < deadline, "a source's process is left"
        time.sleep(0.05)


def source_processes() -> list[int]:
    """The sources' processes of this JVM."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            command = (folder / "cmdline").read_bytes()
            parent = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
        except OSError:
            continue
        if b"python_streaming_source_runner" in command and is_mine(parent):
            found.append(int(folder.name))
    return found


def is_mine(pid: int) -> bool:
    while pid > 1:
        if pid == os.getpid():
            return True
        try:
            stat = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return False
        pid = int(stat.rsplit(")", 1)[1].split()[1])
    return False
