"""Dataclasses whose ``__post_init__`` changes what it is given: an object is made once.

A row is made by its class when it is read. What comes of a state, a copy or a result is as it was
handed over. A row that its class refuses is a dead letter.
"""

from __future__ import annotations

import copy
import pickle
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import keystate
from keystate import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ReducingStateDescriptor,
    SortedMapStateDescriptor,
    ValueStateDescriptor,
)
from keystate.testing import KeyedProcessHarness, rows_of

INPUT = "k bigint, i bigint, x double, part struct<n:bigint>, tags array<string>"
OUTPUT = "k bigint, i bigint, text string"
DEAD = OutputTag("dead", keystate.dead_letter_schema(INPUT))


@dataclass(unsafe_hash=True)
class Part:
    n: int

    def __post_init__(self) -> None:
        self.n += 100


@dataclass
class Reading:
    k: int
    i: int
    x: float
    part: Part | None
    tags: list[str]

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError(f"{self.i} is below zero")
        self.x = self.x * 2 + 1
        self.tags = [*self.tags, "!"]


@dataclass(frozen=True)
class Frozen:
    """The same, which can't be changed."""

    k: int
    i: int
    x: float
    part: Part | None
    tags: list[str]

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError(f"{self.i} is below zero")
        object.__setattr__(self, "x", self.x * 2 + 1)
        object.__setattr__(self, "tags", [*self.tags, "!"])


#: Key, number, x, n of the part, tags, and what the function does with it.
Row = tuple[int, int, float, int | None, tuple[str, ...], str]
DOES = ("keep", "copy", "make", "again", "change")
#: What a row's class makes of it: number, x, n, tags.
Made = tuple[int, float, int | None, tuple[str, ...]]
Emitted = list[tuple[int, str]]


class Keeps(KeyedProcessFunction):
    """Tells all that it has, and then keeps the row, in every kind of state."""

    def __init__(self, cls: type, does: dict[int, str]) -> None:
        self._class = cls
        self._does = does

    def open(self, ctx: Any) -> None:
        cls = self._class
        self.value: Any = ctx.get_state(ValueStateDescriptor("value", cls))
        self.list: Any = ctx.get_list_state(ListStateDescriptor("list", cls))
        self.map: Any = ctx.get_map_state(MapStateDescriptor("map", int, cls))
        self.parts: Any = ctx.get_map_state(MapStateDescriptor("parts", Part, cls))
        self.order: Any = ctx.get_sorted_map_state(SortedMapStateDescriptor("order", int, cls))
        self.most: Any = ctx.get_reducing_state(ReducingStateDescriptor("most", _most, cls))

    def process_element(self, row: Any, ctx: Any) -> Any:
        before = [self.value.value(), *self.list.get(), *(v for _, v in sorted(self.map.items()))]
        before += [v for _, v in self.order.items()]
        parts = sorted((part.n, v.i) for part, v in self.parts.items())
        told = ([_shown(each) for each in before if each is not None], parts)
        yield row.k, row.i, repr((_shown(row), *told, _shown(self.most.get())))
        held = self._held(row)
        self.value.update(held)
        self.list.add(held)
        self.map.put(row.i % 3, held)
        if held.part is not None:
            self.parts.put(held.part, held)
        self.order.put(-row.i % 4, held)
        self.most.add(held)

    def _held(self, row: Any) -> Any:
        does = self._does[row.i]
        if does == "copy":
            return copy.deepcopy(row)
        if does == "make":
            return self._class(row.k, row.i, 3.0, Part(7), ["made"])
        if does == "again" and self.value.value() is not None:
            return self.value.value()
        if does == "change":
            row.tags.append("changed")
        return row


def _most(a: Any, b: Any) -> Any:
    return a if a.x >= b.x else b


def _shown(row: Any) -> Made | None:
    if row is None:
        return None
    return row.i, row.x, None if row.part is None else row.part.n, tuple(row.tags)


@dataclass(frozen=True)
class Program:
    frozen: bool
    runs: tuple[tuple[tuple[Row, ...], ...], ...]
    partitions: tuple[int, ...]
    seed: int = field(repr=False, default=0)

    def describe(self) -> str:
        told = map(str, zip(self.partitions, self.runs))
        return "\n  ".join(["frozen" if self.frozen else "mutable", *told])

    def make(self) -> Keeps:
        rows = (row for run in self.runs for batch in run for row in batch)
        return Keeps(Frozen if self.frozen else Reading, {row[1]: row[5] for row in rows})

    def of(self, df: Any) -> Any:
        """The operator."""
        cls: type = Frozen if self.frozen else Reading
        rows = keystate.keyed(df, "k", row_type=cls)
        return rows.process(self.make(), OUTPUT, on_error=keystate.dead_letters(DEAD))


def generate(rng: random.Random) -> Program:
    i, runs = 0, []
    for _ in range(rng.randint(1, 3)):
        batches = []
        for _ in range(rng.randint(1, 3)):
            rows: list[Row] = []
            for _ in range(rng.randint(0, 6)):
                x = rng.choice((-1.0, 0.0, 1.0, 2.5, 50.0))
                n = rng.choice((None, 0, 1, 2))
                tags = tuple(rng.choice("ab") for _ in range(rng.randint(0, 2)))
                rows.append((rng.randrange(3), i, x, n, tags, rng.choice(DOES)))
                i += 1
            batches.append(tuple(rows))
        runs.append(tuple(batches))
    return Program(rng.random() < 0.4, tuple(runs), tuple(rng.randint(1, 3) for _ in runs))


def smaller(program: Program) -> Iterator[Program]:
    """Programs with one row less."""
    for r, run in enumerate(program.runs):
        for b, rows in enumerate(run):
            for i in range(len(rows)):
                batches = (*run[:b], rows[:i] + rows[i + 1 :], *run[b + 1 :])
                yield replace(program, runs=(*program.runs[:r], batches, *program.runs[r + 1 :]))


def size(results: Emitted) -> int:
    return len(results)


def restarts(program: Program) -> int:
    return len(program.runs) - 1


class Held:
    """What a key has in the model."""

    def __init__(self) -> None:
        self.value: Made | None = None
        self.list: list[Made] = []
        self.map: dict[int, Made] = {}
        self.parts: dict[int, int] = {}
        self.order: dict[int, Made] = {}
        self.most: Made | None = None


def expected(program: Program, by_row: bool) -> Emitted:
    held: dict[int, Held] = defaultdict(Held)
    emitted = []
    for row in (row for run in program.runs for batch in run for row in batch):
        key, i, x, n, tags, does = row
        if x < 0:
            emitted.append((i, f"{i} is below zero"))
            continue
        made: Made = (i, x * 2 + 1, None if n is None else n + 100, (*tags, "!"))
        of = held[key]
        every = [of.value, *of.list, *(v for _, v in sorted(of.map.items()))]
        every += [v for _, v in sorted(of.order.items())]
        parts = sorted(of.parts.items())
        emitted.append((i, repr((made, [e for e in every if e is not None], parts, of.most))))
        if does == "make":
            made = (i, 7.0, 107, ("made", "!"))
        elif does == "again":
            made = of.value or made
        elif does == "change":
            made = (*made[:3], (*made[3], "changed"))
        of.value = of.map[i % 3] = of.order[-i % 4] = made
        of.list.append(made)
        if made[2] is not None:
            of.parts[made[2]] = made[0]
        of.most = made if of.most is None or made[1] > of.most[1] else of.most
    return sorted(emitted)


def given(rows: tuple[Row, ...]) -> list[tuple[Any, ...]]:
    return [(key, i, x, None if n is None else (n,), list(tags)) for key, i, x, n, tags, _ in rows]


def found(program: Program, by_row: bool) -> Emitted:
    emitted: Emitted = []
    snapshot = None
    for run, partitions in zip(program.runs, program.partitions):
        operator = program.of(rows_of(INPUT))
        if snapshot is None:
            harness = KeyedProcessHarness.of(operator, parallelism=partitions, side_outputs=[DEAD])
        else:
            harness = KeyedProcessHarness.restore(
                snapshot, operator, parallelism=partitions, side_outputs=[DEAD]
            )
        for batch in run:
            rows = given(batch)
            for some in [[row] for row in rows] if by_row else [rows]:
                emitted += [(i, text) for _, i, text in harness.process_batch(some)]
        emitted += [(letter.row.i, letter.message) for letter in harness.side_output(DEAD)]
        snapshot = pickle.loads(pickle.dumps(harness.snapshot()))
        harness.close()
    return sorted(emitted)


def differences(wanted: Emitted, got: Emitted) -> list[str]:
    if wanted == got:
        return []
    missing = [each for each in wanted if each not in got]
    return [f"wanted {missing[:4]}, found {[each for each in got if each not in wanted][:4]}"]
