"""Programs of keyed state in the harness: the worker's code, without Spark."""

from __future__ import annotations

import pickle
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from keystate import OutputTag
from keystate.testing import KeyedProcessHarness, KeyedTwoInputHarness

from tests.fuzz import values as v
from tests.fuzz.function import FUNCTIONS, SIDE, input_schema, output_schema
from tests.fuzz.model import Emitted, Model
from tests.fuzz.program import Fed, Generator, Program, Segment

EPOCH = datetime(1970, 1, 1)
#: How far the watermark is behind the latest row of the micro-batches before, in ms.
DELAY = 3


class Watermark:
    """The watermark of the next micro-batch, as Spark's is."""

    def __init__(self) -> None:
        self.now = 0

    def after(self, rows: tuple[Fed, ...]) -> None:
        self.now = max([self.now, *(row.time - DELAY for row in rows)])


def generate(rng: random.Random) -> Program:
    return Generator(rng).program()


def smaller(program: Program) -> Iterator[Program]:
    """Programs with one row less, or one call."""
    for s, segment in enumerate(program.segments):

        def with_segment(at: int = s, of: Segment = segment, **changes: Any) -> Program:
            segments = list(program.segments)
            segments[at] = replace(of, **changes)
            return replace(program, segments=tuple(segments))

        for i in range(len(segment.rows) if len(segment.rows) > 1 else 0):
            cuts = tuple(cut - (cut > i) for cut in segment.cuts)
            cuts = tuple(sorted({cut for cut in cuts if 0 < cut < len(segment.rows) - 1}))
            yield with_segment(rows=segment.rows[:i] + segment.rows[i + 1 :], cuts=cuts)
        for step, ops in segment.steps.items():
            for i in range(len(ops)):
                yield with_segment(steps=segment.steps | {step: ops[:i] + ops[i + 1 :]})


def size(results: Emitted) -> int:
    return sum(map(len, results.values()))


def restarts(program: Program) -> int:
    return len(program.segments) - 1


def expected(program: Program, by_row: bool) -> Emitted:
    model, watermark = Model(program), Watermark()
    for segment in program.segments:
        model.start(segment)
        for batch in segment.batches(by_row):
            model.batch(batch, watermark.now)
            watermark.after(batch)
    return model.emitted


def found(program: Program, by_row: bool) -> Emitted:
    """What the harness emits."""
    emitted: Emitted = defaultdict(list)
    watermark, snapshot = Watermark(), None
    for segment in program.segments:
        harness = _harness(program, segment, snapshot)
        for batch in segment.batches(by_row):
            seen = len(harness.side_output(_tag(program, segment))) if is_tagged(program) else 0
            main = _process(harness, program, batch, watermark.now)
            side = []
            if is_tagged(program):
                side = harness.side_output(_tag(program, segment))[seen:]
            for row in [*main, *side]:
                take(program, row, emitted)
            watermark.after(batch)
        snapshot = pickle.loads(pickle.dumps(harness.snapshot()))
        harness.close()
    return emitted


def take(program: Program, row: Any, emitted: Emitted) -> None:
    """Adds a row of the output."""
    key, step, text, *objects = map(v.plain, row)
    index = next(i for i, each in enumerate(program.keys) if repr(each) == repr(key))
    shown = [(i, each) for i, each in enumerate(objects) if each is not None]
    emitted[index].append((step, *(shown[0] if shown and text is None else (None, text))))


def differences(wanted: Emitted, got: Emitted) -> list[str]:
    """What differs, by key. A step's results are in order; steps go to one of two outputs."""
    told = []
    for key in sorted({*wanted, *got}):
        ordered = (sorted(each.get(key, []), key=lambda r: r[0]) for each in (wanted, got))
        a, b = (list(map(repr, results)) for results in ordered)
        if a != b:
            more, less = _without(b, a), _without(a, b)
            told.append(f"key {key}: wanted {less[:3]}, found {more[:3]}")
    return told


def _without(a: list[str], b: list[str]) -> list[str]:
    left = list(b)
    return [each for each in a if each not in left or left.remove(each)]  # type: ignore[func-returns-value]


def is_tagged(program: Program) -> bool:
    return len(program.keys) % 2 == 0


def _tag(program: Program, segment: Segment) -> OutputTag:
    return OutputTag(SIDE, output_schema(program, segment))


def _harness(program: Program, segment: Segment, snapshot: Any) -> Any:
    fn = FUNCTIONS[program.style](program, segment, is_tagged(program))
    two = program.style == "two inputs"
    schema, output = input_schema(program), output_schema(program, segment)
    cls: Any = KeyedTwoInputHarness if two else KeyedProcessHarness
    if snapshot is not None:
        tags = {"side_outputs": (_tag(program, segment),)} if is_tagged(program) else {}
        snapshot.arguments.update(tags)
        return cls.restore(snapshot, fn, parallelism=segment.partitions, output_schema=output)
    options: dict[str, Any] = {
        "parallelism": segment.partitions,
        "side_outputs": [_tag(program, segment)] if is_tagged(program) else [],
    }
    if two:
        options |= {"event_time1": "at", "event_time2": "at"}
        return cls(fn, schema, "k", schema, "k", output, **options)
    return cls(fn, schema, "k", output, event_time="at", **options)


def _process(harness: Any, program: Program, batch: tuple[Fed, ...], watermark: int) -> list[Any]:
    rows = [row_of(program, row) for row in batch]
    if program.style == "two inputs":
        split = len(rows) // 2
        return list(harness.process_batch(rows[:split], rows[split:], watermark=watermark))
    return list(harness.process_batch(rows, watermark=watermark))


def row_of(program: Program, row: Fed) -> tuple[Any, ...]:
    key = v.key_of(program.key, program.keys[row.key])
    return key, row.step, EPOCH + timedelta(milliseconds=row.time)
