"""Programs that run a query, and then do with its checkpoint what users do."""

from __future__ import annotations

import random
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import keystate

from tests.conftest import KEEP_SECONDS, Stream
from tests.fuzz import backups, chains, keys, lost, replays, tables
from tests.fuzz.check import Outcome

#: Sets other settings for the next start.
Settings = Callable[..., AbstractContextManager[None]]


class Counted:
    """How many results were compared."""

    def __init__(self) -> None:
        self.results = 0

    def __call__(self) -> None:
        self.results += 1


def _outcome(program: Any, counted: Counted, differences: Iterator[str], restarts: int) -> Outcome:
    told: list[str] = []
    try:
        told += differences
    except Exception as e:
        told.append(f"{type(e).__name__}: {e}\n{traceback.format_exc()[-1500:]}")
    return Outcome(program, counted.results, restarts, told)


def of_tables(rng: random.Random, spark: Any, folder: Path, settings: Settings) -> Outcome:
    program, counted = tables.generate(rng), Counted()
    stream = Stream(spark, folder, program.schema)

    def told() -> Iterator[str]:
        rows = [(*key, n) for n, key in enumerate(program.keys)]
        cut = rng.randrange(len(rows))
        for part in (rows[:cut], rows[cut:]):
            stream.feed(part)
            with settings():
                stream.run(_tables_query)
        yield from tables.differences(program, spark, stream.checkpoint, counted)

    return _outcome(program, counted, told(), 1)


def _tables_query(df: Any) -> Any:
    return keystate.keyed(df, *df.columns[:-1]).process(tables.Keeps(), "n bigint")


def of_keys(rng: random.Random, spark: Any, folder: Path, settings: Settings) -> Outcome:
    program = keys.generate(rng)
    run = keys.Run(program, spark, Stream(spark, folder, program.schema), settings)
    outcome = _outcome(program, Counted(), run.differences(), len(program.runs))
    outcome.results = run.compared
    return outcome


def of_lost(rng: random.Random, spark: Any, folder: Path, settings: Settings) -> Outcome:
    program, counted = lost.generate(rng), Counted()
    chain = program.chain
    stream = Stream(spark, folder, chains.ROW)

    def build(df: Any) -> Any:
        for name in chain.orders[0]:
            df = keystate.keyed(df, "k").process(chains.Link(name), chains.ROW)
        return df

    def run() -> chains.Emitted:
        with settings(**{KEEP_SECONDS: "0"}):
            rows = stream.run(build)
        return [(row.i, row["total"], row["count"], tuple(row["last"])) for row in rows]

    def told() -> Iterator[str]:
        before: chains.Emitted = []
        for n, batches in enumerate(chain.runs):
            stream.feed(*([(*row, None, None, None) for row in rows] for rows in batches))
            if n + 1 < len(chain.runs):
                before += run()
        if verified := keystate.admin.verify(str(stream.checkpoint)):
            yield f"nothing is lost, and verify says {verified}"
        wanted = [each for each in chains.expected(chain) if each not in before]
        what = lost.lose(program, stream.checkpoint)
        yield from lost.differences(what, stream, run, wanted, counted)

    return _outcome(program, counted, told(), len(chain.runs))


def of_replays(rng: random.Random, spark: Any, folder: Path, settings: Settings) -> Outcome:
    program, counted = replays.generate(rng), Counted()
    stream = Stream(spark, folder, replays.INPUT)

    def told() -> Iterator[str]:
        stream.feed(*map(list, program.batches))
        with settings():
            stream.run(replays.build)
        yield from replays.differences(program, stream, folder, counted)

    return _outcome(program, counted, told(), 0)


def of_backups(rng: random.Random, spark: Any, folder: Path, settings: Settings) -> Outcome:
    program, counted, last = backups.generate(rng), Counted(), [-1]
    stream = Stream(spark, folder, chains.ROW)

    def build(df: Any) -> Any:
        return keystate.keyed(df, "k").process(chains.Link("total"), chains.ROW)

    def run(batches: int) -> int:
        stream.feed(*([(n, last[0] + n, None, None, None)] for n in range(batches)))
        if batches:
            with settings():
                stream.run(build)
        last[0] += batches
        return last[0]

    told = backups.differences(program, spark, stream.checkpoint, run, counted)
    return _outcome(program, counted, told, len(program.rounds))
