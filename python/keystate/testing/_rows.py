"""Rows and broadcast elements on their way into a harness."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row
from pyspark.sql import types as T

from keystate._operators.definition import Input
from keystate._operators.schema_rows import positions
from keystate._spec.protocol import Message
from keystate._types.codec import Misfit, codec, struct_codec
from keystate._types.ordering import nulls_first, sort_key
from keystate._worker.messages.results import row_test
from keystate.errors import DeclarationError
from keystate.state import NATURAL


class Rows(NamedTuple):
    """A micro-batch's rows in their order.

    Args:
        arrays: those of each input.
        order: for each row the index of its input and its place there; ``None`` if there is one
            input.
    """

    arrays: Sequence[pa.Array]
    order: Sequence[tuple[int, int]] | None = None

    def take(self, places: Sequence[int]) -> Rows:
        """Some of the rows."""
        if self.order is None:
            return Rows([self.arrays[0].take(pa.array(places, pa.int64()))])
        return Rows(self.arrays, [self.order[place] for place in places])

    def columns(self) -> dict[str, pa.Array]:
        """The columns of a message that have the rows."""
        if self.order is None:
            return {Message.ROWS: self.arrays[0]}
        first, second = (
            array.take(pa.array([at for of, at in self.order if of == i], pa.int64()))
            for i, array in enumerate(self.arrays)
        )
        inputs = pa.array([of for of, _ in self.order], pa.int32())
        return {Message.ROWS: first, Message.SECOND_ROWS: second, Message.INPUTS: inputs}


class Encoder:
    """Encodes rows as a user gives them.

    Args:
        row_type: their type.
        misfit: begins the message about a row that has another.
    """

    def __init__(self, row_type: T.StructType, misfit: str) -> None:
        self._codec = struct_codec(row_type)
        self._is_row = row_test(row_type)
        self._misfit = misfit

    def encode(self, rows: Iterable[Any]) -> pa.Array:
        """Rows, tuples, dicts, dataclasses, or bare values if there is one column."""
        if len(self._codec.names) == 1:
            rows = (row if self._is_row(row) else (row,) for row in rows)
        try:
            # One by one: a generator may yield the same object again with another content.
            return self._codec.encode(list(map(self._codec.as_read, rows)))
        except Misfit as e:
            raise TypeError(f"{self._misfit} {self._codec.name}: {e}") from None

    def decode(self, rows: pa.Array) -> list[Row]:
        """The rows in an array."""
        return self._codec.decode(rows)


class InputEncoder(Encoder):
    """Rows of the input.

    Args:
        rows: the operator's input.
        misfit: as for any encoder.
    """

    def __init__(self, rows: Input, misfit: str) -> None:
        super().__init__(rows.row_type, misfit)
        self._event_time = rows.time_column
        shape = rows.shape
        runs_code = shape is not None and struct_codec(rows.row_type, shape).runs_code
        self._made_by = shape.cls if shape is not None and runs_code else None
        order = positions(rows.df, rows.order)
        types = [rows.row_type.fields[column].dataType for column in order]
        self._order = [
            (column, codec(kind), nulls_first(sort_key(kind, NATURAL)))
            for column, kind in zip(order, types)
        ]

    def encode(self, rows: Iterable[Any]) -> pa.Array:
        return super().encode(rows if self._made_by is None else map(self._as_sent, rows))

    def _as_sent(self, row: Any) -> Any:
        """A row as a source would send it, of a class that makes objects by code of its own."""
        if self._made_by is not None and isinstance(row, self._made_by):
            raise TypeError(
                f"{self._misfit}: the class {self._made_by.__name__} has made this object, and "
                "would make it once more: give the values of the row's columns, as a tuple or dict"
            )
        return row

    def with_event_time(self, rows: pa.Array, timestamp: int) -> pa.Array:
        """The rows with this event time, in ms."""
        at, fields = self._event_time, self._codec.arrow
        if at is None or not pa.types.is_timestamp(fields.field(at).type):
            raise DeclarationError("a row's timestamp needs an event_time column of that type")
        columns = rows.flatten()
        columns[at] = pa.array([timestamp * 1000], pa.int64()).cast(columns[at].type)
        return pa.StructArray.from_arrays(columns, fields=list(fields))

    def ordered(self, rows: pa.Array) -> pa.Array:
        """The rows in their order; those that are equal in it stay as they are."""
        if not self._order:
            return rows
        keys = self.sort_keys(rows)
        return rows.take(pa.array(sorted(range(len(rows)), key=keys.__getitem__), pa.int64()))

    def sort_keys(self, rows: pa.Array) -> list[tuple[Any, ...]]:
        """The sort key of each row."""
        columns = [
            [by(value) for value in each.decode(rows.field(column))]
            for column, each, by in self._order
        ]
        return list(zip(*columns))

    def on_time(self, rows: pa.Array, watermark: int | None) -> tuple[pa.Array, list[Row]]:
        """The rows that are not late, and those that are."""
        if watermark is None or self._event_time is None or len(rows) == 0:
            return rows, []
        times = rows.field(self._event_time)
        if pa.types.is_struct(times.type):
            times = times.field(1)  # a window's end
        late = pc.less_equal(times.cast(pa.int64()), watermark * 1000).fill_null(False)
        return rows.filter(pc.invert(late)), self._codec.decode(rows.filter(late))
