"""Aggregates of a keyed stream: columns that Spark computes in the JVM, without a worker."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column

from keystate._operators.definition import Input, names_if_read
from keystate._operators.schema_rows import SchemaRows
from keystate.errors import DeclarationError
from keystate.functions import OutputTag


@dataclass(frozen=True, kw_only=True)
class DeclaredWindows:
    """Windows that end by themselves, in ms.

    Attributes:
        by_event_time: whether they go by event time, or by the clock.
        bounds: ``size``, ``slide`` and ``offset``, or the ``gap`` of sessions.
        lateness: how long a window is kept after its end, for late rows.
        late_output: where rows go that are too late; ``None`` if they are dropped.
        event_time: the column with a row's event time, if it is named.
    """

    by_event_time: bool
    bounds: dict[str, int]
    lateness: int
    late_output: OutputTag | None
    event_time: str | None


@dataclass(frozen=True, kw_only=True)
class AggregateOperator:
    """Aggregates of the rows of a key, or of its windows.

    Attributes:
        rows: the stream.
        aggregates: columns with aggregate functions.
        windows: the windows; ``None`` if a key's rows are aggregated as long as the query runs.
        name: the operator's name, if it is given.
        side_outputs: the side outputs that are read: at most that for late rows.
    """

    rows: Input
    aggregates: tuple[Column, ...]
    windows: DeclaredWindows | None = None
    name: str | None = None
    side_outputs: tuple[OutputTag, ...] = ()

    def to_json(self) -> str:
        """The JSON that the jar reads, of all but the DataFrame and the columns.

        Raises:
            DeclarationError: a side output is read that the operator does not have.
        """
        windows = self.windows
        there = (
            "aggregates have one for the late rows of windows, if side_output_late_data names it"
        )
        tag = None if windows is None else windows.late_output
        (late,) = names_if_read(self.side_outputs, (tag,), there)
        declared: dict[str, Any] = {
            "name": self.name,
            "maxParallelism": self.rows.max_parallelism,
            "eventTime": None if windows is None else windows.event_time,
            "lateOutput": late,
            "windows": None,
        }
        if windows is not None:
            declared["windows"] = {
                **windows.bounds,
                "byEventTime": windows.by_event_time,
                "lateness": windows.lateness,
            }
        return json.dumps(declared)


def aggregate_columns(given: Sequence[Any]) -> tuple[Column, ...]:
    """The aggregates, if they are columns.

    Raises:
        DeclarationError: one of them is none, or there are none.
    """
    if not given:
        raise DeclarationError("aggregate() needs an aggregate, such as F.sum('amount')")
    for each in given:
        if not isinstance(each, Column):
            raise DeclarationError(
                f"expected a column with an aggregate function, such as F.sum('amount'), got "
                f"{each!r}"
            )
    return tuple(given)


def check_rows(rows: Input, what: str) -> None:
    """Raises DeclarationError if rows are the harness's, which has no session.

    Args:
        rows: an input of an operator of columns.
        what: names what is computed of them, for the message.
    """
    if isinstance(rows.df, SchemaRows):
        raise DeclarationError(
            f"{what} is computed by Spark's expressions, which need a session, and the test "
            "harness has none: test it in a query of a DataFrame, as spark.createDataFrame(...), "
            "or in Scala's harness"
        )
