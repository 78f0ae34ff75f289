"""A stateful source, keyed state behind it and files: exactly once, whatever is killed."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from keystate._types.waiting import wait_until
from pyspark.errors import StreamingQueryException

from examples import counter_source
from tests.fault import source_query
from tests.fault.drivers import CLUSTER, Driver, committed

KILLS = 21 if os.environ.get("SLOW") else 3


@pytest.mark.turns
def test_killed_executors_and_drivers(
    spark: Any, settings: Callable[..., None], tmp_path: Path
) -> None:
    """Two executors, then their driver, again and again, and a rescale at each restart."""
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    kills, partitions = {"executor": 0, "driver": 0}, [2]

    def wait_a_while(driver: Driver) -> None:
        until = committed(tmp_path) + rng.randint(1, 3)
        driver.wait_for(lambda: committed(tmp_path) >= until and bool(driver.executors()))
        time.sleep(rng.uniform(0, 0.8))

    with ExitStack() as drivers:
        while sum(kills.values()) < KILLS:
            log = tmp_path / f"driver{kills['driver']}.log"
            driver = drivers.enter_context(
                Driver("source_query.py", log, tmp_path, partitions[-1], CLUSTER)
            )
            for _ in range(2):
                wait_a_while(driver)
                driver.kill(rng.choice(driver.executors()))
                kills["executor"] += 1
            wait_a_while(driver)
            # Its executors are left to find out while the next driver starts.
            driver.kill_driver()
            kills["driver"] += 1
            partitions.append(rng.choice([n for n in range(1, 6) if n != partitions[-1]]))
    print(f"killed {kills}, partitions {partitions}, {committed(tmp_path)} micro-batches")
    assert committed(tmp_path) < source_query.UNTIL // source_query.ROWS, "not killed midway"
    settings(**{"spark.sql.shuffle.partitions": str(partitions[-1])})
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


@pytest.mark.turns
def test_killed_source(spark: Any, settings: Callable[..., None], tmp_path: Path) -> None:
    """The source's own process dies: the query fails, and goes on when it is started again."""
    settings(**{"spark.sql.shuffle.partitions": "2"})

    def start() -> Any:
        return counter_source.start(spark, str(tmp_path), source_query.UNTIL, source_query.ROWS * 5)

    query = start()
    wait_until(lambda: committed(tmp_path) >= 2, "two micro-batches", interval=0.01)
    for pid in source_processes():
        os.kill(pid, signal.SIGKILL)
    with pytest.raises(StreamingQueryException, match=r"KEYSTATE_SOURCE_DIED.*CounterSource"):
        query.awaitTermination()
    assert committed(tmp_path) < 8, "not killed midway"
    start().awaitTermination()
    check(spark, tmp_path)
    wait_until(lambda: not source_processes(), "the end of a source's process", seconds=10)


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
