"""The types of states change between runs, and what was stored before is read all the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import keystate
import pytest
from keystate import (
    AggregateFunction,
    AggregatingStateDescriptor,
    CheckpointedFunction,
    EmbeddedRocksDBStateBackend,
    FoldingStateDescriptor,
    HashMapStateBackend,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ProcessFunction,
    ReducingStateDescriptor,
    SortedMapStateDescriptor,
    ValueStateDescriptor,
    admin,
)
from keystate._jvm.session import FORMAT_KEY
from pyspark.errors import StreamingQueryException

REMOVED = "spark.keystate.removedStates"
REPLACED = "spark.keystate.replacedStates"
INPUT = "key string, op string"
OUTPUT = "key string, state string, value string"

OLD = "n int, gone string, items array<struct<p: int>>, by map<string, struct<x: float>>"
#: Reordered, widened, one field removed and one added, at two depths.
NEW = (
    "by map<string, struct<x: double>>, items array<struct<q: string, p: long>>, n long, "
    "added string"
)
#: The removed field is there again, with another type.
NEWEST = NEW + ", gone int"

A = (1, "secret", [(2,), None], {"k": (0.5,)})
READ_NEW = ({"k": (0.5,)}, [(None, 2), None], 1, None)
WRITTEN_NEW = ({}, [("q", 2**40)], 2**50, "more")


def plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, list):
        return [plain(v) for v in value]
    return {k: plain(v) for k, v in value.items()} if isinstance(value, dict) else value


class Last(AggregateFunction):
    def create_accumulator(self) -> Any:
        return None

    def add(self, value: Any, accumulator: Any) -> Any:
        return value

    def get_result(self, accumulator: Any) -> Any:
        return accumulator


def latest(_: Any, value: Any) -> Any:
    return value


class Keeper(KeyedProcessFunction):
    """Keeps one value in a state of every kind; `w` writes it, `r` only reads."""

    def __init__(self, value_type: Any, written: Any) -> None:
        self.value_type = value_type
        self.written = written

    def open(self, ctx: Any) -> None:
        t = self.value_type
        self.value = ctx.get_state(ValueStateDescriptor("value", t))
        self.list = ctx.get_list_state(ListStateDescriptor("list", t))
        self.reducing = ctx.get_reducing_state(ReducingStateDescriptor("reducing", latest, t))
        self.aggregating = ctx.get_aggregating_state(
            AggregatingStateDescriptor("aggregating", Last(), t)
        )
        self.folding = ctx.get_folding_state(FoldingStateDescriptor("folding", None, latest, t))
        self.map = ctx.get_map_state(MapStateDescriptor("map", "string", t))
        self.sorted = ctx.get_sorted_map_state(SortedMapStateDescriptor("sorted", "long", t))

    def process_element(self, row: Any, ctx: Any) -> Any:
        if row.op == "w":
            self.value.update(self.written)
            self.list.add(self.written)
            self.reducing.add(self.written)
            self.aggregating.add(self.written)
            self.folding.add(self.written)
            self.map["none"] = None
            self.map["k"] = self.sorted[-1] = self.written
        for name, value in (
            ("value", self.value.value()),
            ("list", list(self.list)),
            ("reducing", self.reducing.get()),
            ("aggregating", self.aggregating.get()),
            ("folding", self.folding.get()),
            ("map", dict(sorted(self.map.items()))),
            ("sorted", dict(self.sorted.items())),
        ):
            yield row.key, name, repr(plain(value))


def keeper(value_type: Any, written: Any = None) -> Callable[[Any], Any]:
    return lambda df: keystate.keyed(df, "key").process(Keeper(value_type, written), OUTPUT)


def expected(key: str, *listed: Any) -> list[tuple[str, str, str]]:
    """What the keeper emits when the list has these values, the last of which the others have."""
    last = listed[-1]
    values = {
        **dict.fromkeys(("value", "reducing", "aggregating", "folding"), last),
        "list": list(listed),
        "map": {"k": last, "none": None},
        "sorted": {-1: last},
    }
    return sorted((key, name, repr(value)) for name, value in values.items())


def rows(found: list[Any]) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, found))


@pytest.mark.parametrize("backend", [HashMapStateBackend(), EmbeddedRocksDBStateBackend()])
@pytest.mark.parametrize("inline", ["1000", "0"])
def test_every_kind_of_state(
    spark: Any, stream: Any, settings: Any, backend: Any, inline: str
) -> None:
    settings(**backend.conf(), **{"spark.keystate.worker.inlineEntries": inline})
    fed = stream(INPUT)
    fed.feed([("a", "w"), ("b", "w")])
    assert rows(fed.run(keeper(OLD, A))) == expected("a", A) + expected("b", A)
    fed.feed([("a", "r")], [("b", "w"), ("c", "w")])
    found = fed.run(keeper(NEW, WRITTEN_NEW))
    assert rows(found) == (
        expected("a", READ_NEW)
        + expected("b", READ_NEW, WRITTEN_NEW)
        + expected("c", WRITTEN_NEW)
    )  # fmt: skip
    # Entries of both types, by Spark's reader.
    for state, column in (("value", "value"), ("map", "user_map_value"), ("list", "list_element")):
        read = admin.read_state(spark, str(fed.checkpoint), state=state)
        by_key = [(r.key.key, plain(tuple(r[column]))) for r in read.collect() if r[column]]
        assert ("a", READ_NEW) in by_key and ("b", WRITTEN_NEW) in by_key
    # The field that was removed does not come back, whether or not an entry was written meanwhile.
    fed.feed([("a", "r"), ("b", "r")])
    found = fed.run(keeper(NEWEST))
    assert rows(found) == (
        expected("a", (*READ_NEW, None)) + expected("b", (*READ_NEW, None), (*WRITTEN_NEW, None))
    )


def test_savepoint_rescale_and_a_second_backend(
    spark: Any, stream: Any, settings: Any, tmp_path: Any
) -> None:
    settings(**{FORMAT_KEY: "2"})
    fed = stream(INPUT)
    fed.feed([("a", "w"), ("b", "w")])
    fed.run(keeper(OLD, A))
    fed.feed([("b", "w")])
    fed.run(keeper(NEW, WRITTEN_NEW))
    copy = str(tmp_path / "copy")
    admin.savepoint(str(fed.checkpoint), copy)
    state = {s["name"]: s for s in admin.inspect(copy)["operators"][0]["states"]}
    assert '"long"' in state["value"]["properties"]["valueType"]
    assert "gone" in state["value"]["properties"]["schemas"]
    assert admin.rescale(copy, 3) == 2
    fed.checkpoint = copy
    settings(**EmbeddedRocksDBStateBackend().conf(), **{"spark.sql.shuffle.partitions": "3"})
    fed.feed([("a", "r"), ("b", "r")])
    assert rows(fed.run(keeper(NEW))) == (
        expected("a", READ_NEW) + expected("b", READ_NEW, WRITTEN_NEW)
    )


@dataclass
class Count:
    n: int = 0


@dataclass
class Inner:
    x: float = 1.5


@dataclass
class Statistics:
    n: int = 0
    names: list[str] = field(default_factory=lambda: ["none"])
    inner: Inner = field(default_factory=Inner)
    limit: int = -1


class Counter(KeyedProcessFunction):
    def __init__(self, of: Any, default: Any = None) -> None:
        self.of = of
        self.default = default

    def open(self, ctx: Any) -> None:
        self.value = ctx.get_state(ValueStateDescriptor("count", self.of, self.default))
        self.list = ctx.get_list_state(ListStateDescriptor("list", self.of))

    def process_element(self, row: Any, ctx: Any) -> Any:
        if row.op == "w":
            self.value.update(self.of(n=7))
            self.list.add(self.of(n=8))
        yield row.key, "", repr([self.value.value(), *self.list])


def test_added_fields_have_their_defaults(stream: Any) -> None:
    """The descriptor's default comes first, then that of the dataclass."""
    fed = stream(INPUT)
    fed.feed([("a", "w")])
    fed.run(lambda df: keystate.keyed(df, "key").process(Counter(Count), OUTPUT))
    fed.feed([("a", "r")], [("b", "r")])
    default = Statistics(n=1, limit=99)
    counter = Counter(Statistics, default)
    found = fed.run(lambda df: keystate.keyed(df, "key").process(counter, OUTPUT))
    assert [r.value for r in found] == [
        repr([Statistics(n=7, limit=99), Statistics(n=8)]),
        repr([default]),
    ]


class States(KeyedProcessFunction):
    def __init__(self, *names: str, value_type: str = "long") -> None:
        self.names = names
        self.value_type = value_type

    def open(self, ctx: Any) -> None:
        self.states = {
            n: ctx.get_state(ValueStateDescriptor(n, self.value_type)) for n in self.names
        }

    def process_element(self, row: Any, ctx: Any) -> Any:
        for name, state in self.states.items():
            state.update((state.value() or 0) + 1)
            yield row.key, name, repr(state.value())


def states(*names: str, **kwargs: Any) -> Callable[[Any], Any]:
    return lambda df: keystate.keyed(df, "key").process(States(*names, **kwargs), OUTPUT)


def test_states_come_and_go(spark: Any, stream: Any, settings: Any) -> None:
    fed = stream(INPUT)
    fed.feed([("a", "")])
    fed.run(states("one", "two"))
    fed.feed([("a", "")])
    assert rows(fed.run(states("two", "three"))) == [("a", "three", "1"), ("a", "two", "2")]
    kept = admin.read_state(spark, str(fed.checkpoint), state="one").collect()
    assert [(r.key.key, r.value.value) for r in kept] == [("a", 1)]
    fed.feed([("a", "")])
    assert rows(fed.run(states("one"))) == [("a", "one", "2")]
    fed.feed([("a", "")])
    with pytest.raises(StreamingQueryException, match=r"KEYSTATE_BAD_SETTING.*'keep' or 'purge'"):
        settings(**{REMOVED: "drop"})
        fed.run(states("one"))
    settings(**{REMOVED: "purge"})
    assert rows(fed.run(states("three"))) == [("a", "three", "2")]
    (operator,) = admin.inspect(str(fed.checkpoint))["operators"]
    assert [s["name"] for s in operator["states"]] == ["three"]
    fed.feed([("a", "")])
    assert rows(fed.run(states("one", "three"))) == [("a", "one", "1"), ("a", "three", "3")]


@pytest.mark.parametrize("second", ["string", "int", "value long"])
def test_refused_before_the_query_starts(stream: Any, second: str) -> None:
    fed = stream(INPUT)
    fed.feed([("a", "")])
    fed.run(states("count"))
    fed.feed([("a", "")])
    with pytest.raises(StreamingQueryException) as failure:
        fed.run(states("count", value_type=second))
    text = str(failure.value)
    for part in ("KEYSTATE_STATE_CHANGED", "State 'count' is value<BIGINT> in the checkpoint",
                 "but value<", "another name"):  # fmt: skip
        assert part in text
    assert "Task" not in text, "no task ran"
    assert rows(fed.run(states("count"))) == [("a", "count", "2")]


def test_what_no_batch_has_committed_does_not_count(stream: Any, settings: Any) -> None:
    """There is no state yet that the new type could contradict."""
    settings(**{REPLACED: "allow"})
    fed = stream(INPUT)
    fed.feed([("a", ""), ("a", "")])
    with pytest.raises(StreamingQueryException, match="StateTypeError"):
        fed.run(states("count", value_type="string"))
    assert rows(fed.run(states("count"))) == [("a", "count", "1"), ("a", "count", "2")]
    # Neither does it later.
    fed.feed([("a", "")])
    with pytest.raises(StreamingQueryException, match="StateTypeError"):
        fed.run(states("text", value_type="string"))
    assert rows(fed.run(states("count", "text"))) == [("a", "count", "3"), ("a", "text", "1")]


class Rules(KeyedBroadcastProcessFunction):
    def __init__(self, rules: Any) -> None:
        self.rules = rules

    def process_broadcast_element(self, rule: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(self.rules)[rule.key] = (3,)

    def process_element(self, row: Any, ctx: Any) -> Any:
        found = dict(ctx.get_broadcast_state(self.rules).items())
        yield row.key, "rules", repr(plain(found))


def ruled(spark: Any, value_type: str) -> Callable[[Any], Any]:
    rules = MapStateDescriptor("rules", "string", value_type)
    fixed = spark.createDataFrame([("r", "")], INPUT)
    return lambda df: (
        keystate.keyed(df, "key").connect(keystate.broadcast(fixed, rules)).process(
            Rules(rules), OUTPUT
        )
    )  # fmt: skip


def test_broadcast_state(spark: Any, stream: Any) -> None:
    fed = stream(INPUT)
    fed.feed([("a", "")])
    assert rows(fed.run(ruled(spark, "n int"))) == [("a", "rules", "{'r': (3,)}")]
    fed.feed([("a", "")])
    assert rows(fed.run(ruled(spark, "m string, n long"))) == [("a", "rules", "{'r': (None, 3)}")]
    fed.feed([("a", "")])
    with pytest.raises(StreamingQueryException, match=r"KEYSTATE_STATE_CHANGED.*'rules'.*INT"):
        fed.run(ruled(spark, "n string"))


class Listed(ProcessFunction, CheckpointedFunction):
    def __init__(self, value_type: Any, element: Any) -> None:
        self.value_type = value_type
        self.element = element

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.kept = store.get_list_state(ListStateDescriptor("kept", self.value_type))
        self.restored = plain(list(self.kept.get()))

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.key, "kept", repr(self.restored)

    def snapshot_state(self, context: Any) -> None:
        self.kept.update([self.element])


def listed(value_type: Any, element: Any) -> Callable[[Any], Any]:
    return lambda df: keystate.stream(df).process(Listed(value_type, element), OUTPUT)


def test_operator_state(stream: Any) -> None:
    fed = stream(INPUT)
    fed.feed([("a", "")])
    fed.run(listed(OLD, A))
    fed.feed([("a", "")])
    assert rows(fed.run(listed(NEW, WRITTEN_NEW))) == [("a", "kept", repr([READ_NEW]))]
    fed.feed([("a", "")])
    with pytest.raises(StreamingQueryException, match=r"KEYSTATE_STATE_CHANGED.*'kept' is list<"):
        fed.run(listed("n string", None))
    default = Statistics(n=4)
    assert rows(fed.run(listed(Statistics, default))) == [
        ("a", "kept", repr([Statistics(n=2**50)]))
    ]


@pytest.mark.parametrize("name", ["default", "$timers", "$x", " a"])
def test_reserved_names(spark: Any, name: str) -> None:
    df = spark.createDataFrame([("a", "")], INPUT)
    with pytest.raises(keystate.DeclarationError, match="can't be named"):
        states(name)(df)
