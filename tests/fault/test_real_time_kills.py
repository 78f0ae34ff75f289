"""A driver that is killed within a batch of real-time mode: what was committed counts."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fault import real_time_query as query
from tests.fault.drivers import Driver, committed
from tests.query.test_real_time import batches, state
from tests.real_time import MIN_DURATION, Source, lines, needs_real_time, wait_for

pytestmark = needs_real_time

ROWS = 2000


def test_killed_within_a_batch(spark: Any, settings: Callable[..., None], tmp_path: Path) -> None:
    settings(**{MIN_DURATION: "100", "spark.sql.shuffle.partitions": "1"})
    noted = tmp_path / "noted"
    with Driver("real_time_query.py", tmp_path / "driver.log", tmp_path, str(ROWS)) as driver:
        driver.wait_for(lambda: committed(tmp_path) >= 1)
        before = len(lines(noted))
        # Some way into the next batch.
        driver.wait_for(lambda: len(lines(noted)) > before + random.randint(10, 50))
        assert driver.exit_code is None, driver.log
    killed_after = len(lines(noted))
    assert killed_after < ROWS, "it was not killed midway"
    kept = sum(state(spark, tmp_path).values())
    assert 0 < kept < killed_after, "nothing was lost that has to come again"

    source = Source(spark)
    source.add(query.rows(ROWS))
    running = query.begin(spark, source, tmp_path, "5 seconds")
    try:
        wait_for(running, lambda: batches(running) > 0 and len(lines(noted)) >= ROWS)
    finally:
        running.stop()
    assert state(spark, tmp_path) == Counter(key for key, _ in query.rows(ROWS))
    # After the restart it counted on from what was kept.
    assert len(lines(noted)) == killed_after + ROWS - kept
