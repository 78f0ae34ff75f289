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
from keystate._jvm.session import FORMAT_KEY
from pyspark.sql import functions as F

from tests.drawn import drawn
from tests.failing import INPUT, OUTPUT, SIDE, Random, batches_of
from tests.failing_operators import (
    RULES,
    WINDOWS,
    AsyncRandom,
    Batches,
    Both,
    Ruled,
    Sums,
    Windowed,
)
from tests.fuzz.query import SETTINGS

DEAD = OutputTag("dead", keystate.dead_letter_schema(INPUT))
SLOW = bool(os.environ.get("SLOW"))

#: Builds an operator, as its random numbers say, of the first input and maybe the second.
Build = Callable[[random.Random, bool, Any, Any], Any]


class ByEventTime(Random):
    by_event_time = True


def _keyed(df: Any) -> Any:
    return keystate.keyed(df.withWatermark("at", "30 milliseconds"), "k", max_parallelism=8)


def _on_error(skips: bool) -> Any:
    return "fail" if skips else keystate.dead_letters(DEAD)


def one_input(rng: random.Random, skips: bool, df: Any, other: Any) -> Any:
    fn = ByEventTime(rng.randrange(1000), skips)
    return _keyed(df).process(fn, OUTPUT, on_error=_on_error(skips))


def two_inputs(rng: random.Random, skips: bool, df: Any, other: Any) -> Any:
    fn, order = Both(ByEventTime(rng.randrange(1000), skips)), rng.choice([None, "seed"])
    both = _keyed(df).connect(_keyed(other))
    return both.process(fn, OUTPUT, ordered_by=order, on_error=_on_error(skips))


def broadcast(rng: random.Random, skips: bool, df: Any, other: Any) -> Any:
    fn = Ruled(ByEventTime(rng.randrange(1000), skips))
    both = _keyed(df).connect(keystate.broadcast(other, RULES))
    return both.process(fn, OUTPUT, on_error=_on_error(skips))


def windows(rng: random.Random, skips: bool, df: Any, other: Any) -> Any:
    name, aggregates = rng.choice(sorted(WINDOWS)), rng.random() < 0.5
    if skips or not aggregates:  # the rows still move the watermark
        df = df.withWatermark("at", "30 milliseconds").where(F.col("fails") == 0)
        rows = keystate.keyed(df, "k", max_parallelism=8)
    else:
        rows = _keyed(df)
    fn, made = Windowed(skips, own_states=name != "sessions"), WINDOWS[name](rows.window)
    on_error = _on_error(skips)
    if aggregates:
        return made.aggregate(Sums(skips), "array<long>", OUTPUT, fn, on_error=on_error)
    return made.process(fn, OUTPUT, on_error=on_error)


def async_calls(rng: random.Random, skips: bool, df: Any, other: Any) -> Any:
    fn = AsyncRandom(ByEventTime(rng.randrange(1000), skips))
    return _keyed(df).process(fn, OUTPUT, on_error=_on_error(skips))


def batches(rng: random.Random, skips: bool, df: Any, other: Any) -> Any:
    return _keyed(df).process_batches(Batches(skips), OUTPUT, on_error=_on_error(skips))


BUILDS: dict[str, Build] = {
    build.__name__: build
    for build in (one_input, two_inputs, broadcast, windows, async_calls, batches)
}


def query(name: str, seed: int, skips: bool, other: Any) -> Callable[[Any], Any]:
    """The operator with dead letters, or without the rows that are to fail."""

    def build(df: Any) -> Any:
        made = BUILDS[name](random.Random(seed), skips, df, other)
        # Functions of batches have no other outputs than letters.
        return made if name == "batches" else made.with_side_outputs(SIDE)

    return build


def contents(spark: Any, checkpoint: Path, timers: bool) -> dict[Any, Any]:
    """What keys have that has not expired, broadcast state, and the timers.

    Which expired entries are still stored depends on backends and messages.
    """
    (operator,) = admin.inspect(str(checkpoint))["operators"]
    found: dict[Any, Any] = {}
    names = [state["name"] for state in operator["states"] if state["name"] != "$timers"]
    for name in names + ["$timers"] * timers:
        if name in (RULES.name, "$timers"):
            rows = admin.read_state(spark, str(checkpoint), state=name).drop("partition_id")
            found[name] = sorted(map(repr, rows.collect()))
        elif name[0] != "$":
            for key in "ab":
                held = admin.lookup(str(checkpoint), key=key, state=name)
                held = sorted(map(repr, held.items())) if isinstance(held, dict) else held
                found[name, key] = held
    return found


SEEDS = [(name, seed) for name in BUILDS for seed in range(60)]
QUICK = [("one_input", 3), ("two_inputs", 3), ("broadcast", 1), ("windows", 4)]


@pytest.mark.parametrize(("name", "seed"), SEEDS if SLOW else drawn("dead letters", QUICK, 2))
def test_fails_as_if_the_rows_never_were(
    name: str,
    seed: int,
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    """Each start has other partitions, another backend and other sizes of messages."""
    rng = random.Random(seed)
    batches = [batch for batch in batches_of(rng) if batch]
    others = [[row for row in batch if rng.random() < 0.4] for batch in batches]
    with_letters, without = ((stream(INPUT), stream(INPUT)) for _ in range(2))
    checkpoint_format, letters = rng.choice("12"), 0
    for first in range(0, len(batches), 2):
        emitted = []
        for (fed, other), skips in ((with_letters, False), (without, True)):
            drawn = {name: rng.choice(values) for name, values in SETTINGS.items()}
            known = {name: value for name, value in drawn.items() if value is not None}
            settings(**known, **{FORMAT_KEY: checkpoint_format})
            fed.feed(*batches[first : first + 2])
            other.feed(*others[first : first + 2])

            emitted.append(sorted(map(repr, fed.run(query(name, seed, skips, other.source())))))
        assert emitted[0] == emitted[1]
        counts = [p.stateOperators[0].customMetrics for p in with_letters[0].progress]
        letters += sum(each.get("keystateDeadLetters", 0) for each in counts)
    assert letters or name == "windows"
    checkpoints = [fed.checkpoint for fed, _ in (with_letters, without)]
    timers = name != "batches"  # which have none
    assert contents(spark, checkpoints[0], timers) == contents(spark, checkpoints[1], timers)


@pytest.mark.spark
@pytest.mark.skipif(not SLOW, reason="a session of its own; set SLOW=1")
def test_without_what_is_compiled() -> None:
    environment = {**os.environ, "KEYSTATE_NATIVE": "0", "SLOW": ""}
    command = [sys.executable, "-m", "pytest", "-q", __file__]
    subprocess.run(command, env=environment, check=True)
