"""Static inputs are read once by each operator, also where its checkpoint has a past."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    Time,
    ValueStateDescriptor,
    admin,
)
from keystate._jvm.session import FORMAT_KEY
from keystate.windows import TumblingEventTimeWindows
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

OUTPUT = "key long, name string, n long"
NAMES = MapStateDescriptor("names", "long", "string")
COUNT = ValueStateDescriptor("n", "long", default=0)


class Counted:
    """Emits the name of a key and how many rows it had; what is of a table adds to the name."""

    def open(self, ctx: Any) -> None:
        self.n = ctx.get_state(COUNT)
        self.name = ctx.get_state(ValueStateDescriptor("name", "string", default=""))

    def counted(self, row: Any) -> Any:
        self.n.update(self.n.value() + 1)
        yield row.key, self.name.value(), self.n.value()

    def named(self, row: Any) -> None:
        self.name.update(self.name.value() + row.name)


class Plain(Counted, KeyedProcessFunction):
    def process_element(self, row: Any, ctx: Any) -> Any:
        return self.counted(row)

    def process_initial_state(self, row: Any, ctx: Any) -> None:
        self.named(row)


class Two(Counted, KeyedCoProcessFunction):
    def process_element1(self, row: Any, ctx: Any) -> Any:
        return self.counted(row)

    def process_element2(self, row: Any, ctx: Any) -> None:
        self.named(row)


class Broken(Two):
    def process_element1(self, row: Any, ctx: Any) -> Any:
        raise ValueError("mine")


class Told(Counted, KeyedBroadcastProcessFunction):
    def process_broadcast_element(self, row: Any, ctx: Any) -> None:
        names = ctx.get_broadcast_state(NAMES)
        names[row.key] = (names[row.key] or "") + row.name

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.n.update(self.n.value() + 1)
        yield row.key, ctx.get_broadcast_state(NAMES)[row.key] or "", self.n.value()


def plain(df: Any) -> Any:
    return keystate.keyed(df, "key").process(Plain(), OUTPUT)


@pytest.fixture
def ways(spark: Any) -> dict[str, Callable[[Any], Any]]:
    """The queries with a static input, by what that is."""
    return ways_of(spark.createDataFrame([(1, "Ann")], "key long, name string"))


def ways_of(table: Any) -> dict[str, Callable[[Any], Any]]:
    def connected(df: Any, fn: Any = None) -> Any:
        streams = keystate.keyed(df, "key").connect(keystate.keyed(table, "key"))
        return streams.process(fn or Two(), OUTPUT)

    return {
        "connected": connected,
        "broken": lambda df: connected(df, Broken()),
        "broadcast": lambda df: (
            keystate.keyed(df, "key")
            .connect(keystate.broadcast(table, NAMES))
            .process(Told(), OUTPUT)
        ),
        "initial": lambda df: keystate.keyed(df, "key").process(
            Plain(), OUTPUT, initial_state=table
        ),
    }


def ran(fed: Any, build: Callable[[Any], Any]) -> list[Any]:
    fed.feed([(1,)])
    return [tuple(row) for row in fed.run(build)]


@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
@pytest.mark.parametrize("way", ["connected", "broadcast", "initial"])
def test_a_checkpoint_of_data_frames(
    way: str,
    checkpoint_format: str,
    spark: Any,
    ways: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    settings(**{FORMAT_KEY: checkpoint_format})
    fed, build = stream("key long"), ways[way]
    counts = spark.createDataFrame([(1, 10)], "key long, value long")
    admin.create(str(fed.checkpoint), Plain(), key="key long", states={"n": counts}, partitions=2)
    assert ran(fed, build) == [(1, "Ann", 11)]
    assert ran(fed, build) == [(1, "Ann", 12)]
    settings(**{"spark.sql.shuffle.partitions": "3"})
    assert ran(fed, build) == [(1, "Ann", 13)]


def test_operators_that_are_added_and_edited(
    spark: Any, ways: Any, stream: Callable[..., Any], tmp_path: Path
) -> None:
    fed = stream("key long")
    assert ran(fed, plain) == [(1, "", 1)]
    editor = admin.edit(str(fed.checkpoint))
    editor.order_operators([editor.add_operator(Two(), key="key long"), 0])
    editor.write(str(tmp_path / "added"))
    fed.checkpoint = tmp_path / "added"
    assert ran(fed, lambda df: ways["connected"](plain(df))) == [(1, "Ann", 1)]
    # What an edited operator has read stays read.
    editor = admin.edit(str(fed.checkpoint))
    counts = spark.createDataFrame([(1, 10)], "key long, value long")
    editor.replace("n", counts, operator=0)
    editor.write(str(tmp_path / "edited"))
    fed.checkpoint = tmp_path / "edited"
    assert ran(fed, lambda df: ways["connected"](plain(df))) == [(1, "Ann", 11)]


@pytest.mark.parametrize("way", ["connected", "broadcast"])
def test_an_input_that_comes_with_a_restart(
    way: str, ways: Any, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    fed, build = stream("key long"), ways[way]
    assert ran(fed, plain) == [(1, "", 1)]
    if way == "connected":
        # What is run again reads it again, also with other partitions.
        with pytest.raises(StreamingQueryException, match="ValueError: mine"):
            ran(fed, ways["broken"])
        settings(**{"spark.sql.shuffle.partitions": "3"})
        assert [tuple(row) for row in fed.run(build)] == [(1, "Ann", 2)]
    else:
        assert ran(fed, build) == [(1, "Ann", 2)]
    assert ran(fed, build)[0][1:] == ("Ann", 3)
    # Without it for a while, and with it again.
    assert ran(fed, plain)[0][2] == 4
    assert ran(fed, build)[0][1:] == ("Ann", 5)


def test_initial_state_is_not_for_a_checkpoint_with_a_past(
    ways: Any, stream: Callable[..., Any]
) -> None:
    fed = stream("key long")
    assert ran(fed, plain) == [(1, "", 1)]
    assert ran(fed, ways["initial"]) == [(1, "", 2)]


def passes(row: Any, ctx: Any) -> Any:
    yield row.key, row.name


class PassesBoth(KeyedCoProcessFunction):
    def process_element1(self, row: Any, ctx: Any) -> Any:
        yield row.key, row.name

    def process_element2(self, row: Any, ctx: Any) -> Any:
        return []


class PassesAll(KeyedBroadcastProcessFunction):
    def process_broadcast_element(self, row: Any, ctx: Any) -> Any:
        return []

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.key, row.name


def made_by_operators(spark: Any) -> dict[str, Any]:
    """A table with a name for the key 1, by what has made it."""
    rows = spark.sql(
        "SELECT id AS key, 'Ann' AS name, timestamp_seconds(60) AS at FROM range(1, 2)"
    )
    keyed, schema = keystate.keyed(rows, "key"), "key long, name string"
    windows = keyed.window(TumblingEventTimeWindows.of(Time.minutes(1)), event_time="at")
    told = keystate.broadcast(rows, NAMES)
    cached = keyed.process(passes, schema).cache()
    assert cached.count() == 1
    return {
        "process": keyed.process(passes, schema),
        "aggregate": keyed.aggregate(F.max("name").alias("name")),
        "windows": windows.aggregate(F.max("name").alias("name")).select("key", "name"),
        "connect": keyed.connect(keystate.keyed(rows, "key")).process(PassesBoth(), schema),
        "broadcast": keyed.connect(told).process(PassesAll(), schema),
        "without keys": keystate.stream(rows).process(passes, schema),
        "cached": cached,
    }


def joined(table: Any) -> Callable[[Any], Any]:
    n = F.lit(0).cast("long").alias("n")
    return lambda df: df.join(table, "key").select("key", "name", n)


def joined_and_keyed(table: Any) -> Callable[[Any], Any]:
    class Counts(KeyedProcessFunction):
        def open(self, ctx: Any) -> None:
            self.n = ctx.get_state(COUNT)

        def process_element(self, row: Any, ctx: Any) -> Any:
            self.n.update(self.n.value() + 1)
            yield row.key, row.name, self.n.value()

    return lambda df: keystate.keyed(df.join(table, "key"), "key").process(Counts(), OUTPUT)


MADE = ["process", "aggregate", "windows", "connect", "broadcast", "without keys", "cached"]
USES = ["joined", "joined and keyed", "connected", "broadcast", "initial"]


@pytest.mark.parametrize(
    ("use", "sink", "made"),
    [
        (use, sink, MADE[(2 * i + j) % len(MADE)])
        for i, use in enumerate(USES)
        for j, sink in enumerate(("foreachBatch", "parquet"))
    ],
)
def test_a_table_that_an_operator_made(
    spark: Any, stream: Any, settings: Any, tmp_path: Path, use: str, sink: str, made: str
) -> None:
    """It takes no part in the stream's state: it has no number there, and nothing to commit."""
    table = made_by_operators(spark)[made]
    ways = {"joined": joined(table), "joined and keyed": joined_and_keyed(table), **ways_of(table)}
    fed, out = stream("key long"), str(tmp_path / "out")

    def run() -> list[Any]:
        fed.feed([(1,)], [(1,)])
        if sink == "foreachBatch":
            return [tuple(row) for row in fed.run(ways[use])]
        writer = ways[use](fed.source()).writeStream.format("parquet").option("path", out)
        writer = writer.option("checkpointLocation", str(fed.checkpoint))
        writer.trigger(availableNow=True).start().awaitTermination()
        return sorted(map(tuple, spark.read.parquet(out).collect()))[-2:]

    for i, partitions in enumerate((2, 2, 3)):
        settings(**{"spark.sql.shuffle.partitions": str(partitions)})
        counts = (0, 0) if use == "joined" else (2 * i + 1, 2 * i + 2)
        assert run() == [(1, "Ann", n) for n in counts]
    state = Path(fed.checkpoint, "state")
    operators = [] if use == "joined" else ["0"]
    assert [path.name for path in state.glob("[0-9]*")] == operators
    spark.catalog.clearCache()
