"""The workloads: what each runs, on what, and what it should emit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from bench.session import STOCK, Build

KEYSTATE = "keystate"
KEYSTATE_ROCKSDB = "keystate, RocksDB"
DICT = "plain dict, not durable"
SHIP = "rows to Python and back, no state"
TWS_PANDAS = "transformWithStateInPandas"
TWS_ROW = "transformWithState"
APPLY = "applyInPandasWithState"


@dataclass(frozen=True)
class Contender:
    """One way to do it.

    Attributes:
        build: the query.
        share: which part of the rows it gets; the slow ones would take all day.
        settings: Spark settings.
        checked: whether it emits the expected rows.
    """

    build: Build
    share: float = 1.0
    settings: tuple[tuple[str, str], ...] = ()
    checked: bool = True


@dataclass(frozen=True)
class Workload:
    """One thing to do, and the ways to do it.

    Attributes:
        title: what is done.
        rows: how many rows, of how many `keys`.
        make: makes the input of so many rows and keys, and the number of rows it should give.
    """

    name: str
    title: str
    rows: int
    keys: int
    make: Callable[[int, int], tuple[pa.Table, int]]
    contenders: dict[str, Contender]


def peer(build: Build, share: float, checked: bool = True) -> Contender:
    """A contender on Spark's own RocksDB provider and manager of checkpoint files."""
    return Contender(build, share, tuple(STOCK.items()), checked)


def on_rocksdb(build: Build) -> Contender:
    """Keystate on its RocksDB backend."""
    return Contender(build, settings=(("spark.keystate.backend", "rocksdb"),))
