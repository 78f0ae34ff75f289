"""An operator as it is declared: its function, its inputs, and what they are for."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import types as T

from keystate._operators.event_time import time_column
from keystate._spec.specs import StateSpec, resolve_schema
from keystate._types.codec import Shape
from keystate._worker.calls.function_spec import FunctionSpec
from keystate.errors import DeclarationError
from keystate.functions import OutputTag
from keystate.state import TypeLike


@dataclass(frozen=True)
class Input:
    """An input of an operator.

    Attributes:
        df: its rows.
        keys: its key columns; none if it is not keyed.
        order: the columns that sort the rows of a key.
        shape: how rows become objects of a dataclass; ``None`` if they are Rows.
        max_parallelism: the number of key groups, if it is given.
        time_column: the index of the column with a row's event time; ``None`` if there is none.
        late_output: where its late rows go; ``None`` if they are dropped.
        key_names: the names of its key columns; ``None`` if one of them is no column by its name.
    """

    df: DataFrame
    keys: Sequence[Column] = ()
    order: Sequence[Column] = ()
    shape: Shape | None = None
    max_parallelism: int | None = None
    time_column: int | None = None
    late_output: OutputTag | None = None
    key_names: Sequence[str] | None = None

    @property
    def row_type(self) -> T.StructType:
        """The rows' columns."""
        return self.df.schema

    @cached_property
    def key_type(self) -> T.StructType:
        """The key's columns."""
        if self.key_names is not None:  # Spark need not be asked
            return T.StructType([self.row_type[name] for name in self.key_names])
        return self.df.select(*self.keys).schema if self.keys else T.StructType()

    def timed(self, event_time: str | None, late_output: OutputTag | None) -> Input:
        """This input, with the column of its event time and the output of its late rows.

        Raises:
            DeclarationError: the column can't have the event time, or the output takes other rows.
        """
        if late_output is not None:
            check_late_output(late_output, self.row_type)
        column = time_column(self.df, event_time)
        return replace(self, time_column=column, late_output=late_output)


class InputRole(enum.Enum):
    """The role of an operator's second input; the values are those of the jar."""

    #: Rows for a function of two inputs; within a micro-batch they come after those of the first.
    CONNECTED = "connected"
    #: Rows for a function of two inputs; those of both come by the first column of their orders.
    MERGED = "merged"
    #: State that a new query begins with.
    INITIAL = "initial"
    #: Rows that all subtasks get.
    BROADCAST = "broadcast"


@dataclass(frozen=True)
class SecondInput:
    """The second input of an operator.

    Attributes:
        rows: the input.
        role: what it is for.
        states: the broadcast states that are made of its rows.
    """

    rows: Input
    role: InputRole
    states: tuple[StateSpec, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Operator:
    """A declared operator, for a query and for the test harness.

    Attributes:
        function_spec: its function, and how the function is called.
        rows: its first input, which gives the key columns their names.
        output_schema: the rows of its main output.
        second_input: its second input, if it has one.
        name: its name, if it is given.
        time_mode: its time mode.
        max_parallelism: the number of key groups, if it is given.
        side_outputs: the side outputs that are read.
        pickles: the names that pickles in its operator state may load.
    """

    function_spec: FunctionSpec
    rows: Input
    output_schema: TypeLike
    second_input: SecondInput | None = None
    name: str | None = None
    time_mode: str = "auto"
    max_parallelism: int | None = None
    side_outputs: tuple[OutputTag, ...] = ()
    pickles: tuple[str, ...] = ()

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Its inputs."""
        return (self.rows,) if self.second_input is None else (self.rows, self.second_input.rows)

    @property
    def broadcast_input(self) -> SecondInput | None:
        """The operator's broadcast input; ``None`` without one."""
        second = self.second_input
        return second if second is not None and second.role is InputRole.BROADCAST else None

    @property
    def initial(self) -> Input | None:
        """The state that it begins with."""
        second = self.second_input
        return second.rows if second is not None and second.role is InputRole.INITIAL else None

    @property
    def keyed_second(self) -> Input | None:
        """The second input that has keys."""
        second = self.second_input
        return None if second is None or second.role is InputRole.BROADCAST else second.rows


def same_types(key: T.StructType, other: T.StructType) -> bool:
    """Whether the columns of two keys have the same types, in the same order."""
    types, others = ([f.dataType.simpleString() for f in each] for each in (key, other))
    return types == others


def shared_parallelism(inputs: Sequence[Input], names: Sequence[str]) -> int | None:
    """The number of key groups of keyed inputs that share state; ``None`` if none is given.

    Args:
        inputs: the inputs.
        names: what they are called in the message.

    Raises:
        DeclarationError: they have keys of other types, or other numbers.
    """
    first = inputs[0].key_type
    for name, rows in zip(names, inputs):
        if not same_types(first, rows.key_type):
            ours, theirs = (key.simpleString()[len("struct") :] for key in (first, rows.key_type))
            raise DeclarationError(
                "the key columns of all inputs must have the same types, in the same order: those "
                f"of the {names[0]} are {ours}, of the {name} {theirs}; cast them to one type"
            )
    told = {rows.max_parallelism for rows in inputs} - {None}
    if len(told) > 1:
        raise DeclarationError(
            "streams that share state have the same max_parallelism, got "
            + " and ".join(str(rows.max_parallelism) for rows in inputs)
        )
    return next(iter(told), None)


def names_if_read(
    read: Sequence[OutputTag], declared: Sequence[OutputTag | None], there: str
) -> list[str | None]:
    """The names of an operator's side outputs, each ``None`` if it is not read.

    Args:
        read: the side outputs that are read.
        declared: those that the operator can have; ``None`` for one that it does not have.
        there: what the operator has, for the message.

    Raises:
        DeclarationError: another one is read.
    """
    names = [None if tag is None else tag.tag_id for tag in declared]
    wanted = [tag.tag_id for tag in read]
    for name in wanted:
        if name not in names:
            raise DeclarationError(f"there is no side output '{name}': {there}")
    return [name if name in wanted else None for name in names]


def check_one_of(setting: str, value: str, known: Sequence[str]) -> None:
    """Raises DeclarationError if a setting has another value."""
    if value not in known:
        raise DeclarationError(f"{setting} must be one of {', '.join(known)}, got {value!r}")


def check_late_output(tag: Any, row_type: T.StructType) -> None:
    """Raises DeclarationError when late rows can't go to a side output."""
    if not isinstance(tag, OutputTag):
        raise DeclarationError(f"late_output is an OutputTag, got {tag!r}")
    taken = resolve_schema(tag.type, f"side output '{tag.tag_id}'")
    if [(f.name, f.dataType) for f in taken] != [(f.name, f.dataType) for f in row_type]:
        raise DeclarationError(
            f"side output '{tag.tag_id}' takes {taken.simpleString()}, but late rows are "
            f"{row_type.simpleString()}: declare it as OutputTag('{tag.tag_id}', df.schema)"
        )
