"""Operations on a checkpoint: what is in it, whether it is whole, copies and comparisons."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    CheckpointError,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    SortedMapStateDescriptor,
    ValueStateDescriptor,
    admin,
)
from keystate._jvm.session import FORMAT_KEY
from pyspark.sql import DataFrame, Row

from tests import jvm_archive

SCHEMA = "key string, x long"


class Everything(KeyedProcessFunction):
    """A state of every kind; a negative number clears them."""

    def open(self, ctx: Any) -> None:
        self.total = ctx.get_state(ValueStateDescriptor("total", "long", default=0))
        self.all = ctx.get_list_state(ListStateDescriptor("all", "long"))
        self.by_x = ctx.get_map_state(MapStateDescriptor("by_x", "long", "string"))
        self.sorted = ctx.get_sorted_map_state(SortedMapStateDescriptor("sorted", "long", "long"))

    def process_element(self, row: Any, ctx: Any) -> Any:
        if row.x < 0:
            for state in (self.total, self.all, self.by_x, self.sorted):
                state.clear()
            return
        self.total.update(self.total.value() + row.x)
        self.all.add(row.x)
        self.by_x[row.x] = str(row.x)
        self.sorted[-row.x] = row.x
        ctx.timer_service().register_processing_time_timer(4_000_000_000_000 + row.x)
        yield row.key, self.total.value()

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        yield from ()


def build(df: DataFrame) -> DataFrame:
    everything = keystate.keyed(df, "key")
    return everything.process(Everything(), "key string, total long", name="everything")


@pytest.fixture(params=["1", "2"])
def fed(request: Any, stream: Callable[[str], Any], settings: Callable[..., None]) -> Any:
    """A query after two batches, with either checkpoint format."""
    settings(**{FORMAT_KEY: request.param})
    made = stream(SCHEMA)
    made.feed([("a", 1), ("b", 2), ("c", 3)], [("a", 10), ("d", 4)])
    made.run(build)
    return made


def rows_of(df: DataFrame, *columns: str) -> list[Any]:
    """With the key first; what is no struct comes in one of one field."""
    rows = df.selectExpr("key.key", *columns).collect()
    return sorted(tuple(v[0] if isinstance(v, Row) else v for v in row) for row in rows)


def state_of(spark: Any, checkpoint: Path) -> dict[str, list[Any]]:
    read = {
        "total": ["value.value"],
        "all": ["list_element"],
        "by_x": ["user_map_key", "user_map_value"],
        "sorted": ["user_map_key", "user_map_value"],
        "$timers": ["expiration_timestamp_ms"],
    }
    return {
        name: rows_of(admin.read_state(spark, str(checkpoint), state=name), *columns)
        for name, columns in read.items()
    }


EXPECTED_ROWS = [("a", 1), ("a", 10), ("b", 2), ("c", 3), ("d", 4)]


def test_inspect(spark: Any, fed: Any) -> None:
    found = admin.inspect(str(fed.checkpoint))
    assert (found["batch"], found["pending"], found["partitions"]) == (1, None, 2)
    assert found["format"] == int(spark.conf.get(FORMAT_KEY))
    (operator,) = found["operators"]
    assert operator["keystate"] and operator["max_parallelism"] == 128
    assert operator["name"] == "everything"
    assert (operator["oldest_version"], operator["newest_version"]) == (1, 2)
    kinds = {state["name"]: (state["kind"], state["entries"]) for state in operator["states"]}
    assert kinds == {
        "total": ("value", 4),
        "all": ("list", 4),
        "by_x": ("map", 5),
        "sorted": ("sorted_map", 5),
        "$timers": ("timers", 5),
    }
    groups = [part["groups"] for part in operator["partitions"]]
    assert groups == [[0, 63], [64, 127]]
    assert sum(part["entries"] for part in operator["partitions"]) == 23
    folder = fed.checkpoint / "state/0"
    assert operator["files"] == sum(path.is_file() and path.suffix != ".crc" for path in
                                    folder.rglob("*"))  # fmt: skip


def test_read_state(spark: Any, fed: Any) -> None:
    state = state_of(spark, fed.checkpoint)
    assert state["total"] == [("a", 11), ("b", 2), ("c", 3), ("d", 4)]
    assert state["all"] == EXPECTED_ROWS
    assert state["by_x"] == [(key, x, str(x)) for key, x in EXPECTED_ROWS]
    assert state["sorted"] == sorted((key, -x, x) for key, x in EXPECTED_ROWS)
    assert state["$timers"] == [(key, 4_000_000_000_000 + x) for key, x in EXPECTED_ROWS]
    first = admin.read_state(spark, str(fed.checkpoint), state="total", version=1, operator=0)
    assert rows_of(first, "value.value") == [("a", 1), ("b", 2), ("c", 3)]


class Durations(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.last = ctx.get_state(ValueStateDescriptor("last", "interval day to second"))

    def process_element(self, row: Any, ctx: Any) -> None:
        self.last.update(timedelta(seconds=row.key))


def test_a_type_that_spark_does_not_read(spark: Any, stream: Any) -> None:
    fed = stream("key long")
    fed.feed([(5,)])
    fed.run(lambda df: keystate.keyed(df, "key").process(Durations(), "key long"))
    checkpoint = str(fed.checkpoint)
    assert rows_of(admin.read_state(spark, checkpoint, state="last"), "value.value") == [
        (5, timedelta(seconds=5))
    ]
    assert admin.lookup(checkpoint, state="last", key=5) == timedelta(seconds=5)


class Neighbours(KeyedProcessFunction):
    """A state that Spark can read between two that it can't."""

    def open(self, ctx: Any) -> None:
        self.a = ctx.get_state(ValueStateDescriptor("a", "map<int,string>"))
        self.b = ctx.get_state(ValueStateDescriptor("b", "long"))
        self.c = ctx.get_list_state(ListStateDescriptor("c", "x interval day to second"))

    def process_element(self, row: Any, ctx: Any) -> None:
        self.a.update({row.key: "x"})
        self.b.update(row.key)
        self.c.add((timedelta(seconds=row.key),))


def test_a_state_beside_those_that_spark_does_not_read(
    spark: Any, stream: Any, tmp_path: Path
) -> None:
    fed = stream("key long")
    for key in (5, 6):
        fed.feed([(key,)])
        fed.run(lambda df: keystate.keyed(df, "key").process(Neighbours(), "key long"))
    checkpoint = str(fed.checkpoint)
    read = admin.read_state(spark, checkpoint, state="b")
    assert rows_of(read, "value.value") == [(5, 5), (6, 6)]
    maps = admin.read_state(spark, checkpoint, state="a").orderBy("key.key")
    assert [row.value.value for row in maps.collect()] == [{5: "x"}, {6: "x"}]
    assert rows_of(admin.read_state(spark, checkpoint, state="c"), "list_element.x") == [
        (key, timedelta(seconds=key)) for key in (5, 6)
    ]
    assert admin.lookup(checkpoint, state="a", key=5) == {5: "x"}
    editor = admin.edit(checkpoint)
    editor.replace("b", editor.read("b").selectExpr("key", "value + 1 as value"))
    editor.write(str(tmp_path / "edited"))
    assert admin.lookup(str(tmp_path / "edited"), state="b", key=5) == 6
    assert admin.lookup(str(tmp_path / "edited"), state="a", key=5) == {5: "x"}


def test_read_state_that_is_not_there(spark: Any, fed: Any, tmp_path: Path) -> None:
    checkpoint = str(fed.checkpoint)
    with pytest.raises(CheckpointError, match=r"no state 'sum' in .* operator 0: total; operator"):
        admin.read_state(spark, checkpoint, state="sum")
    with pytest.raises(CheckpointError, match=r"more than one state .*by state= \(--state\)"):
        admin.read_state(spark, checkpoint)
    with pytest.raises(CheckpointError, match="'total' of operator 3"):
        admin.read_state(spark, checkpoint, state="total", operator=3)
    with pytest.raises(CheckpointError, match=r"version 9 .* versions 1 to 2"):
        admin.read_state(spark, checkpoint, state="total", version=9)
    with pytest.raises(CheckpointError, match="KEYSTATE_NO_CHECKPOINT"):
        admin.inspect(str(tmp_path / "nowhere"))
    assert not (tmp_path / "nowhere").exists()


def test_timers_only(spark: Any, stream: Callable[[str], Any]) -> None:
    class Alarm(KeyedProcessFunction):
        def process_element(self, row: Any, ctx: Any) -> Any:
            ctx.timer_service().register_processing_time_timer(4_000_000_000_000)

        def on_timer(self, timestamp: int, ctx: Any) -> Any:
            yield from ()

    fed = stream(SCHEMA)
    fed.feed([("a", 1)])
    fed.run(lambda df: keystate.keyed(df, "key").process(Alarm(), "key string"))
    timers = admin.read_state(spark, str(fed.checkpoint), state="$timers")
    (row,) = timers.collect()
    assert (row.key.key, row.time_domain) == ("a", "PROCESSING_TIME")
    assert row.expiration_timestamp_ms == 4_000_000_000_000


def test_verify(spark: Any, fed: Any) -> None:
    checkpoint = str(fed.checkpoint)
    assert admin.verify(checkpoint) == []
    for path in sorted((fed.checkpoint / "state/0").glob("[01]/*.keystate")):
        good = path.read_bytes()
        crc = path.with_name(f".{path.name}.crc")
        crc.unlink(missing_ok=True)
        path.write_bytes(good[:70] + bytes([good[70] ^ 1]) + good[71:])
        (problem,) = admin.verify(checkpoint)
        assert "KEYSTATE_CORRUPT_FILE" in problem and path.name in problem
        path.unlink()
        version, partition = int(path.name.split(".")[0].split("_")[0]), path.parent.name
        problems = admin.verify(checkpoint)
        if version == 2:
            (problem,) = problems
            assert "KEYSTATE_MISSING_VERSION" in problem
            assert f"partition {partition}" in problem and "Version 2" in problem
        path.write_bytes(good)
    assert admin.verify(checkpoint) == []


def test_verify_run_files(spark: Any, stream: Callable[[str], Any]) -> None:
    fed = stream(SCHEMA)
    fed.feed([(f"{key} {'x' * 200}", key) for key in range(500)], [("a", 1)])
    fed.run(build)
    runs = sorted((fed.checkpoint / "state/0").glob("[01]/*.lz4"))
    assert len(runs) == 2
    assert admin.verify(str(fed.checkpoint)) == []
    good = runs[0].read_bytes()
    runs[0].with_name(f".{runs[0].name}.crc").unlink(missing_ok=True)
    runs[0].write_bytes(good[:5000] + b"?" + good[5001:])
    (problem,) = admin.verify(str(fed.checkpoint))
    assert "KEYSTATE_CORRUPT_FILE" in problem and runs[0].name in problem
    runs[0].unlink()
    (problem,) = admin.verify(str(fed.checkpoint))
    assert "KEYSTATE_MISSING_FILE" in problem and runs[0].name in problem


def test_savepoint(spark: Any, fed: Any, tmp_path: Path) -> None:
    """A copy from which a query goes on when the checkpoint is gone."""
    copy = tmp_path / "savepoint"
    assert admin.savepoint(str(fed.checkpoint), str(copy)) == 1
    before = state_of(spark, fed.checkpoint)
    fed.feed([("a", 100), ("e", 5)])
    expected = fed.run(build)
    after = state_of(spark, fed.checkpoint)
    assert before != after
    shutil.rmtree(fed.checkpoint)

    assert state_of(spark, copy) == before
    assert admin.verify(str(copy)) == []
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".savepoint")] == []
    fed.checkpoint = copy
    assert sorted(fed.run(build)) == sorted(expected)
    assert state_of(spark, copy) == after


def test_savepoint_after_a_rescale(
    spark: Any, fed: Any, tmp_path: Path, settings: Callable[..., None]
) -> None:
    settings(**{"spark.sql.shuffle.partitions": "3"})
    keystate.rescale(str(fed.checkpoint), 3)
    copy = tmp_path / "deep" / "savepoint"
    copy.mkdir(parents=True)
    assert admin.savepoint(str(fed.checkpoint), str(copy)) == 1
    shutil.rmtree(fed.checkpoint)
    assert admin.inspect(str(copy))["partitions"] == 3
    fed.checkpoint = copy
    fed.feed([("a", 100)])
    assert [tuple(row) for row in fed.run(build)] == [("a", 111)]
    assert state_of(spark, copy)["all"] == sorted([*EXPECTED_ROWS, ("a", 100)])


def test_savepoint_refuses(spark: Any, fed: Any, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(CheckpointError, match="KEYSTATE_SAVEPOINT_EXISTS"):
        admin.savepoint(str(fed.checkpoint), str(tmp_path / "full"))
    newest = next((fed.checkpoint / "state/0/0").glob("2*.keystate"))
    newest.unlink()
    with pytest.raises(CheckpointError, match="KEYSTATE_MISSING_VERSION"):
        admin.savepoint(str(fed.checkpoint), str(tmp_path / "copy"))
    assert sorted(p.name for p in tmp_path.iterdir() if "copy" in p.name) == []


def test_savepoint_of_a_checkpoint_that_lacks_a_run(spark: Any, fed: Any, tmp_path: Path) -> None:
    # More than fits into a version file.
    fed.feed([(f"key{i}", i) for i in range(20_000)])
    fed.run(build)
    run = max((fed.checkpoint / "state").rglob("*.lz4"), key=lambda path: path.stat().st_size)
    run.unlink()
    with pytest.raises(CheckpointError, match=rf"KEYSTATE_MISSING_FILE.*{run.name}"):
        admin.savepoint(str(fed.checkpoint), str(tmp_path / "copy"))
    assert sorted(p.name for p in tmp_path.iterdir() if "copy" in p.name) == []


def test_diff(spark: Any, fed: Any, tmp_path: Path, settings: Callable[..., None]) -> None:
    copy = str(tmp_path / "copy")
    admin.savepoint(str(fed.checkpoint), copy)
    unchanged = admin.diff(copy, str(fed.checkpoint))
    assert {d["state"]: d["same"] for d in unchanged} == {
        "total": 4, "all": 4, "by_x": 4, "sorted": 4, "$timers": 5
    }  # fmt: skip
    assert all(d["added"] == d["removed"] == d["changed"] == 0 for d in unchanged)
    # The order and the number of partitions don't matter.
    settings(**{"spark.sql.shuffle.partitions": "5"})
    fed.feed([("a", 20), ("b", -1), ("e", 5), ("f", 6)])
    fed.run(build)
    for d in admin.diff(copy, str(fed.checkpoint)):
        counts = (d["added"], d["removed"], d["changed"], d["same"])
        assert counts == ((3, 0, 0, 5) if d["state"] == "$timers" else (2, 1, 1, 2)), d
    for d in admin.diff(str(fed.checkpoint), copy):
        counts = (d["added"], d["removed"], d["changed"], d["same"])
        assert counts == ((0, 3, 0, 5) if d["state"] == "$timers" else (1, 2, 1, 2)), d


def test_report(spark: Any, fed: Any, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(admin.report(str(fed.checkpoint)).html())
    page = path.read_text()
    assert "<td>sorted_map</td>" in page and "Every file is as written" in page
    next((fed.checkpoint / "state/0/0").glob("1*.keystate")).write_bytes(b"?")
    (fed.checkpoint / "state/0/0/.1.keystate.crc").unlink(missing_ok=True)
    path.write_text(admin.report(str(fed.checkpoint)).html())
    assert "KEYSTATE_CORRUPT_FILE" in path.read_text()


def test_diff_of_lists_compares_their_elements(
    spark: Any, stream_class: Any, tmp_path: Path
) -> None:
    """How a list is stored depends on the micro-batches in which its elements came."""

    def build(df: DataFrame) -> DataFrame:
        return keystate.keyed(df, "key", order_by="i").process(Notes(), "i long")

    def rows(key: str, count: int) -> list[Any]:
        return [(key, i, f"{i}" * 3000, "x" if i % 2 else None) for i in range(count)]

    def ran(name: str, *batches: list[Any]) -> str:
        fed = stream_class(spark, tmp_path / name, "key string, i long, text string, mark string")
        fed.feed(*batches)
        fed.run(build)
        return str(fed.checkpoint)

    def counts(before: str, after: str) -> dict[str, list[int]]:
        return {
            found["state"]: [found[what] for what in ("added", "removed", "changed", "same")]
            for found in admin.diff(before, after)
        }

    def chunks(checkpoint: str) -> int:
        states = admin.inspect(checkpoint)["operators"][0]["states"]
        return next(state["entries"] for state in states if state["name"] == "texts")

    all_at_once = ran("first", rows("a", 4) + rows("b", 3))
    one_by_one = ran("second", *[[row] for row in rows("a", 4) + rows("b", 3)])
    assert chunks(all_at_once) < chunks(one_by_one)
    none = {"texts": [0, 0, 0, 2], "marked": [0, 0, 0, 2], "last": [0, 0, 0, 2]}
    assert counts(all_at_once, one_by_one) == none
    # Another order, another null, and one element more.
    (first, second), rest = rows("a", 2), rows("b", 2)
    other = ran("third", [(*first[:2], second[2], first[3]), (*second[:2], first[2], None)], rest)
    two = ran("fourth", [first, second], rest)
    assert counts(two, other) == {
        "texts": [0, 0, 1, 1],
        "marked": [0, 0, 1, 1],
        "last": [0, 0, 0, 2],
    }
    assert counts(two, ran("fifth", [first, second], rows("b", 3)))["texts"] == [0, 0, 1, 1]


class Notes(KeyedProcessFunction):
    """Lists of strings and of structs."""

    def open(self, ctx: Any) -> None:
        self.texts = ctx.get_list_state(ListStateDescriptor("texts", "string"))
        self.marked = ctx.get_list_state(ListStateDescriptor("marked", "i long, mark string"))
        self.last = ctx.get_state(ValueStateDescriptor("last", "long"))

    def process_element(self, row: Any, ctx: Any) -> None:
        self.texts.add(row.text)
        self.marked.add((row.i, row.mark))
        self.last.update(row.i)


def test_sparks_own_operators(spark: Any, stream: Callable[[str], Any], tmp_path: Path) -> None:
    """A stream-stream join has four stores for each partition."""
    fed = stream(SCHEMA)
    fed.feed([("a", 1), ("b", 2)], [("a", 3)])

    def join(df: DataFrame) -> DataFrame:
        left = df.alias("l")
        right = df.selectExpr("key AS k", "x AS y").alias("r")
        return left.join(right, left.key == right.k).select("key", "x", "y")

    fed.run(join)
    found = admin.inspect(str(fed.checkpoint))
    (operator,) = found["operators"]
    assert not operator["keystate"]
    assert len({part["store"] for part in operator["partitions"]}) == 4
    assert admin.verify(str(fed.checkpoint)) == []
    copy = tmp_path / "copy"
    admin.savepoint(str(fed.checkpoint), str(copy))
    fed.feed([("b", 4)])
    expected = fed.run(join)
    shutil.rmtree(fed.checkpoint)
    fed.checkpoint = copy
    assert sorted(fed.run(join)) == sorted(expected)


@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
def test_operators_without_keys(
    spark: Any,
    checkpoint_format: str,
    stream: Callable[[str], Any],
    settings: Callable[..., None],
    tmp_path: Path,
) -> None:
    """A limit has all it has in one partition, whatever the number of partitions is."""
    settings(**{FORMAT_KEY: checkpoint_format})

    def build(df: DataFrame) -> DataFrame:
        return df.dropDuplicates(["key"]).limit(3)

    fed = stream(SCHEMA)
    fed.feed([("a", 1), ("b", 2)], [("a", 3)])
    assert len(fed.run(build)) == 2
    for partitions in (2, 3):
        settings(**{"spark.sql.shuffle.partitions": str(partitions)})
        keystate.rescale(str(fed.checkpoint), partitions)
        found = admin.inspect(str(fed.checkpoint))
        assert found["partitions"] == partitions
        numbers = {op["name"]: len(op["partitions"]) for op in found["operators"]}
        assert numbers == {"dedupe": partitions, "globalLimit": 1}
        assert admin.verify(str(fed.checkpoint)) == []
        copy = tmp_path / f"copy{partitions}"
        admin.savepoint(str(fed.checkpoint), str(copy))
        assert admin.verify(str(copy)) == []
        assert [d["same"] for d in admin.diff(str(copy), str(fed.checkpoint))] == [1, 2]
    shutil.rmtree(fed.checkpoint)
    fed.checkpoint = copy
    fed.feed([("a", 4), ("c", 5), ("d", 6)])
    assert len(fed.run(build)) == 1


def test_diff_of_operators_of_spark(
    spark: Any, stream: Callable[[str], Any], settings: Callable[..., None], tmp_path: Path
) -> None:
    """Each partition of them has keys of all groups, whatever the number of partitions is."""
    settings(**{FORMAT_KEY: "2"})

    def build(df: DataFrame) -> DataFrame:
        return df.dropDuplicates(["key"])

    def counts(before: Path, after: Path) -> list[int]:
        (found,) = admin.diff(str(before), str(after))
        return [found[what] for what in ("added", "removed", "changed", "same")]

    fed = stream(SCHEMA)
    fed.feed([(f"k{i}", i) for i in range(30)])
    fed.run(build)
    first, second = tmp_path / "first", tmp_path / "second"
    admin.savepoint(str(fed.checkpoint), str(first))
    keystate.rescale(str(fed.checkpoint), 3)
    assert counts(first, fed.checkpoint) == [0, 0, 0, 30]
    admin.savepoint(str(fed.checkpoint), str(second))
    settings(**{"spark.sql.shuffle.partitions": "3"})
    fed.feed([("new", 1), ("k1", 1)])
    assert len(fed.run(build)) == 1
    assert counts(first, fed.checkpoint) == counts(second, fed.checkpoint) == [1, 0, 0, 30]
    assert counts(fed.checkpoint, second) == [0, 1, 0, 30]


def test_only_operators_without_keys(
    spark: Any, stream: Callable[[str], Any], settings: Callable[..., None], tmp_path: Path
) -> None:
    settings(**{FORMAT_KEY: "2"})

    def build(df: DataFrame) -> DataFrame:
        return df.groupBy().sum("x")

    fed = stream(SCHEMA)
    fed.feed([("a", 1)])
    fed.run(build, mode="complete")
    (operator,) = admin.inspect(str(fed.checkpoint))["operators"]
    assert len(operator["partitions"]) == 1
    copy = tmp_path / "copy"
    admin.savepoint(str(fed.checkpoint), str(copy))
    assert admin.verify(str(copy)) == []
    shutil.rmtree(fed.checkpoint)
    fed.checkpoint = copy
    fed.feed([("b", 2)])
    assert [tuple(row) for row in fed.run(build, mode="complete")] == [(3,)]


def test_source_in_a_checkpoint(spark: Any, tmp_path: Path) -> None:
    from examples.counter_source import start

    start(spark, str(tmp_path), 50, rows=20).awaitTermination()
    checkpoint = tmp_path / "checkpoint"
    found = admin.inspect(str(checkpoint))
    (source,) = found["sources"]
    assert (source["name"], source["parallelism"]) == ("CounterSource", 2)
    assert source["state_elements"] == {"$list": 2}
    assert admin.verify(str(checkpoint)) == []
    path = next((checkpoint / "sources/0").glob(f"{source['batch']}_*.source"))
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    path.write_bytes(path.read_bytes()[:-3])
    (problem,) = admin.verify(str(checkpoint))
    assert "KEYSTATE_CORRUPT_FILE" in problem and path.name in problem


@pytest.mark.turns
def test_command(spark: Any, stream: Callable[[str], Any], tmp_path: Path) -> None:
    """The command as a user runs it, in processes of its own, which start at the same time."""
    fed = stream(SCHEMA)
    fed.feed([("a", 1), ("b", 2)])
    fed.run(build)
    checkpoint, copy = str(fed.checkpoint), str(tmp_path / "copy")
    admin.savepoint(checkpoint, copy)

    def run(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "keystate", *arguments]
        return subprocess.Popen(
            command,
            env={**os.environ, **jvm_archive.ENVIRONMENT},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    with (
        run("inspect", checkpoint, "--json") as inspects,
        run("savepoint", checkpoint, copy) as refused,
        run("inspect", "x", "--conf", "spark.master=nonsense") as without_session,
    ):
        out, _ = inspects.communicate(timeout=200)
        assert inspects.returncode == 0
        assert json.loads(out) == admin.inspect(checkpoint)
        out, error = refused.communicate(timeout=200)
        assert (refused.returncode, out) == (2, "") and "KEYSTATE_SAVEPOINT_EXISTS" in error
        assert "Traceback" not in error
        _, error = without_session.communicate(timeout=200)
        assert without_session.returncode == 2 and "Traceback" not in error
        assert "keystate: " in error and "nonsense" in error


def test_command_in_this_process(
    spark: Any,
    stream: Callable[[str], Any],
    capsys: Any,
    monkeypatch: Any,
    tmp_path: Path,
) -> None:
    """The other commands, on the session of the tests."""
    from keystate.tools import command

    fed = stream(SCHEMA)
    fed.feed([("a", 1), ("b", 2)])
    fed.run(build)
    monkeypatch.setattr(command, "_reader", lambda given: nullcontext(spark))

    def run(*arguments: str) -> tuple[int, str]:
        code = command.main(arguments)
        return code, capsys.readouterr().out

    checkpoint = str(fed.checkpoint)
    code, out = run("inspect", checkpoint)
    assert code == 0, out
    assert any(line.split() == ["total", "value", "-", "bigint", "-", "2"] for line in
               out.splitlines())  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        code, out = run("read-state", checkpoint, "--state", "total")
    assert code == 0
    values = [json.loads(line) for line in out.splitlines()]
    assert sorted(v["value"]["value"] for v in values) == [1, 2]
    try:
        rows = "SELECT key.key, value.value FROM total ORDER BY 1"
        assert run("sql", checkpoint, rows) == (0, "key  value\na    1\nb    2\n")
        code, out = run("sql", checkpoint, rows, "--limit", "1")
        assert out.splitlines() == ["key  value", "a    1", "There are more rows: --limit"]
        told = json.loads(
            run("sql", checkpoint, "SELECT key FROM total WHERE key.key = 'a'", "--json")[1]
        )
        assert told == {"columns": ["key"], "rows": [[{"key": "a"}]], "more": False}
        for mistake in ("SELEC 1", "SELECT nope FROM total", "SELECT * FROM nowhere"):
            assert command.main(["sql", checkpoint, mistake]) == 2
            shown = capsys.readouterr()
            assert shown.out == "" and shown.err.count("\n") == 1, shown
    finally:
        spark.catalog.setCurrentCatalog("spark_catalog")
    assert run("verify", checkpoint) == (0, "every file is as it was written\n")
    copy, other = str(tmp_path / "copy"), str(tmp_path / "other")
    for savepoint in (copy, other):
        said = f"{savepoint} has the state after batch 0\n"
        assert run("savepoint", checkpoint, savepoint) == (0, said)
    assert run("rescale", other, "3") == (0, "rescaled from 2 to 3 partitions\n")
    assert run("diff", checkpoint, copy)[0] == 0
    fed.feed([("a", 2)])
    fed.run(build)
    code, out = run("diff", copy, checkpoint)
    assert code == 1
    assert any(line.split() == ["0", "total", "0", "0", "1", "1"] for line in out.splitlines())
    assert run("report", checkpoint, str(tmp_path / "page.html"))[0] == 0
    assert (tmp_path / "page.html").exists()
    for path in (fed.checkpoint / "state/0/1").glob("*.keystate"):
        path.write_bytes(b"")
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    code, out = run("verify", checkpoint)
    assert code == 1 and "KEYSTATE_CORRUPT_FILE" in out
    assert run("inspect", checkpoint)[0] == 2

    nothing = tmp_path / "nothing"
    nothing.mkdir()
    assert run("rescale", str(nothing), "3")[0] == 2
    assert list(nothing.iterdir()) == []
    for number in ("99999999999", "0"):
        with pytest.raises(SystemExit, match="2"):
            command.main(("rescale", checkpoint, number))
        assert f"got {number}\n" in capsys.readouterr().err
    for arguments in (
        ("savepoint", copy, "nosuch://host/copy"),
        ("report", copy, str(tmp_path / "no/such/folder/page.html")),
    ):
        assert command.main(arguments) == 2, arguments
        said = capsys.readouterr()
        assert said.err.startswith("keystate: ") and "\tat " not in said.err
        assert "Traceback" not in said.err
