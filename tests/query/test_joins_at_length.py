"""Joins in time of many keys, and over many micro-batches; with SLOW=1 only."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import keystate
import pandas as pd
import pytest
from keystate import Time

from tests.query.test_join_all import SCHEMA, at, of_sql, seen

pytestmark = pytest.mark.skipif("SLOW" not in os.environ, reason="SLOW: takes minutes")

KEYS = 2000
BATCHES = 60
END = 10**7

Rows = list[tuple[str, int, int]]


def fed_at_random(
    chance: random.Random, streams: list[Any], run: Callable[[], list[Any]]
) -> tuple[list[Rows], list[Any]]:
    """Feeds some rows of each key in micro-batches of any size; runs twice, and a last time."""
    everything: list[Rows] = []
    for _ in streams:
        times = chance.sample(range(5000, 5000 + 10**6), 4 * KEYS)
        rows = [(str(chance.randrange(KEYS)), n, time) for n, time in enumerate(sorted(times))]
        everything.append(rows)
    found: list[Any] = []
    for part in range(2):
        for rows, into in zip(everything, streams):
            half = rows[part * len(rows) // 2 : (part + 1) * len(rows) // 2]
            cuts = sorted(chance.sample(range(len(half)), 3))
            for begin, end in zip([0, *cuts], [*cuts, len(half)]):
                some = half[begin:end]
                chance.shuffle(some)
                into.feed([(key, n, at(time)) for key, n, time in some])
        found += run()
    for end in (END, 2 * END):
        for into in streams:
            into.feed([("end", end, at(end))])
    return everything, found + run()


def keyed(stream: Any) -> Any:
    # Within a micro-batch rows are in any order, which makes none late.
    return keystate.keyed(stream.source().withWatermark("time", "0 seconds"), "id")


def any_settings(chance: random.Random, settings: Callable[..., None]) -> None:
    settings(
        **{
            "spark.sql.shuffle.partitions": str(chance.randrange(1, 5)),
            "spark.keystate.backend": chance.choice(["hashmap", "rocksdb", "auto"]),
        }
    )


@pytest.mark.parametrize("seed", range(25))
def test_many_keys_as_of_are_joined_as_pandas_does(
    seed: int, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    chance = random.Random(seed)
    direction = chance.choice(["backward", "forward", "nearest"])
    tolerance = chance.randrange(1000, 300_000)
    exact = chance.random() < 0.5
    left, right = stream(SCHEMA), stream(SCHEMA)

    def run() -> list[Any]:
        any_settings(chance, settings)
        joined = keyed(left).join_asof(
            keyed(right),
            left_on="time",
            right_on="time",
            direction=direction,
            tolerance=Time.milliseconds(tolerance),
            allow_exact_matches=exact,
            suffix="_2",
        )
        return left.run(lambda _: joined)

    (lefts, rights), found = fed_at_random(chance, [left, right], run)
    frames = [pd.DataFrame(rows, columns=["id", "n", "time"]) for rows in (lefts, rights)]
    expected = pd.merge_asof(
        *frames,
        on="time",
        by="id",
        direction=direction,
        tolerance=tolerance,
        allow_exact_matches=exact,
        suffixes=("", "_2"),
    )
    assert seen(found, 2) == sorted(
        (
            (row.id, row.n, None if pd.isna(row.n_2) else int(row.n_2))
            for row in expected.itertuples()
        ),
        key=repr,
    )


@pytest.mark.parametrize("seed", range(25))
def test_many_keys_of_many_streams_are_joined_as_sql_does(
    seed: int, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    chance = random.Random(seed)
    how = chance.choice(["inner", "outer"])
    within = chance.randrange(1000, 300_000)
    streams = [stream(SCHEMA) for _ in range(chance.randrange(2, 5))]

    def run() -> list[Any]:
        any_settings(chance, settings)
        inputs = [keyed(each) for each in streams]
        joined = keystate.join_all(inputs, within=Time.milliseconds(within), how=how)
        return streams[0].run(lambda _: joined)

    rows, found = fed_at_random(chance, streams, run)
    assert seen(found, len(streams)) == of_sql(rows, within, how)


@pytest.mark.parametrize("come_and_go", [False, True])
@pytest.mark.parametrize("join", ["backward", "nearest", "inner", "outer", "interval"])
def test_state_stays_flat(join: str, come_and_go: bool, stream: Callable[..., Any]) -> None:
    """Of the same keys over a long time; and of new ones, where times have a limit."""
    left, right = stream(SCHEMA), stream(SCHEMA)
    for batch in range(BATCHES):
        for into in (left, right):
            keys = [f"{batch if come_and_go else ''} {i}" for i in range(50)]
            begin = 1000 * batch
            into.feed([(key, t, at(begin + t)) for t in (100, 600) for key in keys])
    near = Time.seconds(3)
    one, two = (
        keystate.keyed(each.source().withWatermark("time", "1 second"), "id")
        for each in (left, right)
    )
    if join in ("inner", "outer"):
        joined = keystate.join_all([one, two], within=near, how=join)
    elif join == "interval":
        joined = one.interval_join(two).between(Time.seconds(-3), near, how="left")
    else:
        limit = {"tolerance": near} if come_and_go or join == "nearest" else {}
        joined = one.join_asof(two, left_on="time", right_on="time", direction=join, **limit)
    left.run(lambda _: joined)
    entries = [each.stateOperators[0].numRowsTotal for each in left.progress]
    memory = [each.stateOperators[0].memoryUsedBytes for each in left.progress]
    for told in (entries, memory):
        early, late = told[15:35], told[-20:]
        assert max(late) <= 1.1 * max(early)
