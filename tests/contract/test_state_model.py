"""All states against a plain model: random operations, over every way state can travel."""

from __future__ import annotations

import json
import random
import warnings
from collections.abc import Callable
from typing import Any

import keystate
import pytest
from keystate import (
    AggregateFunction,
    AggregatingStateDescriptor,
    FoldingStateDescriptor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from keystate._jvm.session import FORMAT_KEY

OPERATIONS = "key long, number int, operation string, argument string"
RESULTS = "key long, number int, result string"


class Mean(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return 0, 0

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator: tuple[int, int]) -> float:
        return accumulator[1] / accumulator[0]


class Interpreter(KeyedProcessFunction):
    """Does what the rows say with one state of each kind."""

    def open(self, ctx: Any) -> None:
        self.value = ctx.get_state(ValueStateDescriptor("value", "long", default=-1))
        self.list = ctx.get_list_state(ListStateDescriptor("list", "string"))
        self.map = ctx.get_map_state(MapStateDescriptor("map", "string", "long"))
        self.reducing = ctx.get_reducing_state(
            ReducingStateDescriptor("reducing", lambda a, b: a + b, "long")
        )
        self.aggregating = ctx.get_aggregating_state(
            AggregatingStateDescriptor("aggregating", Mean(), "n long, total long")
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self.folding = ctx.get_folding_state(
                FoldingStateDescriptor("folding", ">", lambda acc, v: acc + str(v), "string")
            )

    def process_element(self, row: Any, ctx: Any) -> Any:
        assert ctx.get_current_key() == row.key
        state, method = row.operation.split(".")
        result = getattr(self, f"{state}_{method}")(json.loads(row.argument))
        yield row.key, row.number, json.dumps(result)

    def value_value(self, _: Any) -> Any:
        return self.value.value()

    def value_update(self, x: Any) -> None:
        self.value.update(x)

    def value_clear(self, _: Any) -> None:
        self.value.clear()

    def list_get(self, _: Any) -> Any:
        return list(self.list)

    def list_add(self, x: Any) -> None:
        self.list.add(str(x))

    def list_add_all(self, x: Any) -> None:
        self.list.add_all([str(x), "and", str(x + 1)])

    def list_repeat(self, _: Any) -> None:
        self.list.add_all(self._last_elements(clear=False))

    def list_shrink(self, _: Any) -> None:
        self.list.add_all(self._last_elements(clear=True))

    def _last_elements(self, clear: bool) -> Any:
        """Looks at the list, and changes it, only while its elements are being added."""
        last = list(self.list)[-2:]
        if clear:
            self.list.clear()
        yield from last

    def list_update(self, x: Any) -> None:
        self.list.update([str(x)] * (x % 4))

    def list_clear(self, _: Any) -> None:
        self.list.clear()

    def map_get(self, x: Any) -> Any:
        return self.map[f"k{x % 9}"]

    def map_put(self, x: Any) -> None:
        self.map[f"k{x % 9}"] = x

    def map_put_all(self, x: Any) -> None:
        self.map.put_all({f"k{x % 9}": x, f"k{(x + 1) % 9}": -x})

    def map_remove(self, x: Any) -> None:
        del self.map[f"k{x % 9}"]

    def map_contains(self, x: Any) -> Any:
        return f"k{x % 9}" in self.map

    def map_items(self, _: Any) -> Any:
        items = sorted(self.map.items())
        assert sorted(self.map.entries()) == items
        assert sorted(self.map.keys()) == sorted(self.map) == [k for k, _ in items]
        assert sorted(self.map.values()) == sorted(v for _, v in items)
        return items

    def map_is_empty(self, _: Any) -> Any:
        return self.map.is_empty()

    def map_clear(self, _: Any) -> None:
        self.map.clear()

    def reducing_get(self, _: Any) -> Any:
        return self.reducing.get()

    def reducing_add(self, x: Any) -> None:
        self.reducing.add(x)

    def reducing_clear(self, _: Any) -> None:
        self.reducing.clear()

    def aggregating_get(self, _: Any) -> Any:
        return self.aggregating.get()

    def aggregating_add(self, x: Any) -> None:
        self.aggregating.add(x)

    def aggregating_clear(self, _: Any) -> None:
        self.aggregating.clear()

    def folding_get(self, _: Any) -> Any:
        return self.folding.get()

    def folding_add(self, x: Any) -> None:
        self.folding.add(x)

    def folding_clear(self, _: Any) -> None:
        self.folding.clear()


class Model:
    """What one key's states should hold."""

    def __init__(self) -> None:
        self.value: int | None = None
        self.list: list[str] = []
        self.map: dict[str, int] = {}
        self.numbers: dict[str, list[int]] = {"reducing": [], "aggregating": [], "folding": []}

    def apply(self, operation: str, x: int) -> Any:
        state, method = operation.split(".")
        if state == "value":
            return self._value(method, x)
        if state == "list":
            return self._list(method, x)
        if state == "map":
            return self._map(method, x)
        return self._numbers(state, method, x)

    def _value(self, method: str, x: int) -> Any:
        if method == "value":
            return -1 if self.value is None else self.value
        self.value = x if method == "update" else None
        return None

    def _list(self, method: str, x: int) -> Any:
        if method == "get":
            return list(self.list)
        new = {
            "add": [*self.list, str(x)],
            "add_all": [*self.list, str(x), "and", str(x + 1)],
            "repeat": [*self.list, *self.list[-2:]],
            "shrink": self.list[-2:],
            "update": [str(x)] * (x % 4),
            "clear": [],
        }
        self.list = new[method]
        return None

    def _map(self, method: str, x: int) -> Any:
        key = f"k{x % 9}"
        if method == "get":
            return self.map.get(key)
        if method == "contains":
            return key in self.map
        if method == "items":
            return [list(item) for item in sorted(self.map.items())]
        if method == "is_empty":
            return not self.map
        if method == "put":
            self.map[key] = x
        elif method == "put_all":
            self.map.update({key: x, f"k{(x + 1) % 9}": -x})
        elif method == "remove":
            self.map.pop(key, None)
        else:
            self.map.clear()
        return None

    def _numbers(self, state: str, method: str, x: int) -> Any:
        numbers = self.numbers[state]
        if method == "add":
            numbers.append(x)
        elif method == "clear":
            numbers.clear()
        elif not numbers:
            return None
        elif state == "reducing":
            return sum(numbers)
        elif state == "aggregating":
            return sum(numbers) / len(numbers)
        else:
            return ">" + "".join(map(str, numbers))
        return None


METHODS = sorted(
    name.replace("_", ".", 1)
    for name in vars(Interpreter)
    if name.split("_")[0] in ("value", "list", "map", "reducing", "aggregating", "folding")
)


def operations(seed: int, count: int, keys: int) -> tuple[list[Any], list[Any]]:
    """Random operations, and the results they should have."""
    print(f"seed {seed}")
    rng = random.Random(seed)
    models = [Model() for _ in range(keys)]
    rows, results = [], []
    # Clearing is rarer than adding, so that states grow.
    weights = [1 if method.endswith(("clear", "shrink")) else 4 for method in METHODS]
    for number in range(count):
        key, x = rng.randrange(keys), rng.randrange(100)
        operation = rng.choices(METHODS, weights)[0]
        rows.append((key, number, operation, json.dumps(x)))
        results.append((key, number, json.dumps(models[key].apply(operation, x))))
    return rows, results


def interpret(df: Any) -> Any:
    return keystate.keyed(df, "key").process(Interpreter(), RESULTS)


# How state travels: all ahead; in small messages whose keys push each other out of the worker's
# cache; large maps and lists asked for entry by entry.
WAYS = {
    "ahead": {},
    "evicted": {
        "spark.sql.execution.arrow.maxRecordsPerBatch": "7",
        "spark.keystate.worker.maxCachedKeys": "3",
    },
    "asked": {"spark.keystate.worker.inlineEntries": "0"},
    "evicted and asked": {
        "spark.sql.execution.arrow.maxRecordsPerBatch": "5",
        "spark.keystate.worker.maxCachedKeys": "2",
        "spark.keystate.worker.inlineEntries": "2",
    },
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
def test_stream_agrees_with_model(
    way: str, checkpoint_format: str, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings(
        **WAYS[way],
        **{FORMAT_KEY: checkpoint_format},
    )
    rows, expected = operations(random.randrange(10**9), 900, 8)
    fed = stream(OPERATIONS)
    fed.feed(rows[:300], rows[300:500])
    emitted = fed.run(interpret)
    fed.feed(rows[500:650], rows[650:])
    emitted += fed.run(interpret)
    assert sorted(map(tuple, emitted)) == sorted(expected)


@pytest.mark.parametrize("way", WAYS)
def test_batch_agrees_with_model(spark: Any, way: str, settings: Callable[..., None]) -> None:
    settings(**WAYS[way])
    rows, expected = operations(random.randrange(10**9), 600, 8)
    df = spark.createDataFrame(rows, OPERATIONS).coalesce(1)
    assert sorted(map(tuple, interpret(df).collect())) == sorted(expected)


@pytest.mark.parametrize("way", ["ahead", "evicted and asked"])
def test_rocksdb_agrees_with_model(
    way: str, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings(**WAYS[way], **keystate.EmbeddedRocksDBStateBackend().conf())
    rows, expected = operations(random.randrange(10**9), 600, 8)
    fed = stream(OPERATIONS)
    fed.feed(rows[:200], rows[200:400])
    emitted = fed.run(interpret)
    fed.feed(rows[400:])
    emitted += fed.run(interpret)
    assert sorted(map(tuple, emitted)) == sorted(expected)
