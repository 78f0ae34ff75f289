"""The broadcast cases over the harness and over queries; and what only the harness does."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import keystate
import pytest
from keystate import (
    BroadcastProcessFunction,
    CheckpointError,
    DeclarationError,
    FunctionError,
    KeyedBroadcastProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    StateTypeError,
    ValueStateDescriptor,
)
from keystate.testing import KeyedProcessHarness, rows_of

from tests.contract import broadcast_cases
from tests.contract.broadcast_cases import BATCHES, ELEMENT, OUTPUT, PAIRS, ROW, RULES, Keyed, Plain
from tests.contract.test_ttl import T0
from tests.timed import run_at


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


class Living(KeyedBroadcastProcessFunction):
    """An element changes a state of all keys that have it; each state lives for a second."""

    def __init__(self, returned: bool) -> None:
        ttl = StateTtlConfig.new_builder(timedelta(seconds=1)).disable_cleanup_in_background()
        if returned:
            ttl.return_expired_if_not_cleaned_up()
        self.value = ValueStateDescriptor("value", "long")
        self.seen = ListStateDescriptor("seen", "long")
        self.by_x = MapStateDescriptor("by_x", "long", "long")
        for declared in (self.value, self.seen, self.by_x):
            declared.enable_time_to_live(ttl.build())

    def open(self, ctx: Any) -> None:
        self.of_key = ctx.get_state(self.value)
        self.seen_of_key = ctx.get_list_state(self.seen)
        self.by_x_of_key = ctx.get_map_state(self.by_x)

    def process_broadcast_element(self, element: Any, ctx: Any) -> Any:
        visited: list[str] = []

        def add(key: str, state: Any) -> None:
            visited.append(f"{key} {state.value()}")
            state.update(state.value() + 1)

        ctx.apply_to_keyed_state(self.value, add)
        for descriptor in (self.seen, self.by_x):
            ctx.apply_to_keyed_state(
                descriptor, lambda key, state, name=descriptor.name: visited.append(f"{name} {key}")
            )
        yield (", ".join(sorted(visited)),)

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.of_key.update(row.x)
        self.seen_of_key.add(row.x)
        self.by_x_of_key[row.x] = row.x
        yield from ()


def living(rows: Any, elements: Any, returned: bool) -> Any:
    connected = keystate.keyed(rows, "key").connect(keystate.broadcast(elements, RULES))
    return connected.process(Living(returned), "visited string")


#: Times in ms, with rows, or with what an element visits.
LIVING: list[tuple[int, Any]] = [
    (0, [("a", 1), ("b", 1), ("c", 1)]),
    (600, "a 1, b 1, by_x a, by_x b, by_x c, c 1, seen a, seen b, seen c"),
    (600, [("b", 2)]),
    # The values were written again; of b also the newest element and entry live.
    (1100, "a 2, b 2, by_x b, c 2, seen b"),
    (1599, "a 3, b 3, by_x b, c 3, seen b"),
    (1600, "a 4, b 4, c 4"),
    (1600, [("a", 9)]),
    (2599, "a 9, b 5, by_x a, c 5, seen a"),
    (3599, ""),
]
VISITED = [what for _, what in LIVING if isinstance(what, str)]


@pytest.mark.parametrize("returned", [False, True])
def test_what_has_expired_is_not_visited(returned: bool) -> None:
    rows, elements = rows_of("key string, x long"), rows_of("key string, x long")
    emitted = []
    with KeyedProcessHarness.of(living(rows, elements, returned)) as harness:
        for time, what in LIVING:
            given = ([], [(None, 0)]) if isinstance(what, str) else (what, [])
            emitted += harness.process_batch(
                given[0], broadcast=given[1], processing_time=T0 + time
            )
    assert emitted == [(visited,) for visited in VISITED]


@pytest.mark.parametrize(("returned", "backend"), [(False, "hashmap"), (True, "rocksdb")])
def test_what_has_expired_is_not_visited_in_a_query(
    returned: bool,
    backend: str,
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    settings(**{"spark.keystate.backend": backend, "spark.sql.shuffle.partitions": "1"})

    def build(df: Any) -> Any:
        return living(df.where("key is not null"), df.where("key is null"), returned)

    batches = [(T0 + time, [(None, 0)] if isinstance(what, str) else what) for time, what in LIVING]
    emitted = run_at(stream("key string, x long"), build, batches)
    assert [row.visited for row in emitted] == VISITED


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
