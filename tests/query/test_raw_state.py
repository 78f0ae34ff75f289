"""Raw state: streams of bytes that a function writes itself, for a key group and for a subtask."""

from __future__ import annotations

import pickle
import struct
from typing import Any

import keystate
import pytest
from keystate import (
    CheckpointedFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    ProcessFunction,
)
from keystate._jvm.session import FORMAT_KEY
from pyspark.errors import StreamingQueryException

from tests.drawn import drawn
from tests.shapes import SHAPES, Shape, shape_name

PARTITIONS = "spark.sql.shuffle.partitions"
BACKEND = "spark.keystate.backend"
SCHEMA = (
    "key string, n long, group int, subtask int, parts array<long>, listed array<long>, seen long"
)


class Raw(KeyedProcessFunction, CheckpointedFunction):
    """Counts rows a key in a dictionary of its own, which it writes by key group.

    It also notes each row's number in a raw operator stream and in a list, and how many these are
    in a union list.
    """

    def initialize_state(self, context: Any) -> None:
        self.counts: dict[int, dict[str, int]] = {}
        for provider in context.get_raw_keyed_state_inputs():
            self.counts[provider.get_key_group_id()] = pickle.load(provider.get_stream())
        store = context.get_operator_state_store()
        self.listed = store.get_list_state(ListStateDescriptor("listed", "long"))
        inputs = context.get_raw_operator_state_inputs()
        self.numbers = [struct.unpack(">q", each.get_stream().read())[0] for each in inputs]
        self.counts_of_all = store.get_union_list_state(ListStateDescriptor("counts", "long"))
        seen = sum(self.counts_of_all.get())
        self.restored = list(self.numbers), list(self.listed.get()), seen

    def open(self, ctx: Any) -> None:
        self.group_of = ctx.get_key_group
        self.subtask = ctx.get_index_of_this_subtask()

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.numbers.append(row.number)
        group = self.group_of(ctx.get_current_key())
        counts = self.counts.setdefault(group, {})
        if row.n:
            counts[row.key] = counts.get(row.key, 0) + row.n
            yield (row.key, counts[row.key], group, self.subtask, *self.restored)
        elif counts.pop(row.key, None) is not None and not counts:
            del self.counts[group]

    def snapshot_state(self, context: Any) -> None:
        keyed = context.get_raw_keyed_operator_state_output()
        assert set(self.counts) <= set(keyed.get_key_group_list())
        for group, counts in self.counts.items():
            keyed.start_new_key_group(group)
            pickle.dump(counts, keyed)
        output = context.get_raw_operator_state_output()
        for number in self.numbers:
            output.start_new_partition()
            output.write(struct.pack(">i", number >> 32))
            output.write(struct.pack(">I", number & 0xFFFFFFFF))
        self.listed.update(self.numbers)
        self.counts_of_all.update([len(self.numbers)])


def raw(df: Any) -> Any:
    return keystate.keyed(df, "key").process(Raw(), SCHEMA)


@pytest.mark.parametrize(
    "checkpoint_format, backend", drawn("raw state", [("1", "hashmap"), ("2", "rocksdb")], 1)
)
@pytest.mark.parametrize("shape", SHAPES, ids=shape_name)
def test_raw_streams_over_rescales(
    stream: Any, settings: Any, checkpoint_format: str, backend: str, shape: Shape
) -> None:
    """Keyed ones go with their key group; those of operators are dealt out like a list."""
    settings(**{FORMAT_KEY: checkpoint_format, BACKEND: backend})
    fed = stream("key string, n long, number long")
    keys = [f"k{i}" for i in range(60)]
    numbers = 0

    def shaped(df: Any) -> Any:
        return shape(df, raw(df))

    def feed(n: int) -> None:
        nonlocal numbers
        fed.feed([(key, n, numbers + i) for i, key in enumerate(keys)])
        numbers += len(keys)

    for run, partitions in enumerate((1, 3, 1, 4, 3, 2, 5)):
        settings(**{PARTITIONS: str(partitions)})
        before = numbers
        feed(1)
        rows = fed.run(shaped)
        assert {row.key: row.n for row in rows} == dict.fromkeys(keys, run + 1)
        assert all(row.subtask == row.group * partitions // 128 for row in rows)
        assert {row.seen for row in rows} == {before}
        parts = {row.subtask: (row.parts, row.listed) for row in rows}
        assert set(parts) == set(range(partitions))
        for dealt in zip(*parts.values()):
            assert sorted(x for part in dealt for x in part) == list(range(before))
            sizes = [len(part) for part in dealt]
            assert max(sizes) - min(sizes) <= 1
    feed(0)
    feed(1)
    assert {row.n for row in fed.run(shaped)} == {1}
    settings(**{PARTITIONS: "2"})
    feed(1)
    assert {row.n for row in fed.run(shaped)} == {2}, "streams that were gone came back"


class Misused(KeyedProcessFunction, CheckpointedFunction):
    def __init__(self, what: str) -> None:
        self.what = what

    def initialize_state(self, context: Any) -> None:
        self.inputs = context.get_raw_keyed_state_inputs()

    def open(self, ctx: Any) -> None:
        self.group_of = ctx.get_key_group

    def process_element(self, row: Any, ctx: Any) -> Any:
        if self.what == "late":
            list(self.inputs)
        if self.what == "type":
            self.group_of("x")

    def snapshot_state(self, context: Any) -> None:
        output = context.get_raw_keyed_operator_state_output()
        if self.what == "no group":
            output.write(b"x")
        if self.what == "twice":
            output.start_new_key_group(output.get_key_group_list()[0])
            output.start_new_key_group(output.get_key_group_list()[0])
        if self.what == "not mine":
            output.start_new_key_group(128)


@pytest.mark.parametrize(
    "what, message",
    [
        ("late", r"raw state can only be read in initialize_state\(\)"),
        ("type", "a key does not fit .*expected bigint at field .x., got str 'x'"),
        ("no group", r"call start_new_key_group\(\) before write\(\)"),
        ("twice", "the stream of key group 0 was begun already"),
        ("not mine", "key group 128 is not of this subtask, which has 0 to 127"),
    ],
)
def test_misuse(stream: Any, settings: Any, what: str, message: str) -> None:
    settings(**{PARTITIONS: "1"})
    fed = stream("x long")
    fed.feed([(1,)])
    with pytest.raises(StreamingQueryException, match=message):
        fed.run(lambda df: keystate.keyed(df, "x").process(Misused(what), "x long"))


class NotKeyed(ProcessFunction, CheckpointedFunction):
    def initialize_state(self, context: Any) -> None:
        pass

    def process_element(self, row: Any, ctx: Any) -> Any:
        pass

    def snapshot_state(self, context: Any) -> None:
        context.get_raw_keyed_operator_state_output()


def test_without_keys_there_is_no_raw_keyed_state(stream: Any) -> None:
    fed = stream("x long")
    fed.feed([(1,)])
    with pytest.raises(StreamingQueryException, match="raw keyed state needs a key"):
        fed.run(lambda df: keystate.stream(df).process(NotKeyed(), "x long"))


def test_a_batch_has_raw_state_too(spark: Any) -> None:
    data = [(f"k{i % 20}", 1, i) for i in range(200)]
    df = spark.createDataFrame(data, "key string, n long, number long")
    rows = raw(df).groupBy("key").max("n").collect()
    assert {row[1] for row in rows} == {10}
    assert len(rows) == 20
