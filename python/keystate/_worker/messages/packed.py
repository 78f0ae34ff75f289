"""Messages and answers of real-time mode, which are bytes.

Few rows travel as Spark holds them, which spares both sides most of what a message of Arrow costs;
a message of many rows, or an answer that says more than results, is an Arrow stream.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from itertools import accumulate
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.pandas.serializers import ArrowStreamSerializer

from keystate._spec.protocol import Answer, Control, Message, state_column
from keystate._types.codec import Codec, PackedRows, StructCodec, struct_codec
from keystate._worker.messages.columns import INTEGERS, Columns, SlotTimer, Timer

#: A timer that was set or deleted: the slot of its key, the timer, and what it is now.
Change = tuple[int, Timer, int]

#: What the bytes begin with.
_ARROW, _ROWS = 0, 1

#: More results than this are faster as columns.
MOST_PACKED = 64

_HEAD = struct.Struct("<iiqiii")
_KIND = struct.Struct("<i")
_LENGTH = struct.Struct("<i")
_TIMER = struct.Struct("<iiq")
_ANSWER = struct.Struct("<iiii")
_CHANGE = struct.Struct("<ihhq")
_ROW = struct.Struct("<q")
_OFFSETS = struct.Struct("<ii")

#: Set by the JVM for workers of real-time mode.
_REAL_TIME = "SPARK_KEYSTATE_REAL_TIME"


def packed_reader(codec: Codec) -> Callable[[bytes, int], Any]:
    """Reads a value from a packed row: a struct's fields, or the value as the one field."""
    if codec.packed_reader is None:
        if isinstance(codec, StructCodec):
            codec.packed_reader = PackedRows(codec).read
        else:
            alone = T.StructType([T.StructField("value", codec.data_type)])
            read = PackedRows(struct_codec(alone)).read
            codec.packed_reader = lambda data, at: read(data, at)[0]
    return codec.packed_reader


def read_message(batch: pa.RecordBatch) -> Columns:
    """The message in a batch of Spark's."""
    if batch.schema.names != [Message.PACKED]:
        return Columns(batch)
    data = batch.column(0)[0].as_buffer()
    if _KIND.unpack_from(data)[0] == _ROWS:
        return PackedMessage(data.to_pybytes())
    message = pa.ipc.open_stream(data.slice(_KIND.size)).read_next_batch()
    return _Unpacked(pa.RecordBatch.from_struct_array(message.column(Message.MESSAGE)))


class _Unpacked(Columns):
    """A message that came as an Arrow stream in bytes."""

    packs = True


class PackedMessage(Columns):
    """A message of few rows.

    It is `[int32 kind][int32 generation][int64 processing time][int32 rows][int32 keys]
    [int32 sections]`, the length of each section, the slots of the rows, those that the keys had
    before, and then the sections: rows, keys, the values of each state, timers, the control.
    """

    packs = True

    def __init__(self, data: bytes) -> None:
        self._data = data
        _, self._generation, self._time, self._rows, self._keys, count = _HEAD.unpack_from(data)
        slots = _HEAD.size + 4 * count
        carried = slots + 4 * self._rows
        lengths = struct.unpack_from(f"<{count}i", data, _HEAD.size)
        self._ints = {
            Message.KEY_INDEXES: (self._rows, slots),
            Message.CARRIED: (self._keys, carried),
        }
        starts = accumulate(lengths[:-1], initial=carried + 4 * self._keys)
        self._starts = dict(zip(_sections(count), starts))
        self._timers = lengths[-2]

    def values(self, name: str, codec: Codec) -> list[Any]:
        if codec is INTEGERS:
            count, start = self._ints[name]
            return list(struct.unpack_from(f"<{count}i", self._data, start))
        read, data, at = packed_reader(codec), self._data, self._starts[name]
        values: list[Any] = []
        for _ in range(self._rows if name == Message.ROWS else self._keys):
            (length,) = _LENGTH.unpack_from(data, at)
            at += 4
            if length < 0:
                values.append(None)
            else:
                values.append(read(data, at))
                at += length
        return values

    def value(self, name: str, index: int, codec: Codec) -> Any:
        return self.values(name, codec)[index]

    def due(self) -> Iterable[SlotTimer]:
        start = self._starts[Message.TIMER_KEY_INDEXES]
        timers = _TIMER.iter_unpack(self._data[start : start + self._timers])
        return ((slot, (domain, time)) for slot, domain, time in timers)

    def gone(self) -> list[SlotTimer]:
        return []

    def control(self) -> dict[str, Any]:
        control = {Control.CACHE_EPOCH: self._generation, Control.PROCESSING_TIME: self._time}
        more = self._data[self._starts[Message.CONTROL] :]
        return {**json.loads(more), **control} if more else control


@cache
def _sections(count: int) -> list[str]:
    states = [state_column(i) for i in range(count - 4)]
    return [Message.ROWS, Message.KEYS, *states, Message.TIMER_KEY_INDEXES, Message.CONTROL]


def packed_answer(
    rows: list[bytes], generation: int, timers: Sequence[Change] = ()
) -> pa.RecordBatch:
    """An answer of few results, and of timers that were set or deleted.

    It is `[int32 kind][int32 generation][int32 rows][int32 timers]`, for each timer `[int32 slot]
    [int16 domain][int16 set][int64 time]`, and for each row `[int64 length][row]`.
    """
    parts = [_ANSWER.pack(_ROWS, generation, len(rows), len(timers))]
    parts += (_CHANGE.pack(slot, domain, is_set, time) for slot, (domain, time), is_set in timers)
    for row in rows:
        parts += (_ROW.pack(len(row)), row)
    return _answer(b"".join(parts))


def in_bytes(answer: pa.RecordBatch) -> pa.RecordBatch:
    """An answer as bytes."""
    if answer.schema.names == [Answer.PACKED]:
        return answer
    sink = pa.BufferOutputStream()
    sink.write(_KIND.pack(_ARROW))
    with pa.ipc.new_stream(sink, answer.schema) as writer:
        writer.write_batch(answer)
    return _answer(sink.getvalue())


def _answer(data: Any) -> pa.RecordBatch:
    offsets = pa.py_buffer(_OFFSETS.pack(0, len(data)))
    column = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, pa.py_buffer(data)])
    return pa.RecordBatch.from_arrays([column], [Answer.PACKED])


def send_answers_at_once() -> None:
    """In a worker of real-time mode, has PySpark send each answer when it is written.

    It would do so with `SPARK_PIPELINED_UDF`, but then another thread reads the messages, and
    handing one over takes longer than reading it. Relies on PySpark's serializer looking at
    `_flush_per_batch` after each batch.
    """
    if os.environ.get(_REAL_TIME) == "1":
        serializer: Any = ArrowStreamSerializer
        serializer._flush_per_batch = property(lambda self: True, lambda self, value: None)
