"""Event time in batch DataFrames: functions by event time run as a backfill."""

from __future__ import annotations

import datetime
import random
from dataclasses import dataclass
from typing import Any

import keystate
import pytest
from keystate import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    StateTtlConfig,
    Time,
    ValueStateDescriptor,
)
from keystate.errors import DeclarationError
from pyspark.sql import DataFrame, SparkSession

from tests.contract import test_guides as guides

SCHEMA = "key string, at timestamp, other timestamp"
FIRST = datetime.datetime(2026, 1, 1, 10)
SECOND = datetime.datetime(2026, 1, 1, 15)


class Times(KeyedProcessFunction):
    """Emits what it is told of time."""

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.key, ctx.timestamp()

    def on_timer(self, timestamp: int, ctx: Any) -> Any: ...

    def process_initial_state(self, row: Any, ctx: Any) -> None:
        assert ctx.timestamp() is None


def rows(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([("a", FIRST, SECOND), ("b", None, SECOND)], SCHEMA).coalesce(1)


def ms(time: datetime.datetime) -> int:
    return int(time.timestamp() * 1000)


def test_a_batch_has_the_event_times_of_the_column_that_is_told(spark: SparkSession) -> None:
    keyed = keystate.keyed(rows(spark), "key")

    def times(df: DataFrame) -> dict[str, int | None]:
        return dict(tuple(row) for row in df.collect())

    output = "key string, time long"
    assert times(keyed.process(Times(), output)) == {"a": None, "b": None}
    told = {"a": ms(FIRST), "b": None}
    assert times(keyed.process(Times(), output, event_time="at")) == told
    other = dict.fromkeys("ab", ms(SECOND))
    assert times(keyed.process(Times(), output, event_time="other")) == other
    state = spark.createDataFrame([("a", 1)], "key string, n int")
    filled = keyed.process(Times(), output, event_time="at", initial_state=state)
    assert times(filled) == told


@dataclass
class Typed:
    other: datetime.datetime
    key: str


def test_a_stream_drops_what_a_batch_counts_of_1970(spark: SparkSession, stream: Any) -> None:
    """As docs/concepts/time.md says: Spark's first watermark is 0."""
    first = datetime.datetime.fromtimestamp(0)
    millisecond = datetime.timedelta(milliseconds=1)
    given = [("a", first - millisecond), ("b", first), ("c", first + millisecond)]
    fed = stream("key string, at timestamp")
    fed.feed(given)

    def build(df: DataFrame) -> DataFrame:
        delayed = df.withWatermark("at", "1 hour")
        return keystate.keyed(delayed, "key").process(Times(), "key string, time long")

    assert [row.key for row in fed.run(build)] == ["c"]
    assert {row.key for row in build(spark.createDataFrame(given, fed._schema)).collect()} == {
        "a", "b", "c"
    }  # fmt: skip


def test_rows_of_a_dataclass_have_event_times(spark: SparkSession) -> None:
    typed = keystate.keyed(rows(spark), "key", row_type=Typed)
    found = typed.process(Times(), "key string, time long", event_time="other").collect()
    assert sorted(tuple(row) for row in found) == [("a", ms(SECOND)), ("b", ms(SECOND))]


class CoTimes(KeyedCoProcessFunction):
    def process_element1(self, row: Any, ctx: Any) -> Any:
        yield 1, row.key, ctx.timestamp()

    def process_element2(self, row: Any, ctx: Any) -> Any:
        yield 2, row.key, ctx.timestamp()


@pytest.mark.parametrize(
    ("told", "first", "second"),
    [
        (None, None, None),
        ("at", FIRST, FIRST),
        (("at", "other"), FIRST, SECOND),
        ((None, "at"), None, FIRST),
    ],
)
def test_two_batches_have_the_event_times_of_their_columns(
    told: Any, first: Any, second: Any, spark: SparkSession
) -> None:
    one, two = (keystate.keyed(rows(spark).filter("key = 'a'"), "key") for _ in range(2))
    output = "input int, key string, time long"
    found = one.connect(two).process(CoTimes(), output, event_time=told).collect()
    expected = [(i, "a", time and ms(time)) for i, time in ((1, first), (2, second))]
    assert sorted(tuple(row) for row in found) == expected


class BroadcastTimes(KeyedBroadcastProcessFunction):
    def process_broadcast_element(self, row: Any, ctx: Any) -> None: ...

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.key, ctx.timestamp()


def test_beside_broadcast_elements_too(spark: SparkSession) -> None:
    rules = spark.createDataFrame([("x",)], "rule string")
    state: MapStateDescriptor[str, str] = MapStateDescriptor("rules", "string", "string")
    connected = keystate.keyed(rows(spark), "key").connect(keystate.broadcast(rules, state))
    found = connected.process(BroadcastTimes(), "key string, time long", event_time="at").collect()
    assert sorted(tuple(row) for row in found) == [("a", ms(FIRST)), ("b", None)]


def test_what_is_told_has_to_fit(spark: SparkSession) -> None:
    keyed = keystate.keyed(rows(spark), "key")
    with pytest.raises(DeclarationError, match="'no' is not in the input"):
        keyed.process(Times(), "key string, time long", event_time="no")
    with pytest.raises(DeclarationError, match="'key' is not a timestamp"):
        keyed.process(Times(), "key string, time long", event_time="key")
    stream = spark.readStream.format("rate").load().withWatermark("timestamp", "1 minute")
    with pytest.raises(DeclarationError, match="'value' is not a timestamp"):
        keystate.keyed(stream, "value").process(Times(), "time long", event_time="value")
    unmarked = spark.readStream.format("rate").load()
    with pytest.raises(DeclarationError, match="withWatermark") as raised:
        keystate.keyed(unmarked, "value").process(Times(), "time long", event_time="timestamp")
    assert raised.value.code == "KEYSTATE_NO_WATERMARK"
    with pytest.raises(DeclarationError, match="a pair of the first input's"):
        keyed.connect(keyed).process(CoTimes(), "n int", event_time=("at", "at", "at"))


class Remembered(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        seen: ValueStateDescriptor[int] = ValueStateDescriptor("seen", "long", default=0)
        ttl = StateTtlConfig.new_builder(Time.minutes(1)).use_event_time().build()
        seen.enable_time_to_live(ttl)
        self.seen = ctx.get_state(seen)

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.seen.update(self.seen.value() + 1)
        yield self.seen.value(), ctx.timestamp()


def test_nothing_expires_in_a_batch(spark: SparkSession) -> None:
    twice = spark.createDataFrame([("a", FIRST), ("a", SECOND)], "key string, at timestamp")
    keyed = keystate.keyed(twice, "key", order_by="at")
    found = keyed.process(Remembered(), "n long, time long", event_time="at").collect()
    assert [tuple(row) for row in found] == [(1, ms(FIRST)), (2, ms(SECOND))]


def test_guides_run_as_a_backfill(spark: SparkSession) -> None:
    """What they emit of a batch is what plain Python does."""
    for name, function, schema, output in (
        (
            "sessions",
            guides.names_of("docs/guides/sessions.md")["Sessions"](),
            "user string, time timestamp, action string",
            "user string, clicks int, seconds long",
        ),
        (
            "deduplication",
            guides.names_of("docs/guides/deduplication.md")["FirstInAnHour"](),
            "user string, time timestamp",
            "user string, time timestamp",
        ),
    ):
        page = guides.PAGES[name]
        made = guides.made_rows(page, random.Random(name))
        df = spark.createDataFrame([page.row(*row) for row in made], schema).repartition(3)
        found = keystate.keyed(df, "user", order_by="time").process(
            function, output, event_time="time"
        )
        expected = guides.sorted_rows(page.expected([made]))
        assert guides.sorted_rows(tuple(row) for row in found.collect()) == expected


def test_the_example_of_two_inputs_runs_as_a_backfill(spark: SparkSession) -> None:
    page = guides.PAGES["examples/enrichment"]
    made = guides.made_rows(page, random.Random(5))
    orders, payments = (
        spark.createDataFrame(
            [
                (id, guides.time_of(time), "tea" if paid is False else "7")
                for id, time, paid in made
                if paid is of
            ],
            schema,
        )
        for of, schema in (
            (False, "order string, time timestamp, item string"),
            (True, "id string, time timestamp, amount string"),
        )
    )
    joined = (
        keystate.keyed(orders, "order")
        .connect(
            keystate.keyed(
                payments.selectExpr("id", "time", "CAST(amount AS BIGINT) AS amount"), "id"
            )
        )
        .process(
            guides.names_of("examples/enrichment.py")["JoinOrders"](),
            "order string, what string",
            event_time="time",
        )
    )
    expected = guides.sorted_rows(page.expected([made]))
    assert guides.sorted_rows(tuple(row) for row in joined.collect()) == expected
