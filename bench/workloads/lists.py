"""W4: appends to a list for each key, and sums it up at a hundred elements."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import keystate
import numpy as np
import pandas as pd
import pyarrow as pa
from keystate import KeyedProcessFunction, ListStateDescriptor, ValueStateDescriptor
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from bench.workloads import APPLY, KEYSTATE, TWS_PANDAS, TWS_ROW, Contender, Workload, peer

OUTPUT = "key long, total long"
WINDOW = 100


class Windows(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.values = ctx.get_list_state(ListStateDescriptor("values", "long"))
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.values.add(row.value)
        count = self.count.value() + 1
        self.count.update(count)
        if count == WINDOW:
            yield row.key, sum(self.values.get())
            self.values.clear()
            self.count.clear()


class PandasWindows(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self.values = handle.getListState("values", "value long")
        self.count = handle.getValueState("count", "n long")

    def add(self, value: int) -> int | None:
        self.values.appendValue((value,))
        current = self.count.get()
        count = 1 if current is None else current[0] + 1
        self.count.update((count,))
        if count < WINDOW:
            return None
        total = sum(element[0] for element in self.values.get())
        self.values.clear()
        self.count.clear()
        return int(total)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        results = [self.add(value) for pdf in rows for value in pdf["value"].tolist()]
        totals = [result for result in results if result is not None]
        if totals:
            yield pd.DataFrame({"key": [key[0]] * len(totals), "total": totals})

    def close(self) -> None:
        pass


class RowWindows(PandasWindows):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        for row in rows:
            total = self.add(row.value)
            if total is not None:
                yield Row(key=key[0], total=total)


def apply_windows(key: Any, pdfs: Any, state: Any) -> Iterator[pd.DataFrame]:
    # Spark 4.2 can't hand it a state of array type: the list is one string.
    values = json.loads(state.get[0]) if state.exists else []
    totals = []
    for pdf in pdfs:
        for value in pdf["value"].tolist():
            values.append(value)
            if len(values) == WINDOW:
                totals.append(sum(values))
                values = []
    state.update((json.dumps(values),))
    if totals:
        yield pd.DataFrame({"key": [key[0]] * len(totals), "total": totals})


def with_keystate(df: DataFrame) -> DataFrame:
    return keystate.keyed(df, "key").process(Windows(), OUTPUT)


def with_pandas(df: DataFrame) -> DataFrame:
    return df.groupBy("key").transformWithStateInPandas(PandasWindows(), OUTPUT, "Update", "None")


def with_rows(df: DataFrame) -> DataFrame:
    return df.groupBy("key").transformWithState(RowWindows(), OUTPUT, "Update", "None")


def with_apply(df: DataFrame) -> DataFrame:
    return df.groupBy("key").applyInPandasWithState(
        apply_windows, OUTPUT, "list string", "update", "NoTimeout"
    )


def make(rows: int, keys: int) -> tuple[pa.Table, int]:
    random = np.random.default_rng(7)
    key = random.integers(0, keys, rows)
    table = pa.table({"key": key, "value": random.integers(0, 1000, rows)})
    return table, int((np.bincount(key) // WINDOW).sum())


W4 = Workload(
    "W4",
    "list append, windows of 100",
    1_000_000,
    4_000,
    make,
    {
        KEYSTATE: Contender(with_keystate),
        TWS_PANDAS: peer(with_pandas, 0.02),
        TWS_ROW: peer(with_rows, 0.02),
        APPLY: peer(with_apply, 1.0),
    },
)
