"""Kills within a batch of real-time mode: what was committed counts."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import keystate
import pytest

from tests.fault import real_time_query as query
from tests.fault.drivers import CLUSTER, Driver, committed
from tests.query.test_real_time import Count, batches, state
from tests.real_time import Source, in_micro_batches, lines, needs_real_time, wait_for

pytestmark = [needs_real_time, pytest.mark.usefixtures("short_batches")]

ROWS = 2000


@pytest.mark.turns
def test_killed_driver(spark: Any, tmp_path: Path) -> None:
    noted = tmp_path / "noted"
    log = tmp_path / "driver.log"
    with Driver("real_time_query.py", log, tmp_path, ROWS, "local[2]") as driver:
        # A first batch may end before the worker is there.
        driver.wait_for(lambda: lines(noted) != [])
        ended = committed(tmp_path)
        driver.wait_for(lambda: committed(tmp_path) > ended)
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


@pytest.mark.turns
def test_killed_before_the_first_commit(spark: Any, running: list[Any], tmp_path: Path) -> None:
    """It goes on in micro-batches, from the first row."""
    noted, log = tmp_path / "noted", tmp_path / "driver.log"
    with Driver("real_time_query.py", log, tmp_path, ROWS, "local[2]", "10 minutes") as driver:
        driver.wait_for(lambda: len(lines(noted)) > 100)
        assert driver.exit_code is None and committed(tmp_path) == 0, driver.log
    assert list((tmp_path / "checkpoint/state").iterdir())
    killed_after = len(lines(noted))

    source = Source(spark)
    source.add(query.rows(ROWS))
    out = keystate.keyed(source.rows(), "key").process(Count(noted), "key long, n long")
    again = in_micro_batches(out, tmp_path)
    running.append(again)
    again.processAllAvailable()
    again.stop()
    assert state(spark, tmp_path) == Counter(key for key, _ in query.rows(ROWS))
    assert len(lines(noted)) == killed_after + ROWS


@pytest.mark.turns
def test_killed_executors(spark: Any, tmp_path: Path) -> None:
    """Of the two, one reads the source and one has the state; either's death fails the batch."""
    noted, failed, fed = tmp_path / "noted", tmp_path / "failed", tmp_path / "fed"
    log = tmp_path / "driver.log"
    with Driver("real_time_query.py", log, tmp_path, 100_000, CLUSTER) as driver:
        for kill_state in (True, False):
            until = committed(tmp_path) + 1
            driver.wait_for(lambda until=until: committed(tmp_path) >= until)
            seen = len(lines(noted)) + random.randint(10, 50)
            driver.wait_for(lambda seen=seen: len(lines(noted)) > seen)
            with_state = lines(tmp_path / "noted.in")[-1][0]
            failures = len(lines(failed))
            victims = [pid for pid in driver.executors() if (pid == with_state) == kill_state]
            assert victims, driver.log
            for pid in victims:
                driver.kill(pid)
            driver.wait_for(lambda failures=failures: len(lines(failed)) > failures)
        until = committed(tmp_path) + 1
        driver.wait_for(lambda: committed(tmp_path) >= until)
        (tmp_path / "enough").touch()
        driver.wait_for(lambda: len(lines(fed)) == 1)
        ((count,),) = lines(fed)
        driver.wait_for(lambda: [count - 1] in [line[2:] for line in lines(noted)])
        # One batch may have begun before the last row came, and one ends after it was read.
        until = committed(tmp_path) + 2
        driver.wait_for(lambda: committed(tmp_path) >= until)
    rows = query.rows(count)
    assert len(lines(noted)) > count, "nothing was lost that had to come again"
    assert {x for _, _, x in lines(noted)} == {x for _, x in rows}, "a row was lost"
    assert state(spark, tmp_path) == Counter(key for key, _ in rows)
