"""Every reader of a sorted map has its keys in the order that key_orders.py defines."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import keystate
import pytest
from keystate import KeyedProcessFunction, KeyOrder, SortedMapStateDescriptor
from keystate._types.codec import codec
from keystate._types.ddl import parse_ddl
from keystate._types.ordering import sort_key
from keystate.testing import KeyedProcessHarness

from tests.contract.key_orders import ORDERS, TYPES, random_keys, ranked
from tests.drawn import drawn

STEPS = "key long, step string"
PROBLEMS = "problem string"
BACKENDS = [keystate.HashMapStateBackend(), keystate.EmbeddedRocksDBStateBackend()]


@pytest.fixture(params=["America/New_York", "Australia/Lord_Howe"])
def zone(request: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Zones on both sides of the epoch's local midnight, in which clocks are set back."""
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.turns
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("ddl", TYPES)
@pytest.mark.long
def test_order_in_a_worker(ddl: str, order: KeyOrder, zone: None) -> None:
    keys = random_keys(ddl, 10_000, random.Random())
    expected = ranked(ddl, order, keys)
    of = codec(parse_ddl(ddl))
    in_a_cell = [of.key(key) for key in expected]
    shuffled = random.sample(in_a_cell, len(in_a_cell))
    assert sorted(shuffled, key=sort_key(parse_ddl(ddl), order)) == in_a_cell


class Ranks(KeyedProcessFunction):
    """Keeps a map of each type in each order; a key's value is its rank.

    Each key has a random half of the keys; a step changes some of them in one way, and looks at the
    maps in every other.
    """

    def __init__(self, count: int, seed: int) -> None:
        self.count = count
        self.seed = seed

    def open(self, ctx: Any) -> None:
        self.maps = {
            (ddl, order): ctx.get_sorted_map_state(
                SortedMapStateDescriptor(f"{order.value}_{i}", ddl, "int", order)
            )
            for i, ddl in enumerate(TYPES)
            for order in ORDERS
        }
        self.keys = {
            (ddl, order): ranked(ddl, order, random_keys(ddl, self.count, random.Random(self.seed)))
            for ddl, order in self.maps
        }

    def process_element(self, row: Any, ctx: Any) -> Any:
        rng = random.Random(self.seed)
        for (ddl, order), ordered in self.maps.items():
            keys = self.keys[ddl, order]
            ranks = list(range(len(keys)))
            rng.shuffle(ranks)
            first, second = ranks[::2], ranks[1::2]
            there = set(first)
            if row.step == "fill":
                for rank in first:
                    ordered[keys[rank]] = rank
            elif row.step == "change":
                for rank in second:
                    ordered[keys[rank]] = rank
                for rank in first[::2]:
                    ordered.remove(keys[rank])
            if row.step != "fill":
                there = {*first[1::2], *second}
            found = self.look(ordered, keys, sorted(there))
            if found:
                yield f"{row.step}, {ddl}, {order.value}: {found}"

    def look(self, ordered: Any, keys: list[Any], there: list[int]) -> str:
        ends = [None if one is None else one[1] for one in
                (ordered.first_entry(), ordered.last_entry())]  # fmt: skip
        if ends != [there[0], there[-1]] if there else ends != [None, None]:
            return f"first and last are {ends}, there are {there[:1]} to {there[-1:]}"
        if list(ordered.values()) != there:
            return "all entries are in another order"
        low, high = len(keys) // 3, 2 * len(keys) // 3
        for name, found, expected in (
            ("head", ordered.head_iterator(keys[low]), [r for r in there if r < low]),
            ("tail", ordered.tail_iterator(keys[low]), [r for r in there if r >= low]),
            ("sub", ordered.sub_iterator(keys[low], keys[high]),
             [r for r in there if low <= r < high]),
            ("reversed", ordered.head_iterator(keys[high], reverse=True),
             [r for r in reversed(there) if r < high]),
        ):  # fmt: skip
            if [rank for _, rank in found] != expected:
                return f"{name} iterator has other entries"
        return ""


def ranks(count: int, seed: int) -> Callable[[Any], Any]:
    return lambda df: keystate.keyed(df, "key").process(Ranks(count, seed), PROBLEMS)


@pytest.mark.turns
@pytest.mark.long
def test_order_in_the_harness(zone: None) -> None:
    function = Ranks(2_000, random.randrange(10**9))
    with KeyedProcessHarness(function, STEPS, "key", PROBLEMS) as harness:
        for step in ("fill", "change", "look"):
            assert harness.process_batch([(1, step)]) == [], function.seed


@pytest.mark.parametrize(
    ("backend", "inline"), drawn("order in a query", product(BACKENDS, ["10000", "0"]), 2)
)
def test_order_in_a_query(
    backend: Any, inline: str, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings(
        **backend.conf(),
        **{
            "spark.keystate.worker.inlineEntries": inline,
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.timeType.enabled": "true",
        },
    )
    # With two thirds of them, more than a page is asked for.
    count, seed = 1_600, random.randrange(10**9)
    fed = stream(STEPS)
    for step in ("fill", "change", "look"):
        fed.feed([(1, step)])
    assert [row.problem for row in fed.run(ranks(count, seed))] == [], seed
