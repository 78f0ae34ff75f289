"""Functions that hang, that keep what is not theirs to keep, and that hold a great deal."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    KeyedBatchFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    SortedMapStateDescriptor,
    ValueStateDescriptor,
)
from keystate._types.codec import TooLarge, codec
from keystate.testing import KeyedProcessHarness
from pyspark.sql.types import BinaryType

from tests.fault import drivers

OUTPUT = "key long, n long"


class Hangs(KeyedProcessFunction):
    """Counts; while there is no file `awake` it hangs, after it has made the file `asleep`."""

    def __init__(self, folder: Path) -> None:
        self.asleep, self.awake = folder / "asleep", folder / "awake"

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        if not self.awake.exists():
            self.asleep.touch()
            time.sleep(600)
        yield row.key, self.count.value()


@pytest.mark.turns
def test_a_hanging_function_is_stopped_with_its_query(
    spark: Any, stream: Callable[..., Any], settings: Callable[..., None], tmp_path: Path
) -> None:
    """Its store is let go of: the next run does not wait for `spark.keystate.lockTimeoutMs`."""
    settings(**{"spark.keystate.lockTimeoutMs": "600000"})
    fed = stream("key long")
    fed.feed([(1,), (2,)])

    def build(df: Any) -> Any:
        return keystate.keyed(df, "key").process(Hangs(tmp_path), OUTPUT)

    def stop() -> None:
        while not (tmp_path / "asleep").exists():
            time.sleep(0.05)
        for query in spark.streams.active:
            query.stop()

    stopper = threading.Thread(target=stop)
    stopper.start()
    started = time.monotonic()
    assert fed.run(build) == []
    stopper.join()
    (tmp_path / "awake").touch()
    assert sorted(map(tuple, fed.run(build))) == [(1, 1), (2, 1)]
    assert time.monotonic() - started < 300


class Keeps(KeyedProcessFunction):
    """Goes on with an iterator of the first key when the second one comes."""

    def open(self, ctx: Any) -> None:
        self.map = ctx.get_map_state(MapStateDescriptor("map", "long", "long"))
        self.sorted = ctx.get_sorted_map_state(SortedMapStateDescriptor("sorted", "long", "long"))
        self.kept: Any = None

    def process_element(self, row: Any, ctx: Any) -> Any:
        for i in range(3):
            self.map[i] = self.sorted[i] = row.key
        if self.kept is None:
            self.kept = iter(self.map.items()), iter(self.sorted.items())
        values = {value for entries in self.kept for _, value in entries}
        yield row.key, max(values, default=-1)


def test_an_iterator_never_shows_another_keys_entries() -> None:
    with KeyedProcessHarness(Keeps(), "key long", "key", OUTPUT) as harness:
        emitted = harness.process_batch([(1,), (2,), (3,)])
    assert emitted == [(1, 1), (2, -1), (3, -1)]


class Iterates(KeyedProcessFunction):
    """Leaves many iterators half read, and changes a map below others."""

    def open(self, ctx: Any) -> None:
        self.map = ctx.get_sorted_map_state(SortedMapStateDescriptor("map", "long", "long"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        if self.map.is_empty():
            self.map.put_all({i: i for i in range(50)})
        for _ in range(20):
            next(iter(self.map.items()))
        forwards, backwards = self.map.items(), self.map.sub_iterator(10, 40, reverse=True)
        firsts = [next(forwards), next(backwards)]
        self.map.remove_range(0, 25)
        self.map.put(30, -30)
        self.map.put(100, 100)
        assert firsts == [(0, 0), (39, 39)]
        assert list(forwards) == [(i, i) for i in range(1, 50)]
        assert list(backwards) == [(i, i) for i in range(38, 9, -1)]
        assert list(self.map.keys()) == [*range(25, 50), 100]
        over = self.map.items()
        self.map.clear()
        assert len(list(over)) == 26 and self.map.is_empty()
        yield row.key, 0


def test_iterators_show_the_map_as_it_was() -> None:
    with KeyedProcessHarness(Iterates(), "key long", "key", OUTPUT) as harness:
        assert harness.process_batch([(1,), (1,), (2,)]) == [(1, 0), (1, 0), (2, 0)]


class Huge(KeyedProcessFunction):
    """Holds 64 MB in a value, 8 MB in a list, and 100,000 entries in a map; of a long key less.

    Each entry is stored with its key, so a long one can't have as many.
    """

    def open(self, ctx: Any) -> None:
        self.value = ctx.get_state(ValueStateDescriptor("value", "binary"))
        self.list = ctx.get_list_state(ListStateDescriptor("list", "binary"))
        self.map = ctx.get_sorted_map_state(SortedMapStateDescriptor("map", "long", "string"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        entries = 100_000 if row.key == "k" else 3
        if self.value.value() is None:
            self.value.update(bytes((64 if row.key == "k" else 8) << 20))
            self.list.add_all([bytes(1 << 20)] * 8)
            for i in range(entries):
                self.map.put(i, "x")
        sizes = [len(self.value.value()), *map(len, self.list)]
        found = [self.map.first_entry(), self.map.last_entry(), self.map.pop_first()]
        assert [entry[0] for entry in found if entry] == [row.n, entries - 1, row.n]
        yield row.n, sum(sizes)


@pytest.mark.turns
def test_large_values_lists_maps_and_keys(stream: Callable[..., Any]) -> None:
    fed = stream("key string, n long")
    for n in range(2):
        fed.feed([("k", n), ("k" * (1 << 20), n)])
        found = fed.run(lambda df: keystate.keyed(df, "key").process(Huge(), OUTPUT))
        assert sorted(tuple(row) for row in found) == [(n, 16 << 20), (n, 72 << 20)]


class Wide(KeyedBatchFunction):
    """Holds 256 KB a key; says how many keys came at a time."""

    def open(self, ctx: Any) -> None:
        self.value = ctx.get_state(ValueStateDescriptor("value", "binary"))

    def process_batch(self, batch: Any, ctx: Any) -> Any:
        known = len(batch.keys) - self.value.value().null_count
        self.value.update([bytes(256 << 10)] * len(batch.keys))
        return {"key": [known], "n": [len(batch.keys)]}


@pytest.mark.turns
def test_messages_are_bounded_by_the_size_of_states(stream: Callable[..., Any]) -> None:
    """A message ends when it has 4 MB of rows and states, looked at after 16 keys first."""
    fed = stream("key long")
    found = []
    for _ in range(2):
        fed.feed([(key,) for key in range(200)])
        found.append(fed.run(lambda df: keystate.keyed(df, "key").process_batches(Wide(), OUTPUT)))
    first, second = found
    assert max(n for _, n in first) > 50  # of two partitions
    assert sum(known for known, _ in first) == 0
    assert max(n for _, n in second) <= 16
    assert sum(known for known, _ in second) == sum(n for _, n in second) == 200


@pytest.mark.skipif("SLOW" not in os.environ, reason="takes minutes and 10 GB; set SLOW=1")
def test_states_of_more_than_two_gigabytes_go_in_parts(tmp_path: Path) -> None:
    with drivers.Driver("vast_query.py", tmp_path / "log", tmp_path) as driver:
        assert driver.wait(600) == 0, driver.log


@pytest.mark.skipif("SLOW" not in os.environ, reason="takes 6 GB; set SLOW=1")
def test_what_no_message_can_hold_is_refused() -> None:
    large = bytes(1 << 30)
    with pytest.raises(TooLarge, match="3 binary values with 3,221,225,472 bytes"):
        codec(BinaryType()).encode([large] * 3)
    with pytest.raises(TooLarge, match="1 binary values"):
        codec(BinaryType()).encode([large + large])
