"""Initial state: what a query that begins with it knows, and what is wrong."""

from __future__ import annotations

import datetime
import json
import math
import random
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    DeclarationError,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    OutputTag,
    ValueStateDescriptor,
)
from keystate._jvm.session import FORMAT_KEY
from keystate.testing import KeyedProcessHarness, rows_of
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from tests.drawn import drawn
from tests.two_streams import TwoStreams

ROWS = "number long, key string, x long"
INITIAL = "total long, key string, xs array<long>, kinds map<string, long>"
OUTPUT = "number long, key string, state string"
BIG = OutputTag("big", "number long")


class Ledger(KeyedProcessFunction):
    """Emits what is in all states of the key after each row."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "long", default=0))
        self.xs = ctx.get_list_state(ListStateDescriptor("xs", "long"))
        self.kinds = ctx.get_map_state(MapStateDescriptor("kinds", "string", "long"))

    def process_initial_state(self, row: Any, ctx: Any) -> None:
        assert ctx.get_current_key() == row.key
        assert ctx.timestamp() is None
        self.total.update(self.total.value() + row.total)
        self.xs.add_all(row.xs)
        self.kinds.put_all(row.kinds)

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.total.update(self.total.value() + row.x)
        self.xs.add(row.x)
        kind = f"k{row.x % 3}"
        self.kinds[kind] = (self.kinds[kind] or 0) + 1
        state = [self.total.value(), list(self.xs), sorted(self.kinds.items())]
        yield row.number, row.key, json.dumps(state)
        if row.x > 90:
            yield BIG, row.number


def history(count: int) -> list[tuple[int, str | None, int]]:
    rng = random.Random(4)
    keys: list[str | None] = [*(f"key{i}" for i in range(40)), None]
    return [(number, rng.choice(keys), rng.randrange(100)) for number in range(count)]


def summed(df: Any) -> Any:
    """What the states are after some rows, computed by a batch query."""
    by_key = df.groupBy("key").agg(
        F.sum("x").alias("total"),
        F.transform(F.array_sort(F.collect_list(F.struct("number", "x"))), lambda e: e.x).alias(
            "xs"
        ),
        F.map_from_entries(
            F.filter(
                F.transform(
                    F.array(*map(F.lit, range(3))),
                    lambda k: F.struct(
                        F.concat(F.lit("k"), k),
                        F.size(F.filter(F.collect_list("x"), lambda x: x % 3 == k)).cast("long"),
                    ),
                ),
                lambda entry: entry.col2 > 0,
            )
        ).alias("kinds"),
    )
    return by_key.select("total", "key", "xs", "kinds")


@pytest.mark.parametrize(
    ("backend", "checkpoint_format"),
    drawn("half of history", product(["hashmap", "rocksdb"], ["1", "2"]), 2),
)
def test_half_of_history_as_initial_state(
    backend: str,
    checkpoint_format: str,
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
    tmp_path: Path,
) -> None:
    settings(**{"spark.keystate.backend": backend, FORMAT_KEY: checkpoint_format})
    rows = history(1200)
    whole = stream(ROWS)
    whole.feed(*(rows[i : i + 200] for i in range(0, 1200, 200)))
    expected = sorted(whole.run(lambda df: keystate.keyed(df, "key").process(Ledger(), OUTPUT)))

    read = tmp_path / "read"
    read.mkdir()

    def noted(frames: Any) -> Any:
        (read / str(random.random())).touch()
        yield from frames

    initial = summed(spark.createDataFrame(rows[:600], ROWS))
    initial = initial.coalesce(1).mapInArrow(noted, initial.schema)

    def build(df: Any) -> Any:
        return keystate.keyed(df, "key").process(Ledger(), OUTPUT, initial_state=initial)

    half = stream(ROWS)
    half.feed(rows[600:800], rows[800:1000])
    emitted = half.run(build)
    assert len(list(read.iterdir())) == 1
    # Neither a later micro-batch nor a restart with other partitions reads it again.
    settings(**{"spark.sql.shuffle.partitions": "5"})
    half.feed(rows[1000:1100])
    emitted += half.run(build)
    assert len(list(read.iterdir())) == 1
    # It may be left out.
    half.feed(rows[1100:])
    emitted += half.run(lambda df: keystate.keyed(df, "key").process(Ledger(), OUTPUT))
    assert sorted(emitted) == expected[600:]


def test_a_first_batch_that_fails(
    spark: Any, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """It is as if it had not been, also with other partitions and another initial state."""

    class Failing(Ledger):
        def process_element(self, row: Any, ctx: Any) -> Any:
            raise ValueError("mine")

    rows = history(300)
    half = stream(ROWS)
    half.feed(rows[200:])
    wrong = summed(spark.createDataFrame(rows, ROWS))
    with pytest.raises(StreamingQueryException, match="ValueError: mine"):
        half.run(
            lambda df: keystate.keyed(df, "key").process(Failing(), OUTPUT, initial_state=wrong)
        )
    settings(**{"spark.sql.shuffle.partitions": "3"})
    initial = summed(spark.createDataFrame(rows[:200], ROWS))
    emitted = half.run(
        lambda df: keystate.keyed(df, "key").process(Ledger(), OUTPUT, initial_state=initial)
    )
    batch = spark.createDataFrame(rows, ROWS)
    expected = keystate.keyed(batch, "key", order_by="number").process(Ledger(), OUTPUT).collect()
    assert sorted(emitted) == sorted(expected)[200:]


def test_a_batch_query_and_side_outputs(spark: Any) -> None:
    rows = history(300)
    initial = summed(spark.createDataFrame(rows[:200], ROWS))
    later = spark.createDataFrame(rows[200:], ROWS).repartition(3)
    keyed = keystate.keyed(later, "key", order_by="number")
    with_initial = keyed.process(Ledger(), OUTPUT, initial_state=initial)
    whole = keystate.keyed(spark.createDataFrame(rows, ROWS), "key", order_by="number")
    expected = sorted(whole.process(Ledger(), OUTPUT).collect())
    assert sorted(with_initial.collect()) == expected[200:]
    big = sorted(number for (number,) in with_initial.side_output(BIG).collect())
    assert big == [number for number, _, x in rows[200:] if x > 90] != []


class Alarm(KeyedProcessFunction):
    """Fires a timer for each row of the initial state; each row emits how many there were."""

    def open(self, ctx: Any) -> None:
        self.seen = ctx.get_list_state(ListStateDescriptor("seen", "long"))

    def process_initial_state(self, row: Any, ctx: Any) -> None:
        self.seen.add(row.at)
        ctx.timer_service().register_event_time_timer(row.at)

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.key, f"row {list(self.seen)}"

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), f"timer {timestamp}"


def test_timers_order_and_other_key_names(spark: Any, stream: Callable[..., Any]) -> None:
    fed = stream("key double, time timestamp")

    def at(seconds: int) -> datetime.datetime:
        return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)

    initial = spark.createDataFrame(
        [(9000, -0.0), (2000, 0.0), (3000, math.nan), (50_000, None), (1000, 0.0)],
        "at long, id double",
    ).repartition(3)
    fed.feed([(0.0, at(4)), (math.nan, at(1))], [(None, at(5))])
    emitted = fed.run(
        lambda df: keystate.keyed(df.withWatermark("time", "0 seconds"), "key").process(
            Alarm(),
            "key double, what string",
            initial_state=keystate.keyed(initial, "id", order_by="at"),
        )
    )
    assert sorted((str(key), what) for key, what in emitted) == [
        ("0.0", "row [1000, 2000, 9000]"),
        ("0.0", "timer 1000"),
        ("0.0", "timer 2000"),
        ("None", "row [50000]"),
        ("nan", "row [3000]"),
        ("nan", "timer 3000"),
    ]


def alarms(initial: DataFrame, **options: Any) -> DataFrame:
    df = rows_of("key string, time timestamp", event_time="time")
    keyed = keystate.keyed(df, "key")
    return keyed.process(Alarm(), "key string, what string", initial_state=initial, **options)


def test_the_harness() -> None:
    operator = alarms(rows_of("at long, key string", [(2000, "a"), (5000, "b")]))
    with KeyedProcessHarness.of(operator, parallelism=2) as first:
        # Its rows, whichever subtask has them, come before those of the first micro-batch.
        assert first.process(("b", None)) == [("b", "row [5000]")]
        assert first.state("a", "seen") == [2000]
        snapshot = first.snapshot()
    with KeyedProcessHarness.restore(snapshot, operator, parallelism=3) as second:
        assert second.process(("a", None)) == [("a", "row [2000]")]
        assert sorted(second.advance_watermark(6000)) == [("a", "timer 2000"), ("b", "timer 5000")]
    with KeyedProcessHarness.of(operator, parallelism=2) as third:
        assert third.advance_watermark(10) == []
        assert third.num_keys == 2
    with pytest.raises(DeclarationError, match="give restore\\(\\) such an operator"):
        KeyedProcessHarness.restore(snapshot, Alarm())


def test_the_harness_refuses_what_a_query_refuses() -> None:
    initial = rows_of("at long, key string", [(2000, "a")])
    with pytest.raises(DeclarationError, match="capacity, timeout, retry and ordered are for"):
        alarms(initial, capacity=5)
    with pytest.raises(DeclarationError, match="not a stream"):
        alarms(rows_of("at long, key string"))
    with pytest.raises(DeclarationError, match="those of the stream are <key:string>, of"):
        alarms(rows_of("at long, key long", []))
    with pytest.raises(DeclarationError, match="lacks the key column 'key'"):
        alarms(rows_of("at long", []))


def test_what_can_not_be_initial_state(spark: Any, stream: Callable[..., Any]) -> None:
    rows = spark.createDataFrame([(1, "a", 2)], ROWS)
    good = summed(rows)
    keyed = keystate.keyed(rows, "key")

    def refused(match: str, fn: Any = None, state: Any = good, of: Any = keyed) -> None:
        with pytest.raises(DeclarationError, match=match) as error:
            of.process(fn or Ledger(), OUTPUT, initial_state=state)
        assert error.value.code == "KEYSTATE_DECLARATION"

    class Yields(Ledger):
        def process_initial_state(self, row: Any, ctx: Any) -> Any:
            yield row

    class Lacks(KeyedProcessFunction):
        def process_element(self, row: Any, ctx: Any) -> Any:
            yield row

    refused("lacks the key column 'key', its columns are", state=good.withColumnRenamed("key", "k"))
    refused("the stream are <key:string>, of initial_state <key:bigint>",
            state=good.withColumn("key", F.lit(1).cast("long")))  # fmt: skip
    refused("a batch DataFrame, got 'rows'", state="rows")
    refused("a method process_initial_state, got", fn=Lacks())
    refused("a method process_initial_state, got", fn=lambda row, ctx: None)
    refused("Yields yields, but it emits nothing", fn=Yields())
    refused("the initial state has 2 columns named 'key'",
            state=good.withColumn("k2", F.lit("x")).withColumnsRenamed({"k2": "key"}))  # fmt: skip
    sources = TwoStreams(stream, ROWS, ROWS).sources()
    refused("not a stream: it is read once", state=sources[0])
    refused("not a stream: it is read once", state=sources[0], of=keystate.keyed(sources[1], "key"))


def test_errors_in_the_function_name_the_initial_state(
    spark: Any, stream: Callable[..., Any]
) -> None:
    class Raises(Ledger):
        def process_initial_state(self, row: Any, ctx: Any) -> Any:
            raise ValueError("mine")

    class Returns(Ledger):
        def process_initial_state(self, row: Any, ctx: Any) -> Any:
            return [row.key]

    rows = spark.createDataFrame([(1, "a", 2)], ROWS)
    for fn, match in (
        (Raises(), r"ValueError: mine[\s\S]*key 'a', row .* of the initial state"),
        (Returns(), r"process_initial_state emits nothing, but returned \['a'\]"),
    ):
        with pytest.raises(Exception, match=match):
            keystate.keyed(rows, "key").process(fn, OUTPUT, initial_state=summed(rows)).collect()
