"""Codecs of strings and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from keystate._compiled.plain import is_text
from keystate._types.codec.base import Codec, offsets
from keystate._types.codec.misfits import Misfit


class StringCodec(Codec):
    def is_plain(self, value: Any) -> bool:
        return type(value) is str and (value.isascii() or is_text(value))

    def as_read(self, value: Any) -> Any:
        if type(value) is str and not self.is_plain(value):
            raise Misfit(value, self.name)
        return super().as_read(value)

    def decode(self, array: pa.Array) -> list[Any]:
        if array.null_count or array.type != pa.string() or len(array) == 0:
            return super().decode(array)
        at, data = offsets(array), array.buffers()[2]
        if data is None:
            return [""] * len(array)
        first = at[0]
        try:
            text = str(memoryview(data)[first : at[-1]], "ascii")
        except UnicodeDecodeError:
            return super().decode(array)
        return [text[a - first : b - first] for a, b in pairwise(at)]


class BinaryCodec(Codec):
    def encode(self, values: Sequence[Any]) -> pa.Array:
        return super().encode(
            [bytes(v) if isinstance(v, (bytearray, memoryview)) else v for v in values]
        )
