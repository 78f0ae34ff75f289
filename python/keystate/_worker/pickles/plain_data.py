"""Plain data as bytes: what elements of a ``ListCheckpointed`` function are stored as.

Whoever can write into a checkpoint chooses these bytes. So they name no class and no function: each
value is a tag, lengths and content, and the tag says which of the types below is made. Each length
is compared with what is there, and no object takes more than some 70 times the memory of its bytes:
that is why numbers of values have four bytes. ``docs/file-format.md`` lists the tags.
"""

from __future__ import annotations

import math
import re
import struct
from collections import Counter
from collections.abc import Callable, Collection
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from pyspark.sql import Row

#: The first byte. Pickles begin with 0x80.
FORMAT = b"\x01"

DEPTH = 100  # how deep containers may be nested
_VALUES = 1 << 24  # values in an element; so many take a minute
_ALIKE = 1000  # keys of one table with the same hash
_BITS = 2048  # of a number among these

_ZONE = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")
_ARRAY = re.compile(r"\|b1|\|[iu]1|[<>]([iu][248]|f[248])")
_COUNT, _DOUBLE, _TIMEDELTA = struct.Struct(">I"), struct.Struct(">d"), struct.Struct(">iii")


class NotPlain(Exception):
    """A value can't be written: says why.

    Args:
        cls: the class that it is of, if that is why.
    """

    def __init__(self, message: str = "", cls: type | None = None) -> None:
        super().__init__(message or f"{cls.__module__}.{cls.__qualname__}" if cls else message)
        self.cls = cls


class Corrupt(ValueError):
    """Bytes that no value is written as."""


def encode(value: Any) -> bytes:
    """A value as bytes.

    Raises:
        NotPlain: it can't be written so; says why.
    """
    writer = _Writer()
    try:
        writer.write(value)
    except (Corrupt, RuntimeError) as e:  # RuntimeError: it is changed by another thread
        raise NotPlain(str(e)) from None
    return FORMAT + writer.data


def decode(data: bytes) -> Any:
    """The value in such bytes.

    Raises:
        ValueError: they are damaged, or would take far more time or memory than honest ones.
    """
    if data[:1] != FORMAT:
        raise Corrupt(f"it begins with {data[:1]!r}")
    reader = _Reader(data)
    try:
        value = reader.read()
    except (TypeError, ArithmeticError, KeyError, OSError) as e:  # of constructors, of hash()
        raise Corrupt(f"{type(e).__name__}: {e}") from e
    if reader.at != len(data):
        raise Corrupt("there is more than one value")
    return value


def is_array(value: Any) -> bool:
    """Whether it is an array or a scalar of numpy, of plain numbers; without loading numpy."""
    kind = type(value)
    if kind.__module__ != "numpy" or not hasattr(value, "dtype"):
        return False
    if kind.__name__ != "ndarray" and kind is not value.dtype.type:
        return False
    return _ARRAY.fullmatch(value.dtype.str) is not None


def _check_keys(keys: Collection[Any]) -> None:
    """Raises if a table of these keys would take days to build.

    Hashes of numbers are known, so there can be keys that all have the same one. Then each is
    compared with all before it, and an int is converted if a Decimal has its hash, which takes the
    square of its length. Honest keys have few of a hash: tuples of -1 and -2 have.
    """
    hashes = Counter(map(hash, keys))
    if len(hashes) == len(keys):
        return
    for key in keys:
        alike = hashes[hash(key)]
        if alike > _ALIKE or (alike > 1 and _is_long(key)):
            raise Corrupt("too many of its keys have the same hash")


def _is_long(key: Any) -> bool:
    if isinstance(key, tuple):
        return any(map(_is_long, key))
    return isinstance(key, int) and key.bit_length() > _BITS


class _Writer:
    def __init__(self) -> None:
        self.data = bytearray()
        self._depth = self._values = 0

    def write(self, value: Any) -> None:
        """Appends it. A subclass is another type: what it adds would be lost."""
        self._depth += 1
        self._values += 1
        if self._depth > DEPTH:
            raise NotPlain(f"data nested more than {DEPTH} deep, or containing itself")
        if self._values > _VALUES:
            raise NotPlain(f"more than {_VALUES} values")
        write = _WRITERS.get(type(value))
        if write is not None:
            write(self, value)
        elif isinstance(value, Row) and getattr(value, "__fields__", None) is not None:
            self.all(b"R", value)
            self.all(b"", value.__fields__ or ())
        elif is_array(value):
            self.sized(
                b"a" if type(value).__name__ == "ndarray" else b"g", value.dtype.str.encode()
            )
            self.all(b"", value.shape)
            self.data += value.tobytes()
        else:
            raise NotPlain(cls=type(value))
        self._depth -= 1

    def sized(self, tag: bytes, content: bytes) -> None:
        self.data += tag
        n = len(content)
        while n > 0x7F:
            self.data.append(n & 0x7F | 0x80)
            n >>= 7
        self.data.append(n)
        self.data += content

    def all(self, tag: bytes, values: Collection[Any]) -> None:
        self.data += tag + _COUNT.pack(len(values))
        for value in values:
            self.write(value)

    def set(self, values: set[Any]) -> None:
        self.all(b"e", values)
        _check_keys(values)

    def dict(self, values: dict[Any, Any]) -> None:
        self.data += b"m" + _COUNT.pack(len(values))
        for key, value in values.items():
            self.write(key)
            self.write(value)
        _check_keys(values.keys())

    def zone(self, value: ZoneInfo) -> None:
        if value.key is None or not _ZONE.fullmatch(value.key):
            raise NotPlain("a ZoneInfo without a key")
        self.sized(b"6", value.key.encode())

    def moment(self, tag: bytes, value: Any) -> None:
        self.sized(tag, value.replace(tzinfo=None).isoformat().encode())
        self.data.append(value.fold)
        self.write(value.tzinfo)


def _int(value: int) -> bytes:
    return value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)


def _sized(tag: bytes, content: Callable[[Any], bytes]) -> Callable[[_Writer, Any], None]:
    return lambda writer, value: writer.sized(tag, content(value))


def _fixed(content: Callable[[Any], bytes]) -> Callable[[_Writer, Any], None]:
    return lambda writer, value: writer.data.extend(content(value))


_WRITERS: dict[type, Callable[[_Writer, Any], None]] = {
    type(None): _fixed(lambda value: b"N"),
    bool: _fixed(lambda value: b"T" if value else b"F"),
    int: _sized(b"i", _int),
    float: _fixed(lambda value: b"d" + _DOUBLE.pack(value)),
    str: _sized(b"s", lambda value: value.encode("utf-8", "surrogatepass")),
    bytes: _sized(b"b", bytes),
    list: lambda writer, value: writer.all(b"l", value),
    tuple: lambda writer, value: writer.all(b"t", value),
    set: _Writer.set,
    dict: _Writer.dict,
    Decimal: _sized(b"D", lambda value: str(value).encode()),
    date: _sized(b"1", lambda value: value.isoformat().encode()),
    datetime: lambda writer, value: writer.moment(b"2", value),
    time: lambda writer, value: writer.moment(b"3", value),
    timedelta: _fixed(lambda v: b"4" + _TIMEDELTA.pack(v.days, v.seconds, v.microseconds)),
    timezone: lambda writer, value: writer.all(b"5", value.__getinitargs__()),
    ZoneInfo: _Writer.zone,
}


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.at = 1
        self._data = data
        self._depth = 0

    def read(self) -> Any:
        self._depth += 1
        if self._depth > DEPTH:
            raise Corrupt(f"it is nested more than {DEPTH} deep")
        tag = self.take(1)
        read = _READERS.get(tag)
        if read is None:
            raise Corrupt(f"there is no type {tag!r}")
        value = read(self)
        self._depth -= 1
        return value

    def take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self._data):
            raise Corrupt("it ends too early")
        taken = self._data[self.at : end]
        self.at = end
        return taken

    def sized(self) -> bytes:
        n, shift = 0, 0
        while True:
            byte = self.take(1)[0]
            n |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return self.take(n)
            if shift > 56:
                raise Corrupt("it has a length without end")

    def text(self) -> str:
        return self.sized().decode()

    def unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        return form.unpack(self.take(form.size))

    def count(self) -> int:
        n: int = self.unpack(_COUNT)[0]
        if n > len(self._data) - self.at:
            raise Corrupt(f"it is too short for {n} values")
        return n

    def all(self) -> list[Any]:
        return [self.read() for _ in range(self.count())]

    def set(self) -> set[Any]:
        keys = self.all()
        _check_keys(keys)
        return set(keys)

    def dict(self) -> dict[Any, Any]:
        pairs = [(self.read(), self.read()) for _ in range(self.count())]
        _check_keys([key for key, _ in pairs])
        return dict(pairs)

    def moment(self, kind: type[datetime] | type[time]) -> Any:
        local, fold = kind.fromisoformat(self.text()), self.take(1)[0]
        return local.replace(tzinfo=self.read(), fold=fold)

    def zone(self) -> ZoneInfo:
        key = self.text()
        if not _ZONE.fullmatch(key):
            raise Corrupt(f"there is no time zone {key!r}")
        return ZoneInfo(key)

    def row(self) -> Row:
        row, names = Row(*self.all()), self.all()
        if len(names) != len(row) or not all(isinstance(name, str) for name in names):
            raise Corrupt("a Row has other names than values")
        row.__fields__ = names
        return row

    def array(self) -> Any:
        kind, shape = self.text(), self.all()
        if not _ARRAY.fullmatch(kind):
            raise Corrupt(f"there is an array of {kind!r}")
        if len(shape) > 32 or not all(type(n) is int and 0 <= n < 1 << 40 for n in shape):
            raise Corrupt("there is an array of no shape")
        import numpy as np

        flat = np.frombuffer(self.take(math.prod(shape) * np.dtype(kind).itemsize), kind)
        if kind == "|b1" and (flat.view("u1") > 1).any():
            raise Corrupt("a bool is 0 or 1")
        return flat.reshape(shape).copy()


_READERS: dict[bytes, Callable[[_Reader], Any]] = {
    b"N": lambda reader: None,
    b"T": lambda reader: True,
    b"F": lambda reader: False,
    b"i": lambda reader: int.from_bytes(reader.sized(), "little", signed=True),
    b"d": lambda reader: reader.unpack(_DOUBLE)[0],
    b"s": lambda reader: reader.sized().decode("utf-8", "surrogatepass"),
    b"b": _Reader.sized,
    b"l": _Reader.all,
    b"t": lambda reader: tuple(reader.all()),
    b"e": _Reader.set,
    b"m": _Reader.dict,
    b"R": _Reader.row,
    b"D": lambda reader: Decimal(reader.text()),
    b"1": lambda reader: date.fromisoformat(reader.text()),
    b"2": lambda reader: reader.moment(datetime),
    b"3": lambda reader: reader.moment(time),
    b"4": lambda reader: timedelta(*reader.unpack(_TIMEDELTA)),
    b"5": lambda reader: timezone(*reader.all()),
    b"6": _Reader.zone,
    b"a": _Reader.array,
    b"g": lambda reader: reader.array()[()],
}
