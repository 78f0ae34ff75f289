"""Rows as Spark holds them in memory: the JVM need not convert them.

A row is `[int64 nulls][8 bytes a field][strings and bytes, each padded to 8]`, little-endian. Bit i
of the nulls is set if field i is null. The place of a string or of bytes has their length and then
where they begin in the row.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from pyspark.sql import types as T

from keystate._types.codec.not_given import NotGivenCodec
from keystate._types.codec.structs import StructCodec

_FIXED: dict[type[T.DataType], str] = {
    T.BooleanType: "?7x",
    T.ByteType: "b7x",
    T.ShortType: "h6x",
    T.IntegerType: "i4x",
    T.LongType: "q",
    T.FloatType: "f4x",
    T.DoubleType: "d",
    T.TimestampType: "q",
}
_VARIABLE: dict[type[T.DataType], str] = {T.StringType: "II", T.BinaryType: "II"}

#: What `write` raises for a value that does not fit; encoding it as Arrow says more.
NOT_PACKED = (TypeError, ValueError, OverflowError, struct.error)


class PackedRows:
    """Reads and writes packed rows; its two functions are compiled for the fields.

    Attributes:
        read: makes a row of the bytes and the place where it begins.
        write: makes bytes of a row, or raises one of `NOT_PACKED`.
    """

    def __init__(self, codec: StructCodec) -> None:
        self._codec = codec
        self._kinds = [type(field.data_type) for field in codec.fields]
        layout = "".join({**_FIXED, **_VARIABLE}[kind] for kind in self._kinds)
        self._format = struct.Struct("<Q" + layout)
        self.read: Callable[[bytes, int], Any] = self._compile(self._reader())
        self.write: Callable[[Any], bytes] = self._compile(self._writer())

    def _compile(self, lines: list[str]) -> Any:
        scope: dict[str, Any] = {
            "make": self._codec.make,
            "as_read": self._codec.as_read,
            "absent": self._codec.fields,
            "unpack": self._format.unpack_from,
            "pack": self._format.pack,
            **{f"local{i}": getattr(f, "local", None) for i, f in enumerate(self._codec.fields)},
            "micros": [getattr(field, "micros", None) for field in self._codec.fields],
            "padding": [b"\0" * (-n & 7) for n in range(8)],
        }
        exec("\n".join(lines), scope)
        return scope["function"]

    def _places(self) -> str:
        """The variables of the places of all fields."""
        variable = [kind in _VARIABLE for kind in self._kinds]
        return ", ".join(f"n{i}, o{i}" if of else f"v{i}" for i, of in enumerate(variable))

    def _reader(self) -> list[str]:
        lines = ["def function(data, at):", f" nulls, {self._places()} = unpack(data, at)"]
        for i, kind in enumerate(self._kinds):
            if kind in _VARIABLE:
                lines += [f" o{i} += at", f" v{i} = data[o{i} : o{i} + n{i}]"]
            if kind is T.StringType:
                lines.append(f" v{i} = str(v{i}, 'utf-8')")
            elif kind is T.TimestampType:
                lines.append(f" v{i} = local{i}(v{i})")
        lines.append(" if nulls:")
        lines += [f"  if nulls & {1 << i}: v{i} = None" for i in range(len(self._kinds))]
        absent = [i for i, f in enumerate(self._codec.fields) if isinstance(f, NotGivenCodec)]
        lines += [f" v{i} = absent[{i}].value" for i in absent]
        values = "".join(f"v{i}, " for i in range(len(self._kinds)))
        return [*lines, f" return make(({values}))"]

    def _writer(self) -> list[str]:
        values = "".join(f"v{i}, " for i in range(len(self._kinds)))
        lines = ["def function(row):", f" {values} = as_read(row)", " nulls = 0"]
        lines += [f" end = {self._format.size}", " tail = b''"]
        for i, kind in enumerate(self._kinds):
            empty = "b''" if kind in _VARIABLE else "0"
            lines.append(f" if v{i} is None: nulls |= {1 << i}; v{i} = {empty}")
            if kind is T.TimestampType:
                lines.append(f" else: v{i} = micros[{i}](v{i})")
            elif kind is T.StringType:
                lines.append(f" else: v{i} = v{i}.encode()")
            if kind in _VARIABLE:
                lines.append(f" n{i} = len(v{i}); o{i} = end")
                lines.append(f" tail += v{i} + padding[n{i} & 7]; end += n{i} + 7 & -8")
        return [*lines, f" return pack(nulls, {self._places()}) + tail"]
