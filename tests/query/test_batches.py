"""Functions of batches: columns in, columns out."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from typing import Any

import keystate
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from keystate import (
    DeclarationError,
    KeyedBatch,
    KeyedBatchFunction,
    ListStateDescriptor,
    OutputTag,
    ValueStateDescriptor,
)
from pyspark.errors import PythonException, StreamingQueryException
from pyspark.sql import types as T

MAX_CACHED_KEYS = "spark.keystate.worker.maxCachedKeys"
ROWS_PER_MESSAGE = "spark.sql.execution.arrow.maxRecordsPerBatch"


class Totals(KeyedBatchFunction):
    """Keeps for each key the number and the sum of its rows, and forgets both at a hundred."""

    def open(self, ctx: Any) -> None:
        self.sum = ctx.get_state(
            ValueStateDescriptor("sum", "count long, total double", default=(0, 0.0))
        )
        self.last = ctx.get_state(ValueStateDescriptor("last", "string"))

    def process_batch(self, batch: KeyedBatch, ctx: Any) -> Any:
        value = batch.rows["value"].to_numpy()
        index = batch.key_of_row.to_numpy()
        size = batch.keys.num_rows
        before = self.sum.value()
        count = before.field("count").to_numpy() + np.bincount(index, minlength=size)
        total = before.field("total").to_numpy() + np.bincount(index, value, minlength=size)
        last = self.last.value().to_pylist()
        for i, v in zip(index, value):
            last[i] = f"{last[i] or ''}{v:.0f} "[-10:]
        full = pa.array(count >= 100)
        sums = pa.StructArray.from_arrays(
            [pa.array(count), pa.array(total)],
            names=["count", "total"],
            mask=full,
        )
        self.sum.update(sums)
        self.last.update(pc.if_else(full, None, pa.array(last)))
        return {**dict(zip(batch.keys.schema.names, batch.keys)), "count": count, "total": total}


def totals(df: Any) -> Any:
    return keystate.keyed(df, "name").process_batches(
        Totals(), "name string, count long, total double"
    )


@pytest.mark.parametrize("cached, message", [("200000", "10000"), ("7", "13")])
def test_like_row_by_row(
    cached: str, message: str, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """Over messages, generations and restarts."""
    settings(**{MAX_CACHED_KEYS: cached, ROWS_PER_MESSAGE: message})
    rng = random.Random(1)
    fed = stream("name string, value double")
    model: dict[Any, tuple[int, float]] = {}
    for _ in range(3):
        batches = []
        final: dict[Any, tuple[int, float]] = {}
        for _ in range(3):
            names = [rng.choice([None, *"abcdefghijklmnop"]) for _ in range(100)]
            batches.append([(name, float(rng.randrange(100))) for name in names])
        fed.feed(*batches)
        emitted = fed.run(totals)
        for rows in batches:
            for name, value in rows:
                count, total = model.get(name, (0, 0.0))
                model[name] = final[name] = (count + 1, total + value)
        seen: dict[Any, list[tuple[int, float]]] = {}
        for row in emitted:
            seen.setdefault(row.name, []).append((row["count"], row.total))
        # No key reaches a hundred, so counts only grow, and the greatest is the last.
        assert {name: max(found) for name, found in seen.items()} == final


def test_clearing_and_reading_state(stream: Callable[..., Any], spark: Any) -> None:
    fed = stream("name string, value double")
    fed.feed([("a", 1.0)] * 60 + [("b", 2.0)], [("a", 1.0)] * 40)
    fed.run(totals)
    reader = spark.read.format("statestore").option("stateVarName", "sum")
    state = reader.load(str(fed.checkpoint)).select("key.name", "value.*").collect()
    assert [tuple(row) for row in state] == [("b", 1, 2.0)]
    fed.feed([("a", 5.0)])
    assert [tuple(row) for row in fed.run(totals)] == [("a", 1, 5.0)]


def test_a_batch_query_and_a_callable(spark: Any) -> None:
    df = spark.range(0, 1000, 1, 2).selectExpr("id % 10 AS key", "id")

    def doubled(batch: KeyedBatch, ctx: Any) -> Any:
        assert batch.keys["key"].take(batch.key_of_row).equals(batch.rows["key"])
        return pa.table({"id": pc.multiply(batch.rows["id"], 2), "more": batch.rows["key"]})

    out = keystate.keyed(df, "key").process_batches(doubled, "id long")
    assert sorted(row.id for row in out.collect()) == list(range(0, 2000, 2))


class Seen(KeyedBatchFunction):
    """Keeps each key's first time, in several types; as Arrow arrays or as Python values."""

    def __init__(self, as_list: bool) -> None:
        self.as_list = as_list

    def open(self, ctx: Any) -> None:
        zero = datetime(2000, 1, 1, tzinfo=timezone.utc)
        kinds = {"bare": "timestamp", "struct": "at timestamp, s string", "list": TIMES}
        defaults = {"bare": zero, "struct": (zero, "none"), "list": [zero]}
        self.states = {
            name: ctx.get_state(ValueStateDescriptor(name, kind, default=defaults[name]))
            for name, kind in kinds.items()
        }
        self.zero = zero

    def process_batch(self, batch: KeyedBatch, ctx: Any) -> Any:
        bare = self.states["bare"].value()
        at = batch.rows["at"]
        assert bare.type == at.type, "rows and state have one type"
        new = pc.equal(bare, pa.scalar(self.zero, bare.type))
        first = at.take(pa.array(index_of_first(batch)))
        assert self.states["struct"].value().field("at").equals(bare)
        if self.as_list:
            times = pc.if_else(new, first, bare).to_pylist()
            self.states["bare"].update(times)
            self.states["struct"].update([(time, "s") for time in times])
            self.states["list"].update([[time] for time in times])
        else:
            times = pc.if_else(new, first, bare)
            self.states["bare"].update(times)
            names = pa.array(["s"] * len(times))
            struct = pa.StructArray.from_arrays([times, names], names=["at", "s"])
            self.states["struct"].update(struct)
            self.states["list"].update(pa.ListArray.from_arrays(range(len(times) + 1), times))
        assert self.states["list"].value().flatten().equals(self.states["bare"].value())
        return {"key": batch.keys["key"], "at": self.states["bare"].value()}


TIMES = "array<timestamp>"


def index_of_first(batch: KeyedBatch) -> list[int]:
    return [batch.key_of_row.to_pylist().index(i) for i in range(batch.keys.num_rows)]


@pytest.mark.parametrize("as_list", [False, True], ids=["arrays", "lists"])
@pytest.mark.parametrize("large", ["false", "true"], ids=["", "large_types"])
def test_timestamps_in_state(
    as_list: bool, large: str, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """In each zone of the session, changed at a restart; with Spark's large Arrow types too."""
    settings(**{MAX_CACHED_KEYS: "2", "spark.sql.execution.arrow.useLargeVarTypes": large})
    fed = stream("key long, at timestamp")
    times = [
        datetime(2024, 3, 31, 1, 30, tzinfo=timezone.utc) + timedelta(hours=i) for i in range(9)
    ]
    for step, zone in enumerate(["Europe/Berlin", "UTC", "+05:30"]):
        settings(**{"spark.sql.session.timeZone": zone})
        fed.feed([(key, times[3 * step + key]) for key in (0, 1, 2)] * 2)
        emitted = fed.run(
            lambda df: keystate.keyed(df, "key").process_batches(
                Seen(as_list), "key long, at timestamp"
            )
        )
        found = {(row.key, row.at.astimezone(timezone.utc)) for row in emitted}
        assert found == {(key, times[key]) for key in (0, 1, 2)}


#: Values of a struct with a field too many, of which Arrow would say nothing.
UNKNOWN: dict[str, Any] = {
    "field": [{"a": 1, "total": 2}],
    "field within": [{"a": 1, "b": [{"d": 2}]}],
    "dict": pd.Series([{"a": 1, "total": 2}]),
}


class Wrong(KeyedBatchFunction):
    def __init__(self, what: str) -> None:
        self.what = what

    def open(self, ctx: Any) -> None:
        kind = ListStateDescriptor if self.what == "list" else ValueStateDescriptor
        get = ctx.get_list_state if self.what == "list" else ctx.get_state
        self.state = get(kind("s", "long"))
        self.pair = ctx.get_state(ValueStateDescriptor("pair", "a long, b array<struct<c: long>>"))
        whole = T.ArrayType(T.LongType(), containsNull=False)
        self.whole = ctx.get_state(ValueStateDescriptor("whole", whole))

    def process_batch(self, batch: KeyedBatch, ctx: Any) -> Any:
        if self.what == "type":
            self.state.update(pa.array(["x"] * batch.keys.num_rows))
        if self.what in UNKNOWN:
            values = UNKNOWN[self.what]
            self.pair.update(values if self.what == "dict" else pa.array(values))
        if self.what == "null":
            self.whole.update(pa.array([[1, None]]))
        if self.what == "key":
            ctx.get_current_key()
        if self.what == "field of a result":
            return {"key": [1], "pair": pa.array([{"a": 1, "c": 2}])}
        if self.what == "length":
            self.state.update([1, 2, 3])
        if self.what == "column":
            return {"other": [1]}
        if self.what == "result":
            return {"key": ["x"]}
        if self.what == "raise":
            raise ValueError("mine")
        return None


@pytest.mark.parametrize(
    "what, message",
    [
        ("type", r"KEYSTATE_STATE_TYPE\] state 's'"),
        ("length", r"KEYSTATE_STATE_TYPE\] state 's'.*each of the batch's 1 keys.*got 3"),
        ("field", r"KEYSTATE_STATE_TYPE\] state 'pair'.*no field 'total'"),
        ("field within", r"KEYSTATE_STATE_TYPE\] state 'pair'.*no field 'd'"),
        ("dict", r"KEYSTATE_STATE_TYPE\] state 'pair'.*no field 'total'"),
        ("null", r"KEYSTATE_STATE_TYPE\] state 'whole'.*null"),
        ("key", "StateAccessError.*batch.keys"),
        ("field of a result", "OutputTypeError.*no field 'c'"),
        ("column", r"DeclarationError.*KEYSTATE_RESULT_TYPE.*it has no columns 'key': \['other'\]"),
        ("result", "OutputTypeError.*key"),
        ("raise", r"KEYSTATE_FUNCTION_FAILED\] ValueError: mine"),
    ],
)
def test_misfits(spark: Any, what: str, message: str) -> None:
    df = spark.createDataFrame([(1,)], "key long")
    schema = "key long, pair struct<a: long>" if what == "field of a result" else "key long"
    out = keystate.keyed(df, "key").process_batches(Wrong(what), schema)
    with pytest.raises((PythonException, StreamingQueryException), match=f"(?s){message}"):
        out.collect()


def test_value_states_only(spark: Any) -> None:
    df = spark.createDataFrame([(1,)], "key long")
    with pytest.raises(DeclarationError, match="'s' is a list state"):
        keystate.keyed(df, "key").process_batches(Wrong("list"), "key long")


DEAD = OutputTag("dead", keystate.dead_letter_schema("k string, n long"))


def with_letters(spark: Any, fn: Any) -> tuple[list[Any], list[Any]]:
    df = spark.createDataFrame([("a", 1), ("b", 2), ("a", 3)], "k string, n long").coalesce(1)
    made = keystate.keyed(df, "k").process_batches(
        fn, "k string, v long", on_error=keystate.dead_letters(DEAD)
    )
    rows = made.with_side_outputs(DEAD).collect()
    emitted = sorted(tuple(row.main) for row in rows if row.main is not None)
    return emitted, sorted(tuple(row.dead.row) for row in rows if row.dead is not None)


class Yields(KeyedBatchFunction):
    """Yields tables, between which it changes its state and fills the same memory again."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def results(self, batch: KeyedBatch) -> Any:
        values = batch.rows["n"].to_numpy().copy()
        yield {"k": batch.rows["k"], "v": values}
        self.count.update([count + 1 for count in self.count.value().to_pylist()])
        values *= 10
        if (values == 20).any():
            raise ValueError("of the second row")
        yield pa.table({"k": batch.rows["k"], "v": values})
        yield pd.DataFrame({"k": batch.keys["k"], "v": self.count.value()})

    def process_batch(self, batch: KeyedBatch, ctx: Any) -> Any:
        return self.results(batch)


def test_what_is_yielded(spark: Any) -> None:
    emitted, letters = with_letters(spark, Yields())
    assert letters == [("b", 2)]
    halves = [("a", 1), ("a", 1), ("a", 10), ("a", 2), ("a", 3), ("a", 30)]
    assert emitted == sorted(halves)
    emitted, letters = with_letters(spark, lambda batch, ctx: [{"k": ["x"], "v": (7,)}] * 2)
    assert (emitted, letters) == ([("x", 7)] * 2, [])


@pytest.mark.parametrize(
    "result, message",
    [
        (3, "process_batch returns a table.*or yields them, got int 3"),
        ([("a", 1)], r"or yields them, got tuple \('a', 1\)"),
        ({"k": ["a"]}, "it has no columns 'v'"),
        ({"k": "a", "v": [1]}, "column 'k': a column is an array, a Series or a list.*got str 'a'"),
        ({"k": ["a"], "v": 1}, "column 'v': a column is an array.*got int 1"),
        ({"k": ["a"], "v": pa.array([[1]])}, "column 'v': .*cast"),
    ],
)
def test_what_is_wrong_whatever_the_rows_are_is_no_rows_error(
    spark: Any, result: Any, message: str
) -> None:
    with pytest.raises(PythonException, match=rf"(?s)KEYSTATE_RESULT_TYPE\].*{message}"):
        with_letters(spark, lambda batch, ctx: result)


def test_async_functions_are_refused(spark: Any) -> None:
    async def process(batch: KeyedBatch, ctx: Any) -> Any: ...

    with pytest.raises(DeclarationError, match="is async: only process"):
        keystate.keyed(spark.range(1), "id").process_batches(process, "id long")
