"""A source and a sink in Scala: exactly once, whatever is killed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.fault.drivers import CLUSTER, Driver, committed
from tests.interop import kills_query


@pytest.mark.skipif("not os.environ.get('SLOW')", reason="SLOW: takes a minute")
def test_killed_executors_and_drivers(
    spark: Any, jvm: Any, scala_jar: Path, settings: Callable[..., None], tmp_path: Path
) -> None:
    """What the source has counted is in the sink's list, each number once; with rescales."""
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    script = str(Path(kills_query.__file__))
    partitions = [2, 3, 1, 4]

    def wait_a_while(driver: Driver) -> None:
        until = committed(tmp_path) + rng.randint(1, 3)
        driver.wait_for(lambda: committed(tmp_path) >= until and bool(driver.executors()))
        time.sleep(rng.uniform(0, 0.8))

    with ExitStack() as drivers:
        for turn, number in enumerate(partitions):
            log = tmp_path / f"driver{turn}.log"
            driver = drivers.enter_context(
                Driver(script, log, tmp_path, number, CLUSTER, scala_jar)
            )
            wait_a_while(driver)
            driver.kill(rng.choice(driver.executors()))
            wait_a_while(driver)
            driver.kill_driver()
    print(f"{committed(tmp_path)} micro-batches")
    assert committed(tmp_path) < kills_query.UNTIL // kills_query.ROWS, "not killed midway"
    assert not (tmp_path / "written").exists()
    settings(**{"spark.sql.shuffle.partitions": "2"})
    count, session = kills_query.count, spark._jsparkSession
    count(jvm, session, tmp_path, kills_query.UNTIL, kills_query.KEPT)
    # One has what all of them kept back, and writes it with the next number.
    settings(**{"spark.sql.shuffle.partitions": "1"})
    count(jvm, session, tmp_path, kills_query.UNTIL + 2, 1)
    written = map(int, (tmp_path / "written").read_text().split())
    assert sorted(written) == list(range(kills_query.UNTIL + 2))
