"""The shapes of a plan: where a feature stands in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import keystate
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from tests.matrix.feature import TABLE, Feature, Model, Place
from tests.matrix.features import COUNT
from tests.matrix.flow import OUTPUT, Batch, Flow, Row
from tests.matrix.input_features import BroadcastModel


class Network:
    """The models of a query, in the order in which its plan is built at each start."""

    def __init__(self) -> None:
        self.models: list[tuple[Feature, Model]] = []
        self.limits: dict[int, int] = {}
        self._next = 0

    def begin(self, spark: SparkSession, source: Flow, folder: Path, start: int) -> None:
        self.spark, self.source, self.folder, self.start = spark, source, folder, start
        self._next = 0
        self.table: Callable[[], DataFrame] = self.plain_table
        self.order: tuple[str, ...] = ()

    def plain_table(self) -> DataFrame:
        return self.spark.createDataFrame(list(TABLE.items()), "k string, n long")

    def made_table(self) -> DataFrame:
        """The same, as a keyed operator of a batch query makes it."""
        keys = [(key,) for key, n in TABLE.items() for _ in range(n)]
        rows = keystate.keyed(self.spark.createDataFrame(keys, "k string"), "k")
        return rows.aggregate(F.count("*").alias("n"))

    def apply(self, feature: Feature, rows: Flow) -> Flow:
        """The results of a feature."""
        number, self._next = self._next, self._next + 1
        if number == len(self.models):
            self.models.append((feature, feature.model()))
        model = self.models[number][1]
        limit = self.limits.get(number, 1_000_000)
        place = Place(number, self.source.df, self.table, self.order, limit)

        def step(batch: Batch) -> list[Row]:
            if isinstance(model, BroadcastModel):
                model.sees(self.source.step(batch))
            return model.batch(batch._replace(rows=rows.step(batch)))

        return Flow(feature.build(rows.df, place), step)


#: Builds the plan of some features.
Build = Callable[[Network, list[Feature]], Flow]


@dataclass(frozen=True)
class Shape:
    """A column of the table.

    Attributes:
        build: the plan.
        partitions: of each start.
        reuse: whether Python workers serve one task after the other.
        repeats: whether a micro-batch fails in its sink, and runs again with other partitions.
    """

    name: str
    build: Build
    partitions: tuple[int, ...] = (2, 3)
    reuse: bool = True
    repeats: bool = False


def _all(flows: Iterator[Flow]) -> Flow:
    """The results of several features of one query."""
    whole = next(flows)
    for flow in flows:
        whole = whole.union(flow)
    return whole


def alone(net: Network, features: list[Feature]) -> Flow:
    return _all(net.apply(feature, net.source) for feature in features)


def union(net: Network, features: list[Feature]) -> Flow:
    """Behind a branch that has no state."""
    return net.source.as_results("other").union(alone(net, features))


def coalesced(net: Network, features: list[Feature]) -> Flow:
    return _all(
        net.apply(feature, net.source).through(lambda df: df.coalesce(1)) for feature in features
    )


def rows_and_branches(net: Network, features: list[Feature]) -> Flow:
    """Before another operator on one branch, and behind one on the other."""

    def both() -> Iterator[Flow]:
        for feature in features:
            first = net.apply(feature, net.source).as_input(feature.shows[:1])
            # Without keys the rows of a key come of several tasks.
            net.order = ("i",)
            yield net.apply(COUNT, first).labelled(f"{feature.name}, counted")
            net.order = ()
            counted = net.apply(COUNT, net.source).as_input(["count"])
            yield net.apply(feature, counted).labelled("behind a count")

    return _all(both())


def beside_table(net: Network, features: list[Feature]) -> Flow:
    """The rows are joined with it, and it is initial state."""
    net.table = net.made_table

    def joined(df: DataFrame) -> DataFrame:
        return df.join(net.table(), "k", "left").select("k", "i", "x", "at")

    return _all(net.apply(feature, net.source.through(joined)) for feature in features)


def joined_with_table(net: Network, features: list[Feature]) -> Flow:
    """The results are joined with it."""

    def joined(df: DataFrame) -> DataFrame:
        return df.join(net.made_table(), "k", "left").select(df["*"])

    return alone(net, features).through(joined)


def after_join(net: Network, features: list[Feature]) -> Flow:
    """A join of streams, which gives the rows of a key in any order."""
    net.order = ("i",)

    def joined(df: DataFrame) -> DataFrame:
        other = df.selectExpr("k AS k2", "i AS i2")
        return df.join(other, df.i == other.i2).select("k", "i", "x", "at")

    return _all(net.apply(feature, net.source.through(joined)) for feature in features)


class FailsOnce:
    """Fails after the rows of a task, if no task has done so."""

    def __init__(self, marker: Path) -> None:
        self._marker = marker

    def behind(self, df: DataFrame) -> DataFrame:
        return df.mapInArrow(self._pass, OUTPUT)

    def _pass(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if batch.num_rows:
                self._fail()

    def _fail(self) -> None:
        try:
            self._marker.touch(exist_ok=False)
        except FileExistsError:
            return
        raise ValueError("fails once")


def failing(net: Network, features: list[Feature]) -> Flow:
    """Behind each feature a task fails once in each start, and is repeated."""

    def each() -> Iterator[Flow]:
        for feature in features:
            marker = net.folder / f"{feature.name} of start {net.start} has failed"
            yield net.apply(feature, net.source).through(FailsOnce(marker).behind)

    return _all(each())


SHAPES = [
    Shape("alone", alone),
    Shape("second branch of a union", union),
    Shape("before a coalesce", coalesced),
    Shape("in a row and on branches", rows_and_branches),
    Shape("behind a table that Keystate made", beside_table),
    Shape("before a table that Keystate made", joined_with_table),
    Shape("after a join", after_join),
    Shape("more partitions than cores", alone, (5, 7)),
    Shape("a task fails once", failing),
    Shape("without reuse of workers", alone, (2, 1), reuse=False),
    Shape("a micro-batch runs again", alone, (2, 3, 5), repeats=True),
]
BY_NAME: dict[str, Shape] = {shape.name: shape for shape in SHAPES}
