"""A driver that is told to end, and ends its query at the border of a micro-batch."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import ConfigurationError, admin

from tests.fault import batch_files, sigterm_query
from tests.fault.drivers import Driver

slow = pytest.mark.skipif("SLOW" not in os.environ, reason="a driver each; set SLOW=1")


def told(folder: Path) -> list[str]:
    path = folder / "batches"
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.turns
@pytest.mark.parametrize(
    ("to", "task_seconds", "grace_seconds"),
    [
        ("python", 0.0, 60.0),
        pytest.param("jvm", 0.0, 20.0, marks=slow),
        pytest.param("python", 20.0, 0.5, marks=slow),
    ],
)
def test_ends_at_a_border(
    to: str, task_seconds: float, grace_seconds: float, spark: Any, tmp_path: Path
) -> None:
    sigterm_query.make_input(tmp_path)
    arguments = tmp_path, 1.0, task_seconds, grace_seconds
    with Driver("sigterm_query.py", tmp_path / "log", *arguments) as driver:
        at = 0 if task_seconds else 1
        driver.wait_for(lambda: f"begins {at}" in told(tmp_path))
        if to == "python":
            driver.send(signal.SIGTERM)
        else:
            os.kill(driver.jvm(), signal.SIGTERM)
        code = driver.wait(60)
        if to == "python":
            assert code == 0 and (tmp_path / "ended").exists(), driver.log
    lines = told(tmp_path)
    if task_seconds:
        assert "saved 0" not in lines
    else:
        # The micro-batch that ran is whole, though it was told to end in its middle.
        assert "saved 1" in lines and f"saved {sigterm_query.FILES - 1}" not in lines
        assert (tmp_path / "checkpoint" / "commits" / "1").exists()
    # It goes on, and each row counts once.
    batch_files.keep_a_file_a_batch(tmp_path)
    query = sigterm_query.start(spark, tmp_path, 0, availableNow=True)
    query.awaitTermination()
    numbers = range(1, sigterm_query.FILES + 1)
    expected = [(key, n) for key in range(sigterm_query.KEYS) for n in numbers]
    assert batch_files.emitted(tmp_path) == expected
    assert admin.verify(str(tmp_path / "checkpoint")) == []


def test_stopped_with_a_savepoint(spark: Any, tmp_path: Path) -> None:
    """Of a plain query and of an elastic one: all that was committed is in it."""
    sigterm_query.make_input(tmp_path)

    def start() -> Any:
        return sigterm_query.start(spark, tmp_path, 0.2, processingTime="0 seconds")

    for name, begin, stop in (
        ("plain", start, keystate.stop_with_savepoint),
        (
            "elastic",
            lambda: keystate.elastic(start, spark=spark),
            lambda query, path, **how: query.stop_with_savepoint(path, **how),
        ),
    ):
        query = begin()
        before = len([line for line in told(tmp_path) if line.startswith("saved")])
        while len([line for line in told(tmp_path) if line.startswith("saved")]) < before + 2:
            assert query.isActive, query.exception()
            time.sleep(0.05)
        batch = stop(query, str(tmp_path / name), by_reference=True)
        assert not query.isActive
        commits = (tmp_path / "checkpoint" / "commits").glob("[0-9]*")
        assert batch == max(int(path.name) for path in commits)
        counts = admin.read_state(spark, str(tmp_path / name), state="count")
        # A batch has two files if the query was stopped when its source had logged the next one.
        emitted = json.loads((tmp_path / "output" / f"{batch}.json").read_text())
        expected = {key: max(n for k, n in emitted if k == key) for key, _ in emitted}
        assert dict(counts.select("key.*", "value.*").collect()) == expected
        with pytest.raises(ConfigurationError, match="KEYSTATE_QUERY_HAS_ENDED"):
            stop(query, str(tmp_path / "never"))


def test_what_is_refused(spark: Any) -> None:
    with pytest.raises(ValueError, match="must not be negative"):
        keystate.stop_on_sigterm(None, grace_seconds=-1)
