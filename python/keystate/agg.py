"""Aggregates of columns, computed by Arrow and NumPy for many rows at once.

>>> from keystate import agg
>>> windows = keystate.keyed(sales, "customer").window(TumblingEventTimeWindows.of(FIVE_MINUTES))
>>> windows.aggregate(agg.sum("amount").alias("total"), agg.count().alias("n"))

No Python function is called for a row. Names, types, nulls and overflow are those of Spark SQL's
functions of the same name, in ANSI mode, whichever mode the session is in.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from keystate._types.ddl import unquoted
from keystate.errors import DeclarationError

__all__ = [
    "Aggregate",
    "approx_count_distinct",
    "avg",
    "count",
    "first",
    "last",
    "max",
    "mean",
    "min",
    "sum",
    "top_n",
]


@dataclass(frozen=True)
class Aggregate:
    """An aggregate of a column; made by the functions of :mod:`keystate.agg`.

    Attributes:
        kind: which one it is.
        column: the name of the column; ``None`` if it counts rows.
        name: the name of its column in the output, and of its field in the state.
        ignore_nulls: of ``first`` and ``last``, whether nulls are left out.
        n: of ``top_n``, how many values there are at most; of ``approx_count_distinct``, how many
            hashes are kept; of fewer values it is exact.
    """

    kind: str
    column: str | None
    name: str
    ignore_nulls: bool = False
    n: int = 0

    def alias(self, name: str) -> Aggregate:
        """Gives the aggregate another name.

        Args:
            name: of its column in the output. It is also the name of its field in the state: with
                another one after a restart, the aggregate begins anew. Another aggregate with the
                same one, whose field has the same type, goes on from what this one has stored: give
                it another name. It can't end in ``" seen"``, as the field does that ``first`` has
                besides.
        """
        if not isinstance(name, str) or not name:
            raise DeclarationError(f"the name of an aggregate is a string, got {name!r}")
        if name.endswith(" seen"):
            raise DeclarationError(
                f"an aggregate can't be named '{name}': the state has such fields for agg.first; "
                "give it another name, such as with a '_'"
            )
        return dataclasses.replace(self, name=name)


def count(column: str | None = None) -> Aggregate:
    """Counts rows, as a long.

    Args:
        column: with it, rows in which it is null do not count.
    """
    if column is None:
        return Aggregate("count", None, "count(1)")
    return _of("count", column)


def sum(column: str) -> Aggregate:
    """The sum of the values that are not null; null if there are none.

    Of integers it is a long, of floats and doubles a double, and of ``decimal(p, s)`` a
    ``decimal(min(38, p + 10), s)``. A sum that does not fit fails the query with
    :class:`~keystate.errors.StateTypeError`.
    """
    return _of("sum", column)


def min(column: str) -> Aggregate:
    """The least value that is not null; null if there is none.

    NaN is greater than all other numbers. Strings and binary values compare by their bytes.
    """
    return _of("min", column)


def max(column: str) -> Aggregate:
    """The greatest value that is not null, ordered as for :func:`min`; null if there is none."""
    return _of("max", column)


def mean(column: str) -> Aggregate:
    """The mean of the numbers that are not null, as a double; null if there are none.

    It is their sum as a double by their number. For a decimal, cast the column to double before, or
    keep sum and count.
    """
    return _of("avg", column)


#: The same as :func:`mean`.
avg = mean


def first(column: str, ignore_nulls: bool = False) -> Aggregate:
    """The value of the first row, in the order in which a key's rows come.

    That order is not defined within a micro-batch, unless ``keystate.keyed`` has an `order_by`.

    Args:
        column: of any type.
        ignore_nulls: whether it is the first value that is not null.
    """
    return dataclasses.replace(_of("first", column), ignore_nulls=ignore_nulls)


def last(column: str, ignore_nulls: bool = False) -> Aggregate:
    """The value of the last row, in the order in which a key's rows come; see :func:`first`.

    Args:
        column: of any type.
        ignore_nulls: whether it is the last value that is not null.
    """
    return dataclasses.replace(_of("last", column), ignore_nulls=ignore_nulls)


def top_n(column: str, n: int) -> Aggregate:
    """The greatest values that are not null, as an array from the greatest on.

    Values that are equal are in it as often as they come. An order as for :func:`min`.

    Args:
        column: of a type that :func:`max` takes.
        n: how many values it has at most.
    """
    if type(n) is not int or n < 1:
        raise DeclarationError(f"agg.top_n takes the number of values, at least 1, got {n!r}")
    made = _of("top_n", column)
    return dataclasses.replace(made, name=f"top_n({column}, {n})", n=n)


def approx_count_distinct(column: str, rsd: float = 0.05) -> Aggregate:
    """About how many different values there are that are not null, as a long.

    Up to ``1 / rsd² + 1`` values the number is exact. Of more, the least of their hashes are kept,
    one more than that, of 8 bytes each, and the number is estimated from how close they lie: the k
    minimum values of Bar-Yossef et al., "Counting distinct elements in a data stream" (2002), with
    the unbiased estimate and its error of Beyer et al., "On synopses for distinct-value estimation
    under multiset operations" (2007). It differs from that of Spark SQL, which has other hashes.

    Args:
        column: of a type that :func:`max` takes.
        rsd: the relative standard deviation of the estimate, from 0.01 to 0.3. With another one
            after a restart, a key goes on with the larger one of the two.
    """
    if isinstance(rsd, bool) or not isinstance(rsd, (int, float)) or not 0.01 <= rsd <= 0.3:
        raise DeclarationError(
            f"agg.approx_count_distinct takes an rsd from 0.01 to 0.3, got {rsd!r}"
        )
    return dataclasses.replace(_of("approx_count_distinct", column), n=math.ceil(rsd**-2) + 2)


def _of(kind: str, column: str) -> Aggregate:
    if not isinstance(column, str):
        raise DeclarationError(
            f"agg.{kind} takes the name of a column, got {column!r}: add an expression to the "
            "DataFrame with withColumn first"
        )
    return Aggregate(kind, column, f"{kind}({unquoted(column)})")
