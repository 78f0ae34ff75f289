"""Operators whose state is written, as the jar is told of them."""

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
        origin: its number in the checkpoint that is edited; ``None`` if it is new.
        stream: with the key columns, and no rows.
        keys: the names of the key columns.
        required: the names of those that are never null.
        spec: JSON of the operator with those of its states that have rows.
        kept: by name the states that stay, and their new names.
        rows: of the states that are written.
        lists: its operator state; ``None`` if it has none.
        has_run: whether it goes on in the place of one that a query has had.
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
    """What the methods `create` and `edit` of the jar take of operators."""
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
