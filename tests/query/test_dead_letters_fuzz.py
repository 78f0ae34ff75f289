"""Functions that fail at random, in queries: all is as if those rows never were."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import OutputTag, admin
from keystate.session import FORMAT_KEY

from tests.failing import INPUT, OUTPUT, SIDE, Random, batches_of
from tests.fuzz.query import SETTINGS

DEAD = OutputTag("dead", keystate.dead_letter_schema(INPUT))
STATES = ("value", "row", "list", "map", "words", "sorted", "sum", "joined", "all", "folded")
SLOW = bool(os.environ.get("SLOW"))


class ByEventTime(Random):
    by_event_time = True


def query(seed: int, skips: bool) -> Callable[[Any], Any]:
    """The function with dead letters, or without the rows that are to fail."""

    def build(df: Any) -> Any:
        rows = keystate.keyed(df.withWatermark("at", "30 milliseconds"), "k", max_parallelism=8)
        on_error = "fail" if skips else keystate.dead_letters(DEAD)
        done = rows.process(ByEventTime(seed, skips), OUTPUT, on_error=on_error)
        return done.with_side_outputs(SIDE)

    return build


def contents(spark: Any, checkpoint: Path) -> dict[str, list[str]]:
    found = {}
    for state in (*STATES, "$timers"):
        rows = admin.read_state(spark, str(checkpoint), state=state).drop("partition_id")
        found[state] = sorted(map(repr, rows.collect()))
    return found


@pytest.mark.parametrize("seed", range(60) if SLOW else (3, 8))
def test_fails_as_if_the_rows_never_were(
    seed: int, spark: Any, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """Each start has other partitions, another backend and other sizes of messages."""
    rng = random.Random(seed)
    batches = [batch for batch in batches_of(rng) if batch]
    with_letters, without = stream(INPUT), stream(INPUT)
    checkpoint_format = rng.choice("12")
    for first in range(0, len(batches), 2):
        for fed, skips in ((with_letters, False), (without, True)):
            drawn = {name: rng.choice(values) for name, values in SETTINGS.items()}
            known = {name: value for name, value in drawn.items() if value is not None}
            settings(**known, **{FORMAT_KEY: checkpoint_format})
            fed.feed(*batches[first : first + 2])
            fed.emitted = sorted(map(repr, fed.run(query(seed, skips))))
        assert with_letters.emitted == without.emitted
        assert any(
            progress.stateOperators[0].customMetrics.get("keystateDeadLetters", 0)
            for progress in with_letters.progress
        )
    assert contents(spark, with_letters.checkpoint) == contents(spark, without.checkpoint)


@pytest.mark.spark
@pytest.mark.skipif(not SLOW, reason="a session of its own; set SLOW=1")
def test_without_what_is_compiled() -> None:
    environment = {**os.environ, "KEYSTATE_NATIVE": "0", "SLOW": ""}
    command = [sys.executable, "-m", "pytest", "-q", __file__]
    subprocess.run(command, env=environment, check=True)
