"""Random programs of windows by event time, and a plain model of them.

Compared is what each window of a key fires, in order, and in which micro-batch.
"""

from __future__ import annotations

import pickle
import random
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from keystate import AggregateFunction, OutputTag
from keystate.testing import KeyedProcessHarness
from keystate.windows import (
    CountTrigger,
    EventTimeSessionWindows,
    EventTimeTrigger,
    ProcessWindowFunction,
    PurgingTrigger,
    SlidingEventTimeWindows,
    TumblingEventTimeWindows,
    window,
)

INPUT = "key bigint, at timestamp, i bigint, xs array<bigint>"
OUTPUT = "key bigint, start bigint, end bigint, rows array<bigint>"
LATE = OutputTag("late", INPUT)
#: The last event time, which closes everything.
END = 10**6


@dataclass(frozen=True)
class Rules:
    """What may change at a restart. `trigger` is None, or a count."""

    lateness: int
    count: int | None
    purging: bool


@dataclass(frozen=True)
class Fed:
    """A row."""

    key: int
    time: int
    i: int


@dataclass(frozen=True)
class Run:
    """What happens between two starts; micro-batches have rows and the watermark at their end."""

    rules: Rules
    partitions: int
    batches: tuple[tuple[tuple[Fed, ...], int], ...]


@dataclass(frozen=True)
class Program:
    """A program of windows.

    Attributes:
        shape: ``tumbling``, ``sliding`` or ``session``.
        function: what is made of rows.
        gentle: whether functions leave alone what they were given and what they have emitted.
    """

    shape: str
    size: int
    slide: int
    function: str
    gentle: bool
    runs: tuple[Run, ...]

    def describe(self) -> str:
        head = f"{self.shape} size {self.size} slide {self.slide}, {self.function}"
        head += ", changes nothing in place" if self.gentle else ""
        lines = [head]
        for run in self.runs:
            lines += [f"start by {run.rules} with {run.partitions} partitions"]
            lines += [f"{list(rows)} then watermark {mark}" for rows, mark in run.batches]
        return "\n  ".join(lines)


class Unclear(Exception):
    """The docs do not say what a window does that is past its end when its trigger changes."""


def generate(rng: random.Random) -> Program:
    """A program whose results the docs determine."""
    while True:
        program = _draw(rng)
        try:
            expected(program, by_row=False)
            expected(program, by_row=True)
            return program
        except Unclear:
            continue


def smaller(program: Program) -> Iterator[Program]:
    """Programs with one row less whose results the docs determine."""
    for r, run in enumerate(program.runs):
        for b, (rows, mark) in enumerate(run.batches):
            for i in range(len(rows)):
                runs, batches = list(program.runs), list(run.batches)
                batches[b] = (rows[:i] + rows[i + 1 :], mark)
                runs[r] = replace(run, batches=tuple(batches))
                made = replace(program, runs=tuple(runs))
                with suppress(Unclear):
                    expected(made, by_row=True)
                    expected(made, by_row=False)
                    yield made


def size(results: Fired) -> int:
    return sum(map(len, results.values()))


def restarts(program: Program) -> int:
    return len(program.runs) - 1


def _draw(rng: random.Random) -> Program:
    slide = rng.choice((5, 10))
    shape = rng.choice(("tumbling", "sliding", "session"))
    size = slide * (rng.choice((2, 3)) if shape == "sliding" else 1)
    rules = _rules(rng)
    runs, time, i = [], 100, 0
    for _ in range(rng.randint(1, 3)):
        batches = []
        for _ in range(rng.randint(1, 5)):
            rows = []
            for _ in range(rng.randint(0, 4)):
                rows.append(Fed(rng.randrange(3), max(1, time + rng.randint(-14, 14)), i))
                i += 1
            time += rng.choice((0, 3, 7, 20))
            batches.append((tuple(rows), time - 8))
        runs.append(Run(rules, rng.randint(1, 3), tuple(batches)))
        if rng.random() < 0.7:
            rules = _rules(rng)
    last = replace(runs[-1], batches=(*runs[-1].batches, ((), END), ((), END + 1)))
    function = rng.choice(("process", "aggregate", "reduce"))
    return Program(shape, size, slide, function, rng.random() < 0.5, (*runs[:-1], last))


def _rules(rng: random.Random) -> Rules:
    count = rng.choice((None, None, None, 1, 2, 100))
    return Rules(rng.choice((0, 0, 2, 5, 12)), count, rng.random() < 0.25)


# -- the model -----------------------------------------------------------------------------------


@dataclass
class Open:
    """An open window.

    Attributes:
        rows: what it holds.
        count: rows since it last fired, while a trigger counted.
        past: whether the watermark has passed its end, and its timer for that has fired.
    """

    start: int
    end: int
    rows: list[int] = field(default_factory=list)
    count: int = 0
    past: bool = False


#: By key and window: the rows of each firing, and the micro-batches. And the numbers of rows that
#: are late.
Fired = dict[Any, list[Any]]


class Model:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.windows: dict[int, list[Open]] = defaultdict(list)
        self.fired: Fired = defaultdict(list)
        self.watermark = 0
        self.batch = 0
        # The least lateness since a trigger last counted; None before the first one.
        self.least: int | None = None

    def start(self, rules: Rules) -> None:
        before, self.rules = getattr(self, "rules", rules), rules
        if rules.count is not None:
            # A window that was over by then, or was merged, may have left a count.
            left = self.program.shape == "session" or (self.least or 0) < rules.lateness
            if before.count is None and self.least is not None and left:
                raise Unclear
            self.least = rules.lateness
        elif self.least is not None:
            self.least = min(self.least, rules.lateness)
        changed = (before.count, before.purging) != (rules.count, rules.purging)
        for key, windows in self.windows.items():
            for each in windows:
                if changed and each.end - 1 <= self.watermark:
                    raise Unclear
                if before.count != rules.count and None not in (before.count, rules.count):
                    raise Unclear  # how many rows count is the old trigger's state
            # By the new lateness their time may be over.
            self.windows[key] = [w for w in windows if self._cleanup(w) > self.watermark]

    def row(self, row: Fed) -> None:
        on_time = False
        for each in self._assign(row):
            if self._cleanup(each) <= self.watermark:
                continue
            on_time = True
            each.rows.append(row.i)
            if self.rules.count is not None:
                each.count += 1
                if each.count >= self.rules.count:
                    each.count = 0
                    self._fire(row.key, each)
            elif each.end - 1 <= self.watermark:
                each.past = True
                self._fire(row.key, each)
        if not on_time and row.time + self.rules.lateness <= self.watermark:
            self.fired["late"].append(row.i)

    def advance(self, watermark: int) -> None:
        self.watermark = max(self.watermark, watermark)
        for key, windows in self.windows.items():
            for each in sorted(windows, key=lambda w: w.end):
                if each.end - 1 <= self.watermark and not each.past:
                    each.past = True
                    if self.rules.count is None:
                        self._fire(key, each)
            self.windows[key] = [w for w in windows if self._cleanup(w) > self.watermark]

    def _cleanup(self, each: Open) -> int:
        return each.end - 1 + self.rules.lateness

    def _fire(self, key: int, each: Open) -> None:
        if each.rows:
            self.fired[key, each.start, each.end].append(tuple(each.rows))
            self.fired["in", key, each.start, each.end].append((self.batch,))
        if self.rules.purging:
            each.rows = []

    def _assign(self, row: Fed) -> list[Open]:
        program, windows = self.program, self.windows[row.key]
        if program.shape == "session":
            new = Open(row.time, row.time + program.size)
            met = [w for w in windows if w.start <= new.end and new.start <= w.end]
            start = min([new.start, *(w.start for w in met)])
            end = max([new.end, *(w.end for w in met)])
            merged = Open(start, end, [i for w in met for i in w.rows], sum(w.count for w in met))
            if len(met) == 1 and (met[0].start, met[0].end) == (start, end):
                return met
            if self._cleanup(merged) > self.watermark:
                merged.past = merged.end - 1 <= self.watermark
                self.windows[row.key] = [w for w in windows if w not in met] + [merged]
            return [merged]
        found = []
        slide = program.slide if program.shape == "sliding" else program.size
        for start in range(row.time // slide * slide, row.time - program.size, -slide):
            each = next((w for w in windows if w.start == start), Open(start, start + program.size))
            if each not in windows and self._cleanup(each) > self.watermark:
                windows.append(each)
            found.append(each)
        return found


def expected(program: Program, by_row: bool) -> Fired:
    model = Model(program)
    for run in program.runs:
        model.start(run.rules)
        for rows, mark in run.batches:
            for row in rows:
                model.row(row)
            model.advance(mark)
            model.batch += 1
    return ordered(model.fired)


def ordered(fired: Fired) -> Fired:
    """Rows in a window have an order that is not told where sessions are merged, nor have keys."""
    return {
        key: sorted(found) if key == "late" else [tuple(sorted(each)) for each in found]
        for key, found in fired.items()
        if found
    }


# -- the real ones -------------------------------------------------------------------------------


class Collect(AggregateFunction):
    """Its accumulator is the result, and is changed in place unless it is to be gentle."""

    def __init__(self, gentle: bool) -> None:
        self._gentle = gentle

    def create_accumulator(self) -> list[int]:
        return []

    def add(self, value: Any, accumulator: list[int]) -> list[int]:
        accumulator.append(value.i)
        return accumulator

    def get_result(self, accumulator: list[int]) -> list[int]:
        return list(accumulator) if self._gentle else accumulator

    def merge(self, acc_a: list[int], acc_b: list[int]) -> list[int]:
        if self._gentle:
            return acc_a + acc_b
        acc_a.extend(acc_b)
        return acc_a


class Rows(ProcessWindowFunction):
    """Emits the rows' numbers, and changes the rows and the result afterwards."""

    def __init__(self, gentle: bool) -> None:
        self._gentle = gentle

    def process(self, key: int, context: Any, elements: Any) -> Any:
        numbers = [x for row in elements for x in (row if isinstance(row, list) else row.xs)]
        at = context.window()
        yield key, at.start, at.end, numbers
        if self._gentle:
            return
        for row in elements:
            (row if isinstance(row, list) else row.xs).append(-1)
        numbers.append(-2)


def _new(a: Any, b: Any) -> Any:
    return a.key, a.at, a.i, a.xs + b.xs


def _both(a: Any, b: Any) -> Any:
    a.xs.extend(b.xs)
    b.xs.append(-3)
    return a


def _windowing(rules: Rules, windows: Any) -> Any:
    windows = windows.side_output_late_data(LATE).allowed_lateness(rules.lateness)
    if rules.count is not None or rules.purging:
        inner: Any = EventTimeTrigger() if rules.count is None else CountTrigger.of(rules.count)
        windows = windows.trigger(PurgingTrigger.of(inner) if rules.purging else inner)
    return windows


def _assigner(program: Program) -> Any:
    if program.shape == "session":
        return EventTimeSessionWindows.with_gap(program.size)
    if program.shape == "sliding":
        return SlidingEventTimeWindows.of(program.size, program.slide)
    return TumblingEventTimeWindows.of(program.size)


def _function(program: Program, rules: Rules, windows: Any, schema: tuple[str, ...] = ()) -> Any:
    """The windows with the function; streams need the schema of its results too."""
    windows = _windowing(rules, windows)
    rows, gentle = Rows(program.gentle), program.gentle
    if program.function == "process":
        return windows.process(rows, *schema)
    if program.function == "reduce":
        return windows.reduce(_new if gentle else _both, rows, *schema)
    if schema:
        return windows.aggregate(Collect(gentle), "array<bigint>", *schema, rows)
    return windows.aggregate(Collect(gentle), "array<bigint>", rows)


def of_stream(program: Program, rules: Rules, rows: Any) -> Any:
    """What the windows of a keyed stream emit."""
    return _function(program, rules, rows.window(_assigner(program)), (OUTPUT,))


def found(program: Program, by_row: bool) -> Fired:
    fired: Fired = defaultdict(list)
    snapshot, batch = None, 0
    for run in program.runs:
        function = _function(program, run.rules, window(_assigner(program)))
        if snapshot is None:
            harness = KeyedProcessHarness(
                function, INPUT, "key", OUTPUT, event_time="at", side_outputs=[LATE],
                parallelism=run.partitions,
            )  # fmt: skip
        else:
            harness = KeyedProcessHarness.restore(snapshot, function, parallelism=run.partitions)
        for rows, mark in run.batches:
            given = [
                (row.key, datetime.fromtimestamp(row.time / 1000, timezone.utc), row.i, [row.i])
                for row in rows
            ]
            if by_row:
                results = [each for row in given for each in harness.process_batch([row])]
                results += harness.advance_watermark(mark)
            else:
                results = harness.process_batch(given, watermark=mark)
            for key, start, end, numbers in results:
                fired[key, start, end].append(tuple(numbers))
                fired["in", key, start, end].append((batch,))
            batch += 1
        fired["late"] += [row.i for row in harness.side_output(LATE)]
        snapshot = pickle.loads(pickle.dumps(harness.snapshot()))
        harness.close()
    # What an earlier trigger counted stays until a trigger declares its state again, as documented.
    same_trigger = len({run.rules.count is None for run in program.runs}) == 1
    if same_trigger and harness.num_keys:
        fired["left behind"] = [(harness.num_keys,)]
    return ordered(fired)


def differences(wanted: Fired, got: Fired) -> list[str]:
    return [
        f"{key}: wanted {wanted.get(key)}, found {got.get(key)}"
        for key in sorted({*wanted, *got}, key=repr)
        if wanted.get(key) != got.get(key)
    ]
