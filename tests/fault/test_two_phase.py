"""A sink that prepares and commits gets each row once, whatever is killed."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import DeclarationError, OutputTag
from keystate._jvm.session import FORMAT_KEY
from pyspark.errors import StreamingQueryException

from tests.fault import batch_files, drivers, two_phase_query
from tests.fault import restart_query as query
from tests.fault.drivers import CLUSTER, Driver
from tests.fault.faults import Plan

#: Who comes to such a step halts. The sink's operator is 0, and batch N writes its version N + 1.
DEATHS = {
    "a task, before its version": ("rename", 1, r"state/0/0/3(_[^/]*)?\.keystate$"),
    "a task, after its version": ("renamed", 1, r"state/0/1/4(_[^/]*)?\.keystate$"),
    "the driver, before the commit log": ("rename", 1, r"commits/6$"),
    "the driver, after the commit log": ("renamed", 1, r"commits/9$"),
}


def left(folder: Path, step: str) -> list[str]:
    return [path.name for path in (folder / "sink" / step).iterdir()]


def test_once(spark: Any, tmp_path: Path) -> None:
    expected = query.make_input(tmp_path, 1)
    spark.conf.set(FORMAT_KEY, "2")
    try:
        running = two_phase_query.start(spark, tmp_path, availableNow=True)
        running.awaitTermination()
    finally:
        spark.conf.unset(FORMAT_KEY)
    # The last one too: a micro-batch without rows followed.
    assert two_phase_query.committed(tmp_path) == expected
    assert left(tmp_path, "prepared") == left(tmp_path, "open") == []
    metrics = [
        operator["customMetrics"]
        for progress in running.recentProgress
        for operator in progress["stateOperators"]
        if "transactionsPrepared" in operator["customMetrics"]
    ]
    prepared, committed, recovered = (
        sum(each[f"transactions{name}"] for each in metrics)
        for name in ("Prepared", "Committed", "Recovered")
    )
    # A subtask may go on in another worker.
    assert prepared == committed + recovered == len(left(tmp_path, "committed"))


def test_needs_format_2(spark: Any, tmp_path: Path) -> None:
    query.make_input(tmp_path, 1)
    spark.conf.set(FORMAT_KEY, "1")
    try:
        running = two_phase_query.start(spark, tmp_path, availableNow=True)
        with pytest.raises(StreamingQueryException, match="TwoPhaseCommitSink needs"):
            running.awaitTermination()
    finally:
        spark.conf.unset(FORMAT_KEY)


def test_no_dead_letters(spark: Any, tmp_path: Path) -> None:
    rows = keystate.stream(spark.readStream.format("rate").load())
    policy = keystate.dead_letters(OutputTag("dead", keystate.dead_letter_schema()))
    with pytest.raises(DeclarationError, match="no dead letters"):
        rows.add_sink(two_phase_query.FolderSink(tmp_path), on_error=policy)


@pytest.mark.turns
def test_killed_at_each_step(tmp_path: Path) -> None:
    expected = query.make_input(tmp_path, random.randrange(10**9))
    plan = Plan(tmp_path / "plan")
    for name, (step, nth, pattern) in DEATHS.items():
        plan.add(name, step, nth, "halt", pattern)
    log = tmp_path / "driver.log"
    for attempt in range(len(DEATHS) + 1):
        with Driver("two_phase_query.py", log, tmp_path, CLUSTER, 2 + attempt % 3) as driver:
            if driver.wait() == 0:
                break
        batch_files.keep_a_file_a_batch(tmp_path)
    assert plan.happened() == set(DEATHS)
    assert two_phase_query.committed(tmp_path) == expected, driver.log
    assert left(tmp_path, "prepared") == []


@pytest.mark.skipif("not os.environ.get('SLOW')", reason="SLOW: minutes")
def test_killed_at_random(tmp_path: Path) -> None:
    """Executors and drivers, with other partitions each time."""
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    expected = query.make_input(tmp_path, seed)
    Plan(tmp_path / "plan")
    log = tmp_path / "driver.log"
    done = False
    while not done:
        until = drivers.committed(tmp_path) + rng.randint(1, 5)
        with Driver("two_phase_query.py", log, tmp_path, CLUSTER, rng.randint(1, 4)) as driver:
            while driver.exit_code is None and drivers.committed(tmp_path) < until:
                time.sleep(0.01)
            time.sleep(rng.uniform(0, 0.4))
            if driver.exit_code is None and driver.executors() and rng.random() < 0.5:
                driver.kill(rng.choice(driver.executors()))
                time.sleep(rng.uniform(0, 3))
            done = driver.exit_code == 0
        batch_files.keep_a_file_a_batch(tmp_path)
    assert two_phase_query.committed(tmp_path) == expected
    assert left(tmp_path, "prepared") == []
    assert os.listdir(tmp_path / "sink" / "committed")
