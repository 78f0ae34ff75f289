"""Iterators over maps, of which a large one stays with the JVM and is asked for by the page."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import Any

import keystate
import pytest
from keystate import (
    KeyedProcessFunction,
    MapStateDescriptor,
    SortedMapStateDescriptor,
    StateAccessError,
    StateTtlConfig,
    admin,
)
from pyspark.sql import Row

# More than two pages, so a half-read iterator has to ask again.
ENTRIES = 2_500

#: Whether maps come whole, and whether the worker keeps more than one key at a time: if it does not
#: then the next key has the slot of the one before.
WAYS = {
    "whole": {"spark.keystate.worker.inlineEntries": "10000"},
    "asked for": {"spark.keystate.worker.inlineEntries": "0"},
    "asked for, a key at a time": {
        "spark.keystate.worker.inlineEntries": "0",
        "spark.keystate.worker.maxCachedKeys": "1",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1",
    },
}


class Keeps(KeyedProcessFunction):
    """Keeps the iterators of one key, and says what they give when another one is processed.

    Every value is the key that it belongs to.
    """

    def __init__(self, ttl: StateTtlConfig | None = None) -> None:
        self.ttl = ttl
        self.kept: dict[str, Iterator[Any]] = {}

    def open(self, ctx: Any) -> None:
        plain = MapStateDescriptor("map", "long", "string")
        ordered = SortedMapStateDescriptor("sorted", "long", "string")
        if self.ttl is not None:
            plain.enable_time_to_live(self.ttl)
            ordered.enable_time_to_live(self.ttl)
        self.map, self.sorted = ctx.get_map_state(plain), ctx.get_sorted_map_state(ordered)

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[str, str, str]]:
        if row.what == "fill":
            for i in range(ENTRIES):
                self.map[i] = self.sorted[i] = row.key
        elif row.what == "keep":
            # What is changed and not yet stored is part of what an iterator shows.
            self.map[-1] = self.sorted[-1] = row.key
            for begun in (False, True):
                made = {
                    "map items": iter(self.map.items()),
                    "map values": iter(self.map.values()),
                    "items": iter(self.sorted.items()),
                    "values": iter(self.sorted.values()),
                    "from": self.sorted.tail_iterator(10),
                    "backwards": self.sorted.sub_iterator(None, 2_000, reverse=True),
                }
                if begun:
                    for iterator in made.values():
                        next(iterator)
                self.kept.update({f"{name}, {begun}": i for name, i in made.items()})
        elif row.what == "use":
            for name, iterator in self.kept.items():
                yield row.key, name, self.outcome(iterator)
            self.kept = {}
        else:
            yield row.key, "count", str(len(list(self.map.items())))

    def outcome(self, iterator: Iterator[Any]) -> str:
        """Whose entries they are; the last word is an error's class."""
        owners = set()
        try:
            for entry in iterator:
                owners.add(entry[1] if isinstance(entry, tuple) else entry)
        except StateAccessError as e:
            owners.add(type(e).__name__)
        return " ".join(sorted(owners))


def build(ttl: StateTtlConfig | None = None) -> Callable[[Any], Any]:
    return lambda df: keystate.keyed(df, "key").process(
        Keeps(ttl), "key string, name string, outcome string"
    )


@pytest.mark.parametrize("way", WAYS)
def test_an_iterator_that_is_used_with_another_key(
    way: str, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """It goes on with the entries of its own key, or fails; be it begun or not."""
    settings(**WAYS[way], **{"spark.sql.shuffle.partitions": "1"})
    fed = stream("key string, what string")
    fed.feed([("a", "fill"), ("b", "fill")], [("a", "keep"), ("b", "use")])
    # And in the next task of the same worker.
    fed.feed([("a", "keep")], [("b", "use")], [("a", "count"), ("b", "count")])
    emitted = [tuple(row) for row in fed.run(build())]
    assert emitted[-2:] == [("a", "count", str(ENTRIES + 1)), ("b", "count", str(ENTRIES))]
    used = emitted[:-2]
    assert len(used) >= 12
    assert {key for key, _, _ in used} == {"b"}
    outcomes = {outcome for _, _, outcome in used}
    assert outcomes <= {"a", "StateAccessError", "StateAccessError a"}
    if way == "whole":
        assert outcomes == {"a"}
    else:
        # It had to ask for more.
        assert "StateAccessError a" in outcomes
        (unbegun,) = {o for _, name, o in used if name in ("items, False", "from, False")}
        assert unbegun == "StateAccessError"


def test_an_iterator_does_not_refresh_another_keys_entries(
    stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """With a time to live that reading prolongs, using it is noted with the key."""
    settings(**WAYS["whole"], **{"spark.sql.shuffle.partitions": "1"})
    ttl = (
        StateTtlConfig.new_builder(datetime.timedelta(hours=1))
        .update_ttl_on_read_and_write()
        .build()
    )
    fed = stream("key string, what string")
    fed.feed([("a", "fill"), ("b", "fill")], [("a", "keep"), ("b", "use")])
    used = [tuple(row) for row in fed.run(build(ttl))]
    assert len(used) == 12
    assert {outcome for _, name, outcome in used if name.startswith("items")} == {
        "StateAccessError"
    }
    assert {outcome for _, _, outcome in used} <= {"a", "StateAccessError"}


class Changes(KeyedProcessFunction):
    """Changes a map while it iterates over it."""

    def open(self, ctx: Any) -> None:
        self.maps = (
            ctx.get_map_state(MapStateDescriptor("map", "long", "long")),
            ctx.get_sorted_map_state(SortedMapStateDescriptor("sorted", "long", "long")),
        )

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[str, int]]:
        for each in self.maps:
            if row.what == "fill":
                each.put_all({i: i for i in range(ENTRIES)})
                continue
            before = [(i, i) for i in range(ENTRIES)]
            for _ in range(20):
                next(iter(each.items()))  # left half read
            iterators = [iter(each.items()) for _ in range(3)]
            seen = [[next(iterator)] for iterator in iterators[:2]] + [[]]
            for key in each:
                each.put(key, -key)
                if key % 3 == 0:
                    each.remove(key)
                each.put(ENTRIES + key, 0)
            for i, iterator in enumerate(iterators):
                seen[i] += iterator
                assert sorted(seen[i]) == before, (i, len(seen[i]))
            after = {i: -i for i in range(ENTRIES) if i % 3}
            after.update({ENTRIES + i: 0 for i in range(ENTRIES)})
            assert sorted(each.items()) == sorted(after.items())
            last = iter(each.items())
            each.clear()
            assert len(list(last)) == len(after) and list(each.items()) == [] and each.is_empty()
            each.put_all(after)
        if row.what == "count":
            yield row.key, sum(value for each in self.maps for value in each.values())


@pytest.mark.parametrize("way", WAYS)
def test_a_map_that_is_changed_below_an_iterator(
    spark: Any, way: str, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings(**WAYS[way])
    fed = stream("key string, what string")
    fed.feed([("a", "fill"), ("b", "fill")], [("a", "change"), ("b", "change")])

    def run() -> list[Any]:
        return fed.run(lambda df: keystate.keyed(df, "key").process(Changes(), "key string, n int"))

    assert run() == []
    for name in ("map", "sorted"):
        stored = admin.read_state(spark, str(fed.checkpoint), state=name)
        rows = stored.selectExpr("key.key", "user_map_key", "user_map_value").collect()
        found = sorted(tuple(v[0] if isinstance(v, Row) else v for v in row) for row in rows)
        after = [(i, -i) for i in range(ENTRIES) if i % 3]
        after += [(ENTRIES + i, 0) for i in range(ENTRIES)]
        assert found == [(key, *entry) for key in "ab" for entry in after]
