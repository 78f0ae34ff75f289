"""What entries of windows hold, by columns: Arrow's, or NumPy's where they have Python objects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from keystate._worker.windows.groups import Numbers

#: The parts of many entries: columns of the same length.
Parts = list[Any]


def taken(parts: Parts, places: Numbers) -> Parts:
    """What they have at these places, in this order."""
    return [
        part[places] if isinstance(part, np.ndarray) else part.take(pa.array(places))
        for part in parts
    ]


def filtered(parts: Parts, mask: Numbers) -> Parts:
    """What they have where `mask` is true."""
    return [
        part[mask] if isinstance(part, np.ndarray) else part.filter(pa.array(mask))
        for part in parts
    ]


def concatenated(chunks: Iterable[Parts]) -> Parts:
    """Parts one after the other."""
    return [
        np.concatenate(each) if isinstance(each[0], np.ndarray) else pa.concat_arrays(list(each))
        for each in zip(*chunks)
    ]


def objects(values: list[Any]) -> Numbers:
    """A column of Python objects; of tuples and lists too, which NumPy would take apart."""
    return np.fromiter(values, object, len(values))
