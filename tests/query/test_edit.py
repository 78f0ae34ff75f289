"""A query goes on from an edited checkpoint, changed in ways that a restart can't follow."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    CheckpointError,
    DeclarationError,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    StateTypeError,
    ValueStateDescriptor,
    admin,
)
from keystate._jvm.session import FORMAT_KEY
from pyspark.sql import functions as F

from tests.drawn import drawn
from tests.query.test_state_writer import (
    OUTPUT,
    ROWS,
    build,
    contents,
    history,
)
from tests.timed import run_at


@pytest.fixture(params=drawn("edited", [("hashmap", "1"), ("rocksdb", "2")], 1))
def half(request: Any, stream: Callable[..., Any], settings: Callable[..., None]) -> Any:
    """A query that has had 300 of 400 rows."""
    backend, checkpoint_format = request.param
    settings(**{"spark.keystate.backend": backend, FORMAT_KEY: checkpoint_format})
    made = stream(ROWS)
    made.feed(history(400)[:150], history(400)[150:300])
    made.run(build)
    return made


def test_other_key_groups(
    half: Any, spark: Any, stream: Callable[..., Any], settings: Callable[..., None], tmp_path: Path
) -> None:
    rows = history(400)
    whole = stream(ROWS)
    whole.feed(rows[:300], rows[300:])
    expected = sorted(whole.run(build))

    before = contents(spark, half.checkpoint)
    target = tmp_path / "edited"
    editor = admin.edit(str(half.checkpoint))
    editor.set_max_parallelism(1000)
    assert editor.write(str(target)) == 1
    assert contents(spark, target) == contents(spark, half.checkpoint) == before
    assert admin.verify(str(target)) == []
    assert admin.inspect(str(target))["operators"][0]["max_parallelism"] == 1000

    half.checkpoint = target
    half.feed(rows[300:350])
    emitted = half.run(build)
    settings(**{"spark.sql.shuffle.partitions": "130"})
    half.feed(rows[350:])
    emitted += half.run(build)
    assert sorted(emitted) == expected[300:]


class Changed(KeyedProcessFunction):
    """As Everything, with a renamed, a replaced and an added state, and without two others."""

    def open(self, ctx: Any) -> None:
        self.sum = ctx.get_state(ValueStateDescriptor("sum", "long"))
        self.pair = ctx.get_state(ValueStateDescriptor("pair", "least long, last struct<x: long>"))
        self.all = ctx.get_list_state(ListStateDescriptor("all", "string"))
        self.names = ctx.get_map_state(MapStateDescriptor("names", "string", "long"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        lists = [list(self.all), sorted(self.names.items())]
        yield row.number, f"{self.sum.value()} {self.pair.value()} {lists}"


def test_states_are_renamed_replaced_added_and_dropped(
    half: Any, spark: Any, tmp_path: Path
) -> None:
    totals: dict[Any, int] = {}
    lists: dict[Any, list[str]] = {}
    for _, key, sub, x in history(300):
        at = (key, str(abs(sub) if sub == 0 else sub))
        totals[at] = totals.get(at, 0) + x
        lists.setdefault(at, []).append(f"{x} " * 20)

    editor = admin.edit(str(half.checkpoint))
    assert editor.operators == {0: ["total", "pair", "all", "by_x", "sorted", "$timers"]}
    doubled = editor.read("total").select("key", (2 * F.col("value")).alias("least"))
    editor.replace(
        "pair", doubled.selectExpr("key", "struct(least, struct(7L as x) as last) value")
    )
    entries = editor.read("total").selectExpr(
        "key", "'t' as user_map_key", "value + 1 as user_map_value"
    )
    editor.add(MapStateDescriptor("names", "string", "long"), entries)
    editor.rename("total", "sum")
    editor.drop("by_x")
    editor.drop("sorted")
    editor.drop("$timers")
    assert editor.operators == {0: ["pair", "all", "names", "sum"]}
    target = tmp_path / "edited"
    editor.write(str(target))

    found = admin.inspect(str(target))["operators"][0]["states"]
    assert sorted(state["name"] for state in found) == ["all", "names", "pair", "sum"]
    sums = admin.read_state(spark, str(target), state="sum")
    assert sorted(row.value.value for row in sums.collect()) == sorted(totals.values())

    half.checkpoint = target
    new = [(1000 + i, key, float(sub) if sub != "None" else None, 1)
           for i, (key, sub) in enumerate(totals)]  # fmt: skip
    half.feed(new)
    emitted = dict(half.run(lambda df: keystate.keyed(df, "key", "sub").process(Changed(), OUTPUT)))
    for i, at in enumerate(totals):
        total = totals[at]
        pair = f"Row(least={2 * total}, last=Row(x=7))"
        assert emitted[1000 + i] == f"{total} {pair} {[lists[at], [('t', total + 1)]]}"


class Count(KeyedProcessFunction):
    """Counts the rows of a key, and has a timer far away."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        ctx.timer_service().register_processing_time_timer(10**15)
        yield str(ctx.get_current_key()), self.count.value()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield from ()


def counts(df: Any, *keys: Any, **options: Any) -> Any:
    return keystate.keyed(df, *keys).process(Count(), "key string, count long", **options)


def test_another_key(spark: Any, stream: Callable[..., Any], tmp_path: Path) -> None:
    fed = stream("id long")
    fed.feed([(i % 10,) for i in range(25)])
    fed.run(lambda df: counts(df, "id"))
    editor = admin.edit(str(fed.checkpoint))
    editor.rekey(
        "name string, odd boolean",
        lambda df: df.select(
            F.concat(F.lit("n"), "key.id").alias("name"),
            (F.col("key.id") % 2 == 1).alias("odd"),
            "*",
        ).drop("key"),
    )
    fed.checkpoint = tmp_path / "edited"
    editor.write(str(fed.checkpoint))
    timers = admin.read_state(spark, str(fed.checkpoint), state="$timers")
    assert sorted(row.key.name for row in timers.collect()) == [f"n{i}" for i in range(10)]
    fed.feed([(3,), (7,), (11,)])
    emitted = fed.run(
        lambda df: counts(
            df,
            F.concat(F.lit("n"), "id").alias("name"),
            (F.col("id") % 2 == 1).alias("odd"),
        )
    )
    assert sorted(emitted) == [
        ("Row(name='n11', odd=True)", 1),
        ("Row(name='n3', odd=True)", 4),
        ("Row(name='n7', odd=True)", 3),
    ]


def test_rows_with_the_old_key_and_a_new_one(
    spark: Any, stream: Callable[..., Any], tmp_path: Path
) -> None:
    """They would keep the old one, of the same type, if the struct counted."""
    fed = stream("user string")
    fed.feed([("Ann",), ("Bob",)])
    fed.run(lambda df: counts(df, "user"))
    editor = admin.edit(str(fed.checkpoint))

    def twice(df: Any) -> Any:
        return df.withColumn("user", F.lower("key.user"))

    with pytest.raises(DeclarationError, match=r"their key twice.*columns user: drop the one"):
        editor.rekey("user string", twice)
    editor.rekey("user string", lambda df: twice(df).drop("key"))
    editor.rekey(
        "user string", lambda df: df.withColumn("key", F.struct(F.upper("key.user").alias("user")))
    )
    editor.rekey("user string", lambda df: twice(df).drop("key"))
    # A key column may be named as a column of the state, and so as the struct itself.
    editor.rekey("key string", lambda df: df.withColumn("key", F.col("key.user")))
    editor.rekey("key string", lambda df: df)
    editor.write(str(tmp_path / "edited"))
    state = admin.read_state(spark, str(tmp_path / "edited"), state="count")
    assert sorted(row[0] for row in state.select("key.key").collect()) == ["ann", "bob"]


def test_what_can_not_be_edited(
    spark: Any, stream: Callable[..., Any], settings: Callable[..., None], tmp_path: Path
) -> None:
    settings(**{FORMAT_KEY: "1"})
    fed = stream("id long")
    fed.feed([(i,) for i in range(2000)])
    fed.run(lambda df: counts(df, "id"))
    editor = admin.edit(str(fed.checkpoint))
    with pytest.raises(CheckpointError, match=r"no state 'none' of operator 0, there are count"):
        editor.read("none")
    with pytest.raises(CheckpointError, match=r"no operator 3: those of Keystate in .* are 0"):
        editor.drop("count", operator=3)
    with pytest.raises(DeclarationError, match="has a state 'count' already"):
        editor.add(ValueStateDescriptor("count", "long"), editor.read("count"))
    with pytest.raises(StateTypeError, match="column 'value' is string, not bigint"):
        editor.replace("count", editor.read("count").withColumn("value", F.lit("x")))
    editor.set_max_parallelism(64)
    with pytest.raises(CheckpointError) as error:
        editor.write(str(fed.checkpoint))
    assert error.value.code == "KEYSTATE_TARGET_EXISTS"
    editor.replace("count", editor.read("count").withColumn("key", F.struct(F.lit(1).alias("id")))
                   .withColumn("key", F.col("key").cast("struct<id: bigint>")))  # fmt: skip
    with pytest.raises(CheckpointError, match=r"'count', row \[1\]: this key is there twice"):
        editor.write(str(tmp_path / "edited"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stream1"]

    run = next(fed.checkpoint.glob("state/0/0/*-*.*"))
    run.unlink()
    editor = admin.edit(str(fed.checkpoint))
    editor.rename("count", "n")
    with pytest.raises(CheckpointError, match=run.name):
        editor.write(str(tmp_path / "edited"))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["stream1"]

    with pytest.raises(CheckpointError) as error:
        admin.edit(str(tmp_path / "none"))
    assert error.value.code == "KEYSTATE_NO_CHECKPOINT"


class Expiring(KeyedProcessFunction):
    """Values, elements and entries that live for a second and stay stored."""

    def open(self, ctx: Any) -> None:
        ttl = StateTtlConfig.new_builder(timedelta(seconds=1)).disable_cleanup_in_background()
        value = ValueStateDescriptor("s", "long")
        seen = ListStateDescriptor("seen", "long")
        by_x = MapStateDescriptor("by_x", "long", "long")
        for declared in (value, seen, by_x):
            declared.enable_time_to_live(ttl.build())
        self.value, self.seen = ctx.get_state(value), ctx.get_list_state(seen)
        self.by_x = ctx.get_map_state(by_x)

    def process_element(self, row: Any, ctx: Any) -> Any:
        yield row.key, self.value.value(), list(self.seen), sorted(self.by_x.keys())
        self.value.update(row.x)
        self.seen.add(row.x)
        self.by_x[row.x] = row.x


EXPIRING = ("s", "seen", "by_x")
T0 = 1_700_000_000_000


@pytest.mark.parametrize("how", ["rekeyed", "regrouped", "replaced", "created"])
def test_what_has_expired_does_not_come_back(
    how: str, spark: Any, stream: Callable[..., Any], tmp_path: Path
) -> None:
    def build(df: Any) -> Any:
        out = "key string, s long, seen array<long>, by_x array<long>"
        return keystate.keyed(df, "key").process(Expiring(), out)

    fed = stream("key string, x long")
    run_at(fed, build, [(T0, [("a", 1), ("b", 2)]), (T0 + 600, [("b", 3)]), (T0 + 1000, [])])
    checkpoint = str(fed.checkpoint)
    assert admin.lookup(checkpoint, state="s", key="a") is None
    frames = {name: admin.read_state(spark, checkpoint, state=name) for name in EXPIRING}
    assert [df.count() for df in frames.values()] == [1, 1, 1]
    assert [row.key.key for row in frames["s"].collect()] == ["b"]
    assert frames["s"].where("key.key = 'a'").count() == 0
    changes = spark.table(f"keystate.`{checkpoint}`.`s$changes`").where("key.key = 'a'")
    assert changes.count() == 1
    # By the clock of the first version nothing has expired.
    assert admin.read_state(spark, checkpoint, state="s", version=1).count() == 2

    target = str(tmp_path / how)
    if how == "created":
        admin.create(target, Expiring(), key="key string", states=frames)
    else:
        editor = admin.edit(checkpoint)
        if how == "rekeyed":
            editor.rekey("key string", lambda df: df)
        elif how == "regrouped":
            editor.set_max_parallelism(1000)
        else:
            for name in EXPIRING:
                editor.replace(name, editor.read(name))
        editor.write(target)
    assert admin.read_state(spark, target, state="s").count() == 1
    rest = stream("key string, x long") if how == "created" else fed
    rest.checkpoint = Path(target)
    emitted = run_at(rest, build, [(T0 + 1001, [("a", 5), ("b", 5)])])
    assert sorted(map(tuple, emitted)) == [("a", None, [], []), ("b", 3, [3], [3])]


def test_diff_leaves_out_what_has_expired(
    spark: Any, stream: Callable[..., Any], tmp_path: Path
) -> None:
    """When it is removed depends on partitions and merges."""

    def build(df: Any) -> Any:
        out = "key string, s long, seen array<long>, by_x array<long>"
        return keystate.keyed(df, "key").process(Expiring(), out)

    checkpoints = []
    for first in ([("a", 1), ("b", 2)], [("b", 2)]):
        fed = stream("key string, x long")
        run_at(fed, build, [(T0, first), (T0 + 600, [("b", 3)]), (T0 + 1000, [])])
        checkpoints.append(str(fed.checkpoint))
    counts = [
        (found["state"], *(found[what] for what in ("added", "removed", "changed", "same")))
        for found in admin.diff(*checkpoints)
    ]
    assert sorted(counts) == [("by_x", 0, 0, 0, 1), ("s", 0, 0, 0, 1), ("seen", 0, 0, 0, 1)]
