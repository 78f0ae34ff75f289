"""States of a checkpoint as tables of SQL, which the catalog `keystate` has."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from datetime import time, timedelta
from decimal import Decimal
from functools import reduce
from operator import and_
from pathlib import Path
from typing import Any

import keystate
import pyspark.sql.functions as F
import pytest
from keystate import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
    admin,
)
from keystate._jvm.session import FORMAT_KEY
from pyspark.errors import AnalysisException, IllegalArgumentException
from pyspark.sql import DataFrame

from tests.query.test_lookup import KINDS, Keeps, expected, kinds

KEYS = 500
TIMER = 4_000_000_000_000


def tables(checkpoint: Path) -> str:
    return f"keystate.`{checkpoint}`"


def scanned(df: DataFrame) -> str:
    """What the plan says of the scan."""
    plan = df._jdf.queryExecution().executedPlan().toString()
    return next(line for line in plan.splitlines() if "key group" in line)


def tasks(df: DataFrame) -> int:
    return df.rdd.getNumPartitions()


@pytest.mark.parametrize(("backend", "checkpoint_format"), [("hashmap", "2"), ("rocksdb", "1")])
def test_every_kind_of_state(
    backend: str,
    checkpoint_format: str,
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    settings(**{"spark.keystate.backend": backend, FORMAT_KEY: checkpoint_format})
    fed = stream(KINDS)
    fed.feed([(key, key) for key in range(KEYS)])
    fed.run(kinds)
    settings(**{"spark.sql.shuffle.partitions": "3"})
    fed.feed([(7, 70), (8, 80)], [(7, 5), (9, -1)])
    fed.run(kinds)
    ckpt = tables(fed.checkpoint)

    def sql(text: str) -> list[Any]:
        return [tuple(row) for row in spark.sql(text).collect()]

    for name in ("value", "struct", "sum", "mean"):
        read = spark.table(f"{ckpt}.{name}").where("key.key < 12").select("key.key", "value")
        assert dict(read.collect()) == {
            key: (value,) if name in ("value", "sum") else value
            for key in range(12)
            if (value := expected({7: [7, 70, 5], 8: [8, 80], 9: []}.get(key, [key]))[name])
            is not None
        }
        assert spark.table(f"{ckpt}.{name}").count() == KEYS - 1
    # In the order of the list, and of the map.
    assert sql(f"SELECT list_element.value FROM {ckpt}.list WHERE key.key = 7") == [
        (7,), (70,), (5,)
    ]  # fmt: skip
    for name in ("map", "sorted", "down"):
        read = sql(
            f"SELECT user_map_key.key, user_map_value.value FROM {ckpt}.`{name}` WHERE key.key = 7"
        )
        assert read == list(expected([7, 70, 5])[name].items())
        assert sql(f"SELECT count(*) FROM {ckpt}.`{name}`") == [(KEYS + 2,)]
    assert sql(f"SELECT count(*) FROM {ckpt}.list") == [(KEYS + 2,)]
    # All of it equals what each partition of the query has, in more tasks than that or fewer.
    assert sql(f"SELECT count(*), sum(hash(key)) FROM {ckpt}.value WHERE partition_id < 3") == sql(
        f"SELECT count(*), sum(hash(key)) FROM {ckpt}.value"
    )
    sums = f"SELECT value.value FROM {ckpt}.sum VERSION AS OF"
    assert [sql(f"{sums} {v} WHERE key.key = 7") for v in (1, 2, 3)] == [
        [(7,)],
        [(77,)],
        [(82,)],
    ]


def test_a_key_is_read_of_its_group_and_section_alone(
    spark: Any, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """All other sections of the file, and the other partition's file, are damaged."""
    settings(**{"spark.keystate.backend": "hashmap"})
    fed = stream("key long, value long")
    fed.feed([(key, key) for key in range(40_000)])
    fed.run(lambda df: keystate.keyed(df, "key").process(Keeps(), "x int"))
    name = f"{tables(fed.checkpoint)}.last"
    one = spark.table(name).where("key.key = 7").select("value.value")
    assert tasks(one) == 1 and "key group" in scanned(one) and "all" not in scanned(one)
    assert one.collect() == [(7,)]
    some = spark.table(name).where("key.key IN (7, 8, 9, 10, 11)").select("value.value")
    assert tasks(some) <= 5 and sorted(some.collect()) == [(key,) for key in range(7, 12)]
    kept = admin.edit(str(fed.checkpoint)).read("last").where(F.col("key.key").isin(7, 39_999))
    assert sorted(row.value for row in kept.collect()) == [7, 39_999]
    whole = spark.table(name).where("key = named_struct('key', 7L)")
    assert tasks(whole) == 1 and [row.value.value for row in whole.collect()] == [7]
    for other, rows in (
        ("key.key > 7", 39_992),
        ("key.key = 7 OR key.key > 8", 39_992),
        ("value.value = 7", 1),
    ):
        found = spark.table(name).where(other)
        assert "all key groups" in scanned(found) and found.count() == rows, other
    broken = []
    for path in sorted(fed.checkpoint.glob("state/0/*/*.lz4")):
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        good = path.read_bytes()
        starts = section_starts(good)
        assert len(starts) > 4
        for start in starts:
            path.write_bytes(good[:start] + bytes([good[start] ^ 0xFF]) + good[start + 1 :])
            try:
                assert one.collect() == [(7,)]
            except Exception as error:
                assert "KEYSTATE_CORRUPT_FILE" in str(error)
                broken.append((path, start))
            if start == starts[0]:
                with pytest.raises(Exception, match="KEYSTATE_CORRUPT_FILE"):
                    spark.table(name).agg({"partition_id": "sum"}).collect()
        path.write_bytes(good)
    assert len(broken) == 1, "a key is in one section of one file"


def section_starts(run: bytes) -> list[int]:
    """Where the sections of a run file begin, by the index at its end (docs/file-format.md)."""
    count = int.from_bytes(run[-4:], "big")
    rows = run[-8 - 16 * count : -8]
    lengths = [int.from_bytes(rows[at + 4 : at + 12], "big") for at in range(0, len(rows), 16)]
    return [sum(lengths[:i]) for i in range(count)]


def test_tasks_are_by_key_groups(
    spark: Any, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """A query of one partition is read by as many tasks as there are cores."""
    fed = stream(KINDS)
    fed.feed([(key, key) for key in range(100)])
    settings(**{"spark.sql.shuffle.partitions": "1"})
    fed.run(lambda df: keystate.keyed(df, "key").process(Keeps(), "x int"))
    found = spark.table(f"{tables(fed.checkpoint)}.last")
    assert tasks(found) == spark.sparkContext.defaultParallelism == 2
    by_task = [len(part) for part in found.rdd.glom().collect()]
    assert sum(by_task) == 100 and min(by_task) > 20
    assert {row.partition_id for row in found.collect()} == {0}
    keystate.rescale(str(fed.checkpoint), 5)
    found = spark.table(f"{tables(fed.checkpoint)}.last")
    assert tasks(found) == 5 and found.count() == 100


def test_columns_that_are_not_asked_for_are_not_decoded(
    spark: Any, stream: Callable[..., Any]
) -> None:
    fed = stream(KINDS)
    fed.feed([(key, key) for key in range(10)])
    fed.run(kinds)
    ckpt = tables(fed.checkpoint)
    count = spark.table(f"{ckpt}.list").groupBy().count()
    assert "columns []" in scanned(count) and count.collect() == [(10,)]
    part = spark.table(f"{ckpt}.struct").select("value.text").where("key.key = 3")
    assert "columns [value, key]" in scanned(part) or "columns [key, value]" in scanned(part)
    assert part.collect() == [("xxx",)]
    (output,) = [line for line in part._jdf.queryExecution().executedPlan().toString().splitlines()
                 if "BatchScan" in line]  # fmt: skip
    assert "value" in output and "last" not in part._jdf.queryExecution().optimizedPlan().output()\
        .toString()  # fmt: skip


class Alarms(KeyedProcessFunction):
    """A timer for each value; a negative one deletes it, and the state."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "long", default=0))
        self.all = ctx.get_list_state(ListStateDescriptor("all", "long"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        timers = ctx.timer_service()
        if row.x < 0:
            timers.delete_processing_time_timer(TIMER - row.x)
            self.total.clear()
            self.all.clear()
            return
        timers.register_processing_time_timer(TIMER + row.x)
        self.total.update(self.total.value() + row.x)
        self.all.add(row.x)
        yield row.key, self.total.value()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield from ()


@pytest.fixture
def alarms(stream: Callable[..., Any]) -> Any:
    fed = stream("key string, x long")
    for batch in ([("a", 1), ("b", 2)], [("a", 3), ("c", 4)], [("a", -3)]):
        fed.feed(batch)
    fed.run(
        lambda df: keystate.keyed(df, "key").process(
            Alarms(), "key string, total long", name="alarms"
        )
    )
    return fed


def test_timers_versions_and_changes(spark: Any, alarms: Any) -> None:
    ckpt = tables(alarms.checkpoint)

    def sql(text: str) -> list[Any]:
        return sorted(tuple(row) for row in spark.sql(text).collect())

    names = [row.tableName for row in spark.sql(f"SHOW TABLES IN {ckpt}").collect()]
    assert names == ["total", "all", "$timers", "$operators", "$versions"]
    timer = "key.key, time_domain, expiration_timestamp_ms"
    processing = "PROCESSING_TIME"
    assert sql(f"SELECT {timer} FROM {ckpt}.`$timers`") == [
        ("a", processing, TIMER + 1),
        ("b", processing, TIMER + 2),
        ("c", processing, TIMER + 4),
    ]
    of_a = spark.table(f"{ckpt}.`$timers`").where("key.key = 'a'")
    assert tasks(of_a) == 1 and of_a.count() == 1
    assert sql(f"SELECT expiration_timestamp_ms FROM {ckpt}.`$timers` VERSION AS OF 2 "
               "WHERE key.key = 'a'") == [(TIMER + 1,), (TIMER + 3,)]  # fmt: skip

    totals = "SELECT key.key, value.value FROM"
    assert sql(f"{totals} {ckpt}.total") == [("b", 2), ("c", 4)]
    assert sql(f"{totals} {ckpt}.total VERSION AS OF 1") == [("a", 1), ("b", 2)]
    assert sql(f"{totals} {ckpt}.alarms.total") == sql(f"{totals} {ckpt}.`0`.total")
    versions = spark.table(f"{ckpt}.`$versions`").selectExpr("CAST(began_at AS string) AS at")
    begun = [row.at for row in versions.collect()]
    assert len(begun) == 3 and begun == sorted(begun)
    for version, moment in enumerate(begun, 1):
        as_of = sql(f"{totals} {ckpt}.total TIMESTAMP AS OF '{moment}'")
        assert as_of == sql(f"{totals} {ckpt}.total VERSION AS OF {version}")
    (operator,) = spark.table(f"{ckpt}.`$operators`").collect()
    assert tuple(operator) == (0, "alarms", 128, 2, 1, 3, ["total", "all", "$timers"])

    changed = "SELECT version, change_type, key.key, value.value FROM"
    everything = [
        (1, "update", "a", 1),
        (1, "update", "b", 2),
        (2, "update", "a", 4),
        (2, "update", "c", 4),
        (3, "delete", "a", None),
    ]
    assert sql(f"{changed} {ckpt}.`total$changes`") == everything
    assert sql(f"{changed} {ckpt}.`total$changes` WHERE version > 1 AND version <= 2") == [
        one for one in everything if one[0] == 2
    ]
    of_a = spark.table(f"{ckpt}.`total$changes`").where("key.key = 'a' AND version >= 2")
    assert "key group" in scanned(of_a) and "all" not in scanned(of_a)
    assert [row.version for row in of_a.orderBy("version").collect()] == [2, 3]
    assert sql(f"SELECT version, change_type, key.key, list_element.value FROM "
               f"{ckpt}.`all$changes` WHERE key.key = 'a'") == [
        (1, "append", "a", 1),
        (2, "append", "a", 1),
        (2, "append", "a", 3),
        (3, "delete", "a", None),
    ]  # fmt: skip
    assert sql(f"SELECT version, change_type, expiration_timestamp_ms - {TIMER} FROM "
               f"{ckpt}.`$timers$changes` WHERE version > 1") == [
        (2, "update", 3), (2, "update", 4), (3, "delete", 3)
    ]  # fmt: skip
    assert sql(f"SELECT * FROM {ckpt}.`total$changes` WHERE version > 3") == []
    # As Spark's own change feed has it, where it can read the state.
    feed = (
        spark.read.format("statestore")
        .option("stateVarName", "total")
        .option("readChangeFeed", True)
        .option("changeStartBatchId", 0)
        .option("changeEndBatchId", 2)
        .load(str(alarms.checkpoint))
        .selectExpr("batch_id + 1", "change_type", "key.key", "value.value")
    )
    assert sorted(map(tuple, feed.collect())) == everything
    # Partitions are cleaned up at different times: there is what all of them have.
    (oldest,) = alarms.checkpoint.glob("state/0/1/1[._]*keystate")
    oldest.unlink()
    assert sql(f"{changed} {ckpt}.`total$changes`") == everything[2:]
    assert spark.catalog.tableExists(f"{ckpt}.total")


def test_describe_and_what_is_refused(spark: Any, alarms: Any, tmp_path: Path) -> None:
    ckpt = tables(alarms.checkpoint)
    described = spark.sql(f"DESCRIBE TABLE {ckpt}.total").collect()
    assert [(row.col_name, row.data_type) for row in described[:3]] == [
        ("key", "struct<key:string>"),
        ("value", "struct<value:bigint>"),
        ("partition_id", "int"),
    ]

    def refused(text: str, match: str) -> None:
        with pytest.raises(AnalysisException, match=match):
            spark.sql(text).collect()

    refused(f"SELECT * FROM {ckpt}.none", r"KEYSTATE_NO_SUCH_STATE.*'none'.*operator 0: total")
    refused(f"SELECT * FROM {ckpt}.other.total", r"KEYSTATE_NO_SUCH_STATE.*operator 0: alarms")
    for as_of in ("VERSION AS OF 9", "TIMESTAMP AS OF '2001-01-01'"):
        refused(f"SELECT * FROM {ckpt}.total {as_of}", "KEYSTATE_MISSING_VERSION.*1 to 3")
    with pytest.raises(IllegalArgumentException, match=r"'x'.*a version is a number"):
        spark.sql(f"SELECT * FROM {ckpt}.total VERSION AS OF 'x'")
    nowhere = tables(tmp_path / "nowhere")
    refused(f"SELECT * FROM {nowhere}.total", "KEYSTATE_NO_CHECKPOINT.*nowhere")
    refused(f"SHOW TABLES IN {nowhere}", "KEYSTATE_NO_CHECKPOINT.*nowhere")
    refused("SELECT * FROM keystate.total", r"KEYSTATE_NO_CHECKPOINT.*keystate.total names no")
    assert not (tmp_path / "nowhere").exists()
    refused(f"DROP TABLE {ckpt}.total", "KEYSTATE_READ_ONLY.*DROP TABLE .*total.*admin.edit")
    refused(f"CREATE TABLE {ckpt}.made AS SELECT 1 AS x", "KEYSTATE_READ_ONLY.*CREATE TABLE")
    refused(f"ALTER TABLE {ckpt}.total ADD COLUMN x int", "KEYSTATE_READ_ONLY.*ALTER TABLE")
    for write in (
        f"INSERT INTO {ckpt}.total SELECT * FROM {ckpt}.total",
        f"DELETE FROM {ckpt}.total WHERE key.key = 'a'",
    ):
        refused(write, "(?is)not support.*checkpoint`.total|checkpoint`.total.*not support")


class Durations(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.last = ctx.get_state(ValueStateDescriptor("last", "interval day to second"))
        self.times = ctx.get_map_state(MapStateDescriptor("times", "time", "map<int,string>"))

    def process_element(self, row: Any, ctx: Any) -> None:
        self.last.update(row.key)
        self.times[time(1, 2, row.x)] = {row.x: "x"}


def test_types_that_sparks_source_does_not_read(spark: Any, stream: Any) -> None:
    fed = stream("key interval day to second, x int")
    fed.feed([(timedelta(hours=hours), hours) for hours in (5, 6)])
    fed.run(lambda df: keystate.keyed(df, "key").process(Durations(), "key long"))
    ckpt = tables(fed.checkpoint)
    described = spark.sql(f"DESCRIBE TABLE {ckpt}.times").collect()
    assert [row.data_type for row in described[:3]] == [
        "struct<key:interval day to second>",
        "struct<key:time(6)>",
        "struct<value:map<int,string>>",
    ]
    rows = spark.table(f"{ckpt}.last").where("key.key = INTERVAL '5' HOUR")
    assert tasks(rows) == 1
    assert rows.select("key.key", "value.value").collect() == [
        (timedelta(hours=5), timedelta(hours=5))
    ]
    times = spark.sql(f"SELECT user_map_key.key, user_map_value.value FROM {ckpt}.times")
    assert sorted(map(tuple, times.collect())) == [
        (time(1, 2, x), {x: "x"}) for x in (5, 6)
    ]  # fmt: skip


def test_keys_of_many_types(spark: Any, stream: Callable[..., Any]) -> None:
    """A filter on all columns finds the key, in the one group that has it."""
    nan, inf = float("nan"), float("inf")
    types = {"a": "double", "b": "string", "c": "timestamp", "d": "decimal(20,2)", "e": "binary"}
    noon = datetime.datetime(2024, 1, 1, 12)
    keys = [
        (0.0, "", noon, Decimal("1.50"), b""),
        (nan, "x", noon, Decimal("-1.50"), b"\0"),
        (-inf, "\u00e9", None, None, None),
        (None, None, None, None, None),
    ]
    fed = stream(", ".join(f"{name} {ddl}" for name, ddl in types.items()) + ", value long")
    fed.feed([(*key, i) for i, key in enumerate(keys)])
    fed.run(lambda df: keystate.keyed(df, *types).process(Keeps(), "x int"))
    last = spark.table(f"{tables(fed.checkpoint)}.last")
    for i, key in enumerate([*keys, (-0.0, *keys[0][1:])]):
        conditions = [
            F.col(f"key.{name}").eqNullSafe(F.lit(value).cast(ddl))
            for (name, ddl), value in zip(types.items(), key, strict=True)
        ]
        one = last.where(reduce(and_, conditions)).select("value.value")
        assert tasks(one) == 1 and "all key groups" not in scanned(one)
        assert one.collect() == [(i % len(keys),)]
