"""Functions of the other classes, each of which changes objects that it has handed over.

A row is a key, its number and a list. A model is given the rows of all runs and tells, for each,
what the function emits: pairs of a row's number and a list.
"""

from __future__ import annotations

import pickle
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import keystate
from keystate import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    FlatMapFunction,
    KeyedBatchFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapFunction,
    MapStateDescriptor,
    ReduceFunction,
    ValueStateDescriptor,
)
from keystate.testing import KeyedProcessHarness, rows_of

ROW = "k bigint, i bigint, xs array<bigint>"
RULES = MapStateDescriptor("rules", "bigint", "xs array<bigint>, n bigint")

Row = tuple[int, int, tuple[int, ...]]
Emitted = list[tuple[int, tuple[int, ...]]]
Model = Callable[[list[Row]], Emitted]


class Reducing(ReduceFunction):
    """Keeps everything in the first list, and empties the second."""

    def reduce(self, a: Any, b: Any) -> Any:
        a.xs.extend(b.xs)
        b.xs.clear()
        return b.k, b.i, a.xs


def reduced(rows: list[Row]) -> Emitted:
    held: dict[int, tuple[int, ...]] = defaultdict(tuple)
    emitted = []
    for key, i, xs in rows:
        held[key] += xs
        emitted.append((i, held[key]))
    return emitted


class OneDict(MapFunction):
    """Returns one dict for all rows."""

    def open(self, runtime_context: Any) -> None:
        self._made: dict[str, Any] = {"xs": []}

    def map(self, value: Any) -> Any:
        self._made["xs"][:] = value.xs
        self._made |= {"k": value.k, "i": value.i}
        return self._made


def same(rows: list[Row]) -> Emitted:
    return [(i, xs) for _, i, xs in rows]


class Growing(FlatMapFunction):
    """Yields one list again and again, longer each time, in a tuple."""

    def flat_map(self, value: Any) -> Any:
        for _ in range(3):
            yield value.k, value.i, value.xs
            value.xs.append(value.i)


def growing(rows: list[Row]) -> Emitted:
    return [(i, xs + (i,) * n) for _, i, xs in rows for n in range(3)]


class Defaulted(KeyedProcessFunction):
    """Changes a default in place, which is never kept."""

    def open(self, runtime_context: Any) -> None:
        described = ValueStateDescriptor("s", "xs array<bigint>, n bigint", default=([7], 0))
        self._state: Any = runtime_context.get_state(described)

    def process_element(self, value: Any, ctx: Any) -> Any:
        self._state.value().xs.append(value.i)
        yield value.k, value.i, self._state.value().xs


def defaulted(rows: list[Row]) -> Emitted:
    return [(i, (7,)) for _, i, _ in rows]


class Started(KeyedProcessFunction):
    """Takes initial state from a tuple with a scratch list."""

    def open(self, runtime_context: Any) -> None:
        described = ValueStateDescriptor("s", "n bigint, xs array<bigint>")
        self._state: Any = runtime_context.get_state(described)
        self._scratch: list[int] = []

    def process_initial_state(self, row: Any, ctx: Any) -> None:
        self._scratch[:] = row.xs
        self._state.update((row.i, self._scratch))

    def process_element(self, value: Any, ctx: Any) -> Any:
        held = self._state.value()
        yield value.k, value.i, [] if held is None else held.xs


def started(rows: list[Row]) -> Emitted:
    return [(i, (key, key)) for key, i, _ in rows]


class Buffering(KeyedProcessFunction, CheckpointedFunction):
    """Operator state of all three kinds; what it handed over changes after the snapshot."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self._list = store.get_list_state(ListStateDescriptor("list", "i bigint, xs array<bigint>"))
        self._union = store.get_union_list_state(ListStateDescriptor("union", "array<bigint>"))
        self._map = store.get_broadcast_state(RULES)
        self._seen = [(e.i, list(e.xs)) for e in self._list.get()]
        united = [list(each) for each in self._union.get()]
        held = [each.n for each in self._map.values()]
        assert len({*map(len, united), len(self._seen), *held}) <= 1, (united, self._seen, held)

    def process_element(self, value: Any, ctx: Any) -> Any:
        self._seen.append((value.i, value.xs))
        yield value.k, value.i, [x for _, xs in self._seen for x in xs]

    def snapshot_state(self, context: Any) -> None:
        scratch: list[int] = []

        def refilled() -> Iterable[Any]:
            for i, xs in self._seen:
                scratch[:] = xs
                yield i, scratch

        self._list.update(refilled())
        numbers = [i for i, _ in self._seen]
        self._union.update([numbers])
        self._map.put(0, (numbers, len(numbers)))
        numbers.append(-1)
        scratch.append(-1)


def buffered(rows: list[Row]) -> Emitted:
    held: tuple[int, ...] = ()
    emitted = []
    for _, i, xs in rows:
        held += xs
        emitted.append((i, held))
    return emitted


class Rules(KeyedBroadcastProcessFunction):
    """Rows of the key 0 are broadcast too: they are put by one scratch list."""

    def open(self, runtime_context: Any) -> None:
        self._scratch: list[int] = []
        described = ValueStateDescriptor("seen", "n bigint, xs array<bigint>")
        self._described = described
        self._seen: Any = runtime_context.get_state(described)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        self._scratch[:] = value.xs
        ctx.get_broadcast_state(RULES).put(value.i % 3, (self._scratch, value.i))
        ctx.apply_to_keyed_state(self._described, self._add)
        self._scratch.append(-1)

    def _add(self, key: Any, state: Any) -> None:
        self._scratch[:] = [*state.value().xs, key][-4:]
        state.update((key, self._scratch))

    def process_element(self, value: Any, ctx: Any) -> Any:
        rule = ctx.get_broadcast_state(RULES).get(value.i % 3)
        seen = self._seen.value()
        yield value.k, value.i, [*(rule.xs if rule else ()), *(seen.xs if seen else ())]
        self._scratch[:] = [value.k]
        self._seen.update((0, self._scratch))


class Plain(BroadcastProcessFunction):
    """The same without keys."""

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        xs = list(value.xs)
        ctx.get_broadcast_state(RULES).put_all({value.i % 3: {"xs": xs, "n": 1}})
        xs.append(-1)

    def process_element(self, value: Any, ctx: Any) -> Any:
        rule = ctx.get_broadcast_state(RULES).get(value.i % 3)
        yield value.k, value.i, list(rule.xs if rule else ())


class Batched(KeyedBatchFunction):
    """Sums in one NumPy buffer, which is the state's and the result's, and then changes it."""

    def open(self, runtime_context: Any) -> None:
        self._sum: Any = runtime_context.get_state(ValueStateDescriptor("sum", "bigint", default=0))
        self._made: list[list[int]] = []

    def process_batch(self, batch: Any, ctx: Any) -> Any:
        sums = self._sum.value().to_numpy(zero_copy_only=False).copy()
        self._made.clear()
        for at, i in zip(batch.key_of_row.to_pylist(), batch.rows["i"].to_pylist()):
            sums[at] += i
            self._made.append([int(sums[at])])
        self._sum.update(sums)
        sums[:] = -1
        return {"k": batch.rows["k"], "i": batch.rows["i"], "xs": self._made}


def summed(rows: list[Row]) -> Emitted:
    sums: dict[int, int] = defaultdict(int)
    emitted = []
    for key, i, _ in rows:
        sums[key] += i
        emitted.append((i, (sums[key],)))
    return emitted


def by_rules(keyed: bool) -> Model:
    def model(rows: list[Row]) -> Emitted:
        rules: dict[int, tuple[int, ...]] = {}
        seen: dict[int, tuple[int, ...]] = {}
        emitted = []
        for key, i, xs in rows:
            if key == 0:
                rules[i % 3] = xs
                seen = {k: (*held, k)[-4:] for k, held in seen.items()}
            else:
                emitted.append((i, rules.get(i % 3, ()) + (seen.get(key, ()) if keyed else ())))
                seen[key] = (key,)
        return emitted

    return model


@dataclass(frozen=True)
class Case:
    """A class of functions.

    Attributes:
        alone: whether it is run in one subtask only.
        broadcast: whether rows of key 0 are broadcast, in micro-batches of their own.
        initial: its initial state.
    """

    make: Callable[[], Any]
    model: Model
    key: str | tuple[()] = "k"
    alone: bool = False
    broadcast: bool = False
    initial: tuple[Row, ...] = ()


_INITIAL: tuple[Row, ...] = tuple((key, 0, (key, key)) for key in range(4))
CASES = {
    "reduce": Case(Reducing, reduced),
    "map": Case(OneDict, same, key=()),
    "flat_map": Case(Growing, growing, key=()),
    "default": Case(Defaulted, defaulted),
    "initial state": Case(
        Started, started, initial=tuple((key, 0, (key, key)) for key in range(4))
    ),
    "operator state": Case(Buffering, buffered, alone=True),
    "broadcast": Case(Plain, by_rules(keyed=False), key=(), broadcast=True),
    "keyed broadcast": Case(Rules, by_rules(keyed=True), broadcast=True),
}
#: What the harness does not run, and what queries here do not.
ONLY_QUERIES = {"process_batches": Case(Batched, summed)}
IN_QUERIES = ONLY_QUERIES | {name: case for name, case in CASES.items() if not case.broadcast}


@dataclass(frozen=True)
class Program:
    """A case with rows: micro-batches of each run."""

    case: str
    runs: tuple[tuple[tuple[Row, ...], ...], ...]
    partitions: tuple[int, ...]

    def describe(self) -> str:
        return "\n  ".join([self.case, *map(str, zip(self.partitions, self.runs))])


def generate(rng: random.Random, cases: dict[str, Case] = CASES) -> Program:
    name = rng.choice(list(cases))
    runs, i = [], 0
    for _ in range(rng.randint(1, 3)):
        batches = []
        for _ in range(rng.randint(1, 4)):
            rows = []
            for _ in range(rng.randint(0, 5)):
                xs = tuple(rng.randrange(10) for _ in range(rng.randint(0, 2)))
                rows.append((rng.randrange(4), i, xs))
                i += 1
            batches.append(tuple(rows))
        runs.append(tuple(batches))
    count = [1 if cases[name].alone else rng.randint(1, 3) for _ in runs]
    return Program(name, tuple(runs), tuple(count))


def smaller(program: Program) -> Iterator[Program]:
    """Programs with one row less."""
    for r, run in enumerate(program.runs):
        for b, rows in enumerate(run):
            for i in range(len(rows)):
                batches = (*run[:b], rows[:i] + rows[i + 1 :], *run[b + 1 :])
                runs = (*program.runs[:r], batches, *program.runs[r + 1 :])
                yield replace(program, runs=runs)


def size(results: Emitted) -> int:
    return len(results)


def restarts(program: Program) -> int:
    return len(program.runs) - 1


def expected(program: Program, by_row: bool) -> Emitted:
    rows = [row for run in program.runs for batch in run for row in _arranged(program, batch)]
    return sorted((CASES | IN_QUERIES)[program.case].model(rows))


def _arranged(program: Program, batch: tuple[Row, ...]) -> list[Row]:
    """A micro-batch's rows; broadcast elements come first."""
    first = 0 if (CASES | IN_QUERIES)[program.case].broadcast else -1
    return sorted(batch, key=lambda row: row[0] != first)


def found(program: Program, by_row: bool) -> Emitted:
    case, emitted, snapshot = CASES[program.case], [], None
    for run, partitions in zip(program.runs, program.partitions):
        if snapshot is not None:
            harness = KeyedProcessHarness.restore(snapshot, _built(case), parallelism=partitions)
        elif case.broadcast or case.initial:
            harness = KeyedProcessHarness.of(_built(case), parallelism=partitions)
        else:
            harness = KeyedProcessHarness(case.make(), ROW, case.key, ROW, parallelism=partitions)
        for batch in run:
            rows = _arranged(program, batch)
            for some in [[row] for row in rows] if by_row else [rows]:
                for _, i, xs in _process(harness, case, some):
                    emitted.append((i, tuple(xs)))
        snapshot = pickle.loads(pickle.dumps(harness.snapshot()))
        harness.close()
    return sorted(emitted)


def _built(case: Case) -> Any:
    """What the harness takes: an operator, where there is more than a function."""
    if case.initial:
        initial = rows_of(ROW, [(key, i, list(xs)) for key, i, xs in case.initial])
        return keystate.keyed(rows_of(ROW), "k").process(case.make(), ROW, initial_state=initial)
    if case.broadcast:
        stream: Any = (
            keystate.keyed(rows_of(ROW), "k") if case.key else keystate.stream(rows_of(ROW))
        )
        return stream.connect(keystate.broadcast(rows_of(ROW), RULES)).process(case.make(), ROW)
    return case.make()


def _process(harness: Any, case: Case, rows: list[Row]) -> list[Any]:
    given = [(key, i, list(xs)) for key, i, xs in rows]
    if not case.broadcast:
        return list(harness.process_batch(given))
    elements = [row for row in given if row[0] == 0]
    return list(harness.process_batch([row for row in given if row[0]], broadcast=elements))


def differences(wanted: Emitted, got: Emitted) -> list[str]:
    if wanted == got:
        return []
    missing = [each for each in wanted if each not in got]
    return [f"wanted {missing[:4]}, found {[each for each in got if each not in wanted][:4]}"]
