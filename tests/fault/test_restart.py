"""A query that is killed or stopped at any moment emits what an undisturbed one does."""

from __future__ import annotations

import json
import random
import re
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from keystate._jvm.session import FORMAT_KEY

from tests.drawn import drawn
from tests.fault import batch_files
from tests.fault import restart_query as query
from tests.fault.drivers import Driver, committed, kill_midway

TO_THE_END = json.dumps({"availableNow": True})
ENDLESS = json.dumps({"processingTime": "0 seconds"})

FORMATS = ["1", "2"]


@pytest.fixture(params=drawn("stops", FORMATS, 1))
def checkpoint_format(request: Any, settings: Callable[..., None]) -> str:
    settings(**{FORMAT_KEY: request.param})
    return str(request.param)


@pytest.mark.turns
@pytest.mark.parametrize("checkpoint_format", drawn("kills", FORMATS, 1), indirect=True)
def test_killed_drivers(spark: Any, checkpoint_format: str, tmp_path: Path) -> None:
    """JVM and workers die too."""
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    expected = query.make_input(tmp_path, seed)
    for _ in range(2):
        kill_midway(rng, 5, "restart_query.py", tmp_path, checkpoint_format, TO_THE_END)
    assert committed(tmp_path) < query.FILES, "it was not killed midway"
    query.start(spark, tmp_path, availableNow=True).awaitTermination()
    assert batch_files.emitted(tmp_path) == expected


@pytest.mark.turns
def test_many_stops(spark: Any, checkpoint_format: str, tmp_path: Path) -> None:
    """Stopping interrupts tasks, commits and the driver's own steps wherever they are."""
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    expected = query.make_input(tmp_path, seed)
    stops = 0
    while committed(tmp_path) < query.FILES // 2:
        running = query.start(spark, tmp_path, processingTime="0 seconds")
        # Short at first: a fast machine commits half of the files in a second. On a slow one a
        # batch takes longer than that, so the moments move on.
        time.sleep(rng.uniform(0.1, 0.5) * (1 + stops / 5))
        running.stop()
        assert running.exception() is None
        batch_files.keep_a_file_a_batch(tmp_path)
        stops += 1
        assert stops < 60, "it does not get on"
    query.start(spark, tmp_path, availableNow=True).awaitTermination()
    assert stops > 1
    assert batch_files.emitted(tmp_path) == expected


@pytest.mark.turns
@pytest.mark.parametrize("checkpoint_format", drawn("two queries", FORMATS, 1), indirect=True)
def test_two_queries_on_one_checkpoint(spark: Any, checkpoint_format: str, tmp_path: Path) -> None:
    """The driver that was first ends before it takes a file; the other goes on."""
    expected = query.make_input(tmp_path, seed=1)
    shutil.move(tmp_path / "input", tmp_path / "waiting")
    (tmp_path / "input").mkdir()
    waiting = sorted((tmp_path / "waiting").iterdir(), reverse=True)

    def feed() -> None:
        path = waiting.pop()
        path.rename(tmp_path / "input" / path.name)

    log = tmp_path / "driver.log"
    with Driver("restart_query.py", log, tmp_path, checkpoint_format, ENDLESS) as other:
        feed()
        other.wait_for(lambda: committed(tmp_path) > 0)
        ours = query.start(spark, tmp_path, processingTime="0 seconds")
        try:
            while other.exit_code is None:
                assert ours.exception() is None
                # Both look for the next file.
                idle = committed(tmp_path) == query.FILES - len(waiting)
                if idle and ours.status["message"].startswith("Waiting"):
                    assert waiting, "both went on"
                    feed()
                time.sleep(0.1)
            # The second is what Spark says when ours was quicker to note the file.
            assert re.search("KEYSTATE_FENCED|Concurrent update to the log", other.log)
            while waiting:
                feed()
            deadline = time.monotonic() + 300
            while committed(tmp_path) < query.FILES:
                assert ours.exception() is None
                assert time.monotonic() < deadline, "ours does not go on"
                time.sleep(0.05)
            # The last commit's output is there before it.
            assert batch_files.emitted(tmp_path) == expected
        finally:
            ours.stop()
