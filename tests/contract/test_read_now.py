"""What a state gives at once is what it gives after a restart: every type, kind and road."""

from __future__ import annotations

import enum
import re
from collections.abc import Callable
from dataclasses import dataclass, field, is_dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import keystate
import numpy as np
import pandas as pd
import pytest
from keystate import (
    AggregateFunction,
    AggregatingStateDescriptor,
    CheckpointedFunction,
    FoldingStateDescriptor,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    SortedMapStateDescriptor,
    StateTypeError,
    ValueStateDescriptor,
)
from keystate.testing import KeyedProcessHarness, rows_of
from pyspark.sql import DataFrame, Row


class Text(str):
    """A subclass."""


class Color(str, enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


@dataclass(frozen=True)
class Point:
    x: float
    y: float | None = None


@dataclass
class Shape:
    name: str
    corners: list[Point]
    by_name: dict[str, Point] = field(default_factory=dict)
    sizes: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        self.count = len(self.corners)


class Named(Point):
    """A subclass of a dataclass."""


def grown_shape() -> Shape:
    shape = Shape("s", [Point(1, 2)])
    shape.corners.append(Named(3))
    shape.by_name["a"] = Point(np.float32(1), 0)
    shape.sizes = [1, np.int64(2)]  # type: ignore[assignment]
    return shape


AWARE = datetime(2024, 7, 1, 12, tzinfo=timezone(timedelta(hours=5)))
#: Times that clocks in New York, where the tests are, skip and show twice.
SKIPPED, TWICE = datetime(2024, 3, 10, 2, 30), datetime(2024, 11, 3, 1, 30, fold=1)

PANDAS = pd.Timestamp("2024-07-01 12:00:00.1")

#: By type, values that are accepted and are not what a restart gives.
CASES: dict[Any, list[Any]] = {
    "boolean": [True],
    "tinyint": [np.int64(3), Level.LOW],
    "int": [np.int8(3), Level.LOW],
    "long": [3, np.int64(3), np.uint8(4), Level.LOW],
    "float": [3, 0.1, np.float64(0.1), np.float32(0.1), 1e38, -0.0],
    "double": [3, np.float64(0.1), np.float32(0.1), np.int64(2), Level.LOW, -0.0],
    "decimal(10,2)": [3, *map(Decimal, ("3", "1.5", "1.500", "-0", "1E+2"))],
    "string": [Text("t"), Color.RED, np.str_("n")],
    "binary": [bytearray(b"a"), memoryview(b"b"), np.bytes_(b"c")],
    "date": [date(2024, 1, 1)],
    "timestamp": [AWARE, SKIPPED, TWICE, TWICE.replace(fold=0), PANDAS],
    "timestamp_ntz": [TWICE, PANDAS],
    "interval day to second": [pd.Timedelta(3, "s")],
    "time(6)": [time(1, 2, 3, 4, fold=1)],
    "array<double>": [(1, 2.5), [np.int64(1), None], Row(1, 2)],
    "array<float>": [[0.1]],
    "array<array<long>>": [((1, np.int64(2)), None)],
    "map<string, double>": [{Text("a"): 1}],
    "map<float, array<long>>": [{0.1: (1, 2)}],
    "map<array<int>, timestamp>": [{(np.int64(1), 2): AWARE}],
    "struct<a: double, b: decimal(5,1)>": [
        *((1, 2), [np.int64(1), Decimal(2)], {"a": 1}, Row(1, Decimal(2)), Row(b=2, a=1)),
    ],
    "struct<x: double, y: double>": [Point(1, 2), Named(1), {"x": np.float32(0.1)}],
    "struct<s: struct<f: float, b: binary>, l: array<struct<d: double>>>": [
        ((0.1, bytearray(b"x")), [(1,), None, {"d": 2}])
    ],
    Point: [Point(1, 2), Named(1), (1, None), {"x": Level.LOW}, Row(x=1, y=np.float64(2))],
    Shape: [grown_shape()],
}  # fmt: skip
FLAT = [(kind, value) for kind, values in CASES.items() for value in values]
KEYS = [i for i, (kind, _) in enumerate(FLAT) if "map" not in str(kind) and kind is not Shape]


def shown(value: Any) -> str:
    """Its repr, the same in every process."""
    return re.sub(r" at 0x\w+", "", repr(value))


def described(value: Any) -> str:
    """A value with all classes in it, and what its class does not print."""
    name = type(value).__name__
    if isinstance(value, dict):
        return f"{name}{[(described(k), described(v)) for k, v in value.items()]}"
    if isinstance(value, tuple) and hasattr(value, "__fields__"):
        return f"{name}{value.__fields__}{list(map(described, value))}"
    if isinstance(value, (list, tuple)):
        return f"{name}{list(map(described, value))}"
    if is_dataclass(value):
        return f"{name}{ {k: described(v) for k, v in vars(value).items()} }"
    return f"{name} {shown(value)} {getattr(value, 'fold', '')}"


class Last(AggregateFunction):
    def create_accumulator(self) -> Any:
        return None

    def add(self, value: Any, accumulator: Any) -> Any:
        return value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator


def last(_: Any, value: Any) -> Any:
    return value


class EveryKind(KeyedProcessFunction):
    """Writes every case to states of every kind at step 0; tells at each step what they give."""

    def open(self, ctx: Any) -> None:
        self.states: list[tuple[Any, ...]] = []
        for i, (kind, value) in enumerate(FLAT):
            self.states.append(
                (
                    value,
                    ctx.get_state(ValueStateDescriptor(f"v{i}", kind)),
                    ctx.get_state(ValueStateDescriptor(f"d{i}", kind, default=value)),
                    ctx.get_list_state(ListStateDescriptor(f"l{i}", kind)),
                    ctx.get_map_state(MapStateDescriptor(f"m{i}", "int", kind)),
                    ctx.get_sorted_map_state(SortedMapStateDescriptor(f"s{i}", "int", kind)),
                    ctx.get_reducing_state(ReducingStateDescriptor(f"r{i}", last, kind)),
                    ctx.get_aggregating_state(AggregatingStateDescriptor(f"a{i}", Last(), kind)),
                    ctx.get_folding_state(FoldingStateDescriptor(f"f{i}", None, last, kind)),
                )
            )
        self.keys = {
            i: (
                ctx.get_map_state(MapStateDescriptor(f"mk{i}", FLAT[i][0], "int")),
                ctx.get_sorted_map_state(SortedMapStateDescriptor(f"sk{i}", FLAT[i][0], "int")),
            )
            for i in KEYS
        }

    def process_element(self, row: Any, ctx: Any) -> Any:
        for i, (given, value, default, elements, entries, ordered, *others) in enumerate(
            self.states
        ):
            if row.step == 0:
                value.update(given)
                elements.add(given)
                elements.add_all([given, given])
                entries.put(1, given)
                entries.put_all({2: given, 3: None})
                ordered[1] = given
                for other in others:
                    other.add(given)
                    other.add(given)
            found = {
                "value": value.value(),
                "default": default.value(),
                "list": list(elements.get()),
                "map": dict(sorted(entries.items())),
                "sorted map": [*ordered.items(), ordered.first_entry(), ordered.get(1)],
                "others": [other.get() for other in others],
            }
            for what, read in found.items():
                yield f"{FLAT[i][0]} {shown(given)} {what}", described(read)
        for i, maps in self.keys.items():
            for entries in maps:
                if row.step == 0:
                    entries[FLAT[i][1]] = 1
                assert FLAT[i][1] in entries
                yield f"{shown(FLAT[i])} key {entries.spec.kind}", described(dict(entries.items()))


def broadcast_states() -> list[MapStateDescriptor[Any, Any]]:
    values = [MapStateDescriptor(f"b{i}", "int", kind) for i, (kind, _) in enumerate(FLAT)]
    return values + [MapStateDescriptor(f"bk{i}", FLAT[i][0], "int") for i in KEYS]


class EveryBroadcast(KeyedBroadcastProcessFunction):
    def process_broadcast_element(self, row: Any, ctx: Any) -> Any:
        for descriptor in broadcast_states():
            state = ctx.get_broadcast_state(descriptor)
            value = FLAT[int(descriptor.name.lstrip("bk"))][1]
            if row.step == 0:
                state.put(*((value, 1) if descriptor.name.startswith("bk") else (1, value)))
        yield from self.read(ctx)

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield from self.read(ctx)

    def read(self, ctx: Any) -> Any:
        for descriptor in broadcast_states():
            state = ctx.get_broadcast_state(descriptor)
            yield descriptor.name, described(dict(state.items()))


class EveryOperatorState(KeyedProcessFunction, CheckpointedFunction):
    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.lists = [
            get(ListStateDescriptor(f"{name}{i}", kind))
            for i, (kind, _) in enumerate(FLAT)
            for name, get in (("l", store.get_list_state), ("u", store.get_union_list_state))
        ]

    def process_element(self, row: Any, ctx: Any) -> Any:
        given = [value for _, value in FLAT for _ in "lu"]
        for i, (state, value) in enumerate(zip(self.lists, given)):
            if row.step == 0:
                state.update([value])
                state.add(value)
                state.add_all([value])
            yield f"{i} {shown(value)}", described(list(state.get()))

    def snapshot_state(self, context: Any) -> None:
        pass


RESULTS = "what string, read string"


def compared(now: list[Any], later: list[Any]) -> None:
    at_once, after = dict(map(tuple, now)), dict(map(tuple, later))
    assert len(after) >= len(FLAT)
    assert at_once.keys() == after.keys()
    assert [(w, at_once[w], after[w]) for w in after if at_once[w] != after[w]] == []


@pytest.mark.parametrize("fn", [EveryKind, EveryOperatorState])
def test_in_the_harness(fn: Any) -> None:
    harness = KeyedProcessHarness(fn(), "key long, step int", "key", RESULTS)
    now = harness.process((1, 0))
    restarted = KeyedProcessHarness.restore(harness.snapshot(), fn())
    compared(now, harness.process((1, 1)))
    compared(now, restarted.process((1, 1)))
    harness.close()
    restarted.close()


def test_broadcast_in_the_harness() -> None:
    elements = keystate.broadcast(rows_of("step int"), *broadcast_states())
    connected = keystate.keyed(rows_of("key long, step int"), "key").connect(elements)
    emitted = connected.process(EveryBroadcast(), RESULTS)
    harness = KeyedProcessHarness.of(emitted)
    now = harness.process_broadcast((0,))
    compared(now, harness.process((1, 1)))
    restarted = KeyedProcessHarness.restore(harness.snapshot(), emitted)
    compared(now, restarted.process((1, 1)))
    harness.close()
    restarted.close()


@pytest.mark.parametrize("fn", [EveryKind, EveryOperatorState])
def test_in_a_query(fn: Any, stream: Callable[..., Any], settings: Callable[..., None]) -> None:
    def build(df: DataFrame) -> DataFrame:
        return keystate.keyed(df, "key").process(fn(), RESULTS)

    settings(**{"spark.sql.shuffle.partitions": "1"})
    fed = stream("key long, step int")
    fed.feed([(1, 0)])
    now = fed.run(build)
    settings(**{"spark.sql.session.timeZone": "Asia/Kolkata"})
    fed.feed([(1, 1)])
    compared(now, fed.run(build))


@pytest.mark.turns
def test_broadcast_in_a_query(
    spark: Any, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings(**{"spark.sql.shuffle.partitions": "1"})
    fed = stream("key long, step int")
    elements = spark.createDataFrame([(0,)], "step int").coalesce(1)

    def build(df: DataFrame) -> DataFrame:
        rules = keystate.broadcast(elements, *broadcast_states())
        return keystate.keyed(df, "key").connect(rules).process(EveryBroadcast(), RESULTS)

    fed.feed([(1, 1)])
    now = fed.run(build)
    fed.feed([(1, 1)])
    compared(now, fed.run(build))


class Refused(KeyedProcessFunction):
    """Puts a value that does not fit where another is; it must be refused before it is read."""

    def open(self, ctx: Any) -> None:
        self.value = ctx.get_state(ValueStateDescriptor("v", "long"))
        self.small = ctx.get_state(ValueStateDescriptor("b", "tinyint"))
        self.pair = ctx.get_state(ValueStateDescriptor("p", "a double, b tinyint"))
        self.list = ctx.get_list_state(ListStateDescriptor("l", "array<long>"))
        self.map = ctx.get_map_state(MapStateDescriptor("m", "string", "binary"))
        self.sorted = ctx.get_sorted_map_state(SortedMapStateDescriptor("s", "int", "date"))
        self.reducing = ctx.get_reducing_state(ReducingStateDescriptor("r", last, "string"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        write = {
            "bool": lambda: self.value.update(True),
            "text": lambda: self.value.update("3"),
            "small": lambda: self.small.update(200),
            "pair": lambda: (self.pair.update((1, 200)), self.pair.value()),
            "short": lambda: (self.pair.update((1,)), self.pair.value()),
            "list": lambda: self.list.add([1, True]),
            "lists": lambda: self.list.update([[1], 2]),
            "map": lambda: self.map.put("k", "text"),
            "sorted": lambda: self.sorted.put(1, datetime(2024, 1, 1)),
            "reducing": lambda: self.reducing.add(1),
        }[row.what]
        with pytest.raises(StateTypeError, match=r"state '.' of key 1: expected "):
            write()
        for state in (self.value, self.small, self.pair, self.list, self.map, self.sorted):
            state.clear()
        self.reducing.clear()
        yield row.what, ""


@pytest.mark.parametrize(
    "what",
    ["bool", "text", "small", "pair", "short", "list", "lists", "map", "sorted", "reducing"],
)
def test_what_does_not_fit_is_refused_at_once(what: str) -> None:
    with KeyedProcessHarness(Refused(), "key long, what string", "key", RESULTS) as harness:
        assert harness.process((1, what)) == [(what, "")]


def test_each_read_is_as_the_first() -> None:
    """Whether a value was read before, or written by an older row, makes no difference."""
    harness = KeyedProcessHarness(EveryKind(), "key long, step int", "key", RESULTS)
    first = harness.process((1, 0))
    both = harness.process_batch([(2, 0), (2, 1), (2, 1)])
    for at in range(0, len(both), len(first)):
        compared(first, both[at : at + len(first)])
    harness.close()
