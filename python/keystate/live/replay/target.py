"""The operator of a query, prepared for the harness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pyspark.sql import Column, DataFrame

from keystate._operators.definition import Input, InputRole, Operator, SecondInput
from keystate._operators.schema_rows import SchemaRows
from keystate._operators.side_outputs import ResultDataFrame
from keystate._types.ddl import quoted
from keystate.errors import CheckpointError, DeclarationError
from keystate.functions import CheckpointedFunction, CheckpointListener, ListCheckpointed, OutputTag
from keystate.testing._setup import Setup


def operator_of(query: Any) -> Operator:
    """The operator that made a DataFrame.

    Raises:
        DeclarationError: no operator of Keystate's made it.
        CheckpointError: ``[KEYSTATE_CANNOT_REPLAY]``: the operator's kind can't be replayed.
    """
    if not isinstance(query, ResultDataFrame) or isinstance(query, SchemaRows):
        raise DeclarationError(
            "replay() takes what a stream makes of a function, before anything else is done, "
            f'as keystate.keyed(df, "key").process(...), got a {type(query).__name__}'
        )
    operator = query._operator
    if not isinstance(operator, Operator):
        raise _cannot("It computes columns: there is no function to run again.")
    function = operator.function_spec.function
    if not operator.rows.keys:
        raise _cannot("The operator has no keys, and so no state of a key.")
    if isinstance(function, (CheckpointedFunction, ListCheckpointed, CheckpointListener)):
        raise _cannot(
            f"{type(function).__name__} has operator state, which is not one key's: replay does "
            "not restore it."
        )
    second = operator.second_input
    if (
        second is not None
        and second.role is not InputRole.INITIAL
        and second.rows.df.isStreaming != operator.rows.df.isStreaming
    ):
        raise _cannot(
            "One of the operator's inputs is a batch DataFrame: no micro-batch has recorded what "
            "it read of that. Run the function in keystate.testing."
        )
    return operator


def streamed(operator: Operator) -> list[Input]:
    """The inputs with rows in each micro-batch, broadcast elements too, but not initial state."""
    second = operator.second_input
    if second is None or second.role is InputRole.INITIAL:
        return [operator.rows]
    return [operator.rows, second.rows]


def in_harness(
    operator: Operator, tags: Sequence[OutputTag], parallelism: int, max_parallelism: int
) -> Setup:
    """The operator without its sources.

    Args:
        operator: the operator.
        tags: the side outputs that are wanted.
        parallelism: the number of subtasks.
        max_parallelism: the number of key groups.
    """
    second = operator.second_input
    if second is not None:
        batch: list[Any] | None = [] if second.role is InputRole.INITIAL else None
        second = SecondInput(_rows(second.rows, batch), second.role, second.states)
    made = replace(
        operator,
        rows=_rows(operator.rows),
        second_input=second,
        max_parallelism=max_parallelism,
        side_outputs=tuple(tags),
    )
    return Setup(
        SchemaRows(operator.rows.row_type, operator=made), parallelism, max_parallelism, tags, ()
    )


def _rows(given: Input, batch: list[Any] | None = None) -> Input:
    df = SchemaRows(given.row_type, batch)
    keys, order = (
        [_name(given.df, column, what) for column in columns]
        for what, columns in (("key", given.keys), ("order_by", given.order))
    )
    return replace(given, df=df, keys=keys, order=order)


def _name(df: DataFrame, column: Column, what: str) -> Any:
    told = df.select(column)
    (name,) = told.columns
    if name not in df.columns or not told.sameSemantics(df.select(df[quoted(name)])):
        raise _cannot(
            f"The {what} {column} is an expression: make a column of it before keystate.keyed(), "
            "and name that."
        )
    return name


def _cannot(reason: str) -> CheckpointError:
    return CheckpointError(reason, code="KEYSTATE_CANNOT_REPLAY")
