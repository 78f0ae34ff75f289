"""What a harness is made with, checked."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pyspark.sql import types as T

from keystate._operator_task import BroadcastElements, Declared, task_function
from keystate._plans import broadcast_plan, function_plan
from keystate._spec import resolve_schema
from keystate._worker.task import TaskFunction
from keystate.errors import DeclarationError
from keystate.state import MapStateDescriptor, TypeLike


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

    def as_arguments(self) -> dict[str, Any]:
        """As a harness takes them by name; can be pickled."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

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
        plan = (
            broadcast_plan(function, keyed) if self.broadcast else function_plan(function, row_type)
        )
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
            ),
        )

    def _column(self, name: str, purpose: str) -> int:
        names = self.input_schema.fieldNames()
        if name not in names:
            raise DeclarationError(f"the {purpose} column '{name}' is not in the input: {names}")
        return names.index(name)
