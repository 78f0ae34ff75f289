"""Broadcast state, and keyed state that depends on it, through kills and a rescale."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fault import broadcast_query as query
from tests.fault.drivers import CLUSTER, Driver, committed


@pytest.mark.turns
def test_killed_executor_and_driver(
    spark: Any, settings: Callable[..., None], tmp_path: Path
) -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    with Driver("broadcast_query.py", tmp_path / "driver.log", tmp_path, 3, CLUSTER) as driver:
        for kill in (lambda: driver.kill(rng.choice(driver.executors())), driver.kill_all):
            until = committed(tmp_path) + rng.randint(2, 4)
            driver.wait_for(lambda until=until: committed(tmp_path) >= until)
            driver.wait_for(lambda: bool(driver.executors()))
            time.sleep(rng.uniform(0, 0.4))
            assert driver.exit_code is None, driver.log
            kill()
    assert committed(tmp_path) < query.BATCHES, "not killed midway"
    settings(**{"spark.sql.shuffle.partitions": "2", "spark.keystate.broadcast.check": "true"})
    query.start(spark, tmp_path).awaitTermination()
    query.check(tmp_path)
