"""Broadcast state: the same on every subtask, kept with the query."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    BroadcastProcessFunction,
    KeyedBroadcastProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from keystate._jvm.session import FORMAT_KEY
from pyspark.errors import PythonException, StreamingQueryException

from tests.drawn import drawn
from tests.shapes import SHAPES, Shape, shape_name

RULES = MapStateDescriptor("rules", "string", "factor long, note string")
LOG = MapStateDescriptor("log", "long", "string")
TOTAL = ValueStateDescriptor("total", "long", default=0)
SEEN = ListStateDescriptor("seen", "long")
CHECK = "spark.keystate.broadcast.check"


class Pricing(KeyedBroadcastProcessFunction):
    """Multiplies by the factor of a row's kind; a rule without a factor removes the kind's."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(TOTAL)
        self.seen = ctx.get_list_state(SEEN)
        self.subtask = ctx.get_index_of_this_subtask()
        self.opened = True

    def process_broadcast_element(self, rule: Any, ctx: Any) -> Any:
        rules, log = ctx.get_broadcast_state(RULES), ctx.get_broadcast_state(LOG)
        log[len(list(log.keys()))] = f"{rule.kind}={rule.factor}"
        if rule.factor is None:
            rules.remove(rule.kind)
        else:
            rules.put(rule.kind, (rule.factor, None))

    def process_element(self, row: Any, ctx: Any) -> Any:
        rule = ctx.get_broadcast_state(RULES).get(row.kind)
        log = ctx.get_broadcast_state(LOG)
        self.total.update(self.total.value() + row.x * (rule.factor if rule else 0))
        self.seen.add(row.x)
        history = [log[i] for i in range(len(list(log)))]
        yield row.key, self.total.value(), len(list(self.seen)), history, self.subtask


PRICED = "key long, total long, seen long, history array<string>, subtask int"
ROWS = "key long, kind string, x long"
RULE = "kind string, factor long"


class Expected:
    """What one uninterrupted run makes of the same."""

    def __init__(self) -> None:
        self.rules: dict[str, int] = {}
        self.history: list[str] = []
        self.totals: dict[int, int] = {}
        self.seen: dict[int, int] = {}

    def feed(self, rules: list[Any], rows: list[Any]) -> list[Any]:
        for kind, factor in rules:
            self.history.append(f"{kind}={factor}")
            if factor is None:
                self.rules.pop(kind, None)
            else:
                self.rules[kind] = factor
        emitted = []
        for key, kind, x in rows:
            self.totals[key] = self.totals.get(key, 0) + x * self.rules.get(kind, 0)
            self.seen[key] = self.seen.get(key, 0) + 1
            emitted.append((key, self.totals[key], self.seen[key], list(self.history)))
        return sorted(emitted)


def random_rules(rng: random.Random) -> list[Any]:
    return [
        (f"k{rng.randrange(4)}", rng.choice([None, *range(1, 9)])) for _ in range(rng.randrange(5))
    ]


def random_rows(rng: random.Random) -> list[Any]:
    return [
        (rng.randrange(20), f"k{rng.randrange(4)}", rng.randrange(100))
        for _ in range(rng.randrange(60))
    ]


@pytest.fixture
def pair(stream: Callable[..., Any]) -> Callable[[], tuple[Any, Any]]:
    """Two fed streams, of rows and of rules."""
    return lambda: (stream(ROWS), stream(RULE))


def source(spark: Any, fed: Any) -> Any:
    return (
        spark.readStream.schema(fed._schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(fed._input))
    )


def price(spark: Any, rules: Any) -> Callable[[Any], Any]:
    return lambda df: (
        keystate.keyed(df, "key", max_parallelism=16)
        .connect(keystate.broadcast(source(spark, rules), RULES, LOG))
        .process(Pricing(), PRICED)
    )


def without_subtask(emitted: list[Any]) -> list[Any]:
    return sorted((r.key, r.total, r.seen, r.history) for r in emitted)


@pytest.mark.parametrize(
    ("checkpoint_format", "backend"),
    drawn("broadcast state", [("1", "hashmap"), ("2", "hashmap"), ("2", "rocksdb")], 2),
)
def test_restarts_and_rescales(
    spark: Any, pair: Any, checkpoint_format: str, backend: str, settings: Callable[..., None]
) -> None:
    settings(**{FORMAT_KEY: checkpoint_format, CHECK: "true", "spark.keystate.backend": backend})
    seed = random.randrange(10**9)
    print(f"seed {seed}")
    rng = random.Random(seed)
    (rows, rules), expected = pair(), Expected()
    for i, partitions in enumerate([1, 3, 1, 4, 3, 2, 5]):
        settings(**{"spark.sql.shuffle.partitions": str(partitions)})
        new_rules, new_rows = random_rules(rng), random_rows(rng)
        if i == 3:
            new_rows = []  # only rules: every subtask must take them over all the same
        if i == 2:
            new_rules = []
        rows.feed(new_rows)
        rules.feed(new_rules)
        emitted = rows.run(price(spark, rules))
        assert without_subtask(emitted) == expected.feed(new_rules, new_rows)
        assert all(0 <= row.subtask < partitions for row in emitted)


def test_many_batches_in_one_run(spark: Any, pair: Any, settings: Callable[..., None]) -> None:
    """Workers keep the state from batch to batch, and go from subtask to subtask."""
    settings(**{CHECK: "true", "spark.sql.shuffle.partitions": "3"})
    rng = random.Random(7)
    (rows, rules), expected = pair(), Expected()
    wanted = []
    for _ in range(8):
        new_rules, new_rows = random_rules(rng), random_rows(rng)
        rows.feed(new_rows)
        rules.feed(new_rules)
        wanted += expected.feed(new_rules, new_rows)
    assert without_subtask(rows.run(price(spark, rules))) == sorted(wanted)


def test_replay_after_a_failure(spark: Any, pair: Any) -> None:
    (rows, rules), expected = pair(), Expected()
    rows.feed([(1, "a", 10)])
    rules.feed([("a", 2)])
    assert without_subtask(rows.run(price(spark, rules))) == expected.feed(
        [("a", 2)], [(1, "a", 10)]
    )
    rows.feed([(1, "a", 1), (2, "b", 1)])
    rules.feed([("a", 3), ("b", 5), ("a", None)])
    with pytest.raises(StreamingQueryException):
        rows.run(lambda df: price(spark, rules)(df).selectExpr("*", "raise_error('late')"))
    emitted = without_subtask(rows.run(price(spark, rules)))
    assert emitted == expected.feed([("a", 3), ("b", 5), ("a", None)], [(1, "a", 1), (2, "b", 1)])


def test_static_side_is_broadcast_once(spark: Any, pair: Any, tmp_path: Path) -> None:
    rows, _ = pair()
    table = spark.createDataFrame([("a", 2), ("b", 3)], RULE).coalesce(1)

    def build(df: Any) -> Any:
        return (
            keystate.keyed(df, "key")
            .connect(keystate.broadcast(table, RULES, LOG))
            .process(Pricing(), PRICED)
        )

    expected = Expected()
    for i in range(3):
        batch = [(1, "a", i), (2, "b", i)]
        rows.feed(batch)
        emitted = without_subtask(rows.run(build))
        assert emitted == expected.feed([("a", 2), ("b", 3)] if i == 0 else [], batch)


def test_batch_mode(spark: Any) -> None:
    df = spark.createDataFrame([(k % 5, "ab"[k % 2], k) for k in range(40)], ROWS)
    table = spark.createDataFrame([("a", 2), ("b", 3), ("a", 4)], RULE).coalesce(1)
    out = (
        keystate.keyed(df.coalesce(1), "key")
        .connect(keystate.broadcast(table, RULES, LOG))
        .process(Pricing(), PRICED)
    )
    rows = [(k % 5, "ab"[k % 2], k) for k in range(40)]
    expected = Expected().feed([("a", 2), ("b", 3), ("a", 4)], rows)
    assert without_subtask(out.collect()) == expected


class Tag(BroadcastProcessFunction):
    """Tells what is known of each row, on whichever subtask it is."""

    def open(self, ctx: Any) -> None:
        self.subtask = ctx.get_index_of_this_subtask()

    def process_broadcast_element(self, rule: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(RULES)[rule.kind] = (rule.factor, "x")
        yield -1, rule.kind, self.subtask

    def process_element(self, row: Any, ctx: Any) -> Any:
        rules = ctx.get_broadcast_state(RULES)
        known = rules[row.kind]
        assert (row.kind in rules) == (known is not None)
        yield row.x, known and f"{known.factor}{known.note}", self.subtask


def test_without_keys(spark: Any, pair: Any, settings: Callable[..., None]) -> None:
    settings(**{"spark.sql.shuffle.partitions": "3", CHECK: "true"})
    rows, rules = pair()

    def build(df: Any) -> Any:
        connected = keystate.stream(df).connect(keystate.broadcast(source(spark, rules), RULES))
        return connected.process(Tag(), "x long, tag string, subtask int")

    rules.feed([("a", 1)])
    rows.feed([(0, "ab"[x % 2], x) for x in range(60)])
    emitted = rows.run(build)
    assert sorted(r.subtask for r in emitted if r.x == -1) == [0, 1, 2]
    tags = {r.x: r.tag for r in emitted if r.x >= 0}
    assert tags == {x: None if x % 2 else "1x" for x in range(60)}
    assert {r.subtask for r in emitted if r.x >= 0} == {0, 1, 2}
    settings(**{"spark.sql.shuffle.partitions": "2"})
    rows.feed([(0, "a", 1)])
    assert [(r.x, r.tag) for r in rows.run(build)] == [(1, "1x")]


class Resets(KeyedBroadcastProcessFunction):
    """A rule changes the state of every key, in each kind of state."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(TOTAL)
        self.seen = ctx.get_list_state(SEEN)
        self.by_kind = ctx.get_map_state(MapStateDescriptor("by_kind", "string", "long"))

    def process_broadcast_element(self, rule: Any, ctx: Any) -> Any:
        if rule.kind == "multiply":

            def multiply(key: int, total: Any) -> None:
                assert list(self.seen)  # the key's other states are there too
                total.update(total.value() * rule.factor)

            ctx.apply_to_keyed_state(TOTAL, multiply)
        elif rule.kind == "append":
            ctx.apply_to_keyed_state(SEEN, lambda key, seen: seen.add(rule.factor * key))
        elif rule.kind == "drop":

            def drop(key: int, by_kind: Any) -> None:
                if key % 2 == 0:
                    by_kind.remove("a")

            ctx.apply_to_keyed_state(MapStateDescriptor("by_kind", "string", "long"), drop)
        else:

            def clear(key: int, total: Any) -> None:
                if key % 3 == 0:
                    total.clear()

            ctx.apply_to_keyed_state(TOTAL, clear)

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.total.update(self.total.value() + row.x)
        self.seen.add(row.x)
        self.by_kind[row.kind] = row.x
        yield row.key, self.total.value(), list(self.seen), sorted(self.by_kind.keys())


@pytest.mark.parametrize("cached", ["200000", "300"])
def test_apply_to_keyed_state(
    spark: Any, pair: Any, cached: str, settings: Callable[..., None]
) -> None:
    """Reaches every key, more than a page of them, whichever keys the batch has besides."""
    settings(
        **{
            "spark.keystate.worker.maxCachedKeys": cached,
            "spark.keystate.worker.inlineEntries": "3",
        }
    )
    rows, rules = pair()
    keys = 3000

    def build(df: Any) -> Any:
        return (
            keystate.keyed(df, "key")
            .connect(keystate.broadcast(source(spark, rules), RULES))
            .process(Resets(), "key long, total long, seen array<long>, kinds array<string>")
        )

    rows.feed([(k, "a", k) for k in range(keys)])
    rules.feed([])
    rows.run(build)
    rules.feed([("multiply", 3), ("append", 2), ("drop", 0), ("multiply", 2), ("clear", 0)])
    rows.feed([(5, "b", 1), (5, "b", 1)])
    emitted = rows.run(build)
    assert [tuple(r) for r in emitted] == [
        (5, 31, [5, 10, 1], ["a", "b"]),
        (5, 32, [5, 10, 1, 1], ["a", "b"]),
    ]
    rows.feed([(k, "b", 0) for k in range(keys)])
    rules.feed([])
    got = {r.key: (r.total, r.seen, r.kinds) for r in rows.run(build)}
    for k in range(keys):
        total = 0 if k % 3 == 0 else 6 * k
        seen = [k, 2 * k, 0]
        kinds = ["b"] if k % 2 == 0 else ["a", "b"]
        if k == 5:
            total, seen = 32, [5, 10, 1, 1, 0]
        assert got[k] == (total, seen, kinds), k


class Alarm(KeyedBroadcastProcessFunction):
    """A timer tells the rule at the time it fires."""

    def process_broadcast_element(self, rule: Any, ctx: Any) -> Any:
        assert ctx.current_processing_time() > 0
        ctx.get_broadcast_state(RULES)[rule.kind] = (rule.factor, None)

    def process_element(self, row: Any, ctx: Any) -> Any:
        ctx.timer_service().register_event_time_timer(row.x)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), ctx.get_broadcast_state(RULES)["a"].factor


def test_timers(spark: Any) -> None:
    df = spark.createDataFrame([(1, "a", 5), (2, "a", 7)], ROWS)
    rules = spark.createDataFrame([("a", 4)], RULE)
    out = (
        keystate.keyed(df, "key")
        .connect(keystate.broadcast(rules, RULES))
        .process(Alarm(), "key long, factor long")
    )
    assert sorted(map(tuple, out.collect())) == [(1, 4), (2, 4)]


class Struct(KeyedBroadcastProcessFunction):
    """Keys and values that are no plain scalars, and all ways to read."""

    STATE = MapStateDescriptor("by_pair", "a long, b string", "array<long>")

    def process_broadcast_element(self, rule: Any, ctx: Any) -> Any:
        state = ctx.get_broadcast_state(self.STATE)
        if rule.kind == "clear":
            state.clear()
            assert state.is_empty()
        state.put_all({(rule.factor, rule.kind): [rule.factor], (0, "gone"): [0]})
        for pair in state:
            if pair.b == "gone":
                del state[pair]

    def process_element(self, row: Any, ctx: Any) -> Any:
        state = ctx.get_broadcast_state(self.STATE)
        assert state.contains((row.x, row.kind)) and (0, "gone") not in state
        assert state[row.x, row.kind] == state.get((row.x, row.kind)) == [row.x]
        assert not state.is_empty()
        assert sorted(state) == sorted(state.keys()) == sorted(k for k, _ in state.entries())
        yield sorted(v for values in state.values() for v in values)


def test_structs_as_keys(spark: Any, pair: Any) -> None:
    rows, rules = pair()

    def build(df: Any) -> Any:
        return (
            keystate.keyed(df, "key")
            .connect(keystate.broadcast(source(spark, rules), Struct.STATE))
            .process(Struct(), "values array<long>")
        )

    rules.feed([("a", 1), ("b", 2)])
    rows.feed([(1, "a", 1), (7, "b", 2)])
    assert [r["values"] for r in rows.run(build)] == [[1, 2]] * 2
    rules.feed([("a", 5), ("clear", 3)])
    rows.feed([(1, "clear", 3)])
    assert [r["values"] for r in rows.run(build)] == [[3]]


def test_both_sides_of_one_stream(spark: Any, pair: Any) -> None:
    rows, _ = pair()

    def build(df: Any) -> Any:
        rules = df.where("key < 0").selectExpr("kind", "x AS factor")
        return (
            keystate.keyed(df.where("key >= 0"), "key")
            .connect(keystate.broadcast(rules, RULES, LOG))
            .process(Pricing(), PRICED)
        )

    rows.feed([(1, "a", 10), (-1, "a", 3)])
    assert [(r.key, r.total) for r in rows.run(build)] == [(1, 30)]


# -- mistakes -------------------------------------------------------------------------------------


class Disagrees(Pricing):
    def process_broadcast_element(self, rule: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(RULES)[rule.kind] = (self.subtask, None)


@pytest.mark.parametrize("shape", SHAPES, ids=shape_name)
def test_disagreement_is_found(
    spark: Any, pair: Any, settings: Callable[..., None], shape: Shape
) -> None:
    settings(**{CHECK: "true"})
    rows, rules = pair()
    rows.feed([(1, "a", 1)])
    rules.feed([("a", 1)])

    def build(df: Any) -> Any:
        priced = (
            keystate.keyed(df, "key")
            .connect(keystate.broadcast(source(spark, rules), RULES, LOG))
            .process(Disagrees(), PRICED)
        )
        return shape(df, priced)

    with pytest.raises(
        StreamingQueryException, match=r"'rules'.*subtasks 0 differ from subtasks 1"
    ):
        rows.run(build)


def broken(change: Callable[[Any], Any]) -> type[Pricing]:
    class Broken(Pricing):
        def process_element(self, row: Any, ctx: Any) -> Any:
            change(ctx)
            return []

    return Broken


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda ctx: ctx.get_broadcast_state(RULES).put("a", (1, None)), "can only be read"),
        (lambda ctx: ctx.get_broadcast_state(RULES).__setitem__("a", 1), "can only be read"),
        (lambda ctx: ctx.get_broadcast_state(RULES).remove("a"), "can only be read"),
        (lambda ctx: ctx.get_broadcast_state(RULES).clear(), "can only be read"),
        (
            lambda ctx: ctx.get_broadcast_state(MapStateDescriptor("other", "long", "long")),
            "no broadcast state 'other'",
        ),
    ],
)
def test_misuse_in_process_element(spark: Any, change: Any, message: str) -> None:
    df = spark.createDataFrame([(1, "a", 5)], ROWS)
    rules = spark.createDataFrame([("a", 4)], RULE)
    connected = keystate.keyed(df, "key").connect(keystate.broadcast(rules, RULES, LOG))
    with pytest.raises(PythonException, match=message):
        connected.process(broken(change)(), PRICED).collect()


def test_value_of_the_wrong_type(spark: Any) -> None:
    class Wrong(Pricing):
        def process_broadcast_element(self, rule: Any, ctx: Any) -> Any:
            ctx.get_broadcast_state(RULES)["key-1"] = ("no number", None)

    df = spark.createDataFrame([(1, "a", 5)], ROWS)
    rules = spark.createDataFrame([("a", 4)], RULE)
    connected = keystate.keyed(df, "key").connect(keystate.broadcast(rules, RULES, LOG))
    with pytest.raises(PythonException, match="broadcast state 'rules', key 'key-1'"):
        connected.process(Wrong(), PRICED).collect()


def test_declarations(spark: Any) -> None:
    df = spark.createDataFrame([(1, "a", 5)], ROWS)
    stream = spark.readStream.format("rate").load()
    side = keystate.broadcast(df, RULES)
    keyed = keystate.keyed(df, "key")
    error = keystate.DeclarationError
    with pytest.raises(error, match="at least one"):
        keystate.broadcast(df)
    with pytest.raises(error, match="MapStateDescriptor"):
        keystate.broadcast(df, TOTAL)
    with pytest.raises(error, match="batch DataFrame"):
        keyed.connect(keystate.broadcast(stream, RULES))
    with pytest.raises(error, match=r"keystate\.broadcast"):
        keyed.connect(df)
    with pytest.raises(error, match="expected a KeyedBroadcastProcessFunction"):
        keyed.connect(side).process(Tag(), "x long")
    with pytest.raises(error, match="expected a BroadcastProcessFunction"):
        keystate.stream(df).connect(side).process(Pricing(), PRICED)
    with pytest.raises(error, match="two states are named 'total'"):
        keyed.connect(keystate.broadcast(df, MapStateDescriptor("total", "long", "long"))).process(
            Pricing(), PRICED
        )

    class WithState(Tag):
        def open(self, ctx: Any) -> None:
            ctx.get_state(TOTAL)

    with pytest.raises(error, match="'total' needs a key"):
        keystate.stream(df).connect(side).process(WithState(), "x long")


def test_changed_type(spark: Any, pair: Any) -> None:
    rows, rules = pair()
    rows.feed([(1, "a", 1)])
    rules.feed([("a", 1)])
    rows.run(price(spark, rules))
    rows.feed([(1, "a", 1)])
    rules.feed([])
    other = MapStateDescriptor("rules", "string", "long")
    with pytest.raises(StreamingQueryException, match=r"KEYSTATE_STATE_CHANGED.*'rules'"):
        rows.run(
            lambda df: (
                keystate.keyed(df, "key", max_parallelism=16)
                .connect(keystate.broadcast(source(spark, rules), other, LOG))
                .process(Pricing(), PRICED)
            )
        )
