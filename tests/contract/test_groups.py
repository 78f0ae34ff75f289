"""How values of many groups are put together: against what is plain to see."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from keystate._worker.aggregates.groups import Groups, stable_order
from keystate._worker.state.column_entries import Entries


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
