"""Which keys of a map are one key: those that Spark holds equal, whatever Python says."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import keystate
import numpy as np
import pytest
from keystate import (
    DESCENDING,
    NATURAL,
    BroadcastProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    SortedMapStateDescriptor,
    StateTypeError,
)
from keystate.testing import KeyedProcessHarness, rows_of


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


class Maps(KeyedProcessFunction):
    """Lets a test work on a map and a sorted map of a key type."""

    body: Callable[[Any], None]

    def __init__(self, key_type: Any, order: Any = NATURAL) -> None:
        self.key_type = key_type
        self.order = order

    def open(self, ctx: Any) -> None:
        self.map = ctx.get_map_state(MapStateDescriptor("map", self.key_type, "int"))
        self.sorted = ctx.get_sorted_map_state(
            SortedMapStateDescriptor("sorted", self.key_type, "int", self.order)
        )

    def process_element(self, row: Any, ctx: Any) -> None:
        Maps.body(self)


def on_maps(*bodies: Callable[[Any], None], key_type: Any, order: Any = NATURAL) -> None:
    """Runs each body in a micro-batch of its own."""
    harness = KeyedProcessHarness(Maps(key_type, order), "key int", "key", "int")
    for body in bodies:
        Maps.body = staticmethod(body)
        harness.process(1)


FOLD = datetime(2024, 10, 27, 2, 0)  # clocks go back from 3:00 to 2:00


def around_the_fold() -> list[datetime]:
    """Local times every ten minutes, in the order in which they come."""
    start = (FOLD - timedelta(hours=1)).timestamp()
    return [datetime.fromtimestamp(start + 600 * i) for i in range(24)]


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize("order", [NATURAL, DESCENDING])
@pytest.mark.parametrize("nested", [False, True])
def test_the_hour_that_comes_twice_has_twice_the_keys(order: Any, nested: bool) -> None:
    times = around_the_fold()
    assert len(set(times)) == 18, "Python holds the two hours equal"

    def as_key(t: datetime) -> Any:
        return (t, 1) if nested else t

    def instant(key: Any) -> float:
        return float((key[0] if nested else key).timestamp())

    def put(f: Maps) -> None:
        for i in random.Random(1).sample(range(24), 24):
            f.map[as_key(times[i])] = i
            f.sorted[as_key(times[i])] = i
        check(f)

    def check(f: Maps) -> None:
        assert sorted(f.map.values()) == list(range(24))
        assert [f.map[as_key(t)] for t in times] == list(range(24))
        utc = [t.astimezone(timezone.utc) for t in times]
        assert [f.map[as_key(t)] for t in utc] == list(range(24))
        expected = list(range(24)) if order is NATURAL else list(range(23, -1, -1))
        assert list(f.sorted.values()) == expected
        assert [instant(key) for key in f.sorted] == [times[i].timestamp() for i in expected]
        ends = as_key(times[8]), as_key(times[15])
        inside = f.sorted.sub_iterator(*(ends if order is NATURAL else ends[::-1]))
        shown = range(8, 15) if order is NATURAL else range(9, 16)
        assert sorted(v for _, v in inside) == list(shown)

    def change(f: Maps) -> None:
        check(f)
        f.sorted.remove(as_key(FOLD.replace(fold=1)))
        f.map[as_key(FOLD)] = -1

    def changed(f: Maps) -> None:
        assert f.sorted.get(as_key(FOLD)) == 6
        assert f.sorted.get(as_key(FOLD.replace(fold=1))) is None
        assert (f.map[as_key(FOLD)], f.map[as_key(FOLD.replace(fold=1))]) == (-1, 12)
        assert len(list(f.sorted)) == 23

    key_type = "time timestamp, n int" if nested else "timestamp"
    on_maps(put, change, changed, key_type=key_type, order=order)


@pytest.mark.usefixtures("berlin")
def test_the_hour_that_is_left_out_is_the_next() -> None:
    missing, real = datetime(2024, 3, 31, 2, 30), datetime(2024, 3, 31, 3, 30)

    def body(f: Maps) -> None:
        f.map[missing], f.map[real] = 1, 2
        f.sorted[missing], f.sorted[real] = 1, 2
        assert list(f.map.items()) == list(f.sorted.items()) == [(real, 2)]

    on_maps(body, key_type="timestamp")


@dataclass(frozen=True)
class Point:
    x: int
    y: float


WRONG = [
    ("long", 1, [True, 1.0, Decimal(1), "1", np.bool_(True)]),
    ("boolean", True, [1, 1.0]),
    ("int", 0, [False, 0.0]),
    ("double", 1.0, [True, "1"]),
    ("decimal(4,1)", Decimal(1), [True, 1.0]),
    ("a long, b boolean", (1, True), [(True, True), (1, 1), (1.0, True), (1,), "x"]),
    ("array<long>", [1], [[True], [1.0], 1]),
    (Point, Point(1, 0.0), [Point(True, 0.0), Point(1, False)]),
    ("string", "a", [b"a", 1]),
    ("date", datetime(2024, 1, 1).date(), [datetime(2024, 1, 1)]),
]


@pytest.mark.parametrize(("key_type", "key", "wrong"), WRONG)
@pytest.mark.parametrize("name", ["map", "sorted"])
def test_a_key_that_python_holds_equal_is_refused(
    key_type: Any, key: Any, wrong: list[Any], name: str
) -> None:
    def body(f: Maps) -> None:
        state = getattr(f, name)
        for misfit in wrong:
            for present in (False, True):
                if present:
                    state.put(key, 7)
                for call in (lambda k: state.put(k, 8), state.get, state.contains, state.remove):
                    with pytest.raises(StateTypeError, match=f"state '{name}' of key 1: expected"):
                        call(misfit)
            assert list(state.values()) == [7]
            state.clear()

    on_maps(body, key_type=key_type)


SAME = [
    ("long", [1, np.int64(1), np.int8(1)]),
    ("double", [1.0, 1, np.float32(1)]),
    ("double", [0.0, -0.0, 0]),
    ("double", [math.nan, float("nan"), -float("nan")]),
    ("float", [0.1, float(np.float32(0.1))]),
    ("decimal(4,1)", [Decimal("1.0"), Decimal(1), 1, Decimal("1.000")]),
    ("binary", [b"a", bytearray(b"a"), memoryview(b"a")]),
    ("a double, b array<int>", [(0, [1]), (-0.0, (np.int8(1),)), {"a": 0.0, "b": [1]}]),
    (Point, [Point(1, 0.0), Point(1, -0.0), Point(1, 0), (1, 0.0)]),
]  # fmt: skip


@pytest.mark.parametrize(("key_type", "keys"), SAME)
def test_keys_that_spark_holds_equal_are_one(key_type: Any, keys: list[Any]) -> None:
    def put(f: Maps) -> None:
        for i, key in enumerate(keys):
            f.map[key] = i
            f.sorted[key] = i
        check(f)

    def check(f: Maps) -> None:
        for state in (f.map, f.sorted):
            assert list(state.values()) == [len(keys) - 1]
            assert [state.get(key) for key in keys] == [len(keys) - 1] * len(keys)
            assert all(key in state for key in keys)
        assert [f.sorted.floor_entry(key) for key in keys] == [f.sorted.first_entry()] * len(keys)
        kinds = {type(key) for key in f.map}
        assert kinds == {type(f.sorted.first_entry()[0])}

    on_maps(put, check, key_type=key_type)


class Broadcasts(BroadcastProcessFunction):
    """Lets a test work on a broadcast state of a key type."""

    body: Callable[[Any], None]

    def __init__(self, key_type: Any) -> None:
        self.state = MapStateDescriptor("map", key_type, "int")

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        Broadcasts.body(ctx.get_broadcast_state(self.state))

    def process_element(self, value: Any, ctx: Any) -> None:
        pass


def on_broadcast(body: Callable[[Any], None], key_type: Any) -> dict[Any, Any]:
    """Runs the body in two micro-batches; returns what is stored."""
    fn = Broadcasts(key_type)
    Broadcasts.body = staticmethod(body)
    elements = keystate.broadcast(rows_of("x int"), fn.state)
    connected = keystate.stream(rows_of("x int")).connect(elements)
    harness = KeyedProcessHarness.of(connected.process(fn, "x int"))
    harness.process_broadcast(1)
    harness.close()  # the next one asks for what is stored
    harness.process_broadcast(1)
    return harness.broadcast_state("map")


@pytest.mark.parametrize(("key_type", "key", "wrong"), WRONG)
def test_such_a_key_can_not_be_one_of_broadcast_state(
    key_type: Any, key: Any, wrong: list[Any]
) -> None:
    def body(state: Any) -> None:
        state.put(key, 7)
        for misfit in wrong:
            for call in (lambda k: state.put(k, 8), state.remove, state.get, state.contains):
                with pytest.raises(StateTypeError, match="broadcast state 'map', key: expected"):
                    call(misfit)

    assert list(on_broadcast(body, key_type).values()) == [7]


@pytest.mark.parametrize(("key_type", "keys"), SAME)
def test_keys_that_spark_holds_equal_are_one_in_broadcast_state(
    key_type: Any, keys: list[Any]
) -> None:
    def body(state: Any) -> None:
        for i, key in enumerate(keys):
            state[key] = i
        for key in keys:
            assert state[key] == state.get(key=key) == len(keys) - 1
            assert key in state and state.contains(key=key)
        state.remove(keys[0])
        assert state.is_empty()
        state[keys[-1]] = 3

    assert list(on_broadcast(body, key_type).values()) == [3]


@pytest.mark.usefixtures("berlin")
def test_the_hour_that_comes_twice_in_broadcast_state() -> None:
    times = around_the_fold()

    def body(state: Any) -> None:
        for i, t in enumerate(times):
            state[t] = i
        assert [state[t] for t in times] == list(range(24))
        assert [state[t.astimezone(timezone.utc)] for t in times] == list(range(24))

    assert sorted(on_broadcast(body, "timestamp").values()) == list(range(24))


def test_a_struct_put_into_a_sorted_map_is_read_as_a_row() -> None:
    class Puts(KeyedProcessFunction):
        def open(self, ctx: Any) -> None:
            self.map = ctx.get_sorted_map_state(
                SortedMapStateDescriptor("map", "int", "a int, b int")
            )

        def process_element(self, row: Any, ctx: Any) -> Any:
            self.map[1] = (2, 3)
            yield self.map[1].b

    assert KeyedProcessHarness(Puts(), "key int", "key", "int").process(1) == [(3,)]
