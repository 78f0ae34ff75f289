"""Windowed and async queries that are killed and rescaled emit what undisturbed ones do.

Windows are by functions and by aggregates of columns.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from keystate._jvm.session import FORMAT_KEY

from tests.drawn import drawn
from tests.fault import batch_files
from tests.fault import functions_query as query
from tests.fault.drivers import committed, kill_midway

KILLS = 3 if os.environ.get("SLOW") else 1
CASES = [
    ("windows", "hashmap", "2"),
    ("windows", "rocksdb", "1"),
    ("windows", "rocksdb", "2"),
    ("async", "rocksdb", "2"),
    ("async", "hashmap", "1"),
]
AGGREGATES = [
    (kind, backend, checkpoint_format)
    for kind in ("aggregates", "begun")
    for backend in ("hashmap", "rocksdb", "auto")
    for checkpoint_format in "12"
]


def check_windows(told: list[tuple[Any, ...]]) -> None:
    """That there were late firings, merged sessions and rows that were too late."""
    sessions = [json.loads(text) for _, text in told if text.startswith("[")]
    numbers = [number for *_, rows in sessions for number in rows]
    assert len(numbers) > len(set(numbers)) + 5, "hardly any session fired again"
    assert len(told) > len(sessions) + 5, "hardly any row was too late"
    assert sum(len(rows) > 1 for *_, rows in sessions) > query.FILES, "hardly any was merged"


def check_async(told: list[tuple[Any, ...]]) -> None:
    """That each row was told of, and that timers fired."""
    assert sum(len(json.loads(text)) == 3 for _, text in told) > query.FILES * query.ROWS * 0.6
    assert sum(len(json.loads(text)) == 2 for _, text in told) > query.ROWS


def check_aggregates(told: list[tuple[Any, ...]]) -> None:
    """That there were late firings, merged sessions and rows that were too late."""
    windows = [json.loads(text) for _, text in told if text.startswith("{")]
    numbers = [number for window in windows for number in window["numbers"]]
    assert len(numbers) > len(set(numbers)) + 5, "hardly any session fired again"
    assert len(told) > len(windows) + 5, "hardly any row was too late"
    assert sum(len(window["numbers"]) > 1 for window in windows) > query.FILES


def check_begun(told: list[tuple[Any, ...]]) -> None:
    """That there were late firings, and that most windows have several rows."""
    windows = [json.loads(text) for _, text in told]
    bounds = [(key, window["start"]) for (key, _), window in zip(told, windows)]
    assert len(bounds) > len(set(bounds)) + 5, "hardly any window fired again"
    assert sum(len(window["numbers"]) > 1 for window in windows) > len(windows) / 2


CHECKS = {
    "windows": check_windows,
    "async": check_async,
    "aggregates": check_aggregates,
    "begun": check_begun,
}


@pytest.mark.turns
@pytest.mark.parametrize(
    ("kind", "backend", "checkpoint_format"),
    drawn("functions that are killed", CASES, 1)
    + drawn("aggregates that are killed", AGGREGATES, 1),
)
def test_killed_drivers_and_a_rescale(
    kind: str,
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
    made: Any = query.QUERIES[kind](query.source(spark, tmp_path))
    assert (kind == "begun") == ("PartialAggregate" in made._jdf.queryExecution().toString())
    query.start(spark, tmp_path, kind, tmp_path / "undisturbed").awaitTermination()
    expected = batch_files.emitted(tmp_path / "undisturbed")
    CHECKS[kind](expected)
    for _ in range(KILLS):
        kill_midway(rng, 3, "functions_query.py", tmp_path, kind, checkpoint_format, backend)
    assert 0 < committed(tmp_path) < query.FILES, "it was not killed midway"
    settings(**{"spark.sql.shuffle.partitions": "5"})
    query.start(spark, tmp_path, kind).awaitTermination()
    assert batch_files.emitted(tmp_path) == expected
