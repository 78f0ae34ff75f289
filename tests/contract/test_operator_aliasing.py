"""Broadcast and operator state, rows of sources and of the harness: each value is taken as it is
when it is handed over, and what is read of a state is the reader's own."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import keystate
import pyarrow as pa
import pytest
from keystate import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTypeError,
    ProcessFunction,
    SourceFunction,
)
from keystate._worker.operator_state.operator_states import OperatorStates
from keystate._worker.sources.instance import Instance
from keystate.testing import KeyedProcessHarness, rows_of
from pyspark.sql import types as T

LIST = "array<long>"
CHANGED = 99


@dataclasses.dataclass
class Box:
    """Holds a list."""

    xs: list[int]


class Kind(NamedTuple):
    """A type whose values can be changed: a value of a list, and the list in it."""

    name: str
    type: Any
    of: Callable[[list[int]], Any]
    inside: Callable[[Any], list[int]]


KINDS = [
    Kind("list", LIST, lambda xs: xs, lambda value: value),
    Kind("dict", f"map<string, {LIST}>", lambda xs: {"xs": xs}, lambda value: value["xs"]),
    Kind("tuple", f"n long, xs {LIST}", lambda xs: (1, xs), lambda value: value[1]),
    Kind("struct", f"n long, xs {LIST}", lambda xs: {"n": 1, "xs": xs}, lambda value: value.xs),
    Kind("dataclass", Box, Box, lambda value: value.xs),
]
each_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])


def refilled(kind: Kind, *numbers: int) -> Iterator[Any]:
    """One object again and again, with another content."""
    scratch: list[int] = []
    value = kind.of(scratch)
    for number in numbers:
        scratch[:] = [number]
        yield value


class ChangesLists(ProcessFunction, CheckpointedFunction):
    """Changes what it adds to lists, and what it gets from them."""

    def __init__(self, kind: Kind) -> None:
        self.kind = kind

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.lists = [
            store.get_list_state(ListStateDescriptor("kept", self.kind.type)),
            store.get_union_list_state(ListStateDescriptor("union", self.kind.type)),
        ]
        self.map = store.get_broadcast_state(MapStateDescriptor("map", "long", self.kind.type))

    def process_element(self, row: Any, ctx: Any) -> Any:
        kind, step = self.kind, row.step
        if step == "write":
            for own in self.lists:
                xs = [1]
                own.add(kind.of(xs))
                xs.append(CHANGED)
                own.add_all(refilled(kind, 2, 3))
            xs = [1]
            self.map.put(1, kind.of(xs))
            xs.append(CHANGED)
            self.map.put_all({2: kind.of(xs)})
            xs[:] = [CHANGED]
        elif step == "update":
            for own in self.lists:
                own.update(refilled(kind, 7, 8))
        elif step == "change":
            read = [value for own in self.lists for value in own.get()]
            read += [self.map.get(1), *self.map.values(), *(v for _, v in self.map.items())]
            for value in read:
                kind.inside(value).append(CHANGED)
        for own in self.lists:
            yield ([x for value in own.get() for x in kind.inside(value)],)
        yield ([x for key in (1, 2) for x in kind.inside(self.map.get(key))],)

    def snapshot_state(self, context: Any) -> None:
        """The states have all that there is."""


def lists_harness(kind: Kind) -> KeyedProcessHarness:
    return KeyedProcessHarness(ChangesLists(kind), "step string", (), f"xs {LIST}")


@each_kind
def test_operator_state(kind: Kind) -> None:
    def emitted(harness: KeyedProcessHarness, step: str) -> list[list[int]]:
        return [row.xs for row in harness.process(step)]

    written = [[1, 2, 3], [1, 2, 3], [1, 1, CHANGED]]
    with lists_harness(kind) as harness:
        assert emitted(harness, "write") == written
        assert emitted(harness, "change") == written
        snapshot = harness.snapshot()
        assert emitted(harness, "update")[:2] == [[7, 8], [7, 8]]
    with KeyedProcessHarness.restore(snapshot, ChangesLists(kind)) as harness:
        assert emitted(harness, "read") == written


class ChangesBroadcast(BroadcastProcessFunction):
    """Changes what it puts into broadcast state, and what it reads of it."""

    def __init__(self, kind: Kind, state: MapStateDescriptor[Any, Any]) -> None:
        self.kind = kind
        self.state = state

    def process_broadcast_element(self, element: Any, ctx: Any) -> None:
        state, kind = ctx.get_broadcast_state(self.state), self.kind
        xs = [element.n]
        state.put(element.n, kind.of(xs))
        xs.append(CHANGED)
        # While this micro-batch writes the entry.
        for value in (state.get(element.n), *state.values(), *(v for _, v in state.items())):
            kind.inside(value).append(CHANGED)

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield (self.kind.inside(ctx.get_broadcast_state(self.state).get(row.n)),)


@each_kind
def test_broadcast_state(kind: Kind) -> None:
    state = MapStateDescriptor("state", "long", kind.type)
    connected = keystate.stream(rows_of("n long")).connect(
        keystate.broadcast(rows_of("n long"), state)
    )
    emitted = connected.process(ChangesBroadcast(kind, state), f"xs {LIST}")
    with KeyedProcessHarness.of(emitted) as harness:
        rows = harness.process_batch([1, 2], broadcast=[1, 2])
        assert [row.xs for row in rows] == [[1], [2]]
        stored = harness.broadcast_state("state")
        assert {key: kind.inside(value) for key, value in stored.items()} == {1: [1], 2: [2]}


class Emits(KeyedProcessFunction):
    """Emits its rows."""

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.key, row.xs

    def process_initial_state(self, row: Any, ctx: Any) -> None:
        """There is none to keep."""


def test_rows_of_the_harness() -> None:
    def rows() -> Iterator[Any]:
        row: dict[str, Any] = {"key": 1}
        for n in range(3):
            row["xs"] = [n]
            yield row

    schema = f"key long, xs {LIST}"
    with KeyedProcessHarness(Emits(), schema, "key", schema) as harness:
        assert [row.xs for row in harness.process_batch(rows())] == [[0], [1], [2]]


class Refills(SourceFunction):
    """Collects one object again and again."""

    def __init__(self, row: Any) -> None:
        self.row = row

    def run(self, ctx: Any) -> None:
        for n in range(3):
            self.row["xs"][:] = [n]
            ctx.collect(self.row)

    def cancel(self) -> None:
        """It ends by itself."""


def instance(function: SourceFunction) -> Instance:
    schema = T.StructType().add("xs", T.ArrayType(T.LongType()))
    made = Instance("numbers", function, schema, 0, 1, 100)
    made.open(OperatorStates({}, None, {}, {}))
    made.start()
    while not made.is_waiting():
        time.sleep(0.001)
    return made


def test_rows_of_a_source() -> None:
    cut = instance(Refills({"xs": []})).cut(0, 0)
    assert pa.ipc.open_stream(cut.data).read_all()["xs"].to_pylist() == [[0], [1], [2]]


def test_a_row_that_does_not_fit_is_refused() -> None:
    failed = instance(Refills({"xs": [], "ys": []}))
    with pytest.raises(OutputTypeError, match=r"source numbers \(1/1\) .*no field 'ys'"):
        failed.check()
