"""Values by slot in Arrow arrays, against a plain list."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keystate._worker.operators.slot_values import SlotValues

TYPES = {
    "long": (pa.int64(), lambda n: n),
    "string": (pa.string(), lambda n: "x" * (n % 5)),
    "list": (pa.list_(pa.int64()), lambda n: [n] * (n % 4)),
    "struct": (
        pa.struct([("a", pa.int64()), ("b", pa.string())]),
        lambda n: {"a": n, "b": str(n)},
    ),
}


@settings(deadline=None)
@given(st.sampled_from(sorted(TYPES)), st.data())
def test_any_operations(kind: str, data: st.DataObject) -> None:
    arrow, make = TYPES[kind]
    values, model = SlotValues(arrow), []
    n = 0

    def some(count: int) -> list[Any]:
        nonlocal n
        n += count
        return [None if i % 7 == 0 else make(i) for i in range(n - count, n)]

    for _ in range(data.draw(st.integers(0, 12))):
        if data.draw(st.booleans()) or not model:
            more = some(data.draw(st.integers(0, 5)))
            values.extend(pa.array(more, arrow))
            model += more
        else:
            slots = data.draw(st.lists(st.integers(0, len(model) - 1), unique=True))
            new = some(len(slots))
            values.put(np.array(slots, np.int64), pa.array(new, arrow))
            for slot, value in zip(slots, new):
                model[slot] = value
        asked = data.draw(st.lists(st.integers(0, len(model) - 1), max_size=4)) if model else []
        taken = values.take(np.array(asked, np.int64))
        assert taken.type == arrow
        assert taken.to_pylist() == [model[slot] for slot in asked]
    assert len(values) == len(model)
    assert values.take(np.arange(len(model))).to_pylist() == model


def test_memory_is_in_proportion_to_the_slots_however_often_they_get_values() -> None:
    values = SlotValues(pa.int64())
    values.extend(pa.array(range(1000)))
    for i in range(500):
        values.put(np.arange(1000), pa.array(range(i, i + 1000)))
        assert values.places < 4200
    assert values.take(np.arange(1000)).to_pylist() == list(range(499, 1499))


def test_few_slots_keep_few_values() -> None:
    """A value may be megabytes, and 2 GiB of them are more than an array holds."""
    values = SlotValues(pa.binary())
    values.extend(pa.array([b"", b""]))
    for i in range(500):
        values.put(np.array([i % 2]), pa.array([str(i).encode()]))
        assert values.places < 100
    assert values.take(np.arange(2)).to_pylist() == [b"498", b"499"]


@pytest.mark.parametrize("before", ["us", "ns"])
def test_another_type(before: str) -> None:
    values = SlotValues(pa.timestamp(before))
    values.extend(pa.array([1, None], pa.timestamp("s")).cast(pa.timestamp(before)))
    values.cast(pa.timestamp("us", "UTC"))
    values.extend(pa.array([2], pa.timestamp("us", "UTC")))
    assert values.take(np.arange(3)).cast(pa.int64()).to_pylist() == [10**6, None, 2]
