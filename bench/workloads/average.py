"""W1, W3: the average of every two values of a key."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keystate
import numpy as np
import pandas as pd
import pyarrow as pa
from keystate import KeyedBatchFunction, KeyedProcessFunction, ValueStateDescriptor
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from bench.session import CORES
from bench.workloads import (
    APPLY,
    DICT,
    KEYSTATE,
    KEYSTATE_ROCKSDB,
    SHIP,
    TWS_PANDAS,
    TWS_ROW,
    Contender,
    Workload,
    on_rocksdb,
    peer,
)

OUTPUT = "key long, average double"
STATE = "count long, total long"


class CountWindowAverage(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.sum = ctx.get_state(ValueStateDescriptor("average", STATE, default=(0, 0)))

    def process_element(self, row: Any, ctx: Any) -> Any:
        count, total = self.sum.value()
        count += 1
        total += row.value
        if count >= 2:
            self.sum.clear()
            yield row.key, total / count
        else:
            self.sum.update((count, total))


class BatchCountWindowAverage(KeyedBatchFunction):
    """The same with NumPy: pairs up the values of each key, the kept one first."""

    def open(self, ctx: Any) -> None:
        self.sum = ctx.get_state(ValueStateDescriptor("average", STATE, default=(0, 0)))

    def process_batch(self, batch: Any, ctx: Any) -> Any:
        index, value = batch.key_of_row.to_numpy(), batch.rows["value"].to_numpy()
        before = self.sum.value()
        kept, total = before.field(0).to_numpy(), before.field(1).to_numpy()
        order = np.argsort(index, kind="stable")
        key, value = index[order], value[order]
        size = np.bincount(index, minlength=len(kept))
        start = np.cumsum(size) - size
        place = np.arange(len(key)) - start[key]
        previous = np.concatenate([value[:1], value[:-1]])
        first = place == 0
        previous[first] = total[key[first]]
        full = (kept[key] + place) % 2 == 1
        left = (kept + size) % 2
        last = value[start + size - 1]
        self.sum.update(
            pa.StructArray.from_arrays(
                [pa.array(left), pa.array(last)], ["count", "total"], mask=pa.array(left == 0)
            )
        )
        keys = batch.keys["key"].to_numpy()
        return {"key": keys[key[full]], "average": (value[full] + previous[full]) / 2}


class PandasAverage(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self.sum = handle.getValueState("average", STATE)

    def add(self, value: int) -> float | None:
        current = self.sum.get()
        count, total = current if current is not None else (0, 0)
        count += 1
        total += value
        if count >= 2:
            self.sum.clear()
            return float(total / count)
        self.sum.update((count, total))
        return None

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        results = [self.add(value) for pdf in rows for value in pdf["value"].tolist()]
        averages = [result for result in results if result is not None]
        if averages:
            yield pd.DataFrame({"key": [key[0]] * len(averages), "average": averages})

    def close(self) -> None:
        pass


class RowAverage(PandasAverage):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        for row in rows:
            average = self.add(row.value)
            if average is not None:
                yield Row(key=key[0], average=average)


def apply_average(key: Any, pdfs: Any, state: Any) -> Iterator[pd.DataFrame]:
    count, total = state.get if state.exists else (0, 0)
    averages = []
    for pdf in pdfs:
        for value in pdf["value"].tolist():
            count += 1
            total += value
            if count >= 2:
                averages.append(total / count)
                count = total = 0
    if count:
        state.update((count, total))
    elif state.exists:
        state.remove()
    if averages:
        yield pd.DataFrame({"key": [key[0]] * len(averages), "average": averages})


def dict_average(batches: Any) -> Iterator[pa.RecordBatch]:
    """A dictionary in the worker, lost with the query: what no state can beat."""
    state: dict[int, tuple[int, int]] = {}
    for batch in batches:
        keys, averages = [], []
        rows = zip(batch.column("key").to_pylist(), batch.column("value").to_pylist())
        for key, value in rows:
            count, total = state.get(key, (0, 0))
            count += 1
            total += value
            if count >= 2:
                del state[key]
                keys.append(key)
                averages.append(total / count)
            else:
                state[key] = (count, total)
        columns = [pa.array(keys, pa.int64()), pa.array(averages, pa.float64())]
        yield pa.RecordBatch.from_arrays(columns, ["key", "average"])


def ship(batches: Any) -> Any:
    return batches


def with_keystate(df: DataFrame) -> DataFrame:
    return keystate.keyed(df, "key").process(CountWindowAverage(), OUTPUT)


def with_batches(df: DataFrame) -> DataFrame:
    return keystate.keyed(df, "key").process_batches(BatchCountWindowAverage(), OUTPUT)


def with_pandas(df: DataFrame) -> DataFrame:
    return df.groupBy("key").transformWithStateInPandas(PandasAverage(), OUTPUT, "Update", "None")


def with_rows(df: DataFrame) -> DataFrame:
    return df.groupBy("key").transformWithState(RowAverage(), OUTPUT, "Update", "None")


def with_apply(df: DataFrame) -> DataFrame:
    return df.groupBy("key").applyInPandasWithState(
        apply_average, OUTPUT, STATE, "update", "NoTimeout"
    )


def with_dict(df: DataFrame) -> DataFrame:
    return df.repartition(CORES, "key").mapInArrow(dict_average, OUTPUT)


def with_shipping(df: DataFrame) -> DataFrame:
    return df.repartition(CORES, "key").mapInArrow(ship, df.schema)


def make(rows: int, keys: int) -> tuple[pa.Table, int]:
    random = np.random.default_rng(7)
    key = random.integers(0, keys, rows)
    table = pa.table({"key": key, "value": random.integers(0, 1000, rows)})
    return table, int((np.bincount(key) // 2).sum())


def _contenders(slow: float, apply: float) -> dict[str, Contender]:
    return {
        KEYSTATE: Contender(with_keystate),
        KEYSTATE_ROCKSDB: on_rocksdb(with_keystate),
        "keystate, process_batches": Contender(with_batches),
        DICT: Contender(with_dict),
        SHIP: Contender(with_shipping, checked=False),
        TWS_PANDAS: peer(with_pandas, slow),
        TWS_ROW: peer(with_rows, slow),
        APPLY: peer(with_apply, apply),
    }


W1 = Workload("W1", "average of every two values", 1_000_000, 100_000, make, _contenders(0.05, 0.1))
W3 = Workload("W3", "the same with few keys", 1_000_000, 1_000, make, _contenders(0.05, 1.0))
