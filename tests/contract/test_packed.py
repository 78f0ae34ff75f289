"""Packed rows, and the messages and answers of real-time mode that have them."""

from __future__ import annotations

import datetime
import json
import random
import struct
from typing import Any

import pyarrow as pa
import pytest
from keystate import OutputTag
from keystate._spec.protocol import Answer, Control, Message
from keystate._types.codec import NOT_PACKED, PackedRows, codec, struct_codec
from keystate._worker.messages.columns import INTEGERS
from keystate._worker.messages.packed import (
    PackedMessage,
    in_bytes,
    packed_answer,
    packed_reader,
    read_message,
)
from keystate._worker.messages.results import Results
from pyspark.sql import types as T

VALUES: dict[T.DataType, list[Any]] = {
    T.BooleanType(): [True, False],
    T.ByteType(): [-128, 127],
    T.ShortType(): [-(2**15), 2**15 - 1],
    T.IntegerType(): [-(2**31), 2**31 - 1],
    T.LongType(): [-(2**63), 2**63 - 1],
    T.FloatType(): [1.5, -0.0, float("inf")],
    T.DoubleType(): [0.1, 5e-324],
    T.TimestampType(): [
        datetime.datetime(2024, 2, 29, 23, 59, 59, 999999),
        datetime.datetime(1, 1, 2),
        datetime.datetime(9999, 12, 30),
    ],
    T.StringType(): ["", "a", "12345678", "naïve 𝄞"],
    T.BinaryType(): [b"", b"\0", bytes(range(256))],
}


def struct_of(*kinds: T.DataType) -> T.StructType:
    return T.StructType([T.StructField(f"f{i}", kind) for i, kind in enumerate(kinds)])


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_each_type(kind: T.DataType) -> None:
    rows = PackedRows(struct_codec(struct_of(kind)))
    for value in [*VALUES[kind], None]:
        packed = rows.write((value,))
        assert len(packed) % 8 == 0
        assert repr(rows.read(b"before" + packed, 6)[0]) == repr(value)
        assert repr(packed_reader(codec(kind))(packed, 0)) == repr(value)


@pytest.mark.parametrize("seed", range(20))
def test_agrees_with_arrow(seed: int) -> None:
    rng = random.Random(seed)
    kinds = rng.choices(list(VALUES), k=rng.choice([1, 2, 7, 64]))
    of_rows = struct_codec(struct_of(*kinds))
    rows = PackedRows(of_rows)
    for _ in range(20):
        row = tuple(rng.choice([*VALUES[kind], None]) for kind in kinds)
        assert repr(rows.read(rows.write(row), 0)) == repr(of_rows.decode(of_rows.encode([row]))[0])


def test_values_become_what_arrow_makes_of_them() -> None:
    rows = PackedRows(struct_codec(struct_of(T.DoubleType(), T.BinaryType(), T.FloatType())))
    assert rows.read(rows.write([3, bytearray(b"x"), 0.1]), 0) == (
        3.0,
        b"x",
        struct.unpack("f", struct.pack("f", 0.1))[0],
    )


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (T.LongType(), 2**63),
        (T.IntegerType(), 2**31),
        (T.LongType(), True),
        (T.LongType(), "1"),
        (T.StringType(), "\ud800"),
        (T.StringType(), 1),
        (T.BooleanType(), 1),
    ],
)
def test_what_does_not_fit_is_left_to_arrow(kind: T.DataType, value: Any) -> None:
    with pytest.raises(NOT_PACKED):
        PackedRows(struct_codec(struct_of(kind))).write((value,))
    assert Results(struct_of(kind), str).pack([(value,)]) is None


def test_tags_and_rows_of_another_length_are_left_to_arrow() -> None:
    results = Results(struct_of(T.LongType(), T.LongType()), str)
    assert results.pack([(OutputTag("late", "key long"), (1,))]) is None
    assert results.pack([(1, 2, 3)]) is None
    assert results.pack([None]) is None
    packed = results.pack([(1, 2), {"f1": 4, "f0": 3}])
    assert packed is not None and len(packed) == 2


def message(control: dict[str, Any]) -> bytes:
    """As the JVM makes it: two rows of one key, which is new, and a state that it lacks."""
    rows = PackedRows(struct_codec(struct_of(T.LongType(), T.StringType())))
    keys = PackedRows(struct_codec(struct_of(T.LongType())))

    def with_length(row: bytes) -> bytes:
        return struct.pack("<i", len(row)) + row

    sections = [
        with_length(rows.write((7, "a"))) + with_length(rows.write((7, None))),
        with_length(keys.write((7,))),
        struct.pack("<i", -1),
        with_length(keys.write((5,))),
        struct.pack("<iiq", 0, 1, 99),
        json.dumps(control).encode() if control else b"",
    ]
    head = struct.pack("<iiqiii", 1, 3, 1_700_000_000_000, 2, 1, len(sections))
    head += struct.pack("<6i", *map(len, sections)) + struct.pack("<3i", 0, 0, -1)
    return head + b"".join(sections)


def test_a_message() -> None:
    got = PackedMessage(message({"subtask": 1}))
    assert got.control() == {
        Control.CACHE_EPOCH: 3,
        Control.PROCESSING_TIME: 1_700_000_000_000,
        Control.SUBTASK: 1,
    }
    assert got.values(Message.KEY_INDEXES, INTEGERS) == [0, 0]
    assert got.values(Message.CARRIED, INTEGERS) == [-1]
    rows = struct_codec(struct_of(T.LongType(), T.StringType()))
    assert got.values(Message.ROWS, rows) == [(7, "a"), (7, None)]
    assert got.values(Message.KEYS, struct_codec(struct_of(T.LongType()))) == [(7,)]
    assert got.values("s0", codec(T.IntegerType())) == [None]
    assert got.values("s1", codec(T.LongType())) == [5]
    assert list(got.due()) == [(0, (1, 99))]
    assert PackedMessage(message({})).control().keys() == {
        Control.CACHE_EPOCH,
        Control.PROCESSING_TIME,
    }


def test_either_form_is_read_from_bytes() -> None:
    packed = pa.RecordBatch.from_pydict({Message.PACKED: [message({})]})
    assert isinstance(read_message(packed), PackedMessage)
    columns = pa.RecordBatch.from_pydict({Message.CONTROL: [b'{"subtask": 2}']})
    whole = pa.RecordBatch.from_arrays([columns.to_struct_array()], [Message.MESSAGE])
    (data,) = in_bytes(whole).column(0).to_pylist()
    got = read_message(pa.RecordBatch.from_pydict({Message.PACKED: [data]}))
    assert got.packs
    assert got.control() == {Control.SUBTASK: 2}


def test_answers() -> None:
    answer = packed_answer([b"12345678", b"x" * 16], 3, [(7, (1, -9), True)])
    assert in_bytes(answer) is answer
    assert answer.to_pydict() == {
        Answer.PACKED: [
            struct.pack("<4iihhqq8sq16s", 1, 3, 2, 1, 7, 1, 1, -9, 8, b"12345678", 16, b"x" * 16),
        ]
    }
