"""A function of two inputs at work in a subtask.

A message has a column of rows for each input, and says of each row which one it is of. Mostly it
has rows of one input only, for one input comes after the other; then it is processed as a message
of one input is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pyspark.sql import types as T

from keystate._compiled.plain import Call
from keystate._spec.protocol import Control, Message
from keystate._types.codec import codec
from keystate._worker.calls.function_spec import FunctionSpec
from keystate._worker.contexts.row_context import (
    RowContext,
    columns_without_zone,
    event_time,
    field_of,
)
from keystate._worker.messages.columns import INTEGERS, Columns
from keystate._worker.messages.input_decoder import InputDecoder
from keystate._worker.operators.keyed import KeyedOperator
from keystate._worker.operators.task_spec import TaskSpec


class TwoInputRows(NamedTuple):
    """A message's rows: of each input, and for each row the index of its input."""

    first: Iterable[Any]
    second: Iterable[Any]
    inputs: list[int]
    counts: tuple[int, int]


class TwoInputContext(RowContext):
    """The context of a row of either input."""

    def __init__(self) -> None:
        super().__init__()
        self.input = 0
        self.second_field_names: list[str] | None = None
        self.second_columns_without_zone: frozenset[int] = frozenset()
        self._event_time_columns: tuple[int | None, int | None] = (None, None)

    def hear(self, control: dict[str, Any]) -> None:
        super().hear(control)
        told = (
            control.get(Control.EVENT_TIME_COLUMN),
            control.get(Control.SECOND_EVENT_TIME_COLUMN),
        )
        # A table beside a stream has a column with the event time, but no watermark.
        first, second = (
            marked if column is None else column for column, marked in zip(self.time_columns, told)
        )
        self._event_time_columns = (first, second)

    def timestamp(self) -> int | None:
        if self.timer is not None:
            return self.timer[1]
        column = self._event_time_columns[self.input]
        if column is None or self.row is None:
            return None
        if self.input:
            names, without_zone = self.second_field_names, self.second_columns_without_zone
        else:
            names, without_zone = self.field_names, self.columns_without_zone
        return event_time(field_of(self.row, column, names), column not in without_zone)


class TwoInputOperator(KeyedOperator):
    """A function of the rows of two inputs."""

    _context: TwoInputContext

    def __init__(
        self, function_spec: FunctionSpec, declared: TaskSpec, control: dict[str, Any]
    ) -> None:
        assert declared.second is not None
        self._second_type = declared.second
        super().__init__(function_spec, declared, control)
        shape = declared.spec.inputs[1].shape
        self._second_input = InputDecoder(self._second_type, shape, self._context)
        self._context.second_columns_without_zone = columns_without_zone(self._second_type)
        if shape is not None:
            self._context.second_field_names = self._second_type.names
        self._call_second = function_spec.call_second()
        self._inputs: list[int] = []  # of the rows of a loop over both

    def _make_context(self) -> RowContext:
        return TwoInputContext()

    def _decode_rows(self, message: Columns) -> Any:
        first, second = message.elements(Message.ROWS), message.elements(Message.SECOND_ROWS)
        inputs = []
        if len(first) and len(second):
            inputs = INTEGERS.decode(message.elements(Message.INPUTS))
        return TwoInputRows(
            self._input.decode(message, Message.ROWS),
            self._second_input.decode(message, Message.SECOND_ROWS),
            inputs,
            (len(first), len(second)),
        )

    def _run(self, slots: Any, rows: TwoInputRows, results: list[Any]) -> None:
        context = self._context
        if not rows.counts[1]:
            context.input = 0
            self._call_each(self._call, slots, rows.first, results)
        elif not rows.counts[0]:
            context.input = 1
            self._call_each(self._call_second, slots, rows.second, results)
        else:
            self._inputs = rows.inputs
            self._call_each(self._call_either(), self._moving(slots, rows), _mixed(rows), results)
            self._inputs = []

    def _row_types(self) -> list[T.StructType]:
        return [self._row_type, self._second_type]

    def _row_at(self, index: int) -> tuple[int, Any]:
        which = self._context.input
        if self._inputs:
            index = self._inputs[:index].count(which)
        name = (Message.ROWS, Message.SECOND_ROWS)[which]
        assert self._message is not None
        return which, self._message.value(name, index, codec(self._row_types()[which]))

    def _call_either(self) -> Call:
        """Calls the method for the current row."""
        calls, context = (self._call, self._call_second), self._context
        return lambda *arguments: calls[context.input](*arguments)

    def _moving(self, slots: list[int], rows: TwoInputRows) -> Iterator[int]:
        """The slots; with each the context moves to the input of its row."""
        context = self._context
        for slot, context.input in zip(slots, rows.inputs):
            yield slot

    def _where(self) -> str:
        where = super()._where()
        of_row = self._context.row is not None and self._context.timer is None
        return f"{where}{self._of_input()}" if of_row else where

    def _of_input(self) -> str:
        """Says of a row in messages which input it is of."""
        return f" of input {self._context.input + 1}"


def _mixed(rows: TwoInputRows) -> Iterator[Any]:
    """The rows of both inputs in their order; continues after a row that can't be made."""
    inputs = iter(rows.first), iter(rows.second)
    return map(next, map(inputs.__getitem__, rows.inputs))
