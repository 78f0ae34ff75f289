"""Every kind of state, killed and rescaled again and again, with other settings at each restart.

KEYSTATE_SEED=N draws the settings of an earlier run, which printed it. KILLS is how many.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from keystate import admin
from keystate._jvm.session import FORMAT_KEY

from tests.fault import soak_query
from tests.fault.drivers import CLUSTER, Driver
from tests.fault.random_settings import Opening, draw


def committed(folder: Path) -> int:
    """How many micro-batches were committed; the log has the last hundred."""
    commits = (folder / "checkpoint" / "commits").glob("[0-9]*")
    return max((int(path.name) for path in commits), default=-1) + 1


KILLS = int(os.environ.get("KILLS", "50"))


@pytest.mark.skipif("not os.environ.get('SLOW')", reason="SLOW: half an hour for each format")
@pytest.mark.parametrize("version", ["1", "2"])
def test_soak(spark: Any, settings: Callable[..., None], version: str, tmp_path: Path) -> None:
    """Executors and drivers are killed; each restart has other partitions and other settings."""
    seed = int(os.environ.get("KEYSTATE_SEED", random.randrange(10**9)))
    print(f"\nKEYSTATE_SEED={seed}")
    rng, drawn = random.Random(seed), random.Random(seed)
    kills = {"executor": 0, "driver": 0}
    openings: list[Opening] = []
    soak_query.allow(tmp_path, 10**9, end=False)

    def next_opening() -> Opening:
        before = openings[-1] if openings else None
        if before is None:
            opening = draw(drawn, 0, version)
        else:
            opening = draw(drawn, before.partitions, before.settings[FORMAT_KEY])
        openings.append(opening)
        print(f"{committed(tmp_path)} micro-batches, then {opening}", flush=True)
        return opening

    def wait_a_while(driver: Driver) -> None:
        until = committed(tmp_path) + rng.randint(1, 4)
        driver.wait_for(lambda: committed(tmp_path) >= until and bool(driver.executors()))
        time.sleep(rng.uniform(0, 1.5))

    while sum(kills.values()) < KILLS:
        opening = next_opening()
        log = tmp_path / f"driver{kills['driver']}.log"
        own = json.dumps(opening.settings)
        arguments = (tmp_path, opening.partitions, CLUSTER, own)
        with Driver("soak_query.py", log, *arguments, **opening.environment) as driver:
            for _ in range(2):
                wait_a_while(driver)
                driver.kill(rng.choice(driver.executors()))
                kills["executor"] += 1
            wait_a_while(driver)
            driver.kill_driver()
            kills["driver"] += 1
    until = (committed(tmp_path) + 10) * soak_query.ROWS
    soak_query.allow(tmp_path, until, end=True)
    last = next_opening()
    settings(**{"spark.sql.shuffle.partitions": str(last.partitions)}, **last.settings)
    soak_query.start(spark, tmp_path, availableNow=True).awaitTermination()
    batches = committed(tmp_path)
    print(f"killed {kills}, {len(openings)} starts, {batches} micro-batches, {until} rows")
    rows = spark.createDataFrame(list(soak_query.expected(until)), soak_query.ROW)
    wanted = soak_query.summed(rows).selectExpr("w.start", "key", "rows", "sum").collect()
    found = spark.read.parquet(str(tmp_path / "output")).collect()
    assert sorted(found) == sorted(wanted)
    assert admin.verify(str(tmp_path / "checkpoint")) == []
