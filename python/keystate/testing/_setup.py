"""An operator as a harness runs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from keystate._operators.definition import Input, InputRole, Operator
from keystate._operators.schema_rows import SchemaRows, positions
from keystate._operators.task import task_function
from keystate._spec.protocol import Control
from keystate._spec.specs import DELAY_KEY
from keystate._spec.time_mode import TimeMode
from keystate.errors import DeclarationError
from keystate.functions import OutputTag


class Setup:
    """An operator, and the number of its subtasks.

    Args:
        made: the operator's output, made from a stream of :func:`~keystate.testing.rows_of`.
        parallelism: the number of subtasks.
        max_parallelism: the number of key groups, if the stream does not set it.
        side_outputs: the side outputs that are read.
        pickle_allow: what pickles in operator state may name.

    Raises:
        DeclarationError: the operator is not well declared, or needs more than a harness has.
    """

    def __init__(
        self,
        made: Any,
        parallelism: int,
        max_parallelism: int,
        side_outputs: Sequence[OutputTag],
        pickle_allow: Sequence[str],
    ) -> None:
        declared = _operator_of(made)
        self.max_parallelism = declared.max_parallelism or max_parallelism
        if not 1 <= parallelism <= self.max_parallelism <= 32768:
            raise DeclarationError(
                "parallelism must be 1 to max_parallelism, and that at most 32768, got "
                f"{parallelism} and {self.max_parallelism}"
            )
        self.parallelism = parallelism
        self.operator = replace(
            declared,
            max_parallelism=self.max_parallelism,
            side_outputs=tuple(side_outputs) or declared.side_outputs,
            pickles=tuple(pickle_allow),
        )
        _check(self.operator)
        #: The function that a query would run in its tasks.
        self.task = task_function(self.operator)
        if self.task.declared.spec.time_mode is TimeMode.EVENT_TIME and not self.by_event_time:
            raise DeclarationError(
                "time_mode 'event_time' needs the event_time column", code="KEYSTATE_NO_WATERMARK"
            )

    @property
    def inputs(self) -> list[Input]:
        """The inputs with keys; initial state is the second."""
        second = self.operator.keyed_second
        return [self.operator.rows] if second is None else [self.operator.rows, second]

    @property
    def key_columns(self) -> list[list[int]]:
        """The indexes of each input's key columns."""
        return [positions(each.df, each.keys) for each in self.inputs]

    @property
    def by_event_time(self) -> bool:
        """Whether there is a watermark."""
        marked = any(
            DELAY_KEY in field.metadata for each in self.inputs for field in each.row_type.fields
        )
        return self.task.declared.spec.time_mode in (TimeMode.AUTO, TimeMode.EVENT_TIME) and marked

    def event_time_columns(self) -> dict[str, int | None]:
        """The event time columns, in the form that tasks get."""
        names = (Control.EVENT_TIME_COLUMN, Control.SECOND_EVENT_TIME_COLUMN)
        return {name: each.time_column for name, each in zip(names, self.inputs)}


def _operator_of(made: Any) -> Operator:
    operator = made.operator if isinstance(made, SchemaRows) else None
    if operator is None:
        raise DeclarationError(
            "a harness is made of what a stream makes of a function, as keystate.keyed("
            'keystate.testing.rows_of("key string"), "key").process(...), '
            f"got a {type(made).__name__}"
        )
    return operator


def _check(operator: Operator) -> None:
    second = operator.second_input
    for rows in operator.inputs:
        initial = second is not None and second.rows is rows and second.role is InputRole.INITIAL
        if not isinstance(rows.df, SchemaRows) or rows.df.operator is not None:
            raise DeclarationError(
                "a harness runs one operator, of inputs of keystate.testing.rows_of(schema): test "
                "operators that follow each other one by one"
            )
        if not (rows.df.isStreaming or initial):
            raise DeclarationError(
                "a harness runs a stream, whose rows it is given by hand: leave out the batch of "
                "keystate.testing.rows_of(schema)"
            )
