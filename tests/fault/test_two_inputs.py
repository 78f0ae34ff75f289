"""A query of two keyed inputs that is killed and rescaled emits what an undisturbed one does."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from keystate._jvm.session import FORMAT_KEY

from tests.drawn import drawn
from tests.fault import batch_files
from tests.fault import two_inputs_query as query
from tests.fault.drivers import committed, kill_midway


@pytest.mark.turns
@pytest.mark.parametrize(
    ("backend", "checkpoint_format"),
    drawn("two inputs that are killed", [("hashmap", "2"), ("rocksdb", "1")], 1),
)
def test_killed_drivers_and_rescales(
    backend: str,
    checkpoint_format: str,
    spark: Any,
    settings: Callable[..., None],
    tmp_path: Path,
) -> None:
    """JVM and workers die too. What remains goes on with another number of partitions."""
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    settings(**{FORMAT_KEY: checkpoint_format, "spark.keystate.backend": backend})
    query.make_input(tmp_path, seed)
    query.start(spark, tmp_path, tmp_path / "undisturbed").awaitTermination()
    expected = batch_files.emitted(tmp_path / "undisturbed")
    assert sum(number > 0 for number, _, _ in expected) == 2 * query.FILES * query.ROWS
    assert sum(number < 0 for number, _, _ in expected) > query.ROWS, "hardly any timer fired"
    for _ in range(2):
        kill_midway(rng, 3, "two_inputs_query.py", tmp_path, checkpoint_format, backend)
    assert committed(tmp_path) < query.FILES, "it was not killed midway"
    settings(**{"spark.sql.shuffle.partitions": "5"})
    query.start(spark, tmp_path).awaitTermination()
    assert batch_files.emitted(tmp_path) == expected
