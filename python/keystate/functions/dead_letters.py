"""What becomes of a row that a function fails on."""

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
    """A policy for errors of a row; made by :func:`dead_letters`, which says what it means."""

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

    What the function did for the row or the timer is undone: all changes of keyed state and of
    timers, and all that it emitted. The query goes on with the next row. If the side output is not
    read, as with ``write_outputs(main, {tag: write})``, dead letters are only counted, by
    ``keystateDeadLetters`` in the progress.

    Each subtask counts for itself, and begins anew with each micro-batch. The query fails with a
    summary when there are more than a limit says; without one there may be any number.

    >>> DEAD = OutputTag("dead", keystate.dead_letter_schema(df.schema))
    >>> keyed(df, "key").process(fn, schema, on_error=keystate.dead_letters(DEAD, max_share=0.1))

    Args:
        tag: the side output, whose type is a :func:`dead_letter_schema`.
        max_in_batch: how many rows and timers of a micro-batch may fail in a subtask.
        max_in_a_row: how many may fail one after the other, with none between that does not.
        max_share: which part of those of a micro-batch may fail in a subtask, from 0 to 1.

    Raises:
        DeclarationError: an argument has no value that is allowed.
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
    ``id``              tells the letters of an operator apart
    ``key``             the key as JSON; null without keys
    ``row``             the row as it came; null of a timer
    ``input``           of a function of two inputs, which one the row is of: 1 or 2; else null
    ``timer``           the timer's time in ms since the epoch; null of a row
    ``timer_domain``    ``event_time`` or ``processing_time``; null of a row
    ``error``           the error's class
    ``message``         its message; of a very long one beginning and end
    ``traceback``       its traceback, from the first line of your code on
    ``batch``           the id of the micro-batch; null in a batch query
    ``time``            when the micro-batch began; null in a batch query
    ==================  ============================================================================

    Args:
        row: the input's schema, for rows as a struct, which is exact for all types. Without it they
            are JSON: one schema for all operators, and for two inputs of different columns.

    Raises:
        DeclarationError: it is no schema.
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
    """What becomes of a row that a function fails on; ``None`` if the query fails.

    Raises:
        DeclarationError: it is no policy.
    """
    if on_error == "fail":
        return None
    if not isinstance(on_error, DeadLetters):
        raise DeclarationError(
            f"on_error is 'fail' or keystate.dead_letters(tag, ...), got {on_error!r}"
        )
    return on_error


def check_policy(policy: DeadLetters, row_types: list[T.StructType]) -> None:
    """Raises DeclarationError when letters of rows of these types do not fit the tag."""
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
    """The columns of letters or of their rows, whether they may be null or not."""
    fields = kind.fields if isinstance(kind, T.StructType) else []
    return [(field.name, field.dataType.simpleString()) for field in fields]
