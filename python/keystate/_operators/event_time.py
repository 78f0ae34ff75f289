"""Which column of an input has the event time of a row."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from keystate._spec.specs import DELAY_KEY
from keystate.errors import DeclarationError


def time_column(df: DataFrame, event_time: str | None) -> int | None:
    """The index of the column that has a row's event time; ``None`` if there is none.

    Args:
        df: the input.
        event_time: the column's name; ``None`` for the column with the watermark.

    Raises:
        DeclarationError: the named column can't be an event time.
    """
    fields = df.schema.fields
    marked = [i for i, field in enumerate(fields) if DELAY_KEY in field.metadata]
    if event_time is None:
        return marked[0] if marked else None
    named = [i for i, field in enumerate(fields) if field.name == event_time]
    if not named:
        raise DeclarationError(f"the event time column '{event_time}' is not in the input")
    if not isinstance(fields[named[0]].dataType, T.TimestampType):
        raise DeclarationError(f"the event time column '{event_time}' is not a timestamp")
    if df.isStreaming and named != marked[:1]:
        raise DeclarationError(
            f"the watermark is not defined on the event time column '{event_time}': call "
            f"df.withWatermark('{event_time}', delay) before keystate.keyed(df, ...)",
            code="KEYSTATE_NO_WATERMARK",
        )
    return named[0]
