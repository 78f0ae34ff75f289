"""A function's own metrics come with the query's progress, once for each micro-batch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    CheckpointedFunction,
    DeclarationError,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    ProcessFunction,
)
from pyspark.errors import StreamingQueryException

from tests.shapes import SHAPES, Shape, shape_name

RULES = MapStateDescriptor("rules", "long", "long")


class Measured(KeyedProcessFunction):
    """Fails once, when it has counted some rows of an attempt that must not count."""

    def __init__(self, flag: Path | None = None) -> None:
        self.flag = flag

    def open(self, ctx: Any) -> None:
        metrics = ctx.get_metrics_group()
        self.rows = metrics.counter("rows")
        self.balance = metrics.add_group("money", "eur").counter("balance")
        self.events = metrics.meter("events")
        self.size = metrics.distribution("size")
        self.unused = metrics.distribution("unused")
        self.held = 0
        metrics.gauge("held", lambda: self.held)
        assert metrics.counter("rows") is self.rows

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.rows.inc()
        self.balance.inc(5)
        self.balance.dec(7)
        self.events.mark_event(2)
        self.size.update(row.key)
        self.held += 1
        if self.flag is not None and row.key == 7 and self.flag.exists():
            self.flag.unlink()
            raise ValueError("once")
        yield row.key


NAMES = ("rows", "money", "events", "size", "unused", "held", "broadcast")


def of_function(progress: Any) -> dict[str, int]:
    metrics: dict[str, int] = progress.stateOperators[0].customMetrics
    return {name: value for name, value in metrics.items() if name.split(".")[0] in NAMES}


@pytest.mark.parametrize("shape", SHAPES, ids=shape_name)
def test_counted_once_though_tried_twice(stream: Any, tmp_path: Path, shape: Shape) -> None:
    flag = tmp_path / "flag"
    flag.touch()
    fed = stream("key long")
    fed.feed([(key,) for key in range(10)], [(3,)])
    fed.run(lambda df: shape(df, keystate.keyed(df, "key").process(Measured(flag), "key long")))
    assert not flag.exists()
    first, second = map(of_function, fed.progress[:2])
    assert first == {
        "rows": 10,
        "money.eur.balance": -20,
        "events": 20,
        "size.count": 10,
        "size.sum": 45,
        "size.min": 0,
        "size.max": 9,
        "unused.count": 0,
        "unused.sum": 0,
        "held.sum": 10,
        "held.min": first["held.min"],
        "held.max": 10 - first["held.min"],
    }
    assert (second["rows"], second["size.min"], second["size.max"]) == (1, 3, 3)


def test_a_micro_batch_that_is_computed_twice_counts_once(spark: Any, stream: Any) -> None:
    fed = stream("key long")
    fed.feed([(key,) for key in range(10)])
    source = spark.readStream.schema("key long").parquet(str(fed._input))
    counted = keystate.keyed(source, "key").process(Measured(), "key long")

    def twice(df: Any, batch_id: int) -> None:
        assert df.count() == df.count() == 10

    query = (
        counted.writeStream.foreachBatch(twice)
        .option("checkpointLocation", str(fed.checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert of_function(query.recentProgress[0])["rows"] == 10


class Broadcasts(KeyedBroadcastProcessFunction):
    def open(self, ctx: Any) -> None:
        self.broadcast = ctx.get_metrics_group().counter("broadcast")
        self.rows = ctx.get_metrics_group().counter("rows")

    def process_broadcast_element(self, row: Any, ctx: Any) -> Any:
        self.broadcast.inc()

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.rows.inc()
        yield row.key


def test_of_broadcast_elements_too(spark: Any, stream: Any) -> None:
    rules = keystate.broadcast(spark.createDataFrame([(1,), (2,), (3,)], "key long"), RULES)
    fed = stream("key long")
    fed.feed([(key,) for key in range(10)], [(1,)])
    fed.run(lambda df: keystate.keyed(df, "key").connect(rules).process(Broadcasts(), "key long"))
    # Each of the two subtasks gets all of them.
    assert of_function(fed.progress[0]) == {"broadcast": 6, "rows": 10}
    assert of_function(fed.progress[1]) == {"broadcast": 0, "rows": 1}


class Holds(ProcessFunction, CheckpointedFunction):
    def initialize_state(self, context: Any) -> None:
        pass

    def open(self, ctx: Any) -> None:
        ctx.get_metrics_group().gauge("held", lambda: "many" if self.bad else 4)

    def __init__(self, bad: bool) -> None:
        self.bad = bad

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.key

    def snapshot_state(self, context: Any) -> None:
        pass


def test_beside_operator_state(stream: Any) -> None:
    fed = stream("key long")
    fed.feed([(1,)])
    fed.run(lambda df: keystate.stream(df).process(Holds(False), "key long"))
    assert of_function(fed.progress[0]) == {"held.sum": 8, "held.min": 4, "held.max": 4}
    fed.feed([(1,)])
    with pytest.raises(StreamingQueryException, match="metric 'held' must be a long, got 'many'"):
        fed.run(lambda df: keystate.stream(df).process(Holds(True), "key long"))


def test_kinds_do_not_mix() -> None:
    group = keystate.MetricGroup()
    group.counter("a")
    with pytest.raises(DeclarationError, match="metric 'a' is a counter already"):
        group.distribution("a")
