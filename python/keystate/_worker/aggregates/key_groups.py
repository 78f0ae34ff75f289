"""Which rows have one key: keys in columns of Arrow, grouped as Spark groups them.

So 0.0 and -0.0 are one, and all NaNs, in nested values too.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keystate._types.codec import offsets
from keystate._worker.aggregates.groups import Groups, Numbers, stable_order


def key_numbers(columns: Sequence[pa.Array]) -> Numbers:
    """For each row the number of its key: 0, 1, and so on, as keys first come.

    Args:
        columns: those of the keys, at least one. Of any type that Spark can group by.
    """
    first, *others = map(_numbers, columns)
    for other in others:
        first = _dense(pa.array(first * (other.max(initial=0) + 1) + other))
    return first


def groups_of(numbers: Numbers) -> Groups:
    """The rows of each key, by their numbers."""
    order = stable_order(numbers)
    keys = np.arange(numbers.max(initial=-1) + 1)
    return Groups(order, np.searchsorted(numbers[order], keys))


def _numbers(column: pa.Array) -> Numbers:
    """For each value of a column a number, as they first come."""
    kind = column.type
    if pa.types.is_struct(kind):
        return key_numbers([column.is_valid(), *column.flatten()])
    if pa.types.is_list(kind):
        elements, valid = _numbers(column.values), column.is_valid().to_pylist()
        bounds = pairwise(offsets(column))
        whole = [elements[a:b].tobytes() if v else None for v, (a, b) in zip(valid, bounds)]
        return _dense(pa.array(whole, pa.binary()))
    if pa.types.is_floating(kind):
        column = bits_of_floats(column)
    return _dense(column)


def bits_of_floats(column: pa.Array) -> pa.Array:
    """Floats as the bits of doubles, which are the same where Spark holds values equal."""
    doubles = pc.fill_null(column, 0).to_numpy(zero_copy_only=False).astype(np.float64)
    bits = (np.where(np.isnan(doubles), np.nan, doubles) + 0.0).view(np.int64)
    return pa.array(bits, mask=column.is_null().to_numpy(zero_copy_only=False))


def _dense(values: Any) -> Numbers:
    numbers: Numbers = values.dictionary_encode(null_encoding="encode").indices.to_numpy()
    return numbers.astype(np.int64)
