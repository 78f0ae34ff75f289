"""One key of a state is looked up, in the few parts of the files that can have it."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    DESCENDING,
    AggregateFunction,
    AggregatingStateDescriptor,
    CheckpointError,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    SortedMapStateDescriptor,
    StateTtlConfig,
    StateTypeError,
    Time,
    ValueStateDescriptor,
    admin,
)
from keystate._jvm.session import FORMAT_KEY
from pyspark.sql import functions as F

from tests.contract.type_cases import CASES
from tests.drawn import drawn

KEYS = 6000  # enough for run files, and for several sections in one of them
KINDS = "key long, value long"


class Mean(AggregateFunction):
    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: int, accumulator: Any) -> Any:
        return (accumulator[0] + 1, accumulator[1] + value)

    def get_result(self, accumulator: Any) -> float:
        return float(accumulator[1] / accumulator[0])

    def merge(self, a: Any, b: Any) -> Any:
        return (a[0] + b[0], a[1] + b[1])


class Kinds(KeyedProcessFunction):
    """Puts a row into a state of every kind; a negative value clears them."""

    def open(self, ctx: Any) -> None:
        self.states = {
            "value": ctx.get_state(ValueStateDescriptor("value", "long")),
            "struct": ctx.get_state(ValueStateDescriptor("struct", "last long, text string")),
            "list": ctx.get_list_state(ListStateDescriptor("list", "long")),
            "map": ctx.get_map_state(MapStateDescriptor("map", "string", "long")),
            "sorted": ctx.get_sorted_map_state(SortedMapStateDescriptor("sorted", "long", "long")),
            "down": ctx.get_sorted_map_state(
                SortedMapStateDescriptor("down", "long", "long", order=DESCENDING)
            ),
            "sum": ctx.get_reducing_state(
                ReducingStateDescriptor("sum", lambda a, b: a + b, "long")
            ),
            "mean": ctx.get_aggregating_state(
                AggregatingStateDescriptor("mean", Mean(), "n long, sum long")
            ),
        }

    def process_element(self, row: Any, ctx: Any) -> None:
        states, value = self.states, row.value
        if value < 0:
            for state in states.values():
                state.clear()
            return
        states["value"].update(value)
        states["struct"].update((value, "x" * (value % 5)))
        states["map"].put(f"{value}", value)
        states["sorted"].put(value, -value)
        states["down"].put(value, -value)
        for name in ("list", "sum", "mean"):
            states[name].add(value)


def kinds(df: Any) -> Any:
    return keystate.keyed(df, "key").process(Kinds(), "x int")


def expected(values: list[int]) -> dict[str, Any]:
    """What a key has in each state."""
    if not values:
        return dict.fromkeys(
            ("value", "struct", "list", "map", "sorted", "down", "sum", "mean"), None
        )
    return {
        "value": values[-1],
        "struct": (values[-1], "x" * (values[-1] % 5)),
        "list": values,
        "map": {text: int(text) for text in sorted(map(str, values))},
        "sorted": {value: -value for value in sorted(values)},
        "down": {value: -value for value in sorted(values, reverse=True)},
        "sum": sum(values),
        "mean": (len(values), sum(values)),
    }


def found(checkpoint: str, key: int) -> dict[str, Any]:
    return {name: admin.lookup(checkpoint, state=name, key=key) for name in expected([])}


@pytest.mark.parametrize(
    ("backend", "checkpoint_format"),
    drawn("look-ups", [("hashmap", "2"), ("rocksdb", "1"), ("rocksdb", "2")], 2),
)
def test_every_kind_of_state(
    backend: str,
    checkpoint_format: str,
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    settings(**{"spark.keystate.backend": backend, FORMAT_KEY: checkpoint_format})
    fed = stream(KINDS)
    fed.feed([(key, key) for key in range(KEYS)])
    fed.run(kinds)
    # Small changes, which are inline; a key that goes, and one that comes.
    settings(**{"spark.sql.shuffle.partitions": "3"})
    fed.feed([(7, 70), (8, 80)], [(7, 5), (9, -1)], [(KEYS + 1, 3)])
    fed.run(kinds)
    checkpoint = str(fed.checkpoint)
    before = jobs(spark)
    for key, values in ((7, [7, 70, 5]), (8, [8, 80]), (9, []), (10, [10]), (KEYS - 1, [KEYS - 1])):
        read = found(checkpoint, key)
        assert read == expected(values), key
        maps = [list(read[name] or ()) for name in ("map", "sorted", "down")]
        assert maps == [list(expected(values)[name] or ()) for name in ("map", "sorted", "down")]
    assert found(checkpoint, KEYS + 1) == expected([3])
    assert found(checkpoint, -1) == expected([])
    one = {"checkpoint": checkpoint, "key": (7,)}
    assert admin.lookup(**one, state="map", map_key="70") == 70
    assert admin.lookup(**one, state="map", map_key="71") is None
    assert admin.lookup(**one, state="sorted", start=6, end=70) == {7: -7}
    assert admin.lookup(**one, state="sorted", start=7) == {7: -7, 70: -70}
    assert admin.lookup(**one, state="sorted", end=7) == {5: -5}
    assert admin.lookup(**one, state="sorted", start=71) is None
    assert admin.lookup(**one, state="down", start=70, end=5) == {70: -70, 7: -7}
    assert jobs(spark) == before, "it ran a Spark job"


def jobs(spark: Any) -> int:
    """How many jobs have run."""
    count: int = spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs()
    return count


class Keeps(KeyedProcessFunction):
    def __init__(self, ttl: StateTtlConfig | None = None) -> None:
        self.ttl = ttl

    def open(self, ctx: Any) -> None:
        value = ValueStateDescriptor("last", "long")
        entries = MapStateDescriptor("entries", "string", "long")
        for descriptor in (value, entries):
            if self.ttl is not None:
                descriptor.enable_time_to_live(self.ttl)
        self.last, self.entries = ctx.get_state(value), ctx.get_map_state(entries)

    def process_element(self, row: Any, ctx: Any) -> None:
        self.last.update(row.value)
        self.entries.put(str(row.value), row.value)


def test_a_rescaled_checkpoint_and_several_states(spark: Any, stream: Callable[..., Any]) -> None:
    fed = stream(KINDS)
    fed.feed([(key, key) for key in range(50)])
    fed.run(lambda df: keystate.keyed(df, "key").process(Keeps(), "x int"))
    checkpoint = str(fed.checkpoint)
    keystate.rescale(checkpoint, 5)
    for key in range(50):
        assert admin.lookup(checkpoint, state="last", key=key) == key
        assert admin.lookup(checkpoint, state="entries", operator=0, key={"key": key}) == {
            str(key): key
        }
    for wrong, code in (
        ({"state": "none"}, "KEYSTATE_NO_SUCH_STATE"),
        ({}, "KEYSTATE_NO_SUCH_STATE"),
        ({"state": "last", "operator": 1}, "KEYSTATE_NO_SUCH_STATE"),
    ):
        with pytest.raises(CheckpointError, match="operator 0: ") as error:
            admin.lookup(checkpoint, key=1, **wrong)
        assert error.value.code == code
    with pytest.raises(CheckpointError, match="KEYSTATE_NO_CHECKPOINT"):
        admin.lookup(f"{checkpoint}/none", key=1)
    for key in ("one", (1, 2), 1.5):
        with pytest.raises(StateTypeError, match="key of state 'last'"):
            admin.lookup(checkpoint, state="last", key=key)
    with pytest.raises(StateTypeError, match="map_key of state 'entries'"):
        admin.lookup(checkpoint, state="entries", key=1, map_key=5)
    with pytest.raises(ValueError, match="'last' is no map"):
        admin.lookup(checkpoint, state="last", key=1, map_key="x")
    with pytest.raises(ValueError, match="'entries' is no sorted map"):
        admin.lookup(checkpoint, state="entries", key=1, start="x")


def test_what_has_expired_is_not_there(spark: Any, stream: Callable[..., Any]) -> None:
    ttl = StateTtlConfig.new_builder(Time.seconds(10)).use_event_time().build()
    fed = stream("key long, value long, at timestamp")

    def build(df: Any) -> Any:
        return keystate.keyed(df.withWatermark("at", "0 seconds"), "key").process(
            Keeps(ttl), "x int"
        )

    def at(second: int) -> datetime.datetime:
        return datetime.datetime(2024, 1, 1, 0, 0, second)

    fed.feed([(1, 7, at(1)), (2, 8, at(9))], [(3, 1, at(15))], [(2, 9, at(16))])
    fed.run(build)
    checkpoint = str(fed.checkpoint)
    # The watermark is 16.
    assert admin.lookup(checkpoint, state="last", key=1) is None
    assert admin.lookup(checkpoint, state="entries", key=1) is None
    assert admin.lookup(checkpoint, state="last", key=2) == 9
    assert admin.lookup(checkpoint, state="entries", key=2) == {"8": 8, "9": 9}


# Spark's file source does not read times of day.
@pytest.mark.parametrize("name", [n for n, case in CASES.items() if case.is_key and n != "time"])
def test_keys_of_every_type(name: str, spark: Any, stream: Callable[..., Any]) -> None:
    case = CASES[name]
    fed = stream(f"key {case.ddl}, other string, value long")
    fed.feed([(key, "o", i) for i, key in enumerate([*case.values, None])])
    fed.run(lambda df: keystate.keyed(df, "key", "other").process(Keeps(), "x int"))
    for i, key in enumerate([*case.values, None]):
        asked = {"checkpoint": str(fed.checkpoint), "key": (key, "o")}
        assert admin.lookup(state="last", **asked) == i, key
        assert admin.history(**asked)[-1].states["last"] == i, key
        assert admin.traces(**asked)["key"], key


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_a_damaged_file_is_named(
    backend: str, spark: Any, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    settings(**{"spark.keystate.backend": backend})
    fed = stream(KINDS)
    fed.feed([(key, key) for key in range(KEYS)])
    fed.run(lambda df: keystate.keyed(df, "key").process(Keeps(), "x int"))
    assert admin.lookup(str(fed.checkpoint), state="last", key=7) == 7
    runs = [p for p in fed.checkpoint.rglob("state/0/*/*") if p.suffix in (".lz4", ".sst")]
    assert len(runs) == 2
    for path in runs:
        content = bytearray(path.read_bytes())
        content[::40] = bytes(byte ^ 0xFF for byte in content[::40])
        path.write_bytes(content)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    with pytest.raises(CheckpointError, match="KEYSTATE_CORRUPT_FILE") as error:
        admin.lookup(str(fed.checkpoint), state="last", key=7)
    assert any(path.name in str(error.value) for path in runs)
    for path in runs:
        path.unlink()
    with pytest.raises(CheckpointError, match="KEYSTATE_MISSING_FILE"):
        admin.lookup(str(fed.checkpoint), state="last", key=7)


class OfPlaces(KeyedProcessFunction):
    """Keeps values and timers; of one state, the map's keys are structs."""

    def __init__(self, place: str) -> None:
        self.place = place

    def open(self, ctx: Any) -> None:
        self.last = ctx.get_state(ValueStateDescriptor("last", "long"))
        places = MapStateDescriptor("places", self.place, "long")
        self.places = ctx.get_map_state(places)

    def process_element(self, row: Any, ctx: Any) -> None:
        self.last.update(row.value)
        self.places[(row.key,)] = row.value
        ctx.timer_service().register_processing_time_timer(4_000_000_000_000)

    def on_timer(self, timestamp: int, ctx: Any) -> None:
        pass


def test_keys_that_are_null_are_found_after_columns_no_longer_are(
    spark: Any, stream: Callable[..., Any]
) -> None:
    """Of states, maps and timers: what was stored earlier is what it is."""
    fed = stream(KINDS)
    checkpoint = str(fed.checkpoint)
    fed.feed([(None, 1), (0, 2)])
    fed.run(lambda df: keystate.keyed(df, "key").process(OfPlaces("p long"), "x int"))
    fed.feed([(None, 3)])
    seven = F.coalesce("key", F.lit(7).cast("long")).alias("key")
    fed.run(
        lambda df: keystate.keyed(df.select(seven, "value"), "key").process(
            OfPlaces("p long not null"), "x int"
        )
    )
    for state in ("last", "places", "$timers"):
        read = admin.read_state(spark, checkpoint, state=state)
        assert read.where("key.key is null").count() == 1, state
        assert read.where("key.key = 0").count() == 1, state
    places = admin.read_state(spark, checkpoint, state="places")
    assert places.where("user_map_key.key.p is null").count() == 1
    assert places.where("user_map_key.key.p = 0").count() == 1
    assert admin.lookup(checkpoint, state="last", key=None) == 1
    assert admin.lookup(checkpoint, state="last", key=0) == 2
    assert admin.lookup(checkpoint, state="places", key=None) == {(None,): 1}


@pytest.mark.parametrize("spelled", [("_1", "a b"), ("_1", "_2"), ("s",)], ids=" ".join)
def test_keys_with_the_names_that_a_checkpoint_gives_others(
    spelled: tuple[str, ...], spark: Any, stream: Callable[..., Any], tmp_path: Path
) -> None:
    """It has numbers for those that can't be in it, as columns of tuples have."""
    fed = stream("`_1` string, `_2` int, `a b` int, s struct<`_1`: string, `a b`: int>, value long")
    several = len(spelled) > 1
    rows = [(key, n, n, (key, n), n) for key, n in (("a", 1), ("b", 2), ("a", 3))]

    def build(df: Any) -> Any:
        return keystate.keyed(df, *spelled).process(Keeps(), "x int")

    def check(checkpoint: str) -> None:
        read = admin.read_state(spark, checkpoint, state="last").select("key", "value.value")
        found = [(tuple(key if several else key[0]), n) for key, n in read.collect()]
        assert sorted(found) == [(("a", 1), 1), (("a", 3), 3), (("b", 2), 2)]
        for key, n in found:
            assert admin.lookup(checkpoint, state="last", key=key if several else (key,)) == n

    fed.feed(rows)
    fed.run(build)
    check(str(fed.checkpoint))
    editor = admin.edit(str(fed.checkpoint))
    editor.replace("last", editor.read("last"))
    editor.set_max_parallelism(64)
    editor.write(str(tmp_path / "edited"))
    fed.checkpoint = tmp_path / "edited"
    fed.feed(rows)
    fed.run(build)
    check(str(fed.checkpoint))
