"""The same programs as real queries: restarts with other settings, backends and formats."""

from __future__ import annotations

import os
import random
import tempfile
import traceback
from collections import defaultdict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import keystate
from keystate import OutputTag
from keystate._jvm.session import FORMAT_KEY

from tests.conftest import Stream
from tests.contract.window_cases import at
from tests.fault.random_settings import CAN_GO_UP
from tests.fuzz import chains, checkpoints, keyed, objects, operators, pairs, replays, windows
from tests.fuzz.check import Outcome
from tests.fuzz.function import FUNCTIONS, SIDE, input_schema, output_schema
from tests.fuzz.program import Generator, Program, State

SETTINGS: dict[str, tuple[str | None, ...]] = {
    "spark.sql.shuffle.partitions": ("1", "2", "3", "5"),
    "spark.keystate.backend": ("hashmap", "rocksdb", "auto"),
    "spark.keystate.auto.heapShare": (None, "1e-9", "1e-7"),
    "spark.keystate.worker.maxCachedKeys": (None, "2", "3"),
    "spark.keystate.worker.inlineEntries": (None, "0", "2"),
    "spark.sql.execution.arrow.maxRecordsPerBatch": (None, "3", "7"),
}
#: How far the watermark of programs of windows is behind, in ms.
DELAY = 10
#: The key of rows that move the watermark at the end of a program of windows.
CLOCK = 9

_session: Any = None


def session(master: str = "local[2]") -> Any:
    """One session for all programs; the batches of a query are those of its rows."""
    global _session
    if _session is None:
        root = str(Path(__file__).parents[2])
        os.environ["PYTHONPATH"] = os.pathsep.join(
            filter(None, [root, os.environ.get("PYTHONPATH", "")])
        )
        builder = keystate.configure(
            _builder(master).config("spark.ui.enabled", "false").config("spark.driver.memory", "2g")
        )
        _session = builder.getOrCreate()
        _session.sparkContext.setLogLevel("OFF")
    return _session


def _builder(master: str) -> Any:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("keystate fuzz")
    for name in ("spark.driver.host", "spark.driver.bindAddress"):
        builder = builder.config(name, "127.0.0.1")
    return builder


@contextmanager
def _with(spark: Any, settings: dict[str, str | None]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in settings}
    _set(spark, settings)
    try:
        yield
    finally:
        _set(spark, before)


def _set(spark: Any, settings: dict[str, str | None]) -> None:
    for name, value in settings.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


#: By the seed's remainder.
_OF_CHECKPOINTS = {
    8: checkpoints.of_tables,
    10: checkpoints.of_lost,
    12: checkpoints.of_replays,
    13: checkpoints.of_keys,
    15: checkpoints.of_backups,
}


def check(seed: int, spark: Any = None) -> Outcome:
    """Runs the program of a seed once, with settings that change at each restart."""
    rng = random.Random(f"query {seed}")
    in_a_row = (_chains, _pairs)[seed // 16 % 2]
    run = (_keyed, _keyed, _windows, _operators, _objects, _keyed, _windows, in_a_row)[seed % 8]
    with tempfile.TemporaryDirectory() as folder:
        spark = spark or session()
        if seed % 16 not in _OF_CHECKPOINTS:
            return run(rng, spark, Path(folder))
        starts = Starts(rng)

        def settings(**more: str | None) -> AbstractContextManager[None]:
            return _with(spark, starts.settings() | more)

        return _OF_CHECKPOINTS[seed % 16](rng, spark, Path(folder), settings)


def report(seed: int, outcome: Outcome) -> str:
    return (
        f"seed {seed} differs: {outcome.differences[0][:3000]}\n{outcome.program.describe()}\n"
        f"again: python -m tests.fuzz --layer query --programs 1 --seed {seed}"
    )


class Starts:
    """The settings of each start of a query."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._format = rng.choice("112")

    def settings(self) -> dict[str, str | None]:
        drawn = {name: self._rng.choice(values) for name, values in SETTINGS.items()}
        if self._rng.random() < 0.4 and CAN_GO_UP:
            self._format = "2"  # it can't go back
        return drawn | {
            FORMAT_KEY: self._format,
            "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        }


def _outcome(of: Any, program: Any, wanted: Any, run: Any) -> Outcome:
    try:
        differences = of.differences(wanted, run())
    except Exception as e:
        differences = [f"{type(e).__name__}: {e}\n{traceback.format_exc()[-1500:]}"]
    return Outcome(program, of.size(wanted), of.restarts(program), differences)


def _keyed(rng: random.Random, spark: Any, folder: Path) -> Outcome:
    by_row = rng.random() < 0.2
    program = Generator(rng, rows=5 if by_row else 40).program()
    if program.style == "two inputs":
        # Which of two watermarks counts after a restart is not told.
        program = replace(program, style="yield")
    program = _of_one_time(program, by_row)

    def run() -> keyed.Emitted:
        emitted: keyed.Emitted = defaultdict(list)
        starts, stream = Starts(rng), Stream(spark, folder, input_schema(program))
        for segment in program.segments:
            stream.feed(
                *([keyed.row_of(program, row) for row in each] for each in segment.batches(by_row))
            )
            fn = FUNCTIONS[program.style](program, segment, keyed.is_tagged(program))
            schema = output_schema(program, segment)

            def build(df: Any, fn: Any = fn, schema: str = schema) -> Any:
                delayed = df.withWatermark("at", f"{keyed.DELAY} milliseconds")
                return keystate.keyed(delayed, "k").process(fn, schema)

            def written(df: Any, build: Any = build, schema: str = schema) -> Any:
                if not keyed.is_tagged(program):
                    return build(df)
                return build(df).with_side_outputs(OutputTag(SIDE, schema))

            with _with(spark, starts.settings()):
                for row in stream.run(written):
                    if keyed.is_tagged(program):
                        row = row[0] if row[1] is None else row[1]
                    keyed.take(program, row, emitted)
        replayed.extend(_replayed(build(stream.source()), stream, rng))
        return emitted

    replayed: list[str] = []
    outcome = _outcome(keyed, program, keyed.expected(program, by_row), run)
    outcome.differences += replayed
    return outcome


def _replayed(query: Any, stream: Stream, rng: random.Random) -> Iterator[str]:
    """What a replay of the last micro-batch tells as different, in half of the programs."""
    if rng.random() < 0.5:
        last = max(int(path.name) for path in stream.checkpoint.glob("commits/[0-9]*"))
        replay = keystate.replay(query, str(stream.checkpoint), batch=last)
        yield from replays.differs(replay, f"batch {last}")


def _of_one_time(program: Program, by_row: bool) -> Program:
    """The program without times to live of lists whose elements may share a timestamp, or not.

    They do if they travel in one message.
    """

    def alone(i: int) -> bool:
        timers = (ops for segment in program.segments for ops in segment.timers)
        return by_row and not any(op.state == i for ops in timers for op in ops)

    def states(of: tuple[State, ...]) -> tuple[State, ...]:
        shared = (state.kind == "list" and not alone(i) for i, state in enumerate(of))
        return tuple(replace(s, ttl=None) if is_so else s for s, is_so in zip(of, shared))

    segments = tuple(replace(s, states=states(s.states)) for s in program.segments)
    return replace(program, segments=segments)


def _windows(rng: random.Random, spark: Any, folder: Path) -> Outcome:
    while True:
        try:
            program = _by_their_rows(windows.generate(rng))
            wanted = windows.expected(program, by_row=False)
            break
        except windows.Unclear:
            continue
    others = CLOCK, "in"  # in which micro-batches windows fire is not looked at here
    wanted = {k: fired for k, fired in wanted.items() if k == "late" or k[0] not in others}

    def run() -> windows.Fired:
        fired: windows.Fired = defaultdict(list)
        starts, stream = Starts(rng), Stream(spark, folder, windows.INPUT)
        for each in program.runs:
            stream.feed(*([_window_row(row) for row in rows] for rows, _ in each.batches))

            def build(df: Any, rules: windows.Rules = each.rules) -> Any:
                delayed = df.withWatermark("at", f"{DELAY} milliseconds")
                rows = keystate.keyed(delayed, "key")
                return windows.of_stream(program, rules, rows)

            def written(df: Any, build: Any = build) -> Any:
                return build(df).with_side_outputs(windows.LATE)

            with _with(spark, starts.settings()):
                for main, late in stream.run(written):
                    if main is None:
                        fired["late"].append(late.i)
                    elif main.key != CLOCK:
                        fired[main.key, main.start, main.end].append(tuple(main.rows))
        replayed.extend(_replayed(build(stream.source()), stream, rng))
        return windows.ordered(fired)

    replayed: list[str] = []
    outcome = _outcome(windows, program, wanted, run)
    outcome.differences += replayed
    return outcome


def _by_their_rows(program: windows.Program) -> windows.Program:
    """The program with the watermarks that Spark makes of its rows, and rows that end it."""
    runs, latest, i = [], 0, 10**6
    for n, run in enumerate(program.runs):
        batches = []
        given = [rows for rows, _ in run.batches if rows] or [()]
        ends = [windows.END * k for k in (1, 2, 3)] if n + 1 == len(program.runs) else []
        given += [(windows.Fed(CLOCK, time, i + time),) for time in ends]
        for rows in given:
            batches.append((rows, max(0, latest - DELAY)))
            latest = max([latest, *(row.time for row in rows)])
        runs.append(replace(run, batches=tuple(batches)))
    return replace(program, runs=tuple(runs))


def _window_row(row: windows.Fed) -> tuple[Any, ...]:
    return row.key, datetime.fromtimestamp(row.time / 1000, timezone.utc), row.i, [row.i]


_BUILDS = {
    "reduce": lambda df, fn: keystate.keyed(df, "k").reduce(fn),
    "map": lambda df, fn: keystate.stream(df).map(fn, operators.ROW),
    "process_batches": lambda df, fn: keystate.keyed(df, "k").process_batches(fn, operators.ROW),
    "flat_map": lambda df, fn: keystate.stream(df).flat_map(fn, operators.ROW),
}


def _operators(rng: random.Random, spark: Any, folder: Path) -> Outcome:
    program = operators.generate(rng, operators.IN_QUERIES)
    case = operators.IN_QUERIES[program.case]

    def run() -> operators.Emitted:
        emitted, starts = [], Starts(rng)
        stream = Stream(spark, folder, operators.ROW)
        options = {}
        if case.initial:
            initial = [(key, i, list(xs)) for key, i, xs in case.initial]
            options["initial_state"] = spark.createDataFrame(initial, operators.ROW)
        for batches in program.runs:
            stream.feed(*(list(rows) for rows in batches))

            def build(df: Any) -> Any:
                make = _BUILDS.get(program.case)
                if make is not None:
                    return make(df, case.make())
                return keystate.keyed(df, "k").process(case.make(), operators.ROW, **options)

            settings = starts.settings()
            if case.alone:
                settings["spark.sql.shuffle.partitions"] = "1"
            with _with(spark, settings):
                emitted += [(row.i, tuple(row.xs)) for row in stream.run(build)]
        return sorted(emitted)

    return _outcome(operators, program, operators.expected(program, by_row=False), run)


def _objects(rng: random.Random, spark: Any, folder: Path) -> Outcome:
    program = objects.generate(rng)

    def run() -> objects.Emitted:
        emitted: objects.Emitted = []
        starts, stream = Starts(rng), Stream(spark, folder, objects.INPUT)
        for batches in program.runs:
            stream.feed(*map(objects.given, batches))
            with _with(spark, starts.settings()):
                for main, dead in stream.run(
                    lambda df: program.of(df).with_side_outputs(objects.DEAD)
                ):
                    emitted.append(
                        (main.i, main.text) if dead is None else (dead.row.i, dead.message)
                    )
        return sorted(emitted)

    return _outcome(objects, program, objects.expected(program, by_row=False), run)


def _chains(rng: random.Random, spark: Any, folder: Path) -> Outcome:
    program = chains.generate(rng)

    def run() -> chains.Emitted:
        emitted: chains.Emitted = []
        starts, stream = Starts(rng), Stream(spark, folder, chains.ROW)
        for n, (order, batches) in enumerate(zip(program.orders, program.runs)):
            stream.feed(*([(*row, None, None, None) for row in rows] for rows in batches))

            def build(df: Any, order: tuple[str, ...] = order) -> Any:
                for name in order:
                    df = keystate.keyed(df, "k").process(chains.Link(name), chains.ROW)
                return df

            try:
                with _with(spark, starts.settings()):
                    rows = stream.run(build)
            except Exception as e:
                if n == 0 or order == program.orders[n - 1] or chains.REFUSED not in str(e):
                    raise
                break
            emitted += [(row.i, row["total"], row["count"], tuple(row["last"])) for row in rows]
        return emitted

    return _outcome(chains, program, chains.expected(program), run)


def _pairs(rng: random.Random, spark: Any, folder: Path) -> Outcome:
    program = pairs.generate(rng)

    def run() -> pairs.Emitted:
        stream = Stream(spark, folder, pairs.SCHEMA)
        stream.feed(
            *([(key, value, at(time)) for key, value, time in rows] for rows in program.batches)
        )
        with _with(spark, Starts(rng).settings()):
            rows = stream.source().withWatermark("time", "0 seconds")
            found = stream.micro_batches(pairs.build(program, rows))
        return pairs.emitted([row for batch in found for row in batch])

    return _outcome(pairs, program, pairs.expected(program), run)
