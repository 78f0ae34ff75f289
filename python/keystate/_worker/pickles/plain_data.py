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
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID
from zoneinfo import ZoneInfo

from pyspark.sql import Row

from keystate._worker.pickles.comparisons import Comparisons, TooMuch

#: The first byte. Pickles, which earlier builds wrote, begin with 0x80.
FORMAT = b"\x01"

DEPTH = 100  # how deep containers may be nested
_NODES = 1 << 24  # values in an element; so many take a minute
_FRACTION = 4096  # bytes of its numbers: to reduce it takes the square of these

#: What can be there as a class: what a ``defaultdict`` makes.
CLASSES: dict[str, Any] = {
    **{each.__name__: each for each in (bool, complex, dict, float, frozenset, int, list)},
    **{each.__name__: each for each in (set, str, tuple, bytes, bytearray)},
    **{each.__name__: each for each in (Counter, OrderedDict, deque, Decimal)},
}

_ZONE = re.compile(r"[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+)*")
_ARRAY_TYPE = re.compile(
    r"\|b1|\|[iu]1|[<>]([iu][248]|f[248]|c8|c16|[mM]8(\[(\d{1,9})?(Y|M|W|D|h|m|s|ms|us|ns|ps|fs|as)\])?)"
)
_DATETIME, _TIME = struct.Struct(">HBBBBBIB"), struct.Struct(">BBBIB")
_TIMEDELTA, _DATE, _DOUBLE = struct.Struct(">iii"), struct.Struct(">I"), struct.Struct(">d")
_COUNT, _MAXLEN, _COMPLEX = struct.Struct(">I"), struct.Struct(">q"), struct.Struct(">dd")


class NotPlain(Exception):
    """A value can't be written: says why.

    Args:
        cls: the class that it is of, if that is why.
    """

    def __init__(self, message: str, cls: type | None = None) -> None:
        super().__init__(message or _name(cls))
        self.cls = None if cls is None else _name(cls)


def _name(cls: Any) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


class Corrupt(ValueError):
    """Bytes that no value is written as."""


def encode(value: Any) -> bytes:
    """A value as bytes.

    Raises:
        NotPlain: it can't be written so; says why.
    """
    writer = _Writer()
    try:
        writer.write(value, DEPTH)
        writer.comparisons.check(len(writer.data))
    except (TooMuch, RuntimeError) as e:  # RuntimeError: it is changed by another thread
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
        value = reader.read(DEPTH)
    except (TypeError, ArithmeticError, KeyError, OSError) as e:  # of constructors, of hash()
        raise Corrupt(f"{type(e).__name__}: {e}") from e
    if reader.at != len(data):
        raise Corrupt("there is more than one value")
    return value


class _Writer:
    def __init__(self) -> None:
        self.data = bytearray()
        self.comparisons = Comparisons()
        self._nodes = 0

    def write(self, value: Any, depth: int) -> None:
        """Appends it. A subclass is another type: what it adds would be lost."""
        self._nodes += 1
        if depth == 0 or self._nodes > _NODES:
            raise NotPlain(
                f"data nested more than {DEPTH} deep, or containing itself"
                if depth == 0
                else f"more than {_NODES} values"
            )
        write = _WRITERS.get(type(value))
        if write is not None:
            write(self, value, depth - 1)
        elif isinstance(value, Row) and getattr(value, "__fields__", None) is not None:
            self._row(value, depth - 1)
        elif isinstance(value, type):
            name: str = value.__name__
            if CLASSES.get(name) is not value:
                raise NotPlain("", value)
            self._bytes(b"k", name.encode())
        elif is_array(value):
            self._array(value)
        else:
            raise NotPlain("", type(value))

    def _length(self, n: int) -> None:
        while n > 0x7F:
            self.data.append(n & 0x7F | 0x80)
            n >>= 7
        self.data.append(n)

    def _bytes(self, tag: bytes, content: bytes | bytearray) -> None:
        self.data += tag
        self._length(len(content))
        self.data += content

    def _all(self, tag: bytes, values: Any, depth: int) -> None:
        self.data += tag + _COUNT.pack(len(values))
        for value in values:
            self.write(value, depth)

    def _keys(self, tag: bytes, values: Any, depth: int) -> None:
        self._all(tag, values, depth)
        self.comparisons.add(values)

    def _pairs(self, tag: bytes, values: dict[Any, Any], depth: int) -> None:
        self.data += tag + _COUNT.pack(len(values))
        for key, value in values.items():
            self.write(key, depth)
            self.write(value, depth)
        self.comparisons.add(values)

    def _int(self, value: int, depth: int) -> None:
        length = value.bit_length() // 8 + 1
        self._bytes(b"i", value.to_bytes(length, "little", signed=True))

    def _fraction(self, value: Fraction, depth: int) -> None:
        if max(value.numerator.bit_length(), value.denominator.bit_length()) // 8 >= _FRACTION:
            raise NotPlain(f"a Fraction of more than {_FRACTION} bytes")
        self.data += b"r"
        self._int(value.numerator, depth)
        self._int(value.denominator, depth)

    def _datetime(self, value: datetime, depth: int) -> None:
        clock = (value.hour, value.minute, value.second, value.microsecond, value.fold)
        self.data += b"2" + _DATETIME.pack(value.year, value.month, value.day, *clock)
        self.write(value.tzinfo, depth)

    def _time(self, value: time, depth: int) -> None:
        clock = (value.hour, value.minute, value.second, value.microsecond, value.fold)
        self.data += b"3" + _TIME.pack(*clock)
        self.write(value.tzinfo, depth)

    def _timezone(self, value: timezone, depth: int) -> None:
        self.data += b"5"
        offset, *name = value.__getinitargs__()  # type: ignore[attr-defined]
        self.write(offset, depth)
        self.write(name[0] if name else None, depth)

    def _zone(self, value: ZoneInfo, depth: int) -> None:
        if value.key is None or not _ZONE.fullmatch(value.key):
            raise NotPlain("a ZoneInfo without a key")
        self._bytes(b"6", value.key.encode())

    def _defaultdict(self, value: defaultdict[Any, Any], depth: int) -> None:
        self._pairs(b"f", value, depth)
        self.write(value.default_factory, depth)

    def _deque(self, value: deque[Any], depth: int) -> None:
        self._all(b"q", value, depth)
        self.data += _MAXLEN.pack(-1 if value.maxlen is None else value.maxlen)

    def _row(self, value: Row, depth: int) -> None:
        self._all(b"R", tuple(value), depth)
        self.write(tuple(value.__fields__ or ()), depth)

    def _array(self, value: Any) -> None:
        scalar = type(value).__name__ != "ndarray"
        self._bytes(b"g" if scalar else b"a", value.dtype.str.encode())
        self._length(value.ndim)
        for each in value.shape:
            self._length(each)
        self.data += value.tobytes()


def _packs(pack: Callable[[Any], bytes]) -> Callable[[_Writer, Any, int], None]:
    return lambda writer, value, depth: writer.data.extend(pack(value))


def _appends(
    tag: bytes, content: Callable[[Any], bytes] = bytes
) -> Callable[[_Writer, Any, int], None]:
    return lambda writer, value, depth: writer._bytes(tag, content(value))


def _fills(tag: bytes) -> Callable[[_Writer, Any, int], None]:
    return lambda writer, values, depth: writer._all(tag, values, depth)


def _hashes(tag: bytes) -> Callable[[_Writer, Any, int], None]:
    return lambda writer, values, depth: writer._keys(tag, values, depth)


def _maps(tag: bytes) -> Callable[[_Writer, Any, int], None]:
    return lambda writer, values, depth: writer._pairs(tag, values, depth)


_WRITERS: dict[type, Callable[[Any, Any, int], None]] = {
    type(None): _packs(lambda value: b"N"),
    bool: _packs(lambda value: b"T" if value else b"F"),
    int: _Writer._int,
    float: _packs(lambda value: b"d" + _DOUBLE.pack(value)),
    complex: _packs(lambda value: b"c" + _COMPLEX.pack(value.real, value.imag)),
    str: _appends(b"s", lambda value: value.encode("utf-8", "surrogatepass")),
    bytes: _appends(b"b"),
    bytearray: _appends(b"B"),
    list: _fills(b"l"),
    tuple: _fills(b"t"),
    set: _hashes(b"e"),
    frozenset: _hashes(b"z"),
    dict: _maps(b"m"),
    OrderedDict: _maps(b"o"),
    Counter: _maps(b"n"),
    defaultdict: _Writer._defaultdict,
    deque: _Writer._deque,
    Decimal: _appends(b"D", lambda value: str(value).encode()),
    Fraction: _Writer._fraction,
    UUID: _packs(lambda value: b"u" + value.bytes),
    date: _packs(lambda value: b"1" + _DATE.pack(value.toordinal())),
    datetime: _Writer._datetime,
    time: _Writer._time,
    timedelta: _packs(lambda v: b"4" + _TIMEDELTA.pack(v.days, v.seconds, v.microseconds)),
    timezone: _Writer._timezone,
    ZoneInfo: _Writer._zone,
}


def is_array(value: Any) -> bool:
    """Whether it is an array or a scalar of numpy, of numbers or times; without loading numpy."""
    kind = type(value)
    if kind.__module__ != "numpy" or not hasattr(value, "dtype"):
        return False
    if kind.__name__ != "ndarray" and kind is not value.dtype.type:
        return False
    return _ARRAY_TYPE.fullmatch(value.dtype.str) is not None


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.at = 1
        self._data = data
        self._comparisons = Comparisons()

    def read(self, depth: int) -> Any:
        if depth == 0:
            raise Corrupt(f"it is nested more than {DEPTH} deep")
        tag = self._data[self.at : self.at + 1]
        self.at += 1
        read = _READERS.get(tag)
        if read is None:
            raise Corrupt(f"there is no type {tag!r}")
        return read(self, depth - 1)

    def _take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self._data):
            raise Corrupt("it ends too early")
        taken = self._data[self.at : end]
        self.at = end
        return taken

    def _length(self) -> int:
        n, shift = 0, 0
        while True:
            byte = self._take(1)[0]
            n |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return n
            if shift > 56:
                raise Corrupt("it has a length without end")

    def _bytes(self, depth: int = 0) -> bytes:
        return self._take(self._length())

    def _count(self) -> int:
        n: int = self._unpack(_COUNT)[0]
        if n > len(self._data) - self.at:
            raise Corrupt(f"it is too short for {n} values")
        return n

    def _all(self, depth: int) -> list[Any]:
        return [self.read(depth) for _ in range(self._count())]

    def _keys(self, depth: int) -> list[Any]:
        keys = self._all(depth)
        self._check(keys)
        return keys

    def _pairs(self, depth: int) -> list[tuple[Any, Any]]:
        pairs = [(self.read(depth), self.read(depth)) for _ in range(self._count())]
        self._check(key for key, _ in pairs)
        return pairs

    def _check(self, keys: Iterable[Any]) -> None:
        self._comparisons.add(keys)
        self._comparisons.check(len(self._data))

    def _as(self, kind: type | tuple[type, ...], depth: int) -> Any:
        value = self.read(depth)
        if not isinstance(value, kind):
            raise Corrupt(f"there is {type(value).__name__}, which does not belong there")
        return value

    def _unpack(self, form: struct.Struct) -> tuple[Any, ...]:
        return form.unpack(self._take(form.size))

    def _int(self, depth: int = 0) -> int:
        return int.from_bytes(self._bytes(), "little", signed=True)

    def _fraction(self, depth: int) -> Fraction:
        parts = []
        for _ in range(2):
            if self._take(1) != b"i":
                raise Corrupt("a Fraction is of two ints")
            parts.append(self._int())
        if max(part.bit_length() for part in parts) // 8 >= _FRACTION:
            raise Corrupt(f"there is a Fraction of more than {_FRACTION} bytes")
        return Fraction(*parts)

    def _datetime(self, depth: int) -> datetime:
        *clock, fold = self._unpack(_DATETIME)
        return datetime(*clock, tzinfo=self._tzinfo(depth), fold=fold)  # type: ignore[misc]

    def _time(self, depth: int) -> time:
        *clock, fold = self._unpack(_TIME)
        return time(*clock, tzinfo=self._tzinfo(depth), fold=fold)  # type: ignore[misc]

    def _tzinfo(self, depth: int) -> Any:
        return self._as((type(None), timezone, ZoneInfo), depth)

    def _timezone(self, depth: int) -> timezone:
        offset, name = self._as(timedelta, depth), self._as((type(None), str), depth)
        return timezone(offset) if name is None else timezone(offset, name)

    def _zone(self, depth: int) -> ZoneInfo:
        key = self._bytes().decode()
        if not _ZONE.fullmatch(key):
            raise Corrupt(f"there is no time zone {key!r}")
        return ZoneInfo(key)

    def _class(self, depth: int) -> Any:
        name = self._bytes().decode()
        if name not in CLASSES:
            raise Corrupt(f"there is no class {name!r}")
        return CLASSES[name]

    def _defaultdict(self, depth: int) -> defaultdict[Any, Any]:
        pairs = self._pairs(depth)
        return defaultdict(self._as((type(None), type), depth), pairs)

    def _deque(self, depth: int) -> deque[Any]:
        values = self._all(depth)
        (length,) = self._unpack(_MAXLEN)
        return deque(values, None if length == -1 else length)

    def _row(self, depth: int) -> Row:
        row = Row(*self._all(depth))
        row.__fields__ = list(self._as(tuple, depth))
        if len(row.__fields__) != len(row) or not all(isinstance(n, str) for n in row.__fields__):
            raise Corrupt("a Row has other names than values")
        return row

    def _array(self, depth: int) -> Any:
        kind = self._bytes().decode()
        if not _ARRAY_TYPE.fullmatch(kind):
            raise Corrupt(f"there is an array of {kind!r}")
        import numpy as np

        shape = [self._length() for _ in range(min(self._length(), 33))]
        flat = np.frombuffer(self._take(math.prod(shape) * np.dtype(kind).itemsize), kind)
        if kind == "|b1" and (flat.view("u1") > 1).any():
            raise Corrupt("a bool is 0 or 1")
        return flat.reshape(shape).copy()


_READERS: dict[bytes, Callable[[Any, int], Any]] = {
    b"N": lambda reader, depth: None,
    b"T": lambda reader, depth: True,
    b"F": lambda reader, depth: False,
    b"i": _Reader._int,
    b"d": lambda reader, depth: reader._unpack(_DOUBLE)[0],
    b"c": lambda reader, depth: complex(*reader._unpack(_COMPLEX)),
    b"s": lambda reader, depth: reader._bytes().decode("utf-8", "surrogatepass"),
    b"b": _Reader._bytes,
    b"B": lambda reader, depth: bytearray(reader._bytes()),
    b"l": _Reader._all,
    b"t": lambda reader, depth: tuple(reader._all(depth)),
    b"e": lambda reader, depth: set(reader._keys(depth)),
    b"z": lambda reader, depth: frozenset(reader._keys(depth)),
    b"m": lambda reader, depth: dict(reader._pairs(depth)),
    b"o": lambda reader, depth: OrderedDict(reader._pairs(depth)),
    b"n": lambda reader, depth: Counter(dict(reader._pairs(depth))),
    b"f": _Reader._defaultdict,
    b"q": _Reader._deque,
    b"D": lambda reader, depth: Decimal(reader._bytes().decode()),
    b"r": _Reader._fraction,
    b"u": lambda reader, depth: UUID(bytes=reader._take(16)),
    b"1": lambda reader, depth: date.fromordinal(*reader._unpack(_DATE)),
    b"2": _Reader._datetime,
    b"3": _Reader._time,
    b"4": lambda reader, depth: timedelta(*reader._unpack(_TIMEDELTA)),
    b"5": _Reader._timezone,
    b"6": _Reader._zone,
    b"k": _Reader._class,
    b"R": _Reader._row,
    b"a": _Reader._array,
    b"g": lambda reader, depth: reader._array(depth)[()],
}
