"""Lists of functions, sinks and sources whose query changes its language at a restart."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path, PurePosixPath
from typing import Any

import keystate
import numpy as np
import pytest
from keystate import (
    CheckpointedFunction,
    KeyedProcessFunction,
    ListCheckpointed,
    ListStateDescriptor,
    ProcessFunction,
    RichParallelSourceFunction,
    SinkFunction,
    admin,
)
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, Row

from examples.counter_source import CounterSource

PLAIN: dict[str, Any] = {
    "small": -3,
    "text": "a\u20acb",
    "ratio": -0.25,
    "flag": True,
    "data": b"\x00\xff",
    "day": date(1, 1, 1),
    "at": datetime(2026, 3, 1, 12, 30, 0, 250_001, tzinfo=timezone(timedelta(hours=-2))),
    "local": datetime(1969, 12, 31, 23, 59, 59, 999_999),
    "price": Decimal("-12.50"),
    "gap": timedelta(days=-1, seconds=1, microseconds=7),
    "items": [1, None, -(2**31)],
    "by": {"a": 2**40, "b": -1},
    "pair": (7, "x"),
    "none": None,
}


class Remembers(ProcessFunction, ListCheckpointed[Any]):
    """Begins with some things; emits what is wrong with those that it is restored with."""

    def __init__(self, expected: list[int], *extra: Any) -> None:
        self.expected = expected
        self.things = [Row(n=n, **PLAIN) for n in range(3)]
        self.things += extra

    def process_element(self, value: Any, ctx: Any) -> Any:
        if sorted(thing.n for thing in self.things) != self.expected:
            yield f"{self.things}"
        for thing in self.things:
            for name, expected in PLAIN.items():
                if thing[name] != expected or type(thing[name]) is not type(expected):
                    yield f"{name}: {thing[name]!r} is not {expected!r}"

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        return self.things

    def restore_state(self, state: list[Any]) -> None:
        self.things = state


@pytest.mark.turns
def test_list_of_plain_data(
    stream: Callable[..., Any], jvm: Any, spark: Any, settings: Callable[..., None]
) -> None:
    """Two subtasks in Python, one in Scala, two in Scala, and one in Python."""
    fed = stream("n long")

    def in_python(expected: list[int]) -> Callable[[Any], Any]:
        return lambda df: keystate.stream(df).process(Remembers(expected), "problem string")

    def in_scala(df: Any) -> Any:
        return DataFrame(jvm.OperatorStates.remembers(df._jdf), spark)

    fed.feed([(10,)])
    assert fed.run(in_python([0, 1, 2])) == []
    settings(**{"spark.sql.shuffle.partitions": "1"})
    fed.feed([(11,), (12,)])
    assert sorted(row["size"] for row in fed.run(in_scala)) == [7, 8]
    settings(**{"spark.sql.shuffle.partitions": "2"})
    fed.feed([(13,)])
    assert [row["size"] for row in fed.run(in_scala)] == [5]
    settings(**{"spark.sql.shuffle.partitions": "1"})
    fed.feed([(14,)])
    assert fed.run(in_python([0, 0, 1, 1, 2, 2, 11, 12, 13])) == []


class Objects(ListCheckpointed[Any], ProcessFunction):
    def __init__(self, element: Any) -> None:
        self.element = element

    def process_element(self, value: Any, ctx: Any) -> Any:
        yield from ()

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        return [self.element]

    def restore_state(self, state: list[Any]) -> None: ...


@pytest.mark.parametrize(
    ("element", "message"),
    [
        (PurePosixPath("x"), "KEYSTATE_PICKLE_REFUSED.*Element 0 of the function's list"),
        ("text", "KEYSTATE_STATE_CHANGED.*the string text is no STRUCT"),
        (np.int64(1), "KEYSTATE_CORRUPT_FILE.*no type for what NumPy has made"),
    ],
)
def test_elements_that_scala_refuses(
    element: Any,
    message: str,
    stream: Callable[..., Any],
    jvm: Any,
    spark: Any,
    settings: Callable[..., None],
) -> None:
    name = f"{PurePosixPath.__module__}.PurePosixPath"
    settings(**{"spark.keystate.pickle.allow": name, "spark.sql.shuffle.partitions": "1"})
    fed = stream("n long")
    fed.feed([(1,)])
    fed.run(lambda df: keystate.stream(df).process(Objects(element), "n long"))
    fed.feed([(2,)])
    with pytest.raises(StreamingQueryException, match=message):
        fed.run(lambda df: DataFrame(jvm.OperatorStates.remembers(df._jdf), spark))


class Buffering(SinkFunction, CheckpointedFunction):
    """The function of the same name in OperatorStates.scala."""

    def __init__(self, threshold: int, file: str) -> None:
        self.threshold, self.file = threshold, file

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.checkpointed = store.get_list_state(ListStateDescriptor("buffered", "long"))
        self.buffer = list(self.checkpointed.get())

    def invoke(self, value: Any, context: Any) -> None:
        self.buffer.append(value.n)
        if len(self.buffer) >= self.threshold:
            with open(self.file, "a") as file:
                file.write(" ".join(map(str, self.buffer)) + "\n")
            self.buffer = []

    def snapshot_state(self, context: Any) -> None:
        self.checkpointed.update(self.buffer)


@pytest.mark.turns
def test_sinks_in_turns(
    stream: Callable[..., Any], jvm: Any, tmp_path: Path, settings: Callable[..., None]
) -> None:
    """What one language keeps back the other one writes, over rescales, each number once."""
    fed = stream("n long")
    file, checkpoint = str(tmp_path / "written"), str(tmp_path / "sink")

    def in_python(threshold: int) -> None:
        writer = keystate.stream(fed.source()).add_sink(Buffering(threshold, file))
        writer = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        writer.start().awaitTermination()

    def in_scala(threshold: int) -> None:
        jvm.OperatorStates.buffer(fed.source()._jdf, threshold, file, checkpoint)

    turns = [(in_python, 4, 2), (in_scala, 4, 3), (in_python, 5, 2), (in_scala, 1, 1)]
    for turn, (run, threshold, partitions) in enumerate(turns):
        settings(**{"spark.sql.shuffle.partitions": str(partitions)})
        fed.feed([(20 * turn + i,) for i in range(10)], [(20 * turn + 10 + i,) for i in range(10)])
        run(threshold)
    lines = [list(map(int, line.split())) for line in Path(file).read_text().splitlines()]
    assert sorted(n for line in lines for n in line) == list(range(80))
    assert {4, 5} <= set(map(len, lines)), "nothing was kept back"


class Sketches(KeyedProcessFunction, CheckpointedFunction):
    """The function of the same name in OperatorStates.scala; emits its parts too."""

    def initialize_state(self, context: Any) -> None:
        self.counts = {
            provider.get_key_group_id(): json.load(provider.get_stream())
            for provider in context.get_raw_keyed_state_inputs()
        }
        inputs = context.get_raw_operator_state_inputs()
        self.parts = [provider.get_stream().read() for provider in inputs]

    def open(self, ctx: Any) -> None:
        self.group_of = ctx.get_key_group

    def process_element(self, value: Any, ctx: Any) -> Any:
        counts = self.counts.setdefault(self.group_of(value.key), {})
        counts[value.key] = counts.get(value.key, 0) + 1
        self.parts.append(b"\x02")
        yield counts[value.key], b"".join(self.parts).hex()

    def snapshot_state(self, context: Any) -> None:
        keyed = context.get_raw_keyed_operator_state_output()
        for group, counts in self.counts.items():
            keyed.start_new_key_group(group)
            keyed.write(json.dumps(counts).encode())
        raw = context.get_raw_operator_state_output()
        for part in self.parts:
            raw.start_new_partition()
            raw.write(part)


@pytest.mark.turns
def test_raw_state_in_turns(
    stream: Callable[..., Any], jvm: Any, spark: Any, settings: Callable[..., None]
) -> None:
    """Bytes that one language has written for a key group or a subtask the other one reads."""
    fed = stream("key string")

    def in_python(df: Any) -> Any:
        return keystate.keyed(df, "key").process(Sketches(), "n long, parts string")

    def in_scala(df: Any) -> Any:
        return DataFrame(jvm.OperatorStates.sketches(df._jdf), spark)

    keys = [(f"key {i}",) for i in range(20)]
    turns = [(in_python, 2), (in_scala, 3), (in_scala, 2), (in_python, 1)]
    for turn, (build, partitions) in enumerate(turns):
        settings(**{"spark.sql.shuffle.partitions": str(partitions)})
        fed.feed(keys)
        rows = fed.run(build)
        assert [row.n for row in rows] == [turn + 1] * len(keys)
    parts = max((row.parts for row in rows), key=len)
    assert (parts.count("02"), parts.count("01"), len(parts)) == (40, 40, 160)


def run_to_end(df: DataFrame, checkpoint: Path) -> list[Any]:
    """What a query over a source emits until the source has ended."""
    rows: list[Any] = []
    writer = df.writeStream.foreachBatch(lambda batch, _: rows.extend(batch.collect()))
    writer = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True)
    writer.start().awaitTermination()
    return rows


@pytest.mark.turns
def test_counter_source_in_turns(spark: Any, jvm: Any, tmp_path: Path) -> None:
    def in_python(until: int) -> DataFrame:
        counter = CounterSource(until)
        return keystate.source(spark, counter, "n long", parallelism=2, max_rows_per_batch=60)

    def in_scala(until: int) -> DataFrame:
        return DataFrame(jvm.OperatorStates.counter(spark._jsparkSession, until, 2, 60), spark)

    for turn, source in enumerate([in_python, in_scala, in_python]):
        rows = run_to_end(source(100 * (turn + 1)), tmp_path)
        assert sorted(row.n for row in rows) == list(range(100 * turn, 100 * turn + 100))
    assert admin.verify(str(tmp_path)) == []


class Shards(RichParallelSourceFunction, CheckpointedFunction):
    """Five shards, whose offsets are dealt out."""

    def __init__(self, until: int) -> None:
        self.until = until

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.shards = store.get_list_state(ListStateDescriptor("shards", "id int, offset long"))
        self.offsets = {shard.id: shard.offset for shard in self.shards.get()}
        self.restored = context.is_restored()

    def open(self, ctx: Any) -> None:
        if not self.restored and ctx.get_index_of_this_subtask() == 0:
            self.offsets = dict.fromkeys(range(5), 0)

    def run(self, ctx: Any) -> None:
        for shard in self.offsets:
            while self.offsets[shard] < self.until:
                with ctx.get_checkpoint_lock():
                    ctx.collect((shard, self.offsets[shard]))
                    self.offsets[shard] += 1

    def cancel(self) -> None:
        self.until = 0

    def snapshot_state(self, context: Any) -> None:
        self.shards.update(self.offsets.items())


@pytest.mark.turns
def test_shards_in_turns(spark: Any, jvm: Any, tmp_path: Path) -> None:
    """Their offsets are dealt out at each change of language, to another number of instances."""

    def in_python(until: int, parallelism: int) -> DataFrame:
        schema = "id int, offset long"
        return keystate.source(
            spark, Shards(until), schema, parallelism=parallelism, max_rows_per_batch=60
        )

    def in_scala(until: int, parallelism: int) -> DataFrame:
        jdf = jvm.OperatorStates.shards(spark._jsparkSession, until, parallelism, 60)
        return DataFrame(jdf, spark)

    turns = [(in_python, 1), (in_scala, 3), (in_python, 2)]
    for turn, (source, parallelism) in enumerate(turns):
        rows = run_to_end(source(20 * turn + 20, parallelism), tmp_path)
        expected = [(shard, 20 * turn + n) for shard in range(5) for n in range(20)]
        assert sorted(map(tuple, rows)) == expected
