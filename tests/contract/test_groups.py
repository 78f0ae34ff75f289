"""How values of many groups are put together: against what is plain to see."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from keystate import agg
from keystate._types.codec import codec
from keystate._worker.aggregates.computing import Aggregation
from keystate._worker.aggregates.declared import accumulator_type, resolve
from keystate._worker.aggregates.groups import Groups, stable_order
from keystate._worker.state import column_state
from keystate._worker.state.aggregate_columns import AggregateColumns
from keystate._worker.state.column_entries import Entries
from keystate._worker.state.listed_columns import narrowed, wide
from pyspark.sql import types as T


@pytest.mark.parametrize("largest", [0, 3, 10**6, 2**40, 2**62, 2**63 - 1])
@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_a_stable_order(largest: int, count: int) -> None:
    chance = random.Random(largest + count)
    numbers = [chance.randint(0, largest) for _ in range(count)]
    order = stable_order(np.array(numbers, np.int64))
    assert order.tolist() == sorted(range(count), key=lambda i: numbers[i])


@pytest.mark.parametrize("size", [(10, 10), (5, 20)])
@pytest.mark.parametrize("far", [1, 2**41])
def test_entries_of_a_key_and_window_are_together(size: tuple[int, int], far: int) -> None:
    """Of windows of one length or of several, which lie near or far from each other."""
    chance = random.Random(far)
    for count in (0, 1, 5, 300):
        rows = []
        for _ in range(count):
            end = chance.randint(-3, 3) * 10 * far
            start = end - chance.randint(*size)
            rows.append((chance.randrange(20), chance.randrange(2), end, start))
        for sent in (rows, sorted(set(rows)), sorted(rows)):
            groups = _entries(sent).groups()
            found = np.split(groups.order, groups.starts[1:]) if len(groups) else []
            assert [[sent[i] for i in each.tolist()] for each in found] == [
                [row] * sent.count(row) for row in sorted(set(sent))
            ]
            assert all(each.tolist() == sorted(each.tolist()) for each in found)
            if groups.are_alone:
                assert sent == sorted(set(sent))


def _entries(rows: list[tuple[int, int, int, int]]) -> Entries:
    columns = [np.array([row[i] for row in rows], np.int64) for i in range(4)]
    return Entries(*columns, [np.zeros(len(rows))], True)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([3, None, -5]),
        pa.array([0.5, float("nan"), None]),
        pa.array(["b", None, "a"]),
        pa.array([True, None, False]),
    ],
)
def test_values_that_are_alone_stay_as_they_are(values: pa.Array) -> None:
    each = np.arange(3)
    for groups in (Groups.alone(3), Groups(each, each)):
        found = [groups.most(values, greatest=True), groups.end(values, True, ignore_nulls=True)]
        if pa.types.is_integer(values.type):
            found.append(groups.sums(values, "sum"))
        # NaN is not equal to itself.
        assert {str(each) for each in found} == {str(values)}
        assert groups.any(np.array([True, False, True])).tolist() == [True, False, True]


def test_the_least_of_lists() -> None:
    chance = random.Random(4)
    for lengths in (lambda: 1, lambda: chance.randint(0, 9)):
        lists = [sorted(chance.randint(-9, 9) for _ in range(lengths())) for _ in range(200)]
        of = [chance.randrange(12) for _ in lists]
        order = stable_order(np.array(of))
        starts = np.searchsorted(np.array(of)[order], sorted(set(of)))
        limits = np.array([chance.randint(0, 8) for _ in starts])
        found = Groups(order, starts).least(pa.array(lists, pa.list_(pa.int64())), limits)
        assert found.to_pylist() == [
            sorted({v for mine, each in zip(of, lists) if mine == group for v in each})[:most]
            for group, most in zip(sorted(set(of)), limits.tolist())
        ]


class _Documents(AggregateColumns):
    """The last document of each key."""

    def __init__(self) -> None:
        rows = T.StructType([T.StructField("doc", T.StringType())])
        resolved = resolve([agg.last("doc")], rows)
        self._codec = codec(accumulator_type(resolved))
        self._aggregation = Aggregation(resolved)
        self._none = self._no_entries()
        self._clear()

    def add_documents(self, slots: list[int], size: int) -> None:
        documents = pa.RecordBatch.from_pydict({"doc": ["x" * size] * len(slots)})
        self.add(np.array(slots), self._aggregation.lift(documents))


def test_large_values_wait_for_few_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow has 2 GiB of strings at most, and so many bytes are soon there."""
    monkeypatch.setattr(column_state, "_MOST_BYTES", 1 << 20)
    state = _Documents()
    for _ in range(50):
        state.add_documents([0, 1], 200_000)
        assert sum(each.nbytes() for each in state._added) < 2 << 20
    assert len(state._merge()) == 2


def test_what_is_sent_is_no_part_of_a_larger_array() -> None:
    state = _Documents()
    state.add_documents(list(range(10)), 5)
    put = state._take_changed(7, 10)
    assert put.slots.tolist() == [7, 8, 9]
    assert all(part.offset == 0 and part.nbytes < 100 for part in put.parts)
    assert len(state._take_changed(0, 10)) == 7


def test_rows_far_behind_in_an_array_are_narrowed() -> None:
    """They begin behind the 2 GiB that offsets of 32 bits reach. Nothing touches most pages."""
    size, count = 10_000_000, 300
    offsets = pa.py_buffer(np.arange(count + 1, dtype=np.int64) * size)
    buffers = [None, offsets, pa.py_buffer(np.zeros(count * size, np.uint8))]
    texts = pa.Array.from_buffers(pa.large_string(), count, buffers)
    rows = pa.StructArray.from_arrays([texts], ["s"])
    kind = pa.struct([pa.field("s", pa.string())])
    assert wide(kind) == rows.type
    assert narrowed(rows.slice(250, 2), kind).field(0).to_pylist() == ["\0" * size] * 2
