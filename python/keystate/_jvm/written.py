"""Operators whose state is written, in the form that the jar takes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from pyspark.sql import DataFrame

from keystate._types.ddl import quoted


class WrittenOperator(NamedTuple):
    """An operator whose state is written.

    Attributes:
        number: its number in the new checkpoint.
        origin: its number in the edited checkpoint; ``None`` if it is new.
        stream: a stream with the key columns, and no rows.
        keys: the names of the key columns.
        required: the names of the key columns that are never null.
        spec: JSON of the operator with the states that have rows.
        kept: the current and the new name of each kept state.
        rows: the rows of the written states.
        lists: its operator state; ``None`` if it has none.
        has_run: whether it replaces an operator of the query.
    """

    number: int
    origin: int | None
    stream: DataFrame
    keys: Sequence[str]
    required: Sequence[str]
    spec: str
    kept: dict[str, str]
    rows: dict[str, DataFrame]
    lists: dict[str, Any] | None
    has_run: bool


def arguments(operators: Sequence[WrittenOperator]) -> tuple[Any, ...]:
    """The operators as arguments of the jar's methods `create` and `edit`."""
    described = [
        {
            "number": one.number,
            "from": one.origin,
            "hasRun": one.has_run,
            "required": one.required,
            "spec": one.spec,
            "kept": one.kept,
            "rows": list(one.rows),
            "lists": one.lists,
        }
        for one in operators
    ]
    return (
        json.dumps(described),
        [one.stream for one in operators],
        [[one.stream[quoted(key)] for key in one.keys] for one in operators],
        [list(one.rows.values()) for one in operators],
    )
