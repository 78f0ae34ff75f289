"""A driver that is killed while it forks, compares and promotes."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import admin
from keystate._jvm.session import FORMAT_KEY
from pyspark.errors import StreamingQueryException

from tests.drawn import drawn
from tests.fault import canary_query
from tests.fault.drivers import Driver

KILLS = int(os.environ.get("KEYSTATE_KILLS", 6))


@pytest.mark.turns
@pytest.mark.parametrize("waits", drawn("kills in promotions", ["before", "after"], 1))
def test_killed_in_a_promotion(
    waits: str, spark: Any, settings: Callable[..., None], tmp_path: Path
) -> None:
    """One of the two checkpoints can be started, with each micro-batch once; not the other one."""
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    expected = canary_query.make_input(tmp_path, seed)
    arguments = tmp_path, "2", "hashmap", seed, waits
    with Driver("canary_query.py", tmp_path / "log", *arguments) as driver:
        driver.wait_for((tmp_path / "waits").exists)
        driver.kill_all()
    settings(**{FORMAT_KEY: "2"})
    at = canary_query.current(spark, tmp_path)
    places = [canary_query.place(tmp_path, number) for number in (0, 1)]
    assert at == places[waits == "after"] and all(map(os.path.exists, places))
    start = canary_query.starter(spark, tmp_path, "output", availableNow=True)
    other = places[waits == "before"]
    refused = {"before": "KEYSTATE_PROMOTION_UNFINISHED", "after": "KEYSTATE_CHECKPOINT_MOVED"}
    for place, match in ((other, refused[waits]), (at, ""), (other, refused[waits])):
        query = start(place)
        if match:
            with pytest.raises(StreamingQueryException, match=match):
                query.awaitTermination()
        else:
            query.awaitTermination()
    assert emitted(tmp_path) == expected
    assert admin.verify(at) == []


def emitted(folder: Path) -> list[tuple[int, int]]:
    return sorted(
        tuple(row)
        for path in (folder / "output").glob("*.json")
        for row in json.loads(path.read_text())
    )


@pytest.mark.skipif("SLOW" not in os.environ, reason="minutes; set SLOW=1")
@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_killed_at_work(
    backend: str, checkpoint_format: str, spark: Any, settings: Callable[..., None], tmp_path: Path
) -> None:
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    expected = canary_query.make_input(tmp_path, seed)
    inside = {"at-work": 0, "promotes": 0}
    for i in range(KILLS):
        what = rng.choice(list(inside))
        arguments = tmp_path, checkpoint_format, backend, seed + i
        with Driver("canary_query.py", tmp_path / f"{i}.log", *arguments) as driver:
            driver.wait_for((tmp_path / what).exists)
            # Some are through by then, and the next one is at work.
            time.sleep(rng.uniform(0, 4))
            inside[what] += (tmp_path / what).exists()
            driver.kill_all()
        for name in inside:
            (tmp_path / name).unlink(missing_ok=True)
        if canary_query.last_batch(tmp_path) >= canary_query.FILES - 6:
            break
    assert sum(inside.values()), "nothing was cut off"
    print(f"{i + 1} kills, inside: {inside}")
    settings(**{FORMAT_KEY: checkpoint_format})
    at = canary_query.current(spark, tmp_path)
    query = canary_query.starter(spark, tmp_path, "output", availableNow=True)(at)
    query.awaitTermination()
    assert emitted(tmp_path) == expected
    assert admin.verify(at) == []
    # Another canary finds what the others left, and leaves nothing.
    keystate.canary(at, lambda _: None, spark=spark).drop()
    left = {path.name for path in Path(at).parent.iterdir()}
    assert left == {"checkpoint"}, left
