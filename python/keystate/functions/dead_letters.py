"""Dead letters: what happens to a row that a function fails on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import types as T

from keystate._spec.specs import resolve_schema
from keystate.errors import DeclarationError
from keystate.functions.base import OutputTag
from keystate.state import TypeLike

#: The columns of a dead letter besides the row.
_BEFORE = "id string, key string"
_AFTER = (
    "input int, timer bigint, timer_domain string, error string, message string, "
    "traceback string, batch bigint, time timestamp"
)


@dataclass(frozen=True)
class DeadLetters:
    """A policy for errors of a row; see :func:`dead_letters`, which makes it."""

    tag: OutputTag
    max_in_batch: int | None = None
    max_in_a_row: int | None = None
    max_share: float | None = None


#: ``"fail"``, or what :func:`dead_letters` makes.
OnError = str | DeadLetters


def dead_letters(
    tag: OutputTag,
    *,
    max_in_batch: int | None = None,
    max_in_a_row: int | None = None,
    max_share: float | None = None,
) -> DeadLetters:
    """A policy for ``on_error``: a row that the function fails on goes to a side output.

    Keystate undoes what the function did for the row or the timer: its changes of keyed state and
    timers, and its results. The query continues with the next row. If the side output is not read,
    for example by ``write_outputs(main, {tag: write})``, dead letters are only counted, by
    ``keystateDeadLetters`` in the progress.

    Each subtask counts its own failures, from 0 in each micro-batch. The query fails with a summary
    when a limit is exceeded; without limits any number may fail.

    >>> DEAD = OutputTag("dead", keystate.dead_letter_schema(df.schema))
    >>> keyed(df, "key").process(fn, schema, on_error=keystate.dead_letters(DEAD, max_share=0.1))

    Args:
        tag: the side output, whose type is a :func:`dead_letter_schema`.
        max_in_batch: how many rows and timers of a micro-batch may fail in a subtask.
        max_in_a_row: how many rows and timers may fail in direct succession.
        max_share: the share of a micro-batch's rows and timers that may fail in a subtask, 0 to 1.

    Raises:
        DeclarationError: an argument's value is not allowed.
    """
    if not isinstance(tag, OutputTag):
        raise DeclarationError(f"dead letters go to an OutputTag, got {tag!r}")
    for name, count in (("max_in_batch", max_in_batch), ("max_in_a_row", max_in_a_row)):
        if count is not None and (type(count) is not int or count < 0):
            raise DeclarationError(f"{name} is a number of rows of at least 0, got {count!r}")
    if max_share is not None and (
        not isinstance(max_share, (int, float)) or not 0 <= max_share <= 1
    ):
        raise DeclarationError(f"max_share is a share from 0 to 1, got {max_share!r}")
    return DeadLetters(tag, max_in_batch, max_in_a_row, max_share)


def dead_letter_schema(row: TypeLike | None = None) -> T.StructType:
    """The columns of dead letters.

    ==================  ============================================================================
    ``id``              identifies a letter among those of an operator
    ``key``             the key as JSON; null without keys
    ``row``             the row as it came; null for a timer
    ``input``           the row's input, 1 or 2, if the function has two inputs; else null
    ``timer``           the timer's time in ms since the epoch; null for a row
    ``timer_domain``    ``event_time`` or ``processing_time``; null for a row
    ``error``           the error's class
    ``message``         its message; beginning and end of a very long message
    ``traceback``       its traceback, from the first line of your code on
    ``batch``           the id of the micro-batch; null in a batch query
    ``time``            when the micro-batch began; null in a batch query
    ==================  ============================================================================

    Args:
        row: the input's schema; then ``row`` is a struct, which is exact for all types. Without it
            ``row`` is JSON: one schema for all operators, and for two inputs of different columns.

    Raises:
        DeclarationError: ``row`` is no schema.
    """
    kind = T.StringType() if row is None else resolve_schema(row, "the rows of dead letters")
    return T.StructType(
        [
            *resolve_schema(_BEFORE, "").fields,
            T.StructField("row", kind),
            *resolve_schema(_AFTER, "").fields,
        ]
    )


def policy_of(on_error: Any) -> DeadLetters | None:
    """The policy for rows that a function fails on; ``None`` if the query fails.

    Raises:
        DeclarationError: ``on_error`` is no policy.
    """
    if on_error == "fail":
        return None
    if not isinstance(on_error, DeadLetters):
        raise DeclarationError(
            f"on_error is 'fail' or keystate.dead_letters(tag, ...), got {on_error!r}"
        )
    return on_error


def check_policy(policy: DeadLetters, row_types: list[T.StructType]) -> None:
    """Raises DeclarationError when the tag's type does not fit letters of these row types."""
    tag = policy.tag
    taken = resolve_schema(tag.type, f"side output '{tag.tag_id}'")
    if column_types(taken) == column_types(dead_letter_schema()):
        return
    if all(
        column_types(taken) == column_types(dead_letter_schema(row_type)) for row_type in row_types
    ):
        return
    of_rows = "()" if len({r.json() for r in row_types}) > 1 else "(df.schema)"
    raise DeclarationError(
        f"side output '{tag.tag_id}' takes {taken.simpleString()}, which dead letters are not: "
        f"declare it as OutputTag('{tag.tag_id}', keystate.dead_letter_schema{of_rows})"
    )


def column_types(kind: T.DataType) -> list[tuple[str, str]]:
    """Names and types of a struct's columns, without their nullability."""
    fields = kind.fields if isinstance(kind, T.StructType) else []
    return [(field.name, field.dataType.simpleString()) for field in fields]
