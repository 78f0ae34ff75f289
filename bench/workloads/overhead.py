"""W6: a batch that touches few of many keys. W7: batches of ten rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from bench.workloads import KEYSTATE, TWS_PANDAS, TWS_ROW, Contender, peer
from bench.workloads.average import with_keystate, with_pandas, with_rows

TOUCHED = 10_000
HELD = (1_000_000, 5_000_000)
HELD_BATCHES = 8
TINY_BATCHES = 100
TINY_ROWS = 10

BACKENDS = {"keystate, heap": "hashmap", "keystate, RocksDB": "rocksdb"}


def with_sql(df: DataFrame) -> DataFrame:
    return df.groupBy("key").agg(sf.count("*").alias("count"), sf.sum("value").alias("total"))


TINY = {
    KEYSTATE: Contender(with_keystate),
    TWS_PANDAS: peer(with_pandas, 1.0),
    TWS_ROW: peer(with_rows, 1.0),
    "groupBy().agg()": peer(with_sql, 1.0),
}


def all_keys(held: int) -> pa.Table:
    """One row for each key, so that each has a state."""
    return pa.table({"key": np.arange(held), "value": np.ones(held, np.int64)})


def some_keys(held: int, batches: int, rows: int) -> pa.Table:
    random = np.random.default_rng(11)
    size = batches * rows
    return pa.table({"key": random.integers(0, held, size), "value": np.ones(size, np.int64)})
