"""A join of many keyed streams with one state."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, Literal

from keystate._operators.definition import check_one_of
from keystate._operators.joins import JoinAllOperator
from keystate._operators.side_outputs import ResultDataFrame
from keystate.errors import DeclarationError
from keystate.functions import OutputTag
from keystate.state import Time
from keystate.streams.interval_join import joined
from keystate.streams.keyed import KeyedStream
from keystate.windows._window import millis


def join_all(
    inputs: Sequence[KeyedStream[Any]],
    *,
    within: datetime.timedelta | Time,
    on: str | Sequence[str] | None = None,
    how: Literal["inner", "outer"] = "inner",
    suffixes: Sequence[str] | None = None,
    earliest: str | None = None,
    late_output: OutputTag | None = None,
    name: str | None = None,
) -> ResultDataFrame:
    """Joins the rows of a key of two streams or more whose times are near each other.

    The JVM joins, without a Python worker, and keeps each row once, however many streams there are.
    A result has at most one row of each stream. The output has the key columns, with the names of
    the first stream, then the other columns of each stream.

    Args:
        inputs: the keyed streams; or batch DataFrames, all of them.
        within: the latest time of a result's rows is at most that much after the earliest one.
        on: the column with the time of a row, a timestamp: one name, or one for each stream. On
            streams it is that of the watermark, and may be left out.
        how: ``"inner"``: the results with a row of each stream, which go out when the last of them
            comes. ``"outer"``: all that no row could be added to: also those that lack some
            streams' rows, with nulls, which go out when the watermark has passed all that could
            have been added. Of two streams that is SQL's full outer join.
        suffixes: for each stream what is added to the name of a column that an earlier one has
            too; by default nothing for the first, ``"_2"`` for the second, and so on.
        earliest: the name of a further column, after the key: the earliest time of a result's rows.
            Operators behind the join go by it; otherwise by the first stream's time, which is null
            where an outer join has no row of that.
        late_output: a side output for rows behind the watermark, with the schema of the result:
            nulls where the other streams' columns are.
        name: the operator's name, in messages and in savepoints.

    Raises:
        DeclarationError: a column or a setting does not fit.
    """
    for stream in inputs:
        if not isinstance(stream, KeyedStream):
            raise DeclarationError(f"join_all joins what keyed() makes, got {stream!r}")
    if len(inputs) < 2:
        raise DeclarationError(f"join_all needs two streams or more, got {len(inputs)}")
    if suffixes is None:
        suffixes = ["", *(f"_{i}" for i in range(2, len(inputs) + 1))]
    check_one_of("how", how, ("inner", "outer"))
    operator = JoinAllOperator(
        inputs=tuple(stream._input for stream in inputs),
        on=(on,) * len(inputs) if on is None or isinstance(on, str) else tuple(on),
        rule=1000 * millis(within, "within"),
        outer=how == "outer",
        suffixes=tuple(suffixes),
        earliest=earliest,
        late_output=late_output,
        name=name,
    )
    return joined(operator)
