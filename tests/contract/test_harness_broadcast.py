"""The broadcast cases over the harness and over queries; and what only the harness does."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import keystate
import pytest
from keystate import (
    BroadcastProcessFunction,
    CheckpointError,
    DeclarationError,
    FunctionError,
    KeyedBroadcastProcessFunction,
    MapStateDescriptor,
    StateTypeError,
    ValueStateDescriptor,
)
from keystate.testing import KeyedProcessHarness, rows_of

from tests.contract import broadcast_cases
from tests.contract.broadcast_cases import BATCHES, ELEMENT, OUTPUT, PAIRS, ROW, RULES, Keyed, Plain


def function(keyed: bool) -> Any:
    return Keyed() if keyed else Plain()


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("parallelism", [1, 4])
def test_harness(parallelism: int, keyed: bool) -> None:
    def connected() -> Any:
        df = rows_of(ROW)
        stream: Any = keystate.keyed(df, "key") if keyed else keystate.stream(df)
        elements = keystate.broadcast(rows_of(ELEMENT), RULES, PAIRS)
        return stream.connect(elements).process(function(keyed), OUTPUT)

    harness = KeyedProcessHarness.of(connected(), parallelism=parallelism)
    for i in range(len(BATCHES)):
        emitted = harness.process_batch(
            broadcast_cases.rows(i, keyed), broadcast=broadcast_cases.elements(i)
        )
        assert sorted(emitted) == broadcast_cases.expected(i, keyed, parallelism)
        # As a restart does, with more subtasks or fewer.
        parallelism = parallelism % 5 + 1
        snapshot = pickle.loads(pickle.dumps(harness.snapshot()))
        harness.close()
        harness = KeyedProcessHarness.restore(snapshot, connected(), parallelism=parallelism)
    copies = [harness.broadcast_state("rules", i) for i in range(parallelism)]
    assert copies == [{"w": 4}] * parallelism
    assert harness.broadcast_state("pairs") == {}


@pytest.mark.parametrize(
    ("keyed", "backend"), [(True, "hashmap"), (True, "rocksdb"), (False, "hashmap")]
)
def test_query(
    spark: Any,
    keyed: bool,
    backend: str,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    settings(**{"spark.keystate.backend": backend, "spark.sql.shuffle.partitions": "3"})
    fed, side = stream(ROW), stream(ELEMENT)
    for i in range(len(BATCHES)):
        fed.feed(broadcast_cases.rows(i, keyed))
        side.feed(broadcast_cases.elements(i))
    elements = (
        spark.readStream.schema(side._schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(side._input))
    )

    def build(df: Any) -> Any:
        rows = keystate.keyed(df, "key") if keyed else keystate.stream(df)
        connected = rows.connect(keystate.broadcast(elements, RULES, PAIRS))
        return connected.process(function(keyed), OUTPUT)

    emitted = sorted(map(tuple, fed.run(build)))
    batches = [broadcast_cases.expected(i, keyed, 3) for i in range(len(BATCHES))]
    assert emitted == sorted(row for batch in batches for row in batch)


PRICES = MapStateDescriptor("prices", "string", "long")
OWED = ValueStateDescriptor("owed", "long", default=0)


class Shop(KeyedBroadcastProcessFunction):
    """Sums what a customer owes; tells it a minute later, by the price of an hour then."""

    def open(self, ctx: Any) -> None:
        self.owed = ctx.get_state(OWED)

    def process_broadcast_element(self, price: Any, ctx: Any) -> None:
        if price.price is None:
            ctx.apply_to_keyed_state(OWED, lambda customer, owed: owed.clear())
        ctx.get_broadcast_state(PRICES)[price.item] = price.price

    def process_element(self, sale: Any, ctx: Any) -> None:
        if sale.item == "none":
            raise ValueError("no such item")
        self.owed.update(self.owed.value() + ctx.get_broadcast_state(PRICES)[sale.item])
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 60_000)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        hour = ctx.get_broadcast_state(PRICES)["hour"]
        yield ctx.get_current_key(), self.owed.value() + hour


def shop(states: MapStateDescriptor[Any, Any] = PRICES) -> Any:
    sales = rows_of("customer string, item string, time timestamp", event_time="time")
    prices = keystate.broadcast(rows_of("item string, price long"), states)
    stream = keystate.keyed(sales, "customer").connect(prices)
    return stream.process(Shop(), "customer string, owed long")


def test_timers_and_failures() -> None:
    with KeyedProcessHarness.of(shop(), parallelism=2) as harness:
        harness.process_broadcast(("tea", 3))
        harness.process_broadcast(("hour", 10))
        for customer in "abcd":
            harness.process((customer, "tea", None), timestamp=1_000)
        before = harness.snapshot()
        # All subtasks forget what was owed, and have another price, until one of them fails.
        with pytest.raises(FunctionError, match="no such item"):
            harness.process_batch([("a", "none", None)], broadcast=[("tea", None)])
        assert [harness.broadcast_state("prices", i) for i in (0, 1)] == [
            {"tea": 3, "hour": 10},
            {"tea": 3, "hour": 10},
        ]
        assert [harness.state(customer, "owed") for customer in "abcd"] == [3] * 4
        assert {harness.subtask_of(customer) for customer in "abcd"} == {0, 1}
        assert sorted(harness.advance_watermark(61_000)) == [(c, 13) for c in "abcd"]
    with KeyedProcessHarness.restore(before, shop(), parallelism=3) as harness:
        harness.process_batch([], broadcast=[("hour", 20), ("tea", None)])
        assert sorted(harness.advance_watermark(61_000)) == [(c, 20) for c in "abcd"]


def test_the_type_of_a_broadcast_state_changes() -> None:
    with KeyedProcessHarness.of(shop()) as harness:
        harness.process_broadcast(("tea", 3))
        snapshot = harness.snapshot()
    narrower = MapStateDescriptor("prices", "string", "int")
    with pytest.raises(CheckpointError, match=r"'prices' has another value type.*bigint, not int"):
        KeyedProcessHarness.restore(snapshot, shop(narrower))
    # A state that is not declared is kept.
    others = MapStateDescriptor("others", "long", "long")
    with KeyedProcessHarness.restore(snapshot, shop(others)) as harness:
        with pytest.raises(DeclarationError, match="no broadcast state 'prices'"):
            harness.broadcast_state("prices")
        snapshot = harness.snapshot()
    with KeyedProcessHarness.restore(snapshot, shop()) as harness:
        assert harness.broadcast_state("prices") == {"tea": 3}


class Tags(BroadcastProcessFunction):
    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(RULES)[value.key] = value.key

    def process_element(self, value: Any, ctx: Any) -> None:
        pass


def test_mistakes() -> None:
    def tags(keyed: bool, *states: MapStateDescriptor[Any, Any]) -> Any:
        df = rows_of("x long")
        stream: Any = keystate.keyed(df, "x") if keyed else keystate.stream(df)
        return stream.connect(keystate.broadcast(rows_of("key long"), *states))

    with pytest.raises(DeclarationError, match="expected a KeyedBroadcastProcessFunction"):
        tags(True, RULES).process(Tags(), "x long")
    with pytest.raises(DeclarationError, match="at least one MapStateDescriptor"):
        tags(False)
    with pytest.raises(DeclarationError, match="expected a ProcessFunction"):
        KeyedProcessHarness(Tags(), "x long", (), "x long")
    harness = KeyedProcessHarness.of(tags(False, RULES).process(Tags(), "x long"))
    with pytest.raises(TypeError, match="does not fit the broadcast schema"):
        harness.process_broadcast("text")
    with pytest.raises(StateTypeError, match="broadcast state 'rules'"):
        harness.process_broadcast(1)
    plain = KeyedProcessHarness(lambda row, ctx: None, "x long", "x", "x long")
    with pytest.raises(DeclarationError, match=r"connect the stream to keystate\.broadcast"):
        plain.process_broadcast(1)
