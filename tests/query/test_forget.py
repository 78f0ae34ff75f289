"""All states and timers of a key go, with one micro-batch and once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import keystate
import pytest
from keystate import (
    CheckpointError,
    ConfigurationError,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    SortedMapStateDescriptor,
    StateTtlConfig,
    StateTypeError,
    Time,
    ValueStateDescriptor,
    admin,
)
from keystate._jvm.session import FORMAT_KEY
from keystate._types.waiting import wait_until
from pyspark.errors import StreamingQueryException

from tests.query.test_raw_state import SCHEMA as RAW
from tests.query.test_raw_state import Raw

PARTITIONS = "spark.sql.shuffle.partitions"
STATES = ["count", "short", "list", "map", "sorted"]
FAR = 4_000_000_000_000


class Everything(KeyedProcessFunction):
    """Counts a key's rows in a state of every kind, and sets a timer for each of them."""

    def open(self, ctx: Any) -> None:
        short = ValueStateDescriptor("short", "long")
        short.enable_time_to_live(StateTtlConfig.new_builder(Time.days(1)).build())
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))
        self.short = ctx.get_state(short)
        self.list = ctx.get_list_state(ListStateDescriptor("list", "long"))
        self.map = ctx.get_map_state(MapStateDescriptor("map", "string", "long"))
        self.sorted = ctx.get_sorted_map_state(SortedMapStateDescriptor("sorted", "long", "long"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        n = self.count.value() + 1
        self.count.update(n)
        self.short.update(n)
        self.list.add(row.x)
        self.map[f"{n}"] = row.x
        self.sorted[n] = row.x
        ctx.timer_service().register_processing_time_timer(FAR + n)
        yield row.key, n, list(self.list)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield ctx.get_current_key(), timestamp, []


def everything(df: Any, groups: int = 16) -> Any:
    keyed = keystate.keyed(df, "key", max_parallelism=groups)
    return keyed.process(Everything(), "key string, n long, all array<long>")


def crashing(df: Any) -> Any:
    return everything(df).selectExpr("*", "raise_error('after the state')")


def emitted(rows: list[Any]) -> list[tuple[str, int, list[int]]]:
    return sorted((row.key, row.n, row.all) for row in rows)


def left(checkpoint: Any, key: str, spark: Any) -> dict[str, Any]:
    """What a key has, with its timers."""
    last = admin.history(str(checkpoint), key=key, spark=spark)[-1]
    return {**last.states, **({"timers": last.timers} if last.timers else {})}


def files(fed: Any) -> list[str]:
    folder = fed.checkpoint / "_keystate/forget"
    return sorted(file.name for file in folder.glob("[!.]*"))


@pytest.mark.parametrize(
    ("backend", "checkpoint_format"), [("hashmap", "1"), ("hashmap", "2"), ("rocksdb", "2")]
)
def test_a_key_is_forgotten(
    backend: str,
    checkpoint_format: str,
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    settings(**{"spark.keystate.backend": backend, FORMAT_KEY: checkpoint_format})
    fed = stream("key string, x long")
    fed.feed([("a", 1), ("b", 2), ("c", 3)], [("a", 4), ("b", 5), ("c", 6)])
    fed.run(everything)
    assert set(left(fed.checkpoint, "c", spark)) == {*STATES, "timers"}
    for key in ("a", "c", "never"):
        found = admin.forget(str(fed.checkpoint), key=key, spark=spark)
        assert found["operators"] == [0]
    assert len(files(fed)) == 3
    fed.feed([("a", 7), ("b", 8)])
    assert emitted(fed.run(everything)) == [("a", 1, [7]), ("b", 3, [2, 5, 8])]
    assert left(fed.checkpoint, "c", spark) == {}
    assert left(fed.checkpoint, "a", spark)["timers"][0][1] == FAR + 1
    removed = fed.progress[-1].stateOperators[0].numRowsRemoved
    # Of each key: three map entries of two kinds and a list; values; timers.
    assert removed == 2 * (2 + 1 + 2 + 2 + 2)
    # Once and no more.
    fed.feed([("a", 9), ("c", 10)])
    assert emitted(fed.run(everything)) == [("a", 2, [7, 9]), ("c", 1, [10])]


@pytest.mark.parametrize("partitions", [2, 5])
@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
def test_a_replay_forgets_the_same(
    checkpoint_format: str,
    partitions: int,
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    """A restart between claim and commit, with a rescale in between, and more requests."""
    settings(**{FORMAT_KEY: checkpoint_format})
    fed = stream("key string, x long")
    fed.feed([("a", 1), ("b", 2), ("c", 3)])
    fed.run(everything)
    admin.forget(str(fed.checkpoint), key="a", spark=spark)
    fed.feed([("a", 4), ("b", 5)])
    with pytest.raises(StreamingQueryException, match="after the state"):
        fed.run(crashing)
    assert [name for name in files(fed) if name.endswith(".claim")] == ["1.claim"]
    admin.forget(str(fed.checkpoint), key="b", spark=spark)
    settings(**{PARTITIONS: str(partitions)})
    fed.feed([("a", 6), ("b", 7)])
    assert emitted(fed.run(everything)) == [
        ("a", 1, [4]),
        ("a", 2, [4, 6]),
        ("b", 1, [7]),
        ("b", 2, [2, 5]),
    ]
    assert left(fed.checkpoint, "c", spark)["list"] == [3]


def test_a_replay_forgets_nothing_that_the_first_try_did_not(
    spark: Any, stream: Callable[..., Any]
) -> None:
    fed = stream("key string, x long")
    fed.feed([("a", 1)])
    fed.run(everything)
    fed.feed([("a", 2)])
    with pytest.raises(StreamingQueryException, match="after the state"):
        fed.run(crashing)
    admin.forget(str(fed.checkpoint), key="a", spark=spark)
    with pytest.raises(StreamingQueryException, match="after the state"):
        fed.run(crashing)
    # What a driver that lost the checkpoint would do comes too late.
    assert json.loads((fed.checkpoint / "_keystate/forget/1.claim").read_text())["keys"] == []
    fed.feed([("a", 3)])
    assert emitted(fed.run(everything)) == [("a", 1, [3]), ("a", 2, [1, 2])]


@pytest.mark.turns
def test_of_a_running_query(spark: Any, stream: Callable[..., Any], running: list[Any]) -> None:
    """No row comes: a micro-batch without any does it."""
    fed = stream("key string, x long")
    fed.feed([("a", 1), ("b", 2)])
    query = (
        everything(fed.source())
        .writeStream.format("noop")
        .option("checkpointLocation", str(fed.checkpoint))
        .start()
    )
    running.append(query)
    query.processAllAvailable()
    command = [sys.executable, "-m", "keystate", "forget", str(fed.checkpoint), "a", "--json"]
    asked = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(asked.stdout)["operators"] == [0]
    wait_until(lambda: not left(fed.checkpoint, "a", spark), "a key that is gone", interval=0.2)
    assert left(fed.checkpoint, "b", spark)["count"] == 1
    # The progress of a query that waits has the number of the next one.
    assert {path.name for path in fed.checkpoint.glob("commits/[0-9]*")} == {"0", "1"}


COPIES: dict[str, Callable[[Any, str, str], Any]] = {
    "savepoint": lambda spark, source, target: admin.savepoint(source, target, spark=spark),
    "by reference": lambda spark, source, target: admin.savepoint(
        source, target, by_reference=True, spark=spark
    ),
    "edit": lambda spark, source, target: admin.edit(source, spark=spark).write(target),
    "written anew": lambda spark, source, target: regrouped(source, spark).write(target),
}


def regrouped(source: str, spark: Any) -> Any:
    editor = admin.edit(source, spark=spark)
    editor.set_max_parallelism(8)
    return editor


@pytest.mark.parametrize("copy", COPIES)
def test_a_request_goes_along_into_a_copy(
    copy: str, spark: Any, stream: Callable[..., Any], tmp_path: Any
) -> None:
    """Of two keys: one was asked for before any batch could take it, one is in a claim."""
    fed, target = stream("key string, x long"), tmp_path / "copy"
    fed.feed([("a", 1), ("b", 2), ("c", 3)])
    fed.run(everything)
    admin.forget(str(fed.checkpoint), key="a", spark=spark)
    fed.feed([("b", 4)])
    with pytest.raises(StreamingQueryException, match="after the state"):
        fed.run(crashing)
    admin.forget(str(fed.checkpoint), key="c", spark=spark)
    COPIES[copy](spark, str(fed.checkpoint), str(target))
    fed.checkpoint = target
    fed.feed([("a", 5), ("c", 6)])
    groups = 8 if copy == "written anew" else 16
    emitted_there = emitted(fed.run(lambda df: everything(df, groups)))
    assert emitted_there == [("a", 1, [5]), ("b", 2, [2, 4]), ("c", 1, [6])]
    assert left(target, "b", spark)["list"] == [2, 4]


def test_a_request_goes_along_to_an_operator_of_another_number(
    spark: Any, stream: Callable[..., Any], tmp_path: Any
) -> None:
    """It is not done by the operator that has the number now."""

    def two(df: Any) -> Any:
        return keystate.keyed(everything(df), "n").process(Counted(), "n long, total long")

    fed, target = stream("key string, x long"), tmp_path / "copy"
    checkpoint = str(fed.checkpoint)
    fed.feed([("a", 1), ("b", 1)])
    fed.run(two)
    admin.forget(checkpoint, key="a", operator=1, spark=spark)
    admin.forget(checkpoint, key=1, operator=0, spark=spark)
    editor = admin.edit(checkpoint, spark=spark)
    editor.drop_operator(0)
    with pytest.raises(CheckpointError, match=r"KEYSTATE_CANNOT_EDIT.*operator 0 be forgotten"):
        editor.write(str(target))
    assert not target.exists()
    fed.feed([("b", 2)])
    fed.run(two)
    admin.forget(checkpoint, key="b", operator=1, spark=spark)
    editor = admin.edit(checkpoint, spark=spark)
    editor.drop_operator(0)
    editor.write(str(target))
    fed.checkpoint = target
    fed.feed([("a", 3), ("b", 4)])
    assert emitted(fed.run(everything)) == [("a", 1, [3]), ("b", 1, [4])]


def test_a_key_with_other_columns_is_forgotten_before(
    spark: Any, stream: Callable[..., Any], tmp_path: Any
) -> None:
    fed = stream("key string, x long")
    fed.feed([("a", 1)])
    fed.run(everything)
    admin.forget(str(fed.checkpoint), key="a", spark=spark)
    editor = admin.edit(str(fed.checkpoint), spark=spark)
    editor.rekey("name string", lambda df: df.selectExpr("key.key as name", "*").drop("key"))
    with pytest.raises(CheckpointError, match="KEYSTATE_CANNOT_EDIT"):
        editor.write(str(tmp_path / "copy"))


def test_by_the_query_itself(spark: Any, stream: Callable[..., Any], running: list[Any]) -> None:
    """Of a plain query, and of one that changes its partitions."""
    fed = stream("key string, x long")
    fed.feed([("a", 1), ("b", 2), ("c", 3)])

    def start() -> Any:
        writer = everything(fed.source()).writeStream.format("noop")
        return writer.option("checkpointLocation", str(fed.checkpoint)).start()

    query = keystate.elastic(start, spark=spark)
    running.append(query)
    query.processAllAvailable()
    assert query.forget("a")["operators"] == [0]
    (plain,) = spark.streams.active
    assert admin.forget(plain, key="b", spark=spark)["operators"] == [0]
    query.stop()
    for ended in (plain, query):
        with pytest.raises(ConfigurationError, match="KEYSTATE_QUERY_HAS_ENDED"):
            admin.forget(ended, key="c", spark=spark)
    fed.feed([("a", 4), ("b", 5), ("c", 6)])
    assert emitted(fed.run(everything)) == [("a", 1, [4]), ("b", 1, [5]), ("c", 2, [3, 6])]


def test_one_operator_of_two(spark: Any, stream: Callable[..., Any]) -> None:
    def two(df: Any) -> Any:
        by_number = keystate.keyed(everything(df), "n")
        return by_number.process(Counted(), "n long, total long")

    fed = stream("key string, x long")
    checkpoint = str(fed.checkpoint)
    fed.feed([("a", 1)])
    assert [tuple(row) for row in fed.run(two)] == [(1, 1)]
    with pytest.raises(StateTypeError, match=r"operator 0.* name it by operator="):
        admin.forget(checkpoint, key="a", spark=spark)
    assert admin.forget(checkpoint, key="a", operator=1, spark=spark)["operators"] == [1]
    fed.feed([("a", 1)])
    assert [tuple(row) for row in fed.run(two)] == [(1, 2)]


class Counted(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        yield row.n, self.count.value()


def test_what_can_not_be_forgotten(spark: Any, stream: Callable[..., Any], tmp_path: Any) -> None:
    fed = stream("key string, x long")
    checkpoint = str(fed.checkpoint)
    with pytest.raises(CheckpointError, match="KEYSTATE_NO_CHECKPOINT"):
        admin.forget(checkpoint, key="a", spark=spark)
    fed.feed([("a", 1)])
    fed.run(lambda df: everything(df).dropDuplicates(["key"]), mode="append")
    with pytest.raises(CheckpointError, match=r"KEYSTATE_CANNOT_FORGET.*operator 0 .dedupe"):
        admin.forget(checkpoint, key="a", spark=spark)
    with pytest.raises(CheckpointError, match="KEYSTATE_NO_SUCH_STATE"):
        admin.forget(checkpoint, key="a", operator=0, spark=spark)
    with pytest.raises(StateTypeError, match="KEYSTATE_STATE_TYPE"):
        admin.forget(checkpoint, key=1, operator=1, spark=spark)
    assert admin.forget(checkpoint, key="a", operator=1, spark=spark)["operators"] == [1]
    raw = stream("key string, n long, number long")
    raw.feed([("a", 1, 1)])
    raw.run(lambda df: keystate.keyed(df, "key").process(Raw(), RAW))
    with pytest.raises(CheckpointError, match=r"KEYSTATE_CANNOT_FORGET.*raw keyed state"):
        admin.forget(str(raw.checkpoint), key="a", spark=spark)


def test_a_damaged_request_names_its_file(spark: Any, stream: Callable[..., Any]) -> None:
    fed = stream("key string, x long")
    fed.feed([("a", 1)])
    fed.run(everything)
    request = admin.forget(str(fed.checkpoint), key="a", spark=spark)["request"]
    file = fed.checkpoint / f"_keystate/forget/{request}.request"
    for content, code in (("{", "CORRUPT_FILE"), ('{"format": 2}', "UNSUPPORTED_FORMAT")):
        file.write_text(content)
        (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
        fed.feed([("a", 2)])
        with pytest.raises(StreamingQueryException, match=f"KEYSTATE_{code}.*{request}"):
            fed.run(everything)


@pytest.mark.skipif(not os.environ.get("SLOW"), reason="waits for maintenance, up to minutes")
@pytest.mark.parametrize(("checkpoint_format", "backend"), [("1", "hashmap"), ("2", "rocksdb")])
def test_no_file_has_the_key_in_the_end(
    checkpoint_format: str,
    backend: str,
    spark: Any,
    stream: Callable[..., Any],
    settings: Callable[..., None],
    running: list[Any],
) -> None:
    settings(
        **{
            FORMAT_KEY: checkpoint_format,
            "spark.keystate.backend": backend,
            "spark.sql.streaming.minBatchesToRetain": "2",
            "spark.sql.streaming.stateStore.maintenanceInterval": "100ms",
        }
    )
    fed = stream("key string, x long")
    checkpoint = str(fed.checkpoint)
    # So many that they are in run files, which are not merged with small commits.
    fed.feed([("a", 1), *((f"{i}", i) for i in range(4000))])
    query = (
        everything(fed.source())
        .writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .start()
    )
    running.append(query)
    query.processAllAvailable()
    found = admin.traces(checkpoint, key="a", spark=spark)
    assert found["key"]
    assert [file["versions"] for file in found["files"]] == [[1]]
    assert not admin.traces(checkpoint, key="b", spark=spark)["key"]
    admin.forget(checkpoint, key="a", spark=spark)
    assert len(admin.traces(checkpoint, key="a", spark=spark)["requests"]) == 1
    # The interval is that of the session's first query, if there was one before.
    end = time.monotonic() + 240
    while admin.traces(checkpoint, key="a", spark=spark)["key"]:
        assert time.monotonic() < end, admin.traces(checkpoint, key="a", spark=spark)
        fed.feed([("b", 1)])
        query.processAllAvailable()
        time.sleep(0.2)
    query.stop()
    assert files(fed) == []
    assert left(fed.checkpoint, "17", spark)["list"] == [17]
    command = [sys.executable, "-m", "keystate", "forget", checkpoint, "--check"]
    for key, code in (("a", 0), ("17", 1)):
        asked = subprocess.run([*command, key], capture_output=True, text=True, check=False)
        assert asked.returncode == code, asked.stderr
        assert ("the newest version" in asked.stdout) == bool(code)
