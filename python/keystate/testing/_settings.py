"""What a harness is made with, checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pyspark.sql import types as T

from keystate._codec import Shape
from keystate._operators.plans import (
    broadcast_plan,
    function_plan,
    initial_state_plan,
    two_input_plan,
)
from keystate._operators.task import (
    BroadcastElements,
    Declared,
    check_late_output,
    task_function,
)
from keystate._operators.typed import typed_rows
from keystate._protocol import Control
from keystate._spec import resolve_schema
from keystate._worker.calls.plan import AsyncCalls
from keystate._worker.task import TaskFunction
from keystate.errors import DeclarationError
from keystate.functions import OutputTag
from keystate.state import MapStateDescriptor, TypeLike
from keystate.windows import WindowedRows

#: Where late rows go: of one input, or of each of two.
LateOutput = OutputTag | tuple[OutputTag | None, OutputTag | None] | None


@dataclass(frozen=True)
class Settings:
    """The arguments of a harness apart from its function and its parallelism."""

    input_schema: T.StructType
    key_cols: list[str]
    output_schema: T.StructType
    max_parallelism: int
    event_time: str | None
    time_mode: str
    name: str | None
    broadcast_schema: TypeLike | None
    broadcast_states: tuple[MapStateDescriptor[Any, Any], ...]
    pickle_allow: tuple[str, ...]
    order_by: list[str]
    side_outputs: tuple[OutputTag, ...] = ()
    initial_state_schema: TypeLike | None = None
    row_type: type | None = field(default=None, kw_only=True)
    late_output: LateOutput = field(default=None, kw_only=True)
    calls: AsyncCalls | None = field(default=None, kw_only=True)

    def as_arguments(self) -> dict[str, Any]:
        """As a harness takes them by name; can be pickled. What belongs to the function is not."""
        names = {f.name for f in dataclasses.fields(self)} - {"calls"}
        return {name: getattr(self, name) for name in names}

    def check(self, parallelism: int) -> None:
        """Raises DeclarationError for what does not fit together."""
        if not 1 <= parallelism <= self.max_parallelism <= 32768:
            raise DeclarationError(
                "parallelism must be 1 to max_parallelism, and that at most 32768, got "
                f"{parallelism} and {self.max_parallelism}"
            )
        for name in self.key_cols:
            self._column(name, "key")
        for name in self.order_by:
            self._column(name, "order")
        if self.event_time is not None:
            self._column(self.event_time, "event time")
        for tag, row_type in zip(self.late_outputs, self.row_types):
            if tag is not None:
                check_late_output(tag, row_type)
        if self.time_mode == "event_time" and not self.by_event_time:
            raise DeclarationError(
                "time_mode 'event_time' needs the event_time column", code="KEYSTATE_NO_WATERMARK"
            )

    @cached_property
    def key_columns(self) -> list[int]:
        """Which columns of the input are the key."""
        return [self._column(name, "key") for name in self.key_cols]

    @cached_property
    def order_columns(self) -> list[int]:
        """By which columns of the input rows are sorted."""
        return [self._column(name, "order") for name in self.order_by]

    @property
    def all_key_columns(self) -> list[list[int]]:
        """The same of each input; initial state is the second."""
        schema = self.initial_type
        if schema is None:
            return [self.key_columns]
        found = [column_of(schema, name, "key", "the initial state") for name in self.key_cols]
        types = [
            [of.fields[i].dataType.simpleString() for i in columns]
            for of, columns in ((self.input_schema, self.key_columns), (schema, found))
        ]
        if types[0] != types[1]:
            raise DeclarationError(
                "the key columns of the initial state must have the types of the input's: those "
                f"are {types[0]}, of the initial state {types[1]}"
            )
        return [self.key_columns, found]

    @property
    def row_types(self) -> list[T.StructType]:
        """The rows of each input."""
        return [self.input_schema]

    @property
    def late_outputs(self) -> list[OutputTag | None]:
        """Where the late rows of each input go."""
        given = self.late_output
        return list(given) if isinstance(given, tuple) else [given] * len(self.row_types)

    @cached_property
    def initial_type(self) -> T.StructType | None:
        """The rows of the initial state, if there is one."""
        schema = self.initial_state_schema
        return None if schema is None else resolve_schema(schema, "the initial state schema")

    def event_time_columns(self) -> dict[str, int | None]:
        """What tasks are told of event time."""
        return {Control.EVENT_TIME_COLUMN: self.event_time_column}

    @property
    def key_type(self) -> T.StructType:
        """The key's columns."""
        return T.StructType([self.input_schema.fields[i] for i in self.key_columns])

    @cached_property
    def event_time_column(self) -> int | None:
        """Which column of the input the watermark goes by."""
        return None if self.event_time is None else self._column(self.event_time, "event time")

    @property
    def by_event_time(self) -> bool:
        """Whether there is a watermark."""
        return self.time_mode in ("auto", "event_time") and self.event_time is not None

    @cached_property
    def broadcast(self) -> BroadcastElements | None:
        """What is broadcast to the function."""
        if self.broadcast_schema is None:
            return None
        element_type = resolve_schema(self.broadcast_schema, "the broadcast schema")
        return BroadcastElements(element_type, self.broadcast_states)

    def task(self, function: Any) -> TaskFunction:
        """What a query would run in its tasks."""
        row_type, keyed = self.input_schema, bool(self.key_cols)
        if isinstance(function, WindowedRows):
            self._check_windows()
            plan = function.plan(row_type, self.event_time_column)
        elif self.initial_type is not None:
            plan = initial_state_plan(function)
        elif self.broadcast:
            plan = broadcast_plan(function, keyed)
        else:
            plan = function_plan(function, row_type, self.calls)
        return task_function(
            plan,
            Declared(
                row_type,
                self.key_type,
                self.output_schema,
                self.name,
                self.max_parallelism,
                self.time_mode,
                self.broadcast,
                pickles=self.pickle_allow,
                side_outputs=self.side_outputs,
                second_type=self.initial_type,
                row_shape=self._row_shape(),
            ),
        )

    def _check_windows(self) -> None:
        if self.initial_type is not None:
            raise DeclarationError(
                "windows have no initial state: give them the rows that it would be made of"
            )
        if self.late_output is not None:
            raise DeclarationError(
                "windows take late rows: use side_output_late_data(tag) instead of late_output"
            )

    def _row_shape(self) -> Shape | None:
        if self.row_type is None:
            return None
        names, shape = typed_rows(self.input_schema, self.row_type)
        if names != self.input_schema.fieldNames():
            raise DeclarationError(
                f"row_type {self.row_type.__name__} has the fields {names}, and the input schema "
                f"the columns {self.input_schema.fieldNames()}"
            )
        return shape

    def _column(self, name: str, purpose: str) -> int:
        return column_of(self.input_schema, name, purpose, "the input")


@dataclass(frozen=True)
class TwoInputSettings(Settings):
    """The same of a harness of two inputs; what is not of the second input is above."""

    second_schema: T.StructType = field(default_factory=T.StructType)
    second_key_cols: list[str] = field(default_factory=list)
    second_event_time: str | None = None
    second_order_by: list[str] = field(default_factory=list)
    ordered_by: tuple[str, str] | None = None

    def as_arguments(self) -> dict[str, Any]:
        return {
            "input_schema1": self.input_schema,
            "key_cols1": self.key_cols,
            "input_schema2": self.second_schema,
            "key_cols2": self.second_key_cols,
            "output_schema": self.output_schema,
            "max_parallelism": self.max_parallelism,
            "event_time1": self.event_time,
            "event_time2": self.second_event_time,
            "order_by1": self.order_by,
            "order_by2": self.second_order_by,
            "ordered_by": self.ordered_by,
            "time_mode": self.time_mode,
            "name": self.name,
            "pickle_allow": self.pickle_allow,
            "side_outputs": self.side_outputs,
            "late_output": self.late_output,
        }

    def check(self, parallelism: int) -> None:
        super().check(parallelism)
        types = [
            [schema.fields[i].dataType.simpleString() for i in columns]
            for schema, columns in zip(
                (self.input_schema, self.second_schema), self.all_key_columns
            )
        ]
        if types[0] != types[1] or not types[0]:
            raise DeclarationError(
                "the key columns of both inputs must have the same types, in the same order: those "
                f"of the first are {types[0]}, of the second {types[1]}"
            )

    @property
    def all_key_columns(self) -> list[list[int]]:
        return [self.key_columns, [self._second(name, "key") for name in self.second_key_cols]]

    @property
    def row_types(self) -> list[T.StructType]:
        return [self.input_schema, self.second_schema]

    def event_time_columns(self) -> dict[str, int | None]:
        second = self.second_event_time_column
        return {**super().event_time_columns(), Control.SECOND_EVENT_TIME_COLUMN: second}

    @property
    def by_event_time(self) -> bool:
        marked = self.event_time is not None or self.second_event_time is not None
        return self.time_mode in ("auto", "event_time") and marked

    @cached_property
    def second_event_time_column(self) -> int | None:
        """Which column of the second input the watermark goes by."""
        name = self.second_event_time
        return None if name is None else self._second(name, "event time")

    def orders(self) -> tuple[list[int], list[int]]:
        """By which columns each input's rows are sorted."""
        first, second = self.ordered_by or (None, None)
        ours = [*([] if first is None else [first]), *self.order_by]
        theirs = [*([] if second is None else [second]), *self.second_order_by]
        return (
            [self._column(name, "order") for name in ours],
            [self._second(name, "order") for name in theirs],
        )

    def task(self, function: Any) -> TaskFunction:
        declared = Declared(
            self.input_schema,
            self.key_type,
            self.output_schema,
            self.name,
            self.max_parallelism,
            self.time_mode,
            pickles=self.pickle_allow,
            side_outputs=self.side_outputs,
            second_type=self.second_schema,
        )
        return task_function(two_input_plan(function), declared)

    def _second(self, name: str, purpose: str) -> int:
        return column_of(self.second_schema, name, purpose, "the second input")


def names_of(columns: str | Sequence[str]) -> list[str]:
    """Columns of which one may be told by its bare name."""
    return [columns] if isinstance(columns, str) else list(columns)


def column_of(schema: T.StructType, name: str, purpose: str, place: str) -> int:
    """The index of a column.

    Raises:
        DeclarationError: there is none of this name.
    """
    names = schema.fieldNames()
    if name not in names:
        raise DeclarationError(f"the {purpose} column '{name}' is not in {place}: {names}")
    return names.index(name)
