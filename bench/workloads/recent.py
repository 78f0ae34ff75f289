"""W8: the ten newest of a key's rows in a sorted map: put, and drop the oldest."""

from __future__ import annotations

from typing import Any

import keystate
import numpy as np
import pandas as pd
import pyarrow as pa
from keystate import KeyedProcessFunction, SortedMapStateDescriptor, ValueStateDescriptor
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from bench.workloads import KEYSTATE, TWS_PANDAS, TWS_ROW, Contender, Workload, peer

OUTPUT = "key long, dropped long"
KEPT = 10


class Newest(KeyedProcessFunction):
    """Emits what it drops."""

    def open(self, ctx: Any) -> None:
        self.rows = ctx.get_sorted_map_state(SortedMapStateDescriptor("rows", "long", "long"))
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.rows.put(row.time, row.value)
        count = self.count.value() + 1
        if count > KEPT:
            yield row.key, self.rows.pop_first()[0]
            count -= 1
        self.count.update(count)


class PandasNewest(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self.rows = handle.getMapState("rows", "time long", "value long")

    def add(self, time: int, value: int) -> int | None:
        self.rows.updateValue((time,), (value,))
        times = [key[0] for key in self.rows.keys()]  # noqa: SIM118 - it is no dictionary
        if len(times) <= KEPT:
            return None
        self.rows.removeKey((min(times),))
        return int(min(times))

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        results = [
            self.add(*row)
            for pdf in rows
            for row in zip(pdf["time"].tolist(), pdf["value"].tolist())
        ]
        dropped = [result for result in results if result is not None]
        if dropped:
            yield pd.DataFrame({"key": [key[0]] * len(dropped), "dropped": dropped})

    def close(self) -> None:
        pass


class RowNewest(PandasNewest):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        for row in rows:
            dropped = self.add(row.time, row.value)
            if dropped is not None:
                yield Row(key=key[0], dropped=dropped)


def with_keystate(df: DataFrame) -> DataFrame:
    return keystate.keyed(df, "key").process(Newest(), OUTPUT)


def with_pandas(df: DataFrame) -> DataFrame:
    return df.groupBy("key").transformWithStateInPandas(PandasNewest(), OUTPUT, "Update", "None")


def with_rows(df: DataFrame) -> DataFrame:
    return df.groupBy("key").transformWithState(RowNewest(), OUTPUT, "Update", "None")


def make(rows: int, keys: int) -> tuple[pa.Table, int]:
    random = np.random.default_rng(7)
    key = random.integers(0, keys, rows)
    columns = {"key": key, "time": random.permutation(rows), "value": random.integers(0, 9, rows)}
    return pa.table(columns), int(np.maximum(np.bincount(key) - KEPT, 0).sum())


W8 = Workload(
    "W8",
    "sorted map: put, pop_first",
    500_000,
    10_000,
    make,
    {
        KEYSTATE: Contender(with_keystate),
        TWS_PANDAS: peer(with_pandas, 0.01),
        TWS_ROW: peer(with_rows, 0.01),
    },
)
