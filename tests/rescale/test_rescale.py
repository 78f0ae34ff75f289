"""A query's parallelism changes between runs; its state does not."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from keystate._jvm.session import FORMAT_KEY
from keystate._types.waiting import wait_until
from pyspark.errors import StreamingQueryException

from tests.conftest import KEEP_SECONDS, Stream

FORMATS = ["1", "2"]
GROUPS = 16


class History(KeyedProcessFunction):
    """Everything that a key has seen, in each kind of state; and where it was processed."""

    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))
        self.seen = ctx.get_list_state(ListStateDescriptor("seen", "long"))
        self.last = ctx.get_map_state(MapStateDescriptor("last", "long", "long"))
        self.subtask = ctx.get_index_of_this_subtask()
        self.parallelism = ctx.get_number_of_parallel_subtasks()

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        self.seen.add(row.x)
        self.last[row.x % 3] = row.x
        last = sorted(self.last.items())
        seen = list(self.seen)
        yield row.key, self.count.value(), seen, last, self.subtask, self.parallelism


OUTPUT = (
    "key string, count long, seen array<long>, last array<struct<k: long, v: long>>, "
    "subtask int, parallelism int"
)


def history(df: Any) -> Any:
    out = keystate.keyed(df, "key", max_parallelism=GROUPS).process(History(), OUTPUT)
    return out.selectExpr("*", f"pmod(hash(key), {GROUPS}) AS key_group")


def rows(seed: int, count: int = 120, keys: int = 40) -> list[tuple[str, int]]:
    rng = random.Random(seed)
    return [(f"key-{rng.randrange(keys)}", rng.randrange(1000)) for _ in range(count)]


class Expected:
    """What the keys have seen."""

    def __init__(self) -> None:
        self.seen: dict[str, list[int]] = {}

    def check(self, fed: list[tuple[str, int]], emitted: list[Any], parallelism: int) -> None:
        expected = []
        for key, x in fed:
            seen = self.seen.setdefault(key, [])
            seen.append(x)
            last = sorted({y % 3: y for y in seen}.items())
            expected.append((key, len(seen), list(seen), last))
        got = [(r["key"], r["count"], r["seen"], [tuple(e) for e in r["last"]]) for r in emitted]
        assert sorted(got) == sorted(expected)
        assert {row.parallelism for row in emitted} == {parallelism}
        # Flink's formula gives the owner of a key group.
        assert all(row.subtask == row.key_group * parallelism // GROUPS for row in emitted)


@pytest.mark.parametrize("checkpoint_format", FORMATS)
@pytest.mark.parametrize("keep_seconds", ["0", "60"])
def test_up_and_down_at_restarts(
    keep_seconds: str,
    checkpoint_format: str,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    settings(**{FORMAT_KEY: checkpoint_format, KEEP_SECONDS: keep_seconds})
    fed, expected = stream("key string, x long"), Expected()
    for i, partitions in enumerate([2, 4, 3, 3, 16, 1, 5]):
        settings(**{"spark.sql.shuffle.partitions": str(partitions)})
        batch = rows(i)
        fed.feed(batch)
        expected.check(batch, fed.run(history), partitions)


@pytest.mark.parametrize("backend", ["hashmap", "auto"])
def test_goes_on_with_what_is_in_memory(
    backend: str, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """Files of runs that are gone are not missed, unless nothing was to stay in memory."""
    settings(**{KEEP_SECONDS: "60", "spark.keystate.backend": backend})
    fed, expected = stream("key string, x long"), Expected()

    def run_files() -> list[Path]:
        state = fed.checkpoint / "state"
        return [path for path in state.rglob("*") if path.suffix in (".lz4", ".run")]

    def run(seed: int, partitions: int) -> None:
        settings(**{"spark.sql.shuffle.partitions": str(partitions)})
        batch = rows(seed, count=4_000, keys=2_000)
        fed.feed(batch)
        expected.check(batch, fed.run(history), partitions)

    run(0, 2)
    for seed, partitions in ((1, 3), (2, 1), (3, 2)):
        gone = run_files()
        assert gone, list((fed.checkpoint / "state").rglob("*"))
        kept = fed.checkpoint.parent / "kept"
        shutil.copytree(fed.checkpoint, kept)
        for path in gone:
            path.unlink()
        run(seed, partitions)
        # Else the first maintenance might look for them.
        for path in gone:
            shutil.copy(kept / path.relative_to(fed.checkpoint), path)
        shutil.rmtree(kept)
    settings(**{KEEP_SECONDS: "0"})
    run(4, 2)
    for path in run_files():
        path.unlink()
    with pytest.raises(StreamingQueryException, match="KEYSTATE_MISSING"):
        run(5, 3)


def test_databases_of_the_last_run_are_closed(
    spark: Any, stream: Callable[..., Any], settings: Callable[..., None], keeps_memory: None
) -> None:
    """At once: they share memory and threads with those of the run that goes on."""
    settings(**{"spark.keystate.backend": "rocksdb"})
    local = Path(spark._jvm.org.apache.spark.util.Utils.getLocalDir(spark._jsc.sc().conf()))

    def databases() -> set[Path]:
        return {path.parent for path in local.glob("keystate-*-*/*/CURRENT")}

    fed, expected = stream("key string, x long"), Expected()
    before, made = databases(), []
    for seed, partitions in enumerate((3, 2, 4)):
        settings(**{"spark.sql.shuffle.partitions": str(partitions)})
        batch = rows(seed)
        fed.feed(batch)
        expected.check(batch, fed.run(history), partitions)
        made.append(databases() - before.union(*made))
        assert made[-1]
    # Well before Spark unloads them, once a minute.
    wait_until(lambda: not databases() & (made[0] | made[1]), "databases that go", seconds=15)


def test_a_query_of_another_session(spark: Any, tmp_path: Path) -> None:
    """It is rescaled too, and takes its checkpoint."""
    other = spark.newSession()
    fed, expected = Stream(other, tmp_path, "key string, x long"), Expected()
    for i, partitions in enumerate([2, 3]):
        other.conf.set("spark.sql.shuffle.partitions", partitions)
        batch = rows(i)
        fed.feed(batch)
        expected.check(batch, fed.run(history), partitions)
        assert (fed.checkpoint / f"_keystate/owners/{i + 1}").exists()


@pytest.mark.parametrize("checkpoint_format", FORMATS)
def test_explicit_call(
    spark: Any,
    checkpoint_format: str,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    settings(
        **{
            FORMAT_KEY: checkpoint_format,
            "spark.keystate.rescale.onRestart": "off",
        }
    )
    fed, expected = stream("key string, x long"), Expected()
    for i, partitions in enumerate([2, 5, 5, 3]):
        if i:
            before = [2, 2, 5, 5][i]
            assert keystate.rescale(str(fed.checkpoint), partitions, spark=spark) == before
        batch = rows(10 + i)
        fed.feed(batch)
        expected.check(batch, fed.run(history), partitions)
    # Off: another setting changes nothing.
    settings(**{"spark.sql.shuffle.partitions": "7"})
    batch = rows(20)
    fed.feed(batch)
    expected.check(batch, fed.run(history), 3)


@pytest.mark.parametrize("checkpoint_format", FORMATS)
@pytest.mark.parametrize("partitions", [1, 5])
def test_with_a_batch_pending(
    checkpoint_format: str,
    partitions: int,
    stream: Callable[..., Any],
    settings: Callable[..., None],
) -> None:
    settings(**{FORMAT_KEY: checkpoint_format})
    fed, expected = stream("key string, x long"), Expected()
    first, second, third = rows(30), rows(31), rows(32)
    fed.feed(first)
    expected.check(first, fed.run(history), 2)
    fed.feed(second)
    with pytest.raises(StreamingQueryException):
        fed.run(lambda df: history(df).selectExpr("*", "raise_error('after the state')"))
    assert not (fed.checkpoint / "commits" / "1").exists()
    assert (fed.checkpoint / "offsets" / "1").exists()
    settings(**{"spark.sql.shuffle.partitions": str(partitions)})
    expected.check(second, fed.run(history), partitions)
    fed.feed(third)
    expected.check(third, fed.run(history), partitions)


@pytest.mark.parametrize("checkpoint_format", FORMATS)
def test_interrupted_before_the_logs_change(
    spark: Any, checkpoint_format: str, stream: Callable[..., Any], settings: Callable[..., None]
) -> None:
    """What a crash leaves at each step: new version files, then commit ids, with old offsets."""
    settings(**{FORMAT_KEY: checkpoint_format})
    fed, expected = stream("key string, x long"), Expected()
    batch = rows(40)
    fed.feed(batch)
    expected.check(batch, fed.run(history), 2)
    old_offsets = (fed.checkpoint / "offsets" / "0").read_text()
    old_commit = (fed.checkpoint / "commits" / "0").read_text()
    keystate.rescale(str(fed.checkpoint), 4, spark=spark)
    assert (fed.checkpoint / "offsets" / "0").read_text() != old_offsets
    for restored in ({"offsets": old_offsets, "commits": old_commit}, {"offsets": old_offsets}):
        copy = Path(f"{fed.checkpoint}-{len(restored)}")
        shutil.copytree(fed.checkpoint, copy)
        for log, text in restored.items():
            (copy / log / "0").write_text(text)
            (copy / log / ".0.crc").unlink(missing_ok=True)
    batch = rows(41)
    fed.feed(batch)
    crashed = fed.checkpoint
    for steps in (2, 1):
        fed.checkpoint = Path(f"{crashed}-{steps}")
        settings(**{"spark.sql.shuffle.partitions": "4"})
        again = Expected()
        again.seen = {key: list(seen) for key, seen in expected.seen.items()}
        again.check(batch, fed.run(history), 4)


def test_refusals(spark: Any, stream: Callable[..., Any], settings: Callable[..., None]) -> None:
    fed, expected = stream("key string, x long"), Expected()
    batch = rows(50)
    fed.feed(batch)
    expected.check(batch, fed.run(history), 2)
    with pytest.raises(keystate.CheckpointError, match="KEYSTATE_PARALLELISM_TOO_HIGH"):
        keystate.rescale(str(fed.checkpoint), 17, spark=spark)
    batch = rows(51)
    fed.feed(batch)
    settings(**{"spark.sql.shuffle.partitions": "17"})
    with pytest.raises(StreamingQueryException, match="at most 16"):
        fed.run(history)
    settings(**{"spark.sql.shuffle.partitions": "2"})
    expected.check(batch, fed.run(history), 2)
    with pytest.raises(ValueError, match="must be 1 to"):
        keystate.rescale(str(fed.checkpoint), 0, spark=spark)


@pytest.mark.parametrize("partitions", [1, 2, 5])
def test_with_a_batch_pending_that_the_sink_has(
    spark: Any, partitions: int, tmp_path: Path, settings: Callable[..., None]
) -> None:
    """The driver died between the file sink's commit and Spark's: the sink skips the batch."""
    settings(**{FORMAT_KEY: "1"})
    folders = {name: str(tmp_path / name) for name in ("input", "checkpoint", "output")}
    fed: list[tuple[str, int]] = []

    def run(seed: int) -> None:
        batch = rows(seed)
        fed.extend(batch)
        spark.createDataFrame(batch, "key string, x long").coalesce(1).write.mode("append").parquet(
            folders["input"]
        )
        restart()

    def restart() -> None:
        source = spark.readStream.schema("key string, x long").parquet(folders["input"])
        query = (
            history(source)
            .select("key", "count", "parallelism")
            .writeStream.option("checkpointLocation", folders["checkpoint"])
            .trigger(availableNow=True)
            .start(folders["output"])
        )
        query.awaitTermination()

    run(60)
    run(61)
    for name in ("1", ".1.crc"):
        (tmp_path / "checkpoint" / "commits" / name).unlink(missing_ok=True)
    settings(**{"spark.sql.shuffle.partitions": str(partitions)})
    restart()
    run(62)
    emitted = spark.read.parquet(folders["output"])
    expected: dict[str, int] = {}
    for key, _ in fed:
        expected[key] = expected.get(key, 0) + 1
    assert dict(emitted.groupBy("key").agg({"count": "max"}).collect()) == expected
    assert emitted.count() == len(fed)
    assert emitted.groupBy().max("parallelism").first()[0] == max(2, partitions)
