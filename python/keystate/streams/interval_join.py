"""A join of two keyed streams by how far their times are apart."""

from __future__ import annotations

import datetime

from keystate._jvm import bridge
from keystate._operators.definition import Input, check_late_output, check_one_of
from keystate._operators.joins import How, JoinAllOperator
from keystate._operators.side_outputs import ResultDataFrame
from keystate.functions import OutputTag
from keystate.state import Time
from keystate.windows._window import millis


class IntervalJoin:
    """Two streams that are joined; made by :meth:`keystate.KeyedStream.interval_join`."""

    def __init__(self, left: Input, right: Input) -> None:
        self._inputs = (left, right)

    def between(
        self,
        lower: datetime.timedelta | Time,
        upper: datetime.timedelta | Time,
        *,
        lower_exclusive: bool = False,
        upper_exclusive: bool = False,
        on: str | tuple[str, str] | None = None,
        how: How = "inner",
        suffix: str = "_right",
        late_output: OutputTag | None = None,
        name: str | None = None,
    ) -> ResultDataFrame:
        """Joins each row with those of the other stream that are `lower` to `upper` after it.

        The output has the key columns, then the other columns of each stream. A result goes out
        when the later one of its rows comes.

        Args:
            lower: may be negative; so may `upper`.
            upper: is not before `lower`.
            lower_exclusive: whether rows just at the bound are left out.
            upper_exclusive: the same for the other bound.
            on: the column with the time of a row, a timestamp: one name, or one for each. On
                streams it is that of the watermark, and may be left out.
            how: ``"left"``: rows that are joined with none go out with nulls, when the watermark
                has passed all that they could be joined with.
            suffix: is added to the name of a column of the other stream that this one has too.
            late_output: a side output for rows behind the watermark, with the schema of the result.
            name: the operator's name, in messages and in savepoints.

        Raises:
            DeclarationError: a column or a setting does not fit.
        """
        check_one_of("how", how, ("left", "inner"))
        first = 1000 * millis(lower, "the lower bound") + lower_exclusive
        last = 1000 * millis(upper, "the upper bound") - upper_exclusive
        return joined(
            JoinAllOperator(
                inputs=self._inputs,
                on=on if isinstance(on, tuple) else (on, on),
                rule=(first, last),
                outer=how == "left",
                suffixes=("", suffix),
                earliest=None,
                late_output=late_output,
                name=name,
            )
        )


def joined(operator: JoinAllOperator) -> ResultDataFrame:
    """The result of a join.

    Raises:
        DeclarationError: a column or a setting does not fit.
    """
    result = ResultDataFrame(operator, bridge.join_all)
    if operator.late_output is not None:
        check_late_output(operator.late_output, result.schema)
    return result
