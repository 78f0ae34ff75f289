"""A query that changes its language at a restart."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import keystate
import pytest
from keystate import (
    AggregatingStateDescriptor,
    CheckpointedFunction,
    FoldingStateDescriptor,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ProcessFunction,
    ReducingStateDescriptor,
    SortedMapStateDescriptor,
    Time,
    ValueStateDescriptor,
)
from keystate.functions import AggregateFunction
from keystate.windows import EventTimeSessionWindows, TumblingEventTimeWindows, WindowFunction
from pyspark.errors import StreamingQueryException
from pyspark.sql import Row

from tests.contract import behaviour_cases
from tests.contract.test_ttl import ROWS, check, interpret, table
from tests.contract.type_cases import CASES, as_key, same
from tests.contract.window_cases import Sum
from tests.timed import run_at

Query = Callable[..., Callable[[Any], Any]]


class EveryType(KeyedProcessFunction):
    """Fills states of every kind and type; checks what the function in Scala made of them."""

    def open(self, ctx: Any) -> None:
        self.values, self.lists, self.maps, self.sorted = {}, {}, {}, {}
        for name, case in CASES.items():
            self.values[name] = ctx.get_state(ValueStateDescriptor(f"v_{name}", case.ddl))
            self.lists[name] = ctx.get_list_state(ListStateDescriptor(f"l_{name}", case.ddl))
            self.maps[name] = ctx.get_map_state(MapStateDescriptor(f"m_{name}", "string", case.ddl))
            if case.is_key:
                self.sorted[name] = ctx.get_sorted_map_state(
                    SortedMapStateDescriptor(f"k_{name}", case.ddl, "long")
                )

    def process_element(self, row: Any, ctx: Any) -> Any:
        for name, case in CASES.items():
            if row.step == "fill":
                self.values[name].update(case.values[0])
                self.lists[name].add_all(case.values)
                self.maps[name].put("py", case.values[-1])
                if case.is_key:
                    for i, value in enumerate(case.values):
                        self.sorted[name].put(as_key(value), i)
            else:
                found = [
                    self.values[name].value(),
                    list(self.lists[name].get()),
                    dict(self.maps[name].items()),
                ]
                last = case.values[-1]
                expected = [last, [*case.values, case.values[0]], {"py": last, "scala": last}]
                if case.is_key:
                    found.append(sorted(n for _, n in self.sorted[name].items()))
                    found.append([self.sorted[name].get(as_key(v)) for v in case.values])
                    numbers = [100 + i for i in range(len(case.values))]
                    expected += [numbers, numbers]
                if not same(found, expected):
                    yield f"{name}: {found} is not {expected}"


@pytest.mark.turns
def test_every_state_of_every_type(
    stream: Callable[..., Any], scala: Query, settings: Callable[..., None]
) -> None:
    """Python fills, Scala copies with another number of partitions, Python compares."""
    settings(**{"spark.sql.timeType.enabled": "true"})
    fed = stream("key long, step string")

    def build(df: Any) -> Any:
        return keystate.keyed(df, "key").process(EveryType(), "problem string")

    fed.feed([(key, "fill") for key in range(10)])
    assert fed.run(build) == []
    settings(**{"spark.sql.shuffle.partitions": "3"})
    fed.feed([(key, "copy") for key in range(10)])
    types = [part for name, c in CASES.items() for part in (name, c.ddl, str(c.is_key))]
    assert sorted(row.key for row in fed.run(scala("copies", *types))) == list(range(10))
    fed.feed([(key, "check") for key in range(10)])
    assert fed.run(build) == []


class Fills(ProcessFunction, CheckpointedFunction):
    """Fills operator lists of every type at first; emits what it was restored with."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.restored = context.is_restored()
        self.lists = {
            name: store.get_list_state(ListStateDescriptor(name, case.ddl))
            for name, case in CASES.items()
        }
        self.counts = store.get_union_list_state(ListStateDescriptor("counts", "long"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        for name, case in CASES.items():
            found = list(self.lists[name].get())
            times = [sum(same(value, other) for other in found) for value in case.values]
            if len(found) != 2 * len(case.values) or min(times) < 2:
                yield f"{name}: {found} is not twice {case.values}"
        yield f"counts {list(self.counts.get())}"

    def snapshot_state(self, context: Any) -> None:
        if not self.restored:
            for name, case in CASES.items():
                self.lists[name].update(case.values)
            self.counts.add(1)


def test_operator_state_of_every_type(
    stream: Callable[..., Any], scala: Query, settings: Callable[..., None]
) -> None:
    """Two subtasks in Python, three in Scala, and one in Python, which must have it all."""
    settings(**{"spark.sql.timeType.enabled": "true"})
    fed = stream("x long")

    def build(df: Any) -> Any:
        return keystate.stream(df).process(Fills(), "text string")

    fed.feed([])
    assert fed.run(build) == []
    settings(**{"spark.sql.shuffle.partitions": "3"})
    fed.feed([(1,)])
    types = [part for name, case in CASES.items() for part in (name, case.ddl)]
    assert [row.seen for row in fed.run(scala("keeps", *types))] == [2]
    settings(**{"spark.sql.shuffle.partitions": "1"})
    fed.feed([(1,)])
    assert [row.text for row in fed.run(build)] == ["counts [2, 2, 2]"]


RATES = MapStateDescriptor("rates", "string", "rate double, by string")


class Convert(KeyedBroadcastProcessFunction):
    """Sums amounts by the rates of the day, and tells who wrote a rate."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "double", default=0.0))

    def process_broadcast_element(self, row: Any, ctx: Any) -> None:
        rates = ctx.get_broadcast_state(RATES)
        if row.amount is None:
            rates.remove(row.currency)
        else:
            rates[row.currency] = (row.amount, "python")

    def process_element(self, row: Any, ctx: Any) -> Any:
        rate = ctx.get_broadcast_state(RATES)[row.currency]
        self.total.update(self.total.value() + row.amount * (rate.rate if rate else 0))
        yield row.customer, self.total.value(), rate and rate.by


def test_broadcast_state_in_turns(
    stream: Callable[..., Any], scala: Query, settings: Callable[..., None]
) -> None:
    """Each language goes on with what the other one made of the broadcast rows, over rescales."""
    settings(**{"spark.keystate.broadcast.check": "true"})
    fed = stream("customer string, amount double, currency string")

    def in_python(df: Any) -> Any:
        rates = df.where("customer is null").select("currency", "amount")
        return (
            keystate.keyed(df.where("customer is not null"), "customer")
            .connect(keystate.broadcast(rates, RATES))
            .process(Convert(), "customer string, total double, by string")
        )

    turns = [
        (in_python, 1, [(None, 2.0, "EUR"), (None, 3.0, "USD"), ("a", 1.0, "EUR")]),
        (scala("convert"), 3, [("a", 1.0, "EUR"), ("b", 1.0, "USD")]),
        (scala("convert"), 2, [(None, 5.0, "CHF"), (None, None, "USD"), ("b", 1.0, "USD")]),
        (in_python, 4, [("a", 1.0, "CHF"), ("b", 1.0, "EUR"), ("c", 1.0, "USD")]),
    ]
    emitted = []
    for build, partitions, rows in turns:
        settings(**{"spark.sql.shuffle.partitions": str(partitions)})
        fed.feed(rows)
        emitted.append(sorted(map(tuple, fed.run(build))))
    assert emitted == [
        [("a", 2.0, "python")],
        [("a", 4.0, "python"), ("b", 3.0, "python")],
        [("b", 3.0, None)],
        [("a", 9.0, "scala"), ("b", 5.0, "python"), ("c", 0.0, None)],
    ]


class MeanOf(AggregateFunction):
    def create_accumulator(self) -> Any:
        return (0, 0)

    def add(self, value: int, accumulator: Any) -> Any:
        return (accumulator[0] + 1, accumulator[1] + value)

    def get_result(self, accumulator: Any) -> float:
        return accumulator[1] / accumulator[0]

    def merge(self, acc_a: Any, acc_b: Any) -> Any:
        return (acc_a[0] + acc_b[0], acc_a[1] + acc_b[1])


class Silence(KeyedProcessFunction):
    """Emits what a key amounts to when it was silent for ten seconds."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_reducing_state(
            ReducingStateDescriptor("total", lambda a, b: a + b, "long")
        )
        self.mean = ctx.get_aggregating_state(
            AggregatingStateDescriptor("mean", MeanOf(), "count long, total long")
        )
        with pytest.warns(DeprecationWarning):
            text = FoldingStateDescriptor("text", ">", lambda text, n: f"{text}{n}", "string")
        self.text = ctx.get_folding_state(text)
        self.last = ctx.get_state(ValueStateDescriptor("last", "long"))

    def process_element(self, row: Any, ctx: Any) -> None:
        if self.last.value() is not None:
            ctx.timer_service().delete_event_time_timer(self.last.value() + 10000)
        self.total.add(row.value)
        self.mean.add(row.value)
        self.text.add(row.value)
        self.last.update(ctx.timestamp())
        ctx.timer_service().register_event_time_timer(ctx.timestamp() + 10000)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), self.total.get(), self.mean.get(), self.text.get(), timestamp
        for state in (self.total, self.mean, self.text, self.last):
            state.clear()


@pytest.mark.parametrize("first", ["scala", "python"])
def test_timers_and_aggregates(stream: Callable[..., Any], scala: Query, first: str) -> None:
    """The other language goes on, and the first one ends."""
    fed = stream("key string, value long, at timestamp")

    def in_python(df: Any) -> Any:
        rows = keystate.keyed(df.withWatermark("at", "0 seconds"), "key")
        return rows.process(
            Silence(), "key string, total long, mean double, text string, time long"
        )

    def at(second: int) -> datetime:
        return datetime.fromtimestamp(second)

    builds = [in_python, scala("silence")]
    one, other = builds if first == "python" else reversed(builds)
    fed.feed([("a", 1, at(1)), ("b", 2, at(2)), ("c", 3, at(3))])
    assert fed.run(one) == []
    fed.feed([("a", 4, at(5)), ("d", 1, at(12))])
    assert [tuple(row) for row in fed.run(other)] == [("b", 2, 2.0, ">2", 12000)]
    fed.feed([("e", 1, at(16))])
    last = [tuple(row) for row in fed.run(one)]
    assert last == [("c", 3, 3.0, ">3", 13000), ("a", 5, 2.5, ">14", 15000)]


class Trips(KeyedProcessFunction):
    def __init__(self, type: str, written: Any = None) -> None:
        self.type = type
        self.written = written

    def open(self, ctx: Any) -> None:
        self.trip = ctx.get_state(ValueStateDescriptor("trip", self.type))
        self.list = ctx.get_list_state(ListStateDescriptor("list", self.type))

    def process_element(self, row: Any, ctx: Any) -> Any:
        if self.written is not None:
            self.trip.update(self.written)
            self.list.add(self.written)
        yield row.key, repr([tuple(trip) for trip in (self.trip.value(), *self.list)])


def test_types_change_with_the_language(stream: Callable[..., Any], scala: Query) -> None:
    """Each language reads what the other one has stored, of every type that the state had."""
    fed = stream("key string, op string")

    def in_python(type: str, written: Any = None) -> Callable[[Any], Any]:
        function = Trips(type, written)
        return lambda df: keystate.keyed(df, "key").process(function, "key string, found string")

    fed.feed([("a", ""), ("b", "")])
    fed.run(in_python("n int, gone string, ratio float", (1, "gone", 0.5)))
    fed.feed([("a", ""), ("b", "w")])
    next_n = 2**40 + 1
    assert sorted(map(tuple, fed.run(scala("trips")))) == [
        ("a", "Trip(7,1,0.5) Trip(7,1,0.5)"),
        ("b", f"Trip(8,{next_n},0.5) Trip(7,1,0.5) Trip(8,{next_n},0.5)"),
    ]
    fed.feed([("a", ""), ("b", "")])
    found = fed.run(in_python("ratio double, n long, limit long, note string"))
    old, new = (0.5, 1, 7, None), (0.5, next_n, 8, None)
    assert sorted(map(tuple, found)) == [("a", repr([old, old])), ("b", repr([new, old, new]))]
    fed.feed([("a", "")])
    with pytest.raises(StreamingQueryException, match=r"KEYSTATE_STATE_CHANGED.*'limit'"):
        fed.run(scala("trips"))


def _as_python_writes_it(rows: list[Row]) -> list[Row]:
    """Rows whose last column is JSON, without what the languages' writers differ in."""
    return [Row(**{**r.asDict(), "result": json.dumps(json.loads(r.result))}) for r in rows]


def test_behaviour_in_turns(
    stream: Callable[..., Any], scala: Query, settings: Callable[..., None]
) -> None:
    """Every behaviour case; after each micro-batch the other language goes on."""
    # A watermark is to be seen by the next rows, not by a batch in between.
    settings(**{"spark.sql.streaming.noDataMicroBatches.enabled": "false"})
    cases = behaviour_cases.expected()
    fed = stream(behaviour_cases.INPUT)

    def in_python(df: Any) -> Any:
        rows = keystate.keyed(df.withWatermark("time", "0 seconds"), "name")
        return rows.process(behaviour_cases.Interpreter(), behaviour_cases.OUTPUT)

    builds = [scala("interpreter", json.dumps(behaviour_cases.TABLE["states"])), in_python]
    emitted = []
    for i, rows in enumerate(cases.rows):
        fed.feed(rows)
        emitted += fed.run(builds[i % 2])
    expected = sorted(row for batch in cases.results for row in batch)
    assert sorted(map(tuple, _as_python_writes_it(emitted))) == expected


class RowSums(WindowFunction):
    """The sum of a window's values, and how many there are."""

    def apply(self, key: Any, window: Any, inputs: Any) -> Any:
        values = [row.value for row in inputs]
        return sum(values), len(values)


SUMS = "sum long, size int"
WINDOWS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "tumbling": (
        lambda stream: stream.window(TumblingEventTimeWindows.of(Time.seconds(10))),
        lambda windows: windows.aggregate(Sum(), "long", "sum long"),
    ),
    "sessions": (
        lambda stream: stream.window(
            EventTimeSessionWindows.with_gap(Time.seconds(10))
        ).allowed_lateness(Time.seconds(20)),
        lambda windows: windows.apply(RowSums(), SUMS),
    ),
    "counts": (
        lambda stream: stream.count_window(3, 2),
        lambda windows: windows.apply(RowSums(), SUMS),
    ),
}


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("tumbling", [[(1,)], [(2,), (4,)], [(24,), (32,)]]),
        ("sessions", [[], [(2, 1), (5, 2)], [(13, 3), (24, 2), (32, 1)]]),
        ("counts", [[], [(5, 2)], [(24, 2), (44, 3)]]),
    ],
)
def test_windows_in_turns(
    kind: str,
    expected: list[Any],
    stream: Callable[..., Any],
    scala: Query,
    settings: Callable[..., None],
) -> None:
    """After each restart the other language goes on, with other partitions."""
    fed = stream("key string, value long, time timestamp")

    def in_python(df: Any) -> Any:
        made, applied = WINDOWS[kind]
        return applied(made(keystate.keyed(df.withWatermark("time", "0 seconds"), "key")))

    def at(second: int) -> datetime:
        return datetime.fromtimestamp(second)

    batches = [
        [("a", 1, at(8)), ("b", 2, at(14))],
        [("a", 4, at(12)), ("c", 8, at(25))],
        [("c", 16, at(27)), ("a", 8, at(16)), ("a", 32, at(31)), ("z", 1, at(60))],
    ]
    partitions = ["2", "5", "3"]
    found = []
    for batch, build, number in zip(batches, [in_python, scala("windows", kind)] * 2, partitions):
        settings(**{"spark.sql.shuffle.partitions": number})
        fed.feed(batch)
        found.append(sorted(map(tuple, fed.run(build))))
    assert found == expected


@pytest.mark.turns
def test_time_to_live_in_turns(stream: Callable[..., Any], scala: Query) -> None:
    """Every case of time to live, likewise."""
    batches, expected = table()
    fed = stream(ROWS)
    builds = [interpret, scala("ttl")]
    emitted = []
    for i, batch in enumerate(batches):
        emitted += run_at(fed, builds[i % 2], [batch])
    check(_as_python_writes_it(emitted), expected)


def test_time_to_live_in_scala(stream: Callable[..., Any], scala: Query) -> None:
    batches, expected = table()
    check(_as_python_writes_it(run_at(stream(ROWS), scala("ttl"), batches)), expected)
