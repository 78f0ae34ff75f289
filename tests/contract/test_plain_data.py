"""Plain data as bytes: all of it comes back, and no other bytes do harm."""

from __future__ import annotations

import datetime
import sys
import time
import uuid
from collections import Counter, defaultdict, deque
from collections.abc import Iterator
from decimal import Decimal
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
    | st.text(st.characters())
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.dates()
    | st.datetimes(timezones=ZONES)
    | st.times()
    | st.timedeltas()
    | st.builds(
        datetime.timezone,
        st.timedeltas(datetime.timedelta(0), datetime.timedelta(hours=23)),
        st.text(),
    )
    | st.sampled_from([np.int8(1), np.float16(1), np.uint64(1), np.bool_(True)]),
    lambda inner: st.lists(inner).map(tuple),
    max_leaves=8,
)
VALUES = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.sets(HASHABLE)
        | st.dictionaries(HASHABLE, inner)
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


@pytest.mark.parametrize("kind", ["?", "i1", "<i8", ">i4", "u2", "f2", ">f8"])
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
        Fraction(1, 3),
        frozenset({1}),
        bytearray(b"x"),
        1j,
        uuid.UUID(int=1),
        Counter("a"),
        deque([1]),
        np.zeros(1, "c8"),
        np.datetime64(1, "us"),
        datetime.datetime(2024, 1, 1, tzinfo=type("Zone", (datetime.tzinfo,), {})()),
        defaultdict(int),
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
    "another tag": b"k\x06object",
    "length": b"s\xff\xff\xff\xff\x7f",
    "length without end": b"s" + b"\x80" * 100,
    "number of values": b"l\xff\xff\xff\xffN",
    "key that is a list": b"m\0\0\0\1l\0\0\0\0N",
    "path of a time zone": b"6\x0d../etc/passwd",
    "folder of time zones": b"6\x06Europe",
    "arguments of a time zone": b"5\0\0\0\x01s\x01a",
    "time zone that is too far": b"5\0\0\0\x014" + bytes(3) + b"\x02" + bytes(8),
    "timedelta": b"4\x7f\xff\xff\xff" + bytes(8),
    "date": b"1\x0a2024-13-01",
    "datetime": b"2\x132024-01-02T25:00:00\0N",
    "fold": b"2\x132024-01-02T12:00:00\x02N",
    "tzinfo": b"3\x0812:00:00\0i\x01\x01",
    "decimal": b"D\x03abc",
    "names of a row": b"R\0\0\0\x01N\0\0\0\x02s\x01as\x01b",
    "names that are numbers": b"R\0\0\0\x01N\0\0\0\x01i\x01\x01",
    "array of objects": b"a\x02|O\0\0\0\x01i\x01\x01" + bytes(8),
    "array of fields": b"a\x03i8,\0\0\0\x01i\x01\x01" + bytes(8),
    "array of 2 GB": b"a\x0b|V200000000\0\0\0\x01i\x01\x00",
    "shape": b"a\x03<i8\0\0\0\x02" + b"i\x05\xff\xff\xff\x7f\0" * 2,
    "shape of nothing": b"a\x03<i8\0\0\0\x03i\x01\0" + b"i\x09" * 2 + b"\xff" * 7 + b"\x7f\0",
    "shape below 0": b"a\x03<i8\0\0\0\x01i\x01\xff",
    "dimensions": b"a\x03|i1\0\0\0\x64" + b"i\x01\x01" * 100 + b"a",
    "bool": b"a\x03|b1\0\0\0\x01i\x01\x01\x02",
}


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted(name: str) -> None:
    with pytest.raises(ValueError):
        decode(FORMAT + CRAFTED[name])


def refused_within(data: bytes) -> float:
    began = time.process_time()
    with pytest.raises(ValueError, match="same hash"):
        decode(data)
    return time.process_time() - began


def integer(value: int) -> bytes:
    size = value.bit_length() // 8 + 1
    length = bytes([size & 127 | 128, size >> 7 & 127 | 128, size >> 14])
    return b"i" + length + value.to_bytes(size, "little", signed=True)


def test_keys_of_one_hash() -> None:
    """As keys, in tuples that are keys, and numbers that are long to compare."""
    prime = (1 << 61) - 1
    number = 50_000
    count = number.to_bytes(4, "big")
    keys = [integer(i * prime) for i in range(number)]
    for data in (b"e" + count + b"".join(keys), b"m" + count + b"N".join(keys) + b"N"):
        assert refused_within(FORMAT + data) < 10
    tuples = b"".join(b"t\0\0\0\x01" + key for key in keys)
    assert refused_within(FORMAT + b"e" + count + tuples) < 10
    long = (1 << 4_000_000) // prime * prime
    for two in (integer(long) + b"D\x010", b"D\x010" + integer(long)):
        assert refused_within(FORMAT + b"e\0\0\0\2" + two) < 10
    assert decode(encode({long, 1})) == {long, 1}, "long ones may be alone with their hash"
    long = (1 << 40_000) // prime * prime
    with pytest.raises(NotPlain, match="same hash"):
        encode({long, Decimal(0), 1.5})
    several = {i * prime for i in range(500)}
    assert decode(encode(several)) == several
    honest = {(x, y, z): x for x in range(-9, 9) for y in range(-9, 9) for z in range(-9, 9)}
    assert decode(encode(honest)) == honest


def test_what_is_shared_is_written_each_time(monkeypatch: Any) -> None:
    monkeypatch.setattr(plain_data, "_VALUES", 10_000)
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
    elif isinstance(value, (list, tuple, set)):
        for each in value:
            yield from sizes(each, seen)


@pytest.mark.parametrize("kind", [list, dict, set, tuple, str, lambda: Row(a=1)])
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
