"""A stream of a cell: a DataFrame, and beside it the plain rows that it should have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

INPUT = "k string, i long, x long, at timestamp"
#: What all features emit: a row's columns, what shows the feature, and an id that is compared only
#: between two runs of one micro-batch.
OUTPUT = f"{INPUT}, feature string, what string, id string"


class Row(NamedTuple):
    """A row of an input; `at` is in ms. What a feature emits has `feature` and `what` too."""

    k: str
    i: int
    x: int | None
    at: int | None
    feature: str = ""
    what: str = ""


class Batch(NamedTuple):
    """A micro-batch.

    Attributes:
        watermark: its watermark.
        late: the watermark of the micro-batch before: rows at or behind it are late.
    """

    rows: list[Row]
    watermark: int
    late: int


#: Gives what a micro-batch of the source makes of a stream's rows.
Step = Callable[[Batch], list[Row]]


@dataclass(frozen=True)
class Flow:
    """A stream, and what its rows should be."""

    df: DataFrame
    step: Step

    def where(self, condition: str, keep: Callable[[Row], bool]) -> Flow:
        return Flow(self.df.where(condition), lambda b: [r for r in self.step(b) if keep(r)])

    def through(self, change: Callable[[DataFrame], DataFrame]) -> Flow:
        """Something that leaves the rows as they are."""
        return replace(self, df=change(self.df))

    def union(self, other: Flow) -> Flow:
        return Flow(self.df.union(other.df), lambda b: [*self.step(b), *other.step(b)])

    def labelled(self, label: str) -> Flow:
        """Results that are told from those of another branch."""
        df = self.df.withColumn("feature", F.concat(F.lit(f"{label}: "), "feature"))

        def step(batch: Batch) -> list[Row]:
            return [r._replace(feature=f"{label}: {r.feature}") for r in self.step(batch)]

        return Flow(df, step)

    def as_input(self, features: Iterable[str]) -> Flow:
        """The results of these names, as rows that another feature is given."""
        named = set(features)
        df = self.df.where(F.col("feature").isin(*named)).select("k", "i", "x", "at")
        return Flow(df, lambda b: [r._replace(feature="", what="") for r in self.step(b)
                                   if r.feature in named])  # fmt: skip

    def as_results(self, feature: str) -> Flow:
        """Rows that no feature has had, as results."""
        df = self.df.select("*", F.lit(feature), F.lit(""), F.lit(None).cast("string"))
        df = df.toDF(*(each.split()[0] for each in OUTPUT.split(", ")))
        return Flow(df, lambda b: [r._replace(feature=feature) for r in self.step(b)])


def result(row: Any, feature: str, what: Any) -> tuple[Any, ...]:
    """What a function emits for a row."""
    return row.k, row.i, row.x, row.at, feature, str(what), None
