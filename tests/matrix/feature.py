"""A feature: a function of Keystate, and beside it what it does in plain Python."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import keystate
from pyspark.sql import DataFrame

from tests.matrix.flow import OUTPUT, Batch, Row

#: What `Place.table` has: numbers of some keys, and one that no row has.
TABLE = {"a": 3, "b": 1, "c": 2, "z": 1}


class Place(NamedTuple):
    """Where a function stands in a query.

    Attributes:
        number: of the function among those of the query: names of states and metrics have it.
        source: the rows that the query reads.
        table: makes a batch DataFrame of keys with numbers; see `shapes`.
        order: the columns that the rows of a key are sorted by, where a shape gives none.
        limit: how many entries a state may have.
    """

    number: int
    source: DataFrame
    table: Callable[[], DataFrame]
    order: tuple[str, ...] = ()
    limit: int = 0

    def keyed(self, df: DataFrame) -> Any:
        return keystate.keyed(df, "k", order_by=self.order)


@dataclass
class Model:
    """Does what the function does with the rows of each micro-batch.

    Attributes:
        rows: how many it has been given.
        state: by key, as a subclass likes.
    """

    rows: int = 0
    state: dict[str, Any] = field(default_factory=lambda: defaultdict(dict))

    def batch(self, batch: Batch) -> list[Row]:
        self.rows += len(batch.rows)
        return [made for row in batch.rows for made in self.row(row, self.state[row.k])]

    def row(self, row: Row, state: Any) -> Iterator[Row]:
        raise NotImplementedError

    def counters(self) -> dict[str, int]:
        """What the function's counters tell of all rows so far."""
        return {}

    def lists(self) -> dict[str, list[int]]:
        """What the lists of operator state have in the end."""
        return {}


def shown(row: Row, feature: str, what: Any) -> Row:
    return row._replace(feature=feature, what=str(what))


class ListModel(Model):
    """Tells all rows of the key so far."""

    def __init__(self, feature: str) -> None:
        super().__init__()
        self._feature = feature

    def row(self, row: Row, state: Any) -> Iterator[Row]:
        every = state.setdefault("all", [])
        every.append(row.i)
        yield shown(row, self._feature, every)


class CountModel(Model):
    def __init__(self, feature: str) -> None:
        super().__init__()
        self._feature = feature

    def row(self, row: Row, state: Any) -> Iterator[Row]:
        state["n"] = state.get("n", 0) + 1
        yield shown(row, self._feature, state["n"])


@dataclass(frozen=True)
class Feature:
    """A row of the table.

    Attributes:
        shows: the features that its results are of; the first one's rows can be another's input.
        build: makes the results of rows.
        model: does the same.
        limited: whether the query is ended by a limit in its second start.
    """

    name: str
    shows: tuple[str, ...]
    build: Callable[[DataFrame, Place], DataFrame]
    model: Callable[[], Model]
    limited: bool = False


def process(make: Callable[[Place], Any]) -> Callable[[DataFrame, Place], DataFrame]:
    def build(df: DataFrame, place: Place) -> DataFrame:
        made: DataFrame = place.keyed(df).process(make(place), OUTPUT, time_mode="none")
        return made

    return build
