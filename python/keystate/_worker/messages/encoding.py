"""Encoding of many values, with an error that names the one that does not fit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from keystate._types.codec import Codec, Misfit


def encode_all(
    codec: Codec, values: Sequence[Any], blame: Callable[[int | None, Misfit], Exception]
) -> pa.Array:
    """The array of these values.

    Args:
        codec: theirs.
        values: the values.
        blame: makes the error from the index of the value that does not fit; from ``None`` if each
            of them fits, but not all together.
    """
    try:
        return codec.encode(values)
    except Misfit as together:
        for i, value in enumerate(values):
            try:
                codec.encode([value])
            except Misfit as e:
                raise blame(i, e) from None
        raise blame(None, together) from None
