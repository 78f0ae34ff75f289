"""Plain data as bytes: all of it comes back, and no other bytes do harm."""

from __future__ import annotations

import contextlib
import datetime
import sys
import time
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from keystate._worker.pickles import plain_data
from keystate._worker.pickles.plain_data import DEPTH, FORMAT, Corrupt, NotPlain, decode, encode
from pyspark.sql import Row

from tests.contract.test_pickled import PLAIN, SECONDS

EXAMPLES = settings(max_examples=max(50, int(60 * SECONDS)), deadline=None)

ZONES = st.none() | st.timezones() | st.just(datetime.timezone.utc)
HASHABLE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(1 << 300), 1 << 300)
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | st.text(st.characters())
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.uuids()
    | st.dates()
    | st.datetimes(timezones=ZONES)
    | st.times()
    | st.timedeltas()
    | st.builds(
        datetime.timezone,
        st.timedeltas(datetime.timedelta(0), datetime.timedelta(hours=23)),
        st.text(),
    )
    | st.sampled_from([int, dict, Counter, np.int8(1), np.float16(1), np.datetime64(1, "us")]),
    lambda inner: st.frozensets(inner) | st.lists(inner).map(tuple),
    max_leaves=8,
)
VALUES = st.recursive(
    HASHABLE | st.binary().map(bytearray),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.sets(HASHABLE)
        | st.dictionaries(HASHABLE, inner)
        | st.dictionaries(HASHABLE, inner).map(OrderedDict)
        | st.dictionaries(HASHABLE, inner).map(Counter)
        | st.dictionaries(HASHABLE, inner).map(lambda d: defaultdict(set, d))
        | st.lists(inner).map(lambda xs: deque(xs, len(xs) + 1))
        | st.dictionaries(st.text(), inner, min_size=1).map(lambda d: Row(**d))
    ),
    max_leaves=30,
)


@pytest.mark.turns
@EXAMPLES
@given(VALUES)
@pytest.mark.long
def test_all_comes_back(value: Any) -> None:
    back = decode(encode(value))
    assert type(back) is type(value) and back == value
    assert decode(encode(back)) == value


@pytest.mark.parametrize("value", PLAIN, ids=repr)
def test_with_its_type(value: Any) -> None:
    back = decode(encode(value))
    assert repr(back) == repr(value) and type(back).__name__ == type(value).__name__


@pytest.mark.parametrize(
    "kind", ["?", "i1", "<i8", ">i4", "u2", "f2", ">f8", "c8", "c16", "M8[ms]", "m8[25s]", "M8"]
)
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (4, 0, 5)])
def test_arrays(kind: str, shape: tuple[int, ...]) -> None:
    array = np.arange(int(np.prod(shape))).reshape(shape).astype("i1").astype(kind)
    for each in (array, array.T, array[..., ::2] if shape else array):
        back = decode(encode(each))
        assert type(back) is np.ndarray and back.dtype == each.dtype and back.shape == each.shape
        assert back.tobytes() == each.tobytes() and back.flags.writeable
    scalar = np.ones(1, "i1").astype(kind)[0]
    assert type(decode(encode(scalar))) is type(scalar) and decode(encode(scalar)) == scalar


class Plain(int):
    pass


@pytest.mark.parametrize(
    "value",
    [
        Plain(1),
        object(),
        print,
        Plain,
        lambda: 1,
        np.array([None]),
        np.zeros(1, [("a", "i8")]),
        np.zeros(1, "V8"),
        np.dtype("i8"),
        Row("a", "b"),
        Fraction(1 << 40_000, 3),
        datetime.datetime(2024, 1, 1, tzinfo=type("Zone", (datetime.tzinfo,), {})()),
        defaultdict(lambda: 1),
        {frozenset({-1, -2}): Plain(1)},
        {i * ((1 << 61) - 1) for i in range(5_000)},
    ],
    ids=lambda value: type(value).__name__,
)
def test_other_values(value: Any) -> None:
    for each in (value, [value], {"a": (value,)}):
        with pytest.raises(NotPlain):
            encode(each)


def test_depth() -> None:
    def nested(depth: int) -> Any:
        value: Any = []
        for _ in range(depth - 1):
            value = [value]
        return value

    assert decode(encode(nested(DEPTH))) == nested(DEPTH)
    with pytest.raises(NotPlain, match="nested more than"):
        encode(nested(DEPTH + 1))
    with pytest.raises(Corrupt, match="nested more than"):
        decode(FORMAT + b"l\0\0\0\1" * (DEPTH + 1) + b"N")
    with pytest.raises(Corrupt, match="nested more than"):
        decode(FORMAT + b"t\0\0\0\1" * 1_000_000 + b"N")


CRAFTED = {
    "no value": b"",
    "two values": b"NN",
    "length": b"s\xff\xff\xff\xff\x7f",
    "length without end": b"s" + b"\x80" * 100,
    "number of values": b"l\xff\xff\xff\xffN",
    "key that is a list": b"m\0\0\0\1l\0\0\0\0N",
    "class": b"k\x06object",
    "path of a time zone": b"6\x0d../etc/passwd",
    "folder of time zones": b"6\x06Europe",
    "time zone that is none": b"2" + bytes(12) + b"N",
    "date": b"1" + bytes(4),
    "datetime": b"2\x07\xe8\x0d\x01" + bytes(8) + b"N",
    "tzinfo": b"3" + bytes(8) + b"i\x01\x01",
    "fraction": b"ri\x01\x01i\x01\x00",
    "long fraction": b"r" + 2 * (b"i\x81\x20" + b"\x7f" * 4097),
    "decimal": b"D\x03abc",
    "names of a row": b"R\0\0\0\x01Nt\0\0\0\x02s\x01as\x01b",
    "names that are numbers": b"R\0\0\0\x01Nt\0\0\0\x01i\x01\x01",
    "deque": b"q\0\0\0\0" + b"\xff" * 7 + b"\x00",
    "maker of a defaultdict": b"f\0\0\0\0i\x01\x01",
    "array of objects": b"a\x02|O\x01\x01" + bytes(8),
    "array of fields": b"a\x03i8,\x01\x01" + bytes(8),
    "array of 2 GB": b"a\x0b|V200000000\x01\x00",
    "shape": b"a\x03<i8\x02\xff\xff\xff\x7f\xff\xff\xff\x7f",
    "shape of nothing": b"a\x03<i8\x03\x00" + 2 * (b"\xff" * 7 + b"\x7f"),
    "dimensions": b"a\x03|i1" + bytes([100]) + b"\x01" * 100 + b"a",
    "bool": b"a\x03|b1\x01\x01\x02",
}


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted(name: str) -> None:
    with pytest.raises(ValueError):
        decode(FORMAT + CRAFTED[name])


def spent(data: bytes) -> float:
    began = time.process_time()
    with contextlib.suppress(ValueError):
        decode(data)
    return time.process_time() - began


def integer(value: int) -> bytes:
    size = value.bit_length() // 8 + 1
    length = bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14])
    return b"i" + length + value.to_bytes(size, "little", signed=True)


def test_keys_of_one_hash() -> None:
    """As keys, in frozensets that are keys, and numbers that are long to compare."""
    prime = (1 << 61) - 1
    number = 50_000
    count = number.to_bytes(4, "big")
    keys = [integer(i * prime) for i in range(number)]
    for data in (b"e" + count + b"".join(keys), b"m" + count + b"N".join(keys) + b"N"):
        assert spent(FORMAT + data) < 60
    inner = [b"z\0\0\0\x20" + b"".join(keys[i : i + 32]) for i in range(0, 32_000, 32)]
    assert spent(FORMAT + b"e" + len(inner).to_bytes(4, "big") + b"".join(inner)) < 60
    long = (1 << 4_000_000) // prime * prime
    for two in (integer(long) + b"D\x010", b"D\x010" + integer(long)):
        assert spent(FORMAT + b"e\0\0\0\2" + two) < 60
    honest = {(x, y, z): x for x in range(-9, 9) for y in range(-9, 9) for z in range(-9, 9)}
    assert decode(encode(honest)) == honest


def test_what_is_shared_is_written_each_time(monkeypatch: Any) -> None:
    monkeypatch.setattr(plain_data, "_NODES", 10_000)
    value: Any = (1,)
    for _ in range(60):
        value = (value, value)
    with pytest.raises(NotPlain, match="values"):
        encode(value)


def sizes(value: Any, seen: set[int]) -> Iterator[int]:
    if id(value) in seen:
        return
    seen.add(id(value))
    yield sys.getsizeof(value)
    if isinstance(value, dict):
        for each in value.items():
            yield from sizes(each[0], seen)
            yield from sizes(each[1], seen)
    elif isinstance(value, (list, tuple, set, frozenset, deque)):
        for each in value:
            yield from sizes(each, seen)


@pytest.mark.parametrize(
    "kind", [list, dict, set, frozenset, tuple, deque, Counter, OrderedDict, defaultdict, str]
)
def test_memory_is_in_proportion(kind: Any) -> None:
    data = encode([kind() for _ in range(1000)])
    assert sum(sizes(decode(data), set())) < 70 * len(data)


@pytest.mark.turns
@EXAMPLES
@given(VALUES, st.data())
@pytest.mark.long
def test_changed_bytes(value: Any, choice: Any) -> None:
    """They are an error, or another value that can be written."""
    data = bytearray(encode(value))
    for _ in range(choice.draw(st.integers(1, 3))):
        at = choice.draw(st.integers(1, len(data)))
        data[at : at + choice.draw(st.integers(0, 2))] = choice.draw(st.binary(max_size=3))
    began = time.process_time()
    try:
        back = decode(bytes(data))
    except ValueError:
        return
    finally:
        assert time.process_time() - began < 60  # keys of one hash would take days
    assert sum(sizes(back, set())) < 70 * len(data) + 1000
    encode(back)
