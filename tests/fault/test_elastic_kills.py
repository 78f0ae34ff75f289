"""A driver that is killed while it changes the partitions of an elastic query."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from keystate import admin
from keystate._jvm.session import FORMAT_KEY

from tests.fault import batch_files, elastic_query, restart_query
from tests.fault.drivers import Driver, committed

KILLS = int(os.environ.get("KEYSTATE_KILLS", 4))


@pytest.mark.skipif("SLOW" not in os.environ, reason="a minute each; set SLOW=1")
@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_killed_while_it_rescales(
    backend: str, checkpoint_format: str, spark: Any, settings: Callable[..., None], tmp_path: Path
) -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    expected = restart_query.make_input(tmp_path, seed)
    inside = 0
    for i in range(KILLS):
        arguments = tmp_path, checkpoint_format, backend, seed + i
        with Driver("elastic_query.py", tmp_path / f"{i}.log", *arguments) as driver:
            driver.wait_for((tmp_path / "rescales").exists)
            time.sleep(rng.uniform(0, 0.6))
            inside += (tmp_path / "rescales").exists()
            driver.kill_all()
        (tmp_path / "rescales").unlink(missing_ok=True)
        if committed(tmp_path) >= restart_query.FILES - 4:
            break
    assert inside, "no change was cut off"
    print(f"{i + 1} kills, {inside} inside a change")
    assert committed(tmp_path) < restart_query.FILES, "it was not killed midway"
    settings(**{FORMAT_KEY: checkpoint_format})
    elastic_query.start(spark, tmp_path, availableNow=True).awaitTermination()
    assert batch_files.emitted(tmp_path) == expected
    assert admin.verify(str(tmp_path / "checkpoint")) == []
