"""Broadcast state and operator state are read, replaced and dropped."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    CheckpointedFunction,
    CheckpointError,
    DeclarationError,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ListCheckpointed,
    MapStateDescriptor,
    ProcessFunction,
    StateTypeError,
    ValueStateDescriptor,
    admin,
)
from keystate._jvm.session import FORMAT_KEY
from pyspark.sql import functions as F

from tests.query.test_operator_state import buffered

RULES = MapStateDescriptor("rules", "string", "factor long, note string")
NOTES = MapStateDescriptor("notes", "long", "double")
PARTITIONS = "spark.sql.shuffle.partitions"


class Pricing(KeyedBroadcastProcessFunction):
    """Adds up what a row's rule makes of it."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "long", default=0))

    def process_broadcast_element(self, rule: Any, ctx: Any) -> Any:
        ctx.get_broadcast_state(RULES).put(rule.kind, (rule.factor, None))
        ctx.get_broadcast_state(NOTES).put(rule.factor, None)

    def process_element(self, row: Any, ctx: Any) -> Any:
        rules, notes = ctx.get_broadcast_state(RULES), ctx.get_broadcast_state(NOTES)
        rule = rules.get(row.kind)
        self.total.update(self.total.value() + row.x * (rule.factor if rule else 0))
        yield row.key, self.total.value(), len(list(rules.keys())), len(list(notes.keys()))


def test_broadcast_state(
    spark: Any, stream: Callable[..., Any], settings: Callable[..., None], tmp_path: Path
) -> None:
    settings(**{FORMAT_KEY: "1", "spark.keystate.backend": "hashmap"})
    rows, rules = stream("key long, kind string, x long"), stream("kind string, factor long")

    def price(df: Any) -> Any:
        broadcast = keystate.broadcast(rules.source(), RULES, NOTES)
        schema = "key long, total long, rules long, notes long"
        return keystate.keyed(df, "key").connect(broadcast).process(Pricing(), schema)

    rules.feed([("a", 2), ("b", 3), ("c", 5)])
    rows.feed([(i, "a", 10) for i in range(9)])
    assert {row.total for row in rows.run(price)} == {20}

    checkpoint, target = str(rows.checkpoint), str(tmp_path / "edited")
    editor = admin.edit(checkpoint)
    assert editor.operators == {0: ["total", "rules", "notes"]}
    found = admin.read_state(spark, checkpoint, state="notes")
    assert sorted(map(tuple, found.collect())) == [(2, None), (3, None), (5, None)]
    stored = editor.read("rules")
    assert sorted((row.user_map_key, row.user_map_value.factor) for row in stored.collect()) == [
        ("a", 2), ("b", 3), ("c", 5)]  # fmt: skip
    refused = {
        "'same'": "row same: this key is there twice",
        "cast(null as string)": r"row \[null,.*: its map key is null",
    }
    for column, problem in refused.items():
        editor.replace("rules", stored.withColumn("user_map_key", F.expr(column)))
        with pytest.raises(CheckpointError, match=f"State 'rules', {problem}") as error:
            editor.write(target)
        assert error.value.code == "KEYSTATE_STATE_ROW"
    with pytest.raises(StateTypeError, match="'notes': column 'user_map_value' is bigint"):
        editor.replace("notes", found.withColumn("user_map_value", F.lit(1).cast("long")))
    times_ten = F.struct((10 * F.col("user_map_value.factor")).alias("factor"),
                         F.col("user_map_value.note").alias("note"))  # fmt: skip
    editor.replace(
        "rules", stored.where("user_map_key < 'c'").withColumn("user_map_value", times_ten)
    )
    editor.set_max_parallelism(77)
    editor.write(target)
    assert admin.verify(target) == []
    assert admin.inspect(target)["operators"][0]["max_parallelism"] == 77

    rows.checkpoint = Path(target)
    rows.feed([(i, "b", 1) for i in range(9)])
    assert {tuple(row)[1:] for row in rows.run(price)} == {(20 + 30, 2, 3)}
    settings(**{PARTITIONS: "3"})
    rules.feed([("d", 7)])
    rows.feed([(i, "d", 1) for i in range(9)])
    assert {tuple(row)[1:] for row in rows.run(price)} == {(50 + 7, 3, 4)}

    editor = admin.edit(checkpoint)
    editor.drop("rules")
    rows.checkpoint = tmp_path / "dropped"
    editor.write(str(rows.checkpoint))
    assert {tuple(row)[1:] for row in rows.run(price)} == {(20, 1, 4), (20 + 7, 1, 4)}


def test_operator_state(
    spark: Any, stream: Callable[..., Any], settings: Callable[..., None], tmp_path: Path
) -> None:
    settings(**{FORMAT_KEY: "2", "spark.keystate.backend": "rocksdb"})
    fed = stream("x long")
    fed.feed([(x,) for x in range(20)])
    assert fed.run(buffered(100)) == []
    checkpoint, target = str(fed.checkpoint), str(tmp_path / "edited")

    editor = admin.edit(checkpoint)
    assert editor.operators == {0: ["kept", "seen"]}
    kept = editor.read("kept")
    assert sorted(row.list_element for row in kept.collect()) == list(range(20))
    assert {row.partition_id for row in kept.collect()} == {0, 1}
    assert sorted(admin.read_state(spark, checkpoint, state="kept").collect()) == sorted(
        kept.collect()
    )
    totals = editor.read("seen").select("partition_id", "list_element.*").collect()
    assert sorted((row.partition_id, row.subtask) for row in totals) == [(0, 0), (1, 1)]
    assert sum(row.n for row in totals) == 20

    with pytest.raises(StateTypeError, match="'kept': column 'list_element' is string, not bigint"):
        editor.replace("kept", kept.withColumn("list_element", F.lit("x")))
    with pytest.raises(DeclarationError, match="'kept' lack the column 'list_element'"):
        editor.replace("kept", kept.drop("list_element"))
    for column, value, problem in [
        ("list_element", None, "its element is null"),
        ("partition_id", 2, "partition_id is 2, not 0 to 1"),
    ]:
        wrong = kept.limit(1).withColumn(column, F.lit(value).cast(kept.schema[column].dataType))
        with pytest.raises(CheckpointError, match=f"state 'kept', row 0: {problem}") as error:
            editor.replace("kept", wrong)
        assert error.value.code == "KEYSTATE_STATE_ROW"
    editor.replace("kept", kept.where("list_element % 2 = 0"))
    editor.drop("seen")
    editor.write(target)
    assert admin.verify(target) == []
    fed.checkpoint = Path(target)
    settings(**{PARTITIONS: "3"})
    fed.feed([(x,) for x in range(100, 130)])
    emitted = fed.run(buffered(1))
    assert sorted(row.x for row in emitted) == [*range(0, 20, 2), *range(100, 130)]
    assert {(row.restored, row.seen) for row in emitted} == {(True, 0)}

    editor = admin.edit(checkpoint)
    editor.replace("kept", kept.drop("partition_id").orderBy("list_element"))
    editor.rename("seen", "counted")
    dealt = editor.read("kept").groupBy("partition_id").agg(F.max("list_element")).collect()
    assert sorted(map(tuple, dealt)) == [(0, 9), (1, 19)]
    editor.write(str(tmp_path / "renamed"))
    (state,) = admin.inspect(str(tmp_path / "renamed"))["operators"][0]["states"]
    assert sorted(json.loads(state["properties"]["types"])) == ["counted", "kept"]
    counted = admin.read_state(spark, str(tmp_path / "renamed"), state="counted")
    assert sum(row.list_element.n for row in counted.collect()) == 20


class Listed(ProcessFunction, ListCheckpointed[Any]):
    def open(self, ctx: Any) -> None:
        self.rows = 0

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.rows += 1
        yield (row.x,)

    def snapshot_state(self, checkpoint_id: int, timestamp: int) -> list[Any]:
        return [self.rows]

    def restore_state(self, state: list[Any]) -> None:
        self.rows = sum(state)


def test_a_list_without_a_declared_type_is_read_as_by_an_editor(
    spark: Any, stream: Callable[..., Any]
) -> None:
    fed = stream("x long")
    fed.feed([(x,) for x in range(5)])
    fed.run(lambda df: keystate.stream(df).process(Listed(), "x long"))
    checkpoint = str(fed.checkpoint)
    read = admin.edit(checkpoint).read("$list").collect()
    assert len(read) == 2
    assert sorted(admin.read_state(spark, checkpoint, state="$list").collect()) == sorted(read)
    assert admin.read_state(spark, checkpoint).count() == 2
    with pytest.raises(CheckpointError, match=r"There are: operator 0: \$list"):
        admin.read_state(spark, checkpoint, state="none")


class Raw(KeyedProcessFunction, CheckpointedFunction):
    """Counts in a dictionary, in raw keyed state."""

    def initialize_state(self, context: Any) -> None:
        self.counts: dict[int, dict[int, int]] = {}
        for provider in context.get_raw_keyed_state_inputs():
            self.counts[provider.get_key_group_id()] = dict(json.load(provider.get_stream()))

    def open(self, ctx: Any) -> None:
        self.group_of = ctx.get_key_group
        self.seen = ctx.get_state(ValueStateDescriptor("seen", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        counts = self.counts.setdefault(self.group_of(row.key), {})
        counts[row.key] = counts.get(row.key, 0) + 1
        self.seen.update(self.seen.value() + 1)
        yield row.key, counts[row.key], self.seen.value()

    def snapshot_state(self, context: Any) -> None:
        output = context.get_raw_keyed_operator_state_output()
        for group, counts in self.counts.items():
            output.start_new_key_group(group)
            output.write(json.dumps(list(counts.items())).encode())


def test_raw_keyed_state(
    stream: Callable[..., Any], settings: Callable[..., None], tmp_path: Path
) -> None:
    settings(**{FORMAT_KEY: "2", "spark.keystate.backend": "hashmap"})

    def build(df: Any) -> Any:
        return keystate.keyed(df, "key").process(Raw(), "key long, raw long, seen long")

    fed = stream("key long")
    fed.feed([(key,) for key in range(20)])
    fed.run(build)
    editor = admin.edit(str(fed.checkpoint))
    editor.replace("seen", editor.read("seen").withColumn("value", F.lit(10).cast("long")))
    with pytest.raises(DeclarationError, match="raw keyed state can only be dropped"):
        editor.replace("$raw_keyed", editor.read("seen"))
    with pytest.raises(CheckpointError, match="raw keyed state of operator 0 can't be read"):
        editor.read("$raw_keyed")
    editor.write(str(tmp_path / "edited"))
    editor.set_max_parallelism(77)
    with pytest.raises(CheckpointError, match="belongs to its key groups") as error:
        editor.write(str(tmp_path / "none"))
    assert error.value.code == "KEYSTATE_CANNOT_EDIT"
    editor.drop("$raw_keyed")
    editor.write(str(tmp_path / "dropped"))
    for name, raw in (("edited", 2), ("dropped", 1)):
        fed.checkpoint = tmp_path / name
        fed.feed([(key,) for key in range(20)])
        assert {tuple(row)[1:] for row in fed.run(build)[:20]} == {(raw, 11)}
