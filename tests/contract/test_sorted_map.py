"""Sorted maps against a plain sorted model, over every way state can travel."""

from __future__ import annotations

import datetime
import json
import math
import random
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import keystate
import pytest
from keystate import (
    BYTEWISE,
    DESCENDING,
    NATURAL,
    KeyedProcessFunction,
    SortedMapStateDescriptor,
)
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from tests.contract.test_state_model import OPERATIONS, RESULTS, WAYS


class Sorter(KeyedProcessFunction):
    """Does what the rows say with a sorted map from numbers to numbers."""

    def __init__(self, order: Any) -> None:
        self.order = order

    def open(self, ctx: Any) -> None:
        self.map = ctx.get_sorted_map_state(
            SortedMapStateDescriptor("map", "long", "long", self.order)
        )

    def process_element(self, row: Any, ctx: Any) -> Any:
        argument = json.loads(row.argument)
        yield row.key, row.number, json.dumps(getattr(self, row.operation)(*argument))

    def put(self, x: int, y: int) -> None:
        self.map.put(x, y)

    def remove(self, x: int, _: int) -> None:
        self.map.remove(x)

    def get(self, x: int, _: int) -> Any:
        return self.map.get(x), x in self.map

    def first(self, *_: int) -> Any:
        return self.map.first_entry()

    def last(self, *_: int) -> Any:
        return self.map.last_entry()

    def pop(self, *_: int) -> Any:
        return self.map.pop_first()

    def head(self, x: int, y: int) -> Any:
        return list(self.map.head_iterator(x, reverse=bool(y % 2)))

    def tail(self, x: int, y: int) -> Any:
        return list(self.map.tail_iterator(x, reverse=bool(y % 2)))

    def sub(self, x: int, y: int) -> Any:
        return list(self.map.sub_iterator(min(x, y), max(x, y), reverse=bool(y % 2)))

    def floor(self, x: int, _: int) -> Any:
        return self.map.floor_entry(x)

    def ceiling(self, x: int, _: int) -> Any:
        return self.map.ceiling_entry(x)

    def items(self, *_: int) -> Any:
        items = list(self.map.items())
        assert list(self.map) == list(self.map.keys()) == [k for k, _ in items]
        assert list(self.map.values()) == [v for _, v in items]
        assert self.map.is_empty() == (not items)
        return items

    def remove_range(self, x: int, y: int) -> None:
        if y % 3 == 0:
            self.map.remove_range(x, x + 10)

    def change_while_iterating(self, x: int, y: int) -> Any:
        """Iterators show the map as it was when they were made."""
        seen = []
        for key, value in self.map.tail_iterator(x):
            seen.append((key, value))
            self.map.put(key + 1, y)
            self.map.remove(key)
            if len(seen) == 3:
                break
        return seen

    def clear(self, x: int, _: int) -> None:
        if x > 30:
            self.map.clear()


class Model:
    """The same with a dictionary that is sorted whenever it is read."""

    def __init__(self, order: Any) -> None:
        self.map: dict[int, int] = {}
        self.by = {
            NATURAL: lambda k: k,
            DESCENDING: lambda k: -k,
            BYTEWISE: lambda k: (k < 0, k),
        }[order]

    def sorted(self, start: Any = None, end: Any = None, reverse: Any = False) -> list[Any]:
        keys = sorted(self.map, key=self.by)
        if start is not None:
            keys = [k for k in keys if self.by(k) >= self.by(start)]
        if end is not None:
            keys = [k for k in keys if self.by(k) < self.by(end)]
        return [[k, self.map[k]] for k in (reversed(keys) if reverse else keys)]

    def apply(self, operation: str, x: int, y: int) -> Any:
        entries = self.sorted()
        if operation == "put":
            self.map[x] = y
        elif operation == "remove":
            self.map.pop(x, None)
        elif operation == "get":
            return [self.map.get(x), x in self.map]
        elif operation == "first":
            return entries[0] if entries else None
        elif operation == "last":
            return entries[-1] if entries else None
        elif operation == "pop":
            if entries:
                del self.map[entries[0][0]]
            return entries[0] if entries else None
        elif operation == "head":
            return self.sorted(None, x, y % 2)
        elif operation == "tail":
            return self.sorted(x, None, y % 2)
        elif operation == "sub":
            return self.sorted(min(x, y), max(x, y), y % 2)
        elif operation == "floor":
            return self.sorted(x)[:1] and [x, self.map[x]] if x in self.map else self._below(x)
        elif operation == "ceiling":
            above = self.sorted(x)
            return above[0] if above else None
        elif operation == "items":
            return entries
        elif operation == "remove_range":
            if y % 3 == 0:
                for key, _ in self.sorted(x, x + 10):
                    del self.map[key]
        elif operation == "change_while_iterating":
            seen = self.sorted(x)[:3]
            for key, _ in seen:
                self.map[key + 1] = y
                self.map.pop(key, None)
            return seen
        elif operation == "clear" and x > 30:
            self.map.clear()
        return None

    def _below(self, x: int) -> Any:
        below = self.sorted(None, x, True)
        return below[0] if below else None


METHODS = [name for name in vars(Sorter) if not name.startswith("_") and name != "open"]
METHODS.remove("process_element")


def operations(seed: int, count: int, keys: int, order: Any) -> tuple[list[Any], list[Any]]:
    print(f"seed {seed}")
    rng = random.Random(seed)
    models = [Model(order) for _ in range(keys)]
    rows, results = [], []
    weights = [14 if name == "put" else 2 if name != "clear" else 1 for name in METHODS]
    for number in range(count):
        key, x, y = rng.randrange(keys), rng.randint(-40, 40), rng.randint(-40, 40)
        operation = rng.choices(METHODS, weights)[0]
        rows.append((key, number, operation, json.dumps([x, y])))
        results.append((key, number, json.dumps(models[key].apply(operation, x, y))))
    return rows, results


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("order", [NATURAL, DESCENDING, BYTEWISE])
def test_agrees_with_model(
    way: str, order: Any, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings(**WAYS[way])
    rows, expected = operations(random.randrange(10**9), 900, 4, order)
    fed = stream(OPERATIONS)
    emitted = []
    for part in (rows[:400], rows[400:]):
        fed.feed(part)
        emitted += fed.run(lambda df: keystate.keyed(df, "key").process(Sorter(order), RESULTS))
    assert sorted(map(tuple, emitted)) == sorted(expected)


@pytest.mark.parametrize("order", [NATURAL, DESCENDING])
def test_rocksdb_agrees_with_model(
    order: Any, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings(**keystate.EmbeddedRocksDBStateBackend().conf())
    test_agrees_with_model("evicted and asked", order, stream, settings)


class Ranker(KeyedProcessFunction):
    """Puts the keys of each column into a sorted map of its own and emits them in its order."""

    def __init__(self, key_types: list[str], order: Any) -> None:
        self.key_types = key_types
        self.order = order

    def open(self, ctx: Any) -> None:
        self.maps = [
            ctx.get_sorted_map_state(SortedMapStateDescriptor(f"map{i}", t, "int", self.order))
            for i, t in enumerate(self.key_types)
        ]

    def process_element(self, row: Any, ctx: Any) -> Any:
        for keys, ordered in zip(row, self.maps):
            for i, key in enumerate(keys):
                ordered[key] = i
        return tuple(list(ordered) for ordered in self.maps)


# Keys in Spark's ascending order.
KEYS: dict[str, list[Any]] = {
    "boolean": [False, True],
    "tinyint": [-128, -1, 0, 1, 127],
    "bigint": [-(2**63), -(2**32), -1, 0, 1, 255, 256, 2**63 - 1],
    "double": [-math.inf, -1.5, -1e-300, 0.0, 1e-300, 2.5, math.inf, math.nan],
    "decimal(20,2)": [Decimal(x) for x in ("-10.50", "-0.01", "0.00", "7.25")],
    "string": ["", "\x00", "A", "B", "a", "aa", "b", "é", "€", "😀"],
    "binary": [b"", b"\x00", b"\x00\xff", b"\x01", b"\x7f", b"\x80", b"\xff", b"\xff\x00"],
    "date": [datetime.date(y, 1, 1) for y in (1600, 1969, 1970, 2024)],
    "timestamp_ntz": [datetime.datetime(y, 1, 1, 5) for y in (1600, 1969, 1970, 2024)],
    "struct<a: string, b: int>": [(None, 5), ("", None), ("", -1), ("", 1), ("a", 0), ("aa", -7)],
    "array<int>": [[], [None], [-1], [-1, 5], [0], [0, None]],
}


@pytest.mark.parametrize("inline", ["1000", "0"])
@pytest.mark.parametrize("order", [NATURAL, DESCENDING])
def test_order_of_every_type(
    spark: Any, stream: Callable[..., Any], settings: Callable[..., None], order: Any, inline: str
) -> None:
    """The order is the same in the worker and in the stored state, and it is Spark's."""
    settings(**{"spark.keystate.worker.inlineEntries": inline})
    shuffled = [random.Random(5).sample(keys, len(keys)) for keys in KEYS.values()]
    schema = ", ".join(f"k{i} array<{key_type}>" for i, key_type in enumerate(KEYS))
    fed = stream(schema)
    for half in (0, 1):
        fed.feed([tuple(keys[half::2] for keys in shuffled)])
        (row,) = fed.run(
            lambda df: keystate.keyed(df, F.lit(1)).process(Ranker(list(KEYS), order), schema)
        )
    (in_spark,) = (
        spark.createDataFrame([tuple(shuffled)], schema)
        .select([F.array_sort(f"k{i}") for i in range(len(KEYS))])
        .collect()
    )
    for key_type, keys, ordered, sorted_by_spark in zip(KEYS, KEYS.values(), row, in_spark):
        expected = keys if order is NATURAL else keys[::-1]
        assert repr(_plain(ordered)) == repr(_plain(expected)), key_type
        assert repr(_plain(sorted_by_spark)) == repr(_plain(keys)), key_type


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, tuple):
        return tuple(value)
    return bytes(value) if isinstance(value, bytearray) else value


def test_unorderable_keys_are_refused(spark: Any) -> None:
    df = spark.createDataFrame([(1,)], "key long")
    for key_type in ("map<string,int>", "array<map<string,int>>", "variant"):
        with pytest.raises(keystate.DeclarationError, match="state 'map0'"):
            keystate.keyed(df, "key").process(Ranker([key_type], NATURAL), "keys array<int>")


def test_another_order_is_refused(stream: Callable[..., Any]) -> None:
    fed = stream(OPERATIONS)
    put = [(1, 0, "put", "[-3, 3]"), (1, 1, "put", "[4, 4]")]
    fed.feed(put)
    fed.run(lambda df: keystate.keyed(df, "key").process(Sorter(NATURAL), RESULTS))
    fed.feed([(1, 2, "items", "[0, 0]")])
    with pytest.raises(StreamingQueryException, match="'map'"):
        fed.run(lambda df: keystate.keyed(df, "key").process(Sorter(BYTEWISE), RESULTS))
    (row,) = fed.run(lambda df: keystate.keyed(df, "key").process(Sorter(NATURAL), RESULTS))
    assert row.result == "[[-3, 3], [4, 4]]"
