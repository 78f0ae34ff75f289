"""A driver that is killed while it takes in initial state leaves nothing of it behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest

from tests.fault import batch_files, restart_query
from tests.fault import initial_state_query as query
from tests.fault.drivers import Driver, committed

CASES = [("rocksdb", "1"), ("hashmap", "2")]


@pytest.mark.turns
def test_killed_in_the_first_batch(
    spark: Any, settings: Callable[..., None], tmp_path: Path
) -> None:
    """One driver runs a query for each case."""
    folders = [tmp_path / backend for backend, _ in CASES]
    expected = []
    for folder, (backend, checkpoint_format) in zip(folders, CASES, strict=True):
        settings(**query.settings(backend, checkpoint_format))
        (folder / "halfway").mkdir(parents=True)
        restart_query.make_input(folder, seed=3)
        for path in sorted((folder / "input").iterdir())[3:]:
            path.unlink()
        query.start(spark, folder, folder / "undisturbed").awaitTermination()
        expected.append(batch_files.emitted(folder / "undisturbed"))
        assert len(expected[-1]) == 3 * restart_query.ROWS
        assert any("initial" in state for _, _, state in expected[-1])

    cases = [":".join([*case, str(folder)]) for folder, case in zip(folders, CASES, strict=True)]
    with Driver("initial_state_query.py", tmp_path / "driver.log", *cases) as driver:
        driver.wait_for(lambda: all(any((folder / "halfway").iterdir()) for folder in folders))
    for folder, (backend, checkpoint_format) in zip(folders, CASES, strict=True):
        assert committed(folder) == 0, "it was not killed in the first batch"
        batch_files.keep_a_file_a_batch(folder)
        settings(**query.settings(backend, checkpoint_format, partitions=3))
        query.start(spark, folder).awaitTermination()
        assert batch_files.emitted(folder) == expected.pop(0)
        checkpoint = str(folder / "checkpoint")
        counts = keystate.admin.read_state(spark, checkpoint, state="count")
        assert counts.count() == query.KEYS
        timers = keystate.admin.read_state(spark, checkpoint, state="$timers")
        assert timers.count() == query.KEYS
