"""Every kind of state, killed and rescaled again and again, with changing backends."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from keystate.session import FORMAT_KEY

from tests.fault import soak_query
from tests.fault.drivers import CLUSTER, Driver


def committed(folder: Path) -> int:
    """How many micro-batches were committed; the log has the last hundred."""
    commits = (folder / "checkpoint" / "commits").glob("[0-9]*")
    return max((int(path.name) for path in commits), default=-1) + 1


KILLS = int(os.environ.get("KILLS", "50"))


@pytest.mark.skipif("not os.environ.get('SLOW')", reason="SLOW: half an hour for each format")
@pytest.mark.parametrize("version", ["1", "2"])
def test_soak(spark: Any, settings: Callable[..., None], version: str, tmp_path: Path) -> None:
    """Executors and drivers are killed; each restart has other partitions and another backend."""
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    kills, partitions = {"executor": 0, "driver": 0}, [3]
    soak_query.allow(tmp_path, 10**9, end=False)

    def wait_a_while(driver: Driver) -> None:
        until = committed(tmp_path) + rng.randint(1, 4)
        driver.wait_for(lambda: committed(tmp_path) >= until and bool(driver.executors()))
        time.sleep(rng.uniform(0, 1.5))

    while sum(kills.values()) < KILLS:
        backend = ("hashmap", "rocksdb", "auto")[kills["driver"] % 3]
        log = tmp_path / f"driver{kills['driver']}.log"
        arguments = (tmp_path, partitions[-1], CLUSTER, backend, version)
        with Driver("soak_query.py", log, *arguments) as driver:
            for _ in range(2):
                wait_a_while(driver)
                driver.kill(rng.choice(driver.executors()))
                kills["executor"] += 1
            wait_a_while(driver)
            driver.kill_driver()
            kills["driver"] += 1
        partitions.append(rng.choice([n for n in range(1, 7) if n != partitions[-1]]))
    until = (committed(tmp_path) + 10) * soak_query.ROWS
    soak_query.allow(tmp_path, until, end=True)
    settings(
        **{
            "spark.sql.shuffle.partitions": str(partitions[-1]),
            FORMAT_KEY: version,
        }
    )
    soak_query.start(spark, tmp_path, availableNow=True).awaitTermination()
    batches = committed(tmp_path)
    print(f"killed {kills}, partitions {partitions}, {batches} micro-batches, {until} rows")
    rows = spark.createDataFrame(list(soak_query.expected(until)), soak_query.ROW)
    wanted = soak_query.summed(rows).selectExpr("w.start", "key", "rows", "sum").collect()
    found = spark.read.parquet(str(tmp_path / "output")).collect()
    assert sorted(found) == sorted(wanted)
