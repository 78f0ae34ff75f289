"""How entries of windows are put together: against what is plain to see."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from keystate._spec.specs import StateSpec
from keystate._worker.windows import window_columns
from keystate._worker.windows.entries import Entries, grouped
from keystate._worker.windows.groups import stable_order
from keystate._worker.windows.listed_columns import ListedColumns, narrowed, wide
from keystate.state.kinds import StateKind
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
            rows.append((chance.randrange(20), end, start))
        for sent in (rows, sorted(set(rows)), sorted(rows)):
            groups = grouped(*(np.array([row[i] for row in sent], np.int64) for i in range(3)))
            found = np.split(groups.order, groups.starts[1:]) if len(groups) else []
            assert [[sent[i] for i in each.tolist()] for each in found] == [
                [row] * sent.count(row) for row in sorted(set(sent))
            ]
            assert all(each.tolist() == sorted(each.tolist()) for each in found)
            if groups.are_alone:
                assert sent == sorted(set(sent))


class _Documents(ListedColumns):
    """Documents of one window of each key."""

    def __init__(self) -> None:
        names = ("end", "start", "number")
        key = T.StructType([T.StructField(name, T.LongType()) for name in names])
        value = T.StructType([T.StructField("doc", T.StringType())])
        spec = StateSpec("rows", StateKind.SORTED_MAP, "sorted map", value, key)
        super().__init__(spec, 0, None)
        self._count = 0

    def add_documents(self, slots: list[int], size: int) -> None:
        many = len(slots)
        numbers = np.arange(self._count, self._count + many)
        self._count += many
        documents = pa.StructArray.from_arrays([["x" * size] * many], ["doc"]).cast(self._wide)
        none = np.zeros(many, np.int64)
        entries = Entries(np.array(slots), none + 10, none, [numbers, documents], none + 9)
        self._append(entries)


def test_large_values_wait_for_few_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrow has 2 GiB of strings at most, and so many bytes are soon there."""
    monkeypatch.setattr(window_columns, "_MOST_BYTES", 1 << 20)
    state = _Documents()
    for _ in range(50):
        state.add_documents([0, 1], 200_000)
        waiting = sum(each.nbytes() for each in state._added)
        assert waiting < max(2 << 20, state._merged.nbytes() // 3)
    assert len(state._merge()) == 100


def test_what_is_sent_is_no_part_of_a_larger_array() -> None:
    state = _Documents()
    state.add_documents(list(range(10)), 5)
    put = state._take_changed(7, 10)
    assert put.slots.tolist() == [7, 8, 9]
    documents = put.parts[1]
    assert documents.offset == 0 and documents.nbytes < 200
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
