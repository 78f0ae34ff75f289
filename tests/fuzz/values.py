"""Types, random values of them, and the many ways in which a function can hand a value over.

A value is *plain* in programs and in the model: scalars, tuples for arrays and structs, and for a
map a tuple of entries that begins with `MAP`. Nothing in it can change. What a function hands to
Keystate is *built* of it: lists, dicts, rows, dataclasses, bytearrays, which do change afterwards.
"""

from __future__ import annotations

import dataclasses
import datetime
import math
import random
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from typing import Any

from keystate._types.ddl import quoted
from pyspark.sql import Row

#: Begins the plain form of a map.
MAP = "map of"
#: How structs are handed over.
FORMS = ("tuple", "dict", "row", "object")

MICROSECOND = datetime.timedelta(microseconds=1)
EPOCH = datetime.datetime(1970, 1, 1)


@dataclasses.dataclass(frozen=True)
class Type:
    """A type.

    Attributes:
        name: of a scalar its DDL; else ``array``, ``map`` or ``struct``.
        parts: the element; key and value; the fields' types.
        fields: the names of a struct's fields.
    """

    name: str
    parts: tuple[Type, ...] = ()
    fields: tuple[str, ...] = ()

    @property
    def ddl(self) -> str:
        if self.name == "struct":
            inner = [f"{_named(f)}:{part.ddl}" for f, part in zip(self.fields, self.parts)]
        else:
            inner = [part.ddl for part in self.parts]
        return f"{self.name}<{','.join(inner)}>" if inner else self.name


def _named(field: str) -> str:
    return field if field.isascii() and field.isidentifier() else quoted(field)


def array(element: Type) -> Type:
    return Type("array", (element,))


def struct(**fields: Type) -> Type:
    return Type("struct", tuple(fields.values()), tuple(fields))


def scalar(name: str) -> Type:
    return Type(name)


LONG = scalar("bigint")
INT = scalar("int")
STRING = scalar("string")

_LONGS = (0, 1, -1, 255, -256, 2**31, 2**63 - 1, -(2**63))
_INTS = (0, 1, -1, 127, -128, 2**31 - 1, -(2**31))
_DOUBLES = (0.0, 1.5, -1.5, math.nan, math.inf, -math.inf, 1e-300, -1e300)
_STRINGS = ("", "a", "b", "a\x00", "ä", "zz", "\U0001f600", "\uffff")
_SCALARS: dict[str, Callable[[random.Random], Any]] = {
    "bigint": lambda r: r.choice(_LONGS) if r.random() < 0.2 else r.randint(-20, 20),
    "int": lambda r: r.choice(_INTS) if r.random() < 0.2 else r.randint(-20, 20),
    "double": lambda r: r.choice(_DOUBLES) if r.random() < 0.4 else r.randint(-40, 40) / 4,
    "string": lambda r: r.choice(_STRINGS) if r.random() < 0.3 else f"s{r.randint(0, 20)}",
    "boolean": lambda r: r.random() < 0.5,
    "binary": lambda r: bytes(r.choice((0, 1, 65, 255)) for _ in range(r.randint(0, 3))),
    "date": lambda r: datetime.date(1970, 1, 1) + datetime.timedelta(r.randint(-9000, 9000)),
    "timestamp": lambda r: EPOCH + datetime.timedelta(microseconds=r.randint(-(10**15), 10**15)),
    "timestamp_ntz": lambda r: EPOCH + datetime.timedelta(seconds=r.randint(-(10**9), 10**9)),
    "decimal(10,2)": lambda r: Decimal(r.randint(-2000, 2000)).scaleb(-2),
}
_KEYS = [name for name in _SCALARS if name != "boolean"]
_FLOATS = (0.0, -0.0, 1.5, -1.5, math.nan, math.inf, -math.inf)
#: Beside the types of programs, those that only keys of queries have.
_DRAWN = _SCALARS | {
    "float": lambda r: r.choice(_FLOATS),
    "decimal(30,2)": lambda r: Decimal(f"{r.choice((0, 1, -(10**29), 10**29 - 1))}e-2"),
}


def random_key_type(rng: random.Random) -> Type:
    """A type that a map's keys can have."""
    if rng.random() < 0.2:
        return struct(a=random_key_type(rng), b=scalar(rng.choice(_KEYS)))
    return LONG if rng.random() < 0.2 else scalar(rng.choice(_KEYS))


def random_type(rng: random.Random, depth: int = 2) -> Type:
    kind = rng.choice(("scalar", "scalar", "array", "map", "struct")) if depth else "scalar"
    if kind == "scalar":
        return LONG if rng.random() < 0.3 else scalar(rng.choice(list(_SCALARS)))
    if kind == "array":
        return array(random_type(rng, depth - 1))
    if kind == "map":
        return Type("map", (scalar(rng.choice(("bigint", "string"))), random_type(rng, depth - 1)))
    return random_struct(rng, depth)


def random_struct(rng: random.Random, depth: int) -> Type:
    fields = {f"f{i}": random_type(rng, depth - 1) for i in range(rng.randint(1, 3))}
    return struct(**fields)


def draw(kind: Type, rng: random.Random, nulls: bool = True, share: float = 0.1) -> Any:
    """A plain value; with `nulls` there may be some inside, a share of the values."""

    def inner(part: Type) -> Any:
        return None if nulls and rng.random() < share else draw(part, rng, nulls, share)

    if kind.name == "array":
        return tuple(inner(kind.parts[0]) for _ in range(rng.randint(0, 3)))
    if kind.name == "struct":
        return tuple(map(inner, kind.parts))
    if kind.name == "map":
        key, value = kind.parts
        return mapped({draw(key, rng, False): inner(value) for _ in range(rng.randint(0, 3))})
    return _DRAWN[kind.name](rng)


def mapped(entries: dict[Any, Any]) -> tuple[Any, ...]:
    """The plain form of a map."""
    return (MAP, *sorted(entries.items(), key=lambda entry: repr(entry[0])))


def plain(value: Any) -> Any:
    """The plain form of whatever Keystate returns."""
    if isinstance(value, dict):
        return mapped({plain(k): plain(v) for k, v in value.items()})
    if isinstance(value, (list, tuple)):
        return tuple(map(plain, value))
    if isinstance(value, (bytearray, bytes)):
        return bytes(value)
    if dataclasses.is_dataclass(value):
        return tuple(plain(getattr(value, f.name)) for f in dataclasses.fields(value))
    return value


def build(kind: Type, value: Any, form: str) -> Any:
    """A value to hand over, all of whose parts are new."""
    if value is None:
        return None
    if kind.name == "array":
        return [build(kind.parts[0], each, form) for each in value]
    if kind.name == "map":
        key, part = kind.parts
        return {build(key, k, "tuple"): build(part, v, form) for k, v in value[1:]}
    if kind.name == "struct":
        parts = [build(part, each, form) for part, each in zip(kind.parts, value)]
        return _struct(kind.fields, parts, form)
    return bytearray(value) if kind.name == "binary" and form in ("object", "dict") else value


def _struct(names: tuple[str, ...], parts: list[Any], form: str) -> Any:
    if form == "tuple":
        return tuple(parts)
    if form == "dict":
        return dict(zip(names, parts))
    return Row(**dict(zip(names, parts))) if form == "row" else _dataclass(names)(*parts)


@cache
def _dataclass(names: tuple[str, ...]) -> type:
    return dataclasses.make_dataclass("Given", names)


def key_of(kind: Type, value: Any) -> Any:
    """A map's key, which has to be hashable."""
    return build(kind, value, "tuple")


def refill(old: Any, new: Any) -> Any:
    """What `new` is, in the objects of `old` as far as these can be changed."""
    if isinstance(old, list) and isinstance(new, list):
        old[:] = [*map(refill, old, new), *new[len(old) :]]
        return old
    if isinstance(old, dict) and isinstance(new, dict):
        entries = {k: refill(old.get(k), v) for k, v in new.items()}
        old.clear()
        old.update(entries)
        return old
    if isinstance(old, bytearray) and isinstance(new, (bytearray, bytes)):
        old[:] = new
        return old
    if dataclasses.is_dataclass(old) and type(old) is type(new):
        for field in dataclasses.fields(old):
            name = field.name
            setattr(old, name, refill(getattr(old, name), getattr(new, name)))
        return old
    if isinstance(old, Row) and isinstance(new, (tuple, dict)):
        values = new.values() if isinstance(new, dict) else new
        return Row(**dict(zip(old.__fields__, map(refill, old, values))))
    if isinstance(old, tuple) and isinstance(new, tuple):
        return tuple(map(refill, old, new))
    return new


def sort_key(kind: Type, order: str) -> Callable[[Any], Any]:
    """What sorted maps go by, told by the docs: ``natural``, ``descending`` or ``bytewise``."""

    def by(kind: Type, value: Any) -> tuple[Any, ...]:
        if value is None:
            return (0,)
        if kind.name == "struct":
            return (1, *map(by, kind.parts, value))
        if kind.name in ("string", "binary", "boolean"):
            return (1, value)
        zero = {"date": datetime.date(1970, 1, 1)}.get(kind.name, 0)
        if kind.name.startswith("timestamp"):
            zero = EPOCH
        if value != value:
            return (1, 1, 0) if order != "bytewise" else (1, 0, math.inf, 1)
        if order != "bytewise":
            return (1, 0, value)
        if value < zero:  # two's complement, or for floating point numbers by magnitude
            return (1, 1, -value) if kind.name == "double" else (1, 1, value)
        return (1, 0, value, 0)

    return lambda value: by(kind, value)


def spread(rng: random.Random, kind: Type, count: int) -> list[Any]:
    """Some different keys of a map."""
    return list({repr(k): k for k in (draw(kind, rng, False) for _ in range(count))}.values())


def spoil(value: Any) -> None:
    """Changes all that can be changed in a value, so that it still has its type."""
    if isinstance(value, list):
        for each in value:
            spoil(each)
        del value[:1]
    elif isinstance(value, dict):
        for each in value.values():
            spoil(each)
        value.update(dict.fromkeys(value))
    elif isinstance(value, bytearray):
        value.extend(b"!")
    elif isinstance(value, tuple):
        for each in value:
            spoil(each)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            spoil(getattr(value, field.name))
            setattr(value, field.name, None)
