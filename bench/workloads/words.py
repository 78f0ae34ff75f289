"""W2: counts words in a map for each key, a `get` and a `put` a row."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import keystate
import numpy as np
import pandas as pd
import pyarrow as pa
from keystate import KeyedProcessFunction, MapStateDescriptor
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from bench.session import CORES
from bench.workloads import (
    APPLY,
    DICT,
    KEYSTATE,
    KEYSTATE_ROCKSDB,
    TWS_PANDAS,
    TWS_ROW,
    Contender,
    Workload,
    on_rocksdb,
    peer,
)

OUTPUT = "key long, word string, n long"
WORDS = 50


class WordCount(KeyedProcessFunction):
    """Emits a word when its count reaches a multiple of ten."""

    def open(self, ctx: Any) -> None:
        self.counts = ctx.get_map_state(MapStateDescriptor("counts", "string", "long"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        n = (self.counts.get(row.word) or 0) + 1
        self.counts.put(row.word, n)
        if n % 10 == 0:
            yield row.key, row.word, n


class PandasWordCount(StatefulProcessor):
    def init(self, handle: Any) -> None:
        self.counts = handle.getMapState("counts", "word string", "n long")

    def add(self, word: str) -> int:
        current = self.counts.getValue((word,))
        n = 1 if current is None else current[0] + 1
        self.counts.updateValue((word,), (n,))
        return int(n)

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        counted = [(word, self.add(word)) for pdf in rows for word in pdf["word"].tolist()]
        found = [(key[0], word, n) for word, n in counted if n % 10 == 0]
        if found:
            yield pd.DataFrame(found, columns=["key", "word", "n"])

    def close(self) -> None:
        pass


class RowWordCount(PandasWordCount):
    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        for row in rows:
            n = self.add(row.word)
            if n % 10 == 0:
                yield Row(key=key[0], word=row.word, n=n)


def apply_words(key: Any, pdfs: Any, state: Any) -> Iterator[pd.DataFrame]:
    """It has no maps: the counts are one string."""
    counts = json.loads(state.get[0]) if state.exists else {}
    found = []
    for pdf in pdfs:
        for word in pdf["word"].tolist():
            n = counts[word] = counts.get(word, 0) + 1
            if n % 10 == 0:
                found.append((key[0], word, n))
    state.update((json.dumps(counts),))
    if found:
        yield pd.DataFrame(found, columns=["key", "word", "n"])


def dict_words(batches: Any) -> Iterator[pa.RecordBatch]:
    state: dict[int, dict[str, int]] = {}
    for batch in batches:
        found = []
        rows = zip(batch.column("key").to_pylist(), batch.column("word").to_pylist())
        for key, word in rows:
            counts = state.setdefault(key, {})
            n = counts[word] = counts.get(word, 0) + 1
            if n % 10 == 0:
                found.append({"key": key, "word": word, "n": n})
        schema = pa.schema([("key", pa.int64()), ("word", pa.string()), ("n", pa.int64())])
        yield pa.RecordBatch.from_pylist(found, schema)


def with_keystate(df: DataFrame) -> DataFrame:
    return keystate.keyed(df, "key").process(WordCount(), OUTPUT)


def with_pandas(df: DataFrame) -> DataFrame:
    return df.groupBy("key").transformWithStateInPandas(PandasWordCount(), OUTPUT, "Update", "None")


def with_rows(df: DataFrame) -> DataFrame:
    return df.groupBy("key").transformWithState(RowWordCount(), OUTPUT, "Update", "None")


def with_apply(df: DataFrame) -> DataFrame:
    return df.groupBy("key").applyInPandasWithState(
        apply_words, OUTPUT, "counts string", "update", "NoTimeout"
    )


def with_dict(df: DataFrame) -> DataFrame:
    return df.repartition(CORES, "key").mapInArrow(dict_words, OUTPUT)


def make(rows: int, keys: int) -> tuple[pa.Table, int]:
    random = np.random.default_rng(7)
    key, word = random.integers(0, keys, rows), random.integers(0, WORDS, rows)
    vocabulary = pa.array([f"word-{i:04}" for i in range(WORDS)])
    table = pa.table({"key": key, "word": vocabulary.take(pa.array(word))})
    return table, int((np.bincount(key * WORDS + word) // 10).sum())


W2 = Workload(
    "W2",
    "map of words, get and put",
    500_000,
    1_000,
    make,
    {
        KEYSTATE: Contender(with_keystate),
        KEYSTATE_ROCKSDB: on_rocksdb(with_keystate),
        DICT: Contender(with_dict),
        TWS_PANDAS: peer(with_pandas, 0.1),
        TWS_ROW: peer(with_rows, 0.1),
        APPLY: peer(with_apply, 1.0),
    },
)
