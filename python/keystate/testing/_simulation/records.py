"""The rows of a simulation, with their keys and event times."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import Row

from keystate._operators.definition import InputRole
from keystate.testing._rows import Encoder, InputEncoder
from keystate.testing._setup import Setup

#: Where there is no event time to begin with, in ms.
_BEGINNING = 1_700_000_000_000


class Record(NamedTuple):
    """A row on its way into an operator.

    Attributes:
        input: the index of its input.
        row: the row.
        key: its key, in a form that compares; ``None`` of a broadcast element.
        time: its event time in microseconds; ``None`` if it has none.
    """

    input: int
    row: Row
    key: str | None
    time: int | None


def beginning(records: Sequence[Record]) -> int:
    """The processing time that a schedule begins with."""
    times = [record.time for record in records if record.time is not None]
    return max(times) // 1000 + 1 if times else _BEGINNING


class Inputs:
    """The inputs of an operator; the last one may be that of broadcast elements."""

    def __init__(self, setup: Setup, two: bool) -> None:
        streamed = setup.inputs if two else setup.inputs[:1]
        row_types = [each.row_type for each in streamed]
        self._encoders: list[Encoder] = [
            InputEncoder(each, "a row of the simulation does not fit the input schema")
            for each in streamed
        ]
        self._key_columns = setup.key_columns[: len(streamed)]
        self._time_columns = [
            each.time_column if setup.by_event_time else None for each in streamed
        ]
        second = setup.operator.second_input
        if second is not None and second.role is InputRole.BROADCAST:
            misfit = "an element of the simulation does not fit the broadcast schema"
            self._encoders.append(Encoder(second.rows.row_type, misfit))
            row_types.append(second.rows.row_type)
        #: The columns of each.
        self.columns = [row_type.names for row_type in row_types]

    def __len__(self) -> int:
        return len(self._encoders)

    def records(self, inputs: Any) -> list[Record]:
        """Rows as a user gives them: of several inputs a list or tuple of the rows of each."""
        given: Sequence[Iterable[Any]] = [inputs] if len(self) == 1 else inputs
        if len(given) != len(self):
            raise ValueError(f"the operator has {len(self)} inputs: give the rows of each")
        by_input = [self._of_input(i, rows) for i, rows in enumerate(given)]
        together = [record for records in by_input for record in records]
        if len(self) > 1 and all(record.time is not None for record in together):
            return sorted(together, key=lambda record: record.time or 0)
        longest = max(map(len, by_input), default=0)
        places = [
            (at * longest // max(len(records), 1), records[at])
            for records in by_input
            for at in range(len(records))
        ]
        return [record for _, record in sorted(places, key=lambda place: place[0])]

    def _of_input(self, index: int, rows: Iterable[Any]) -> list[Record]:
        encoder = self._encoders[index]
        array = encoder.encode(rows)
        return [
            Record(index, row, self._key(index, row), time)
            for row, time in zip(encoder.decode(array), self._times(index, array))
        ]

    def _key(self, index: int, row: Row) -> str | None:
        if index >= len(self._key_columns):
            return None
        return repr([row[column] for column in self._key_columns[index]])

    def _times(self, index: int, rows: pa.Array) -> list[int | None]:
        column = self._time_columns[index] if index < len(self._time_columns) else None
        if column is None:
            return [None] * len(rows)
        times = rows.field(column)
        if pa.types.is_struct(times.type):
            times = times.field(1)  # a window's end
        found: list[int | None] = times.cast(pa.int64()).to_pylist()
        return found

    def later(self, records: Sequence[Record], millis: int) -> list[Record]:
        """The rows at later event times."""
        return [
            record if record.time is None else self._later(record, record.time, millis * 1000)
            for record in records
        ]

    def _later(self, record: Record, time: int, micros: int) -> Record:
        encoder = self._encoders[record.input]
        array = encoder.encode([record.row])
        columns = array.flatten()
        at = self._time_columns[record.input]
        assert at is not None
        columns[at] = _moved(columns[at], micros)
        (row,) = encoder.decode(pa.StructArray.from_arrays(columns, fields=list(array.type)))
        return record._replace(row=row, time=time + micros)


def _moved(column: pa.Array, micros: int) -> pa.Array:
    if pa.types.is_struct(column.type):
        parts = [_moved(part, micros) for part in column.flatten()]
        return pa.StructArray.from_arrays(parts, fields=list(column.type))
    times = column.cast(pa.int64()).to_pylist()
    moved = [None if time is None else time + micros for time in times]
    return pa.array(moved, pa.int64()).cast(column.type)
