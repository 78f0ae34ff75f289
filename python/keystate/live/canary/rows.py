"""Compares the output of two queries, by key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from keystate._types.ddl import quoted
from keystate._types.sql_json import EXACT_JSON

#: The number of differing keys that are shown.
EXAMPLES = 5


@dataclass(frozen=True)
class CanaryRows:
    """How to read the output of both queries.

    Attributes:
        old: takes the numbers of the first and the last micro-batch; returns their rows in the old
            query's sink, as a batch DataFrame.
        new: the same for the new query's sink, with the same columns, in any order.
        key: the columns by which rows are compared: both must have the same rows for each key, the
            same number of times, in any order.
    """

    old: Callable[[int, int], DataFrame]
    new: Callable[[int, int], DataFrame]
    key: Sequence[str]

    def compare(self, first: int, last: int) -> dict[str, Any]:
        """How the rows of some micro-batches differ; see :class:`~keystate.CanaryReport`."""
        old, new = self.old(first, last), self.new(first, last)
        order = {name: place for place, name in enumerate(old.columns)}
        sides = [_side(rows, self.key, order) for rows in (old, new)]
        both = sides[0].withColumn("of", F.lit(0)).unionAll(sides[1].withColumn("of", F.lit(1)))
        rows = [
            F.sort_array(F.collect_list(F.when(F.col("of") == of, F.col("row")))) for of in (0, 1)
        ]
        keys = both.groupBy("key").agg(rows[0].alias("old"), rows[1].alias("new")).cache()
        try:
            sizes = [F.size("old"), F.size("new")]
            counts = keys.agg(
                F.sum(sizes[0]).alias("old"),
                F.sum(sizes[1]).alias("new"),
                F.count_if(F.col("old") == F.col("new")).alias("same"),
                F.count_if(sizes[0] == 0).alias("added"),
                F.count_if(sizes[1] == 0).alias("removed"),
                F.count_if((F.col("old") != F.col("new")) & (sizes[0] > 0) & (sizes[1] > 0)).alias(
                    "changed"
                ),
            ).collect()[0]
            differ = keys.where(F.col("old") != F.col("new"))
            names = [name for name in {*old.columns, *new.columns} if name not in self.key]
            return {
                **{name: value or 0 for name, value in counts.asDict().items()},
                "columns": _columns(differ.where((sizes[0] > 0) & (sizes[1] > 0)), sorted(names)),
                "examples": [
                    row.asDict() for row in differ.orderBy("key").limit(EXAMPLES).collect()
                ],
            }
        finally:
            keys.unpersist()


def _columns(changed: DataFrame, names: Sequence[str]) -> dict[str, int]:
    """In how many of these keys each column differs, without those in which it does in none.

    Under ``""`` are the keys with a difference that no column shows, such as another pairing of the
    same values.
    """

    def values(of: str, name: str) -> Column:
        path = f"$['{name}']"
        return F.sort_array(F.transform(of, lambda row: F.get_json_object(row, path)))

    differs = {name: ~values("old", name).eqNullSafe(values("new", name)) for name in names}
    differs[""] = ~reduce(Column.__or__, differs.values(), F.lit(False))
    places = list(enumerate(differs.items()))
    counts = changed.agg(*(F.count_if(one).alias(str(i)) for i, (_, one) in places)).collect()[0]
    return {name: counts[i] for i, (name, _) in places if counts[i]}


def _side(rows: DataFrame, key: Sequence[str], order: dict[str, int]) -> DataFrame:
    """Keys and rows as JSON, in which maps can be compared too.

    Args:
        rows: of one query.
        key: the names of the key columns.
        order: the places of columns in the JSON; other columns come last.
    """
    names = sorted(rows.columns, key=lambda name: order.get(name, len(order)))
    others = [quoted(name) for name in names if name not in key]
    return rows.select(
        F.to_json(F.struct(*map(quoted, key)), EXACT_JSON).alias("key"),
        (F.to_json(F.struct(*others), EXACT_JSON) if others else F.lit("{}")).alias("row"),
    )
