"""Messages between JVM and worker: Arrow batches of one row, whose columns are lists."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from keystate._spec.protocol import Message
from keystate._types.codec import Codec, codec

#: What the JVM adds to the domain of a timer that this micro-batch has deleted.
GONE = 2

#: The type of slots, and of other small numbers.
INTEGERS = codec(T.IntegerType())


#: A timer: its domain and time; of a function of windows also its window's end and start.
Timer = tuple[int, ...]

#: A timer with the slot of its key.
SlotTimer = tuple[int, Timer]


class Columns:
    """The columns of a message from the JVM.

    Attributes:
        packs: whether answers to it are bytes, as it was; see `keystate._worker.messages.packed`.
    """

    packs = False

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch

    def elements(self, name: str) -> pa.Array:
        """The elements of a list column."""
        return self._batch.column(name)[0].values

    def values(self, name: str, codec: Codec) -> list[Any]:
        """The columns' values as Python values."""
        return codec.decode(self.elements(name))

    def value(self, name: str, index: int, codec: Codec) -> Any:
        """One of a column's values as a Python value."""
        return codec.decode(self.elements(name).slice(index, 1))[0]

    def has(self, name: str) -> bool:
        """Whether there is such a column."""
        return name in self._batch.schema.names

    def due(self) -> Iterable[SlotTimer]:
        """The timers that are due, also those that are `gone`."""
        domains = [domain % GONE for domain in self.elements(Message.TIMER_DOMAINS).to_pylist()]
        columns = [domains, self.elements(Message.TIMER_TIMES).to_pylist()]
        if self.has(Message.TIMER_WINDOW_ENDS):
            names = (Message.TIMER_WINDOW_ENDS, Message.TIMER_WINDOW_STARTS)
            columns += [self.elements(name).to_pylist() for name in names]
        return zip(self.values(Message.TIMER_KEY_INDEXES, INTEGERS), zip(*columns))

    def gone(self) -> list[SlotTimer]:
        """The due timers that were deleted: they fire only if they have been set again since."""
        domains = self.elements(Message.TIMER_DOMAINS).to_pylist()
        if max(domains, default=0) < GONE:
            return []
        return [timer for timer, domain in zip(self.due(), domains) if domain >= GONE]

    def bytes_of(self, name: str) -> bytes | None:
        """The value of a column that is no list."""
        value: bytes | None = self._batch.column(name)[0].as_py()
        return value

    def control(self) -> dict[str, Any]:
        """The message's control values; a task's later messages have only changed values."""
        control: dict[str, Any] = json.loads(self.bytes_of(Message.CONTROL) or b"")
        return control


def list_column(array: pa.Array) -> pa.Array:
    """A column of one list with these elements."""
    return pa.ListArray.from_arrays(_up_to(len(array)), array)


@lru_cache(maxsize=1024)
def _up_to(length: int) -> pa.Array:
    return pa.array([0, length], pa.int32())


@lru_cache(maxsize=1024)
def empty_column(element: pa.DataType) -> pa.Array:
    """A column of one empty list."""
    return list_column(pa.array([], element))


@lru_cache(maxsize=1024)
def number(value: int) -> pa.Array:
    """A column of one number."""
    return pa.array([value], pa.int32())


def nested(elements: pa.Array, lengths: Sequence[int]) -> pa.Array:
    """Lists of these lengths, one after the other out of the elements."""
    return pa.ListArray.from_arrays(pa.array(accumulate(lengths, initial=0), pa.int32()), elements)
