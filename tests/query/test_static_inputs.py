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
    ValueStateDescriptor,
    admin,
)
from keystate.session import FORMAT_KEY
from pyspark.errors import StreamingQueryException

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
    table = spark.createDataFrame([(1, "Ann")], "key long, name string")

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
