"""W5: the greatest value in a reducing state and the mean in an aggregating state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keystate
import numpy as np
import pandas as pd
import pyarrow as pa
from keystate import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ReducingStateDescriptor,
)
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from bench.workloads import APPLY, KEYSTATE, TWS_PANDAS, TWS_ROW, Contender, Workload, peer

OUTPUT = "key long, greatest long, mean double"


class Mean(AggregateFunction[int, Any, float]):
    def create_accumulator(self) -> Any:
        return 0, 0

    def add(self, value: int, accumulator: Any) -> Any:
        return accumulator[0] + 1, accumulator[1] + value

    def get_result(self, accumulator: Any) -> float:
        return float(accumulator[1] / accumulator[0])


class Statistics(KeyedProcessFunction):
    """Emits both for every hundredth value."""

    def open(self, ctx: Any) -> None:
        self.greatest = ctx.get_reducing_state(ReducingStateDescriptor("greatest", max, "long"))
        self.mean = ctx.get_aggregating_state(
            AggregatingStateDescriptor("mean", Mean(), "count long, total long")
        )

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.greatest.add(row.value)
        self.mean.add(row.value)
        if row.value % 100 == 0:
            yield row.key, self.greatest.get(), self.mean.get()


class PandasStatistics(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self.greatest = handle.getValueState("greatest", "value long")
        self.mean = handle.getValueState("mean", "count long, total long")

    def add(self, value: int) -> tuple[int, float]:
        current = self.greatest.get()
        greatest = value if current is None else max(current[0], value)
        self.greatest.update((greatest,))
        current = self.mean.get()
        count, total = (1, value) if current is None else (current[0] + 1, current[1] + value)
        self.mean.update((count, total))
        return int(greatest), float(total / count)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        values = [value for pdf in rows for value in pdf["value"].tolist()]
        results = [(value, *self.add(value)) for value in values]
        found = [(key[0], top, mean) for value, top, mean in results if value % 100 == 0]
        if found:
            yield pd.DataFrame(found, columns=["key", "greatest", "mean"])

    def close(self) -> None:
        pass


class RowStatistics(PandasStatistics):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        for row in rows:
            greatest, mean = self.add(row.value)
            if row.value % 100 == 0:
                yield Row(key=key[0], greatest=greatest, mean=mean)


def apply_statistics(key: Any, pdfs: Any, state: Any) -> Iterator[pd.DataFrame]:
    greatest, count, total = state.get if state.exists else (-1, 0, 0)
    found = []
    for pdf in pdfs:
        for value in pdf["value"].tolist():
            greatest, count, total = max(greatest, value), count + 1, total + value
            if value % 100 == 0:
                found.append((key[0], greatest, total / count))
    state.update((greatest, count, total))
    if found:
        yield pd.DataFrame(found, columns=["key", "greatest", "mean"])


def with_keystate(df: DataFrame) -> DataFrame:
    return keystate.keyed(df, "key").process(Statistics(), OUTPUT)


def with_pandas(df: DataFrame) -> DataFrame:
    return df.groupBy("key").transformWithStateInPandas(
        PandasStatistics(), OUTPUT, "Update", "None"
    )


def with_rows(df: DataFrame) -> DataFrame:
    return df.groupBy("key").transformWithState(RowStatistics(), OUTPUT, "Update", "None")


def with_apply(df: DataFrame) -> DataFrame:
    return df.groupBy("key").applyInPandasWithState(
        apply_statistics, OUTPUT, "greatest long, count long, total long", "update", "NoTimeout"
    )


def make(rows: int, keys: int) -> tuple[pa.Table, int]:
    random = np.random.default_rng(7)
    value = random.integers(0, 1000, rows)
    table = pa.table({"key": random.integers(0, keys, rows), "value": value})
    return table, int((value % 100 == 0).sum())


W5 = Workload(
    "W5",
    "reducing and aggregating state",
    1_000_000,
    100_000,
    make,
    {
        KEYSTATE: Contender(with_keystate),
        TWS_PANDAS: peer(with_pandas, 0.03),
        TWS_ROW: peer(with_rows, 0.03),
        APPLY: peer(with_apply, 0.1),
    },
)
