"""Savepoints of a query that runs, and of versions before the last one."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import CheckpointError, admin
from keystate._jvm import bridge
from keystate._jvm.session import FORMAT_KEY
from keystate._types import waiting
from keystate.checkpoints import rescale_requests
from keystate.tools import backups
from keystate.tools.command import main
from pyspark.sql import DataFrame

from tests.drawn import drawn

BATCHES, KEYS, PER_KEY = 14, 40, 3
#: Long, so that what a batch changes is a file of its own, which is merged and deleted soon.
TEXT = "x" * 400


class Counts(keystate.KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.state = ctx.get_state(
            keystate.ValueStateDescriptor("count", "count long, text string")
        )

    def process_element(self, row: Any, ctx: Any) -> Any:
        count = (self.state.value() or (0, ""))[0] + 1
        self.state.update((count, f"{row.key} {count} {TEXT}"))
        yield row.key, count


def build(df: DataFrame) -> DataFrame:
    return keystate.keyed(df, "key").process(Counts(), "key long, count long")


def counts(spark: Any, checkpoint: Path) -> dict[int, int]:
    state = admin.read_state(spark, str(checkpoint), state="count")
    return dict(map(tuple, state.select("key.key", "value.count").collect()))


def after(batch: int) -> dict[int, int]:
    return dict.fromkeys(range(KEYS), PER_KEY * (batch + 1))


@pytest.mark.parametrize(
    ("checkpoint_format", "backend"), drawn("savepoints", [("1", "hashmap"), ("2", "rocksdb")], 1)
)
def test_while_it_runs(
    checkpoint_format: str,
    backend: str,
    spark: Any,
    stream: Callable[[str], Any],
    settings: Callable[..., None],
    running: list[Any],
    tmp_path: Path,
) -> None:
    """Each savepoint has the state of its batch, though the query keeps only two versions."""
    settings(
        **{
            FORMAT_KEY: checkpoint_format,
            "spark.keystate.backend": backend,
            "spark.sql.streaming.minBatchesToRetain": "2",
            "spark.sql.streaming.stateStore.maintenanceInterval": "200ms",
        }
    )
    fed = stream("key long")
    rows = [(key,) for key in range(KEYS)] * PER_KEY
    fed.feed(*[rows] * BATCHES)
    query = (
        build(fed.source())
        .writeStream.option("checkpointLocation", str(fed.checkpoint))
        .foreachBatch(lambda df, _: df.collect() and None)
        .start()
    )
    running.append(query)
    saved: dict[int, Path] = {}
    while not query.lastProgress or query.lastProgress["batchId"] < BATCHES - 1:
        path = tmp_path / f"savepoint{time.monotonic_ns()}"
        try:
            saved[admin.savepoint(str(fed.checkpoint), str(path))] = path
        except CheckpointError as e:
            assert "KEYSTATE_NO_CHECKPOINT" in str(e)  # nothing is committed yet
            time.sleep(0.2)
    query.stop()
    assert len(saved) > 2, "it was not saved while it ran"
    first, *_, last = sorted(saved)
    for batch in (first, last):
        path = saved[batch]
        assert admin.verify(str(path)) == []
        assert counts(spark, path) == after(batch)
    assert list((fed.checkpoint / "state").rglob("*.pin*")) == [], "they go with the copy"
    # What came after it comes again.
    fed.checkpoint = saved[first]
    fed.run(build)
    assert counts(spark, fed.checkpoint) == after(BATCHES - 1)


def save(original: Path, copy: Path, **options: Any) -> None:
    admin.savepoint(str(original), str(copy), **options)


def share(original: Path, copy: Path) -> None:
    save(original, copy, by_reference=True)


def edit(original: Path, copy: Path) -> None:
    editor = admin.edit(str(original))
    editor.replace("count", editor.read("count"))
    editor.write(str(copy))


@pytest.mark.parametrize("make", [save, share, edit])
def test_a_batch_that_was_cut_off(
    make: Callable[[Path, Path], None], spark: Any, tmp_path: Path
) -> None:
    """A sink that has its rows already, and knows it by its number, loses none of the next ones."""
    written: dict[int, list[tuple[int, int]]] = {}

    def write(df: DataFrame, batch: int) -> None:
        rows = [tuple(row) for row in df.collect()]
        if batch not in written:
            written[batch] = rows
            if batch == 1:
                raise RuntimeError("cut off")

    def run(checkpoint: Path) -> None:
        rows = spark.readStream.schema("key long").csv(str(tmp_path / "input"))
        stream = build(rows).writeStream.option("checkpointLocation", str(checkpoint))
        stream.foreachBatch(write).trigger(availableNow=True).start().awaitTermination()

    def feed(number: int) -> None:
        (tmp_path / "input" / f"{number}.csv").write_text("7\n")

    (tmp_path / "input").mkdir()
    original, copy = tmp_path / "original", tmp_path / "copy"
    feed(0)
    run(original)
    feed(1)
    with pytest.raises(Exception, match="cut off"):
        run(original)
    feed(2)
    make(original, copy)
    run(copy)
    assert written == {0: [(7, 1)], 1: [(7, 2)], 2: [(7, 3)]}
    assert admin.verify(str(copy)) == []


@pytest.mark.parametrize("by_reference", [False, True])
def test_of_a_version_from_before_a_rescale(
    by_reference: bool,
    spark: Any,
    stream: Callable[[str], Any],
    settings: Callable[..., None],
    tmp_path: Path,
) -> None:
    """The next micro-batch has the input that it had, in the partitions of its state."""
    settings(**{"spark.sql.shuffle.partitions": "3"})
    fed = stream("key long")
    fed.feed([(7,)], [(7,)])
    fed.run(build)
    settings(**{"spark.sql.shuffle.partitions": "2"})
    fed.feed([(7,), (7,)], [(7,)])
    fed.run(build)
    copy = tmp_path / "copy"
    save(fed.checkpoint, copy, version=1, by_reference=by_reference)
    assert admin.inspect(str(copy))["partitions"] == 3
    fed.checkpoint = copy
    first, *_ = fed.micro_batches(build(fed.source()))
    assert first == [(7, 2)]
    assert counts(spark, copy) == {7: 5}


def test_of_an_older_version(spark: Any, stream: Callable[[str], Any], tmp_path: Path) -> None:
    fed = stream("key long")
    rows = [(key,) for key in range(KEYS)] * PER_KEY
    fed.feed(*[rows] * 5)
    fed.run(build)
    older = tmp_path / "older"
    assert admin.savepoint(str(fed.checkpoint), str(older), version=3) == 2
    assert counts(spark, older) == after(2)
    assert admin.verify(str(older)) == []
    with pytest.raises(CheckpointError, match="don't have batch 41"):
        admin.savepoint(str(fed.checkpoint), str(tmp_path / "none"), version=42)
    assert not (tmp_path / "none").exists()
    fed.feed(rows)
    fed.checkpoint = older
    fed.run(build)
    assert counts(spark, older) == after(5)


def inodes(checkpoint: Path) -> dict[str, int]:
    return {
        str(path.relative_to(checkpoint)): path.stat().st_ino
        for path in (checkpoint / "state").rglob("*")
        if path.suffix in (".sst", ".lz4")
    }


@pytest.mark.parametrize(("checkpoint_format", "backend"), [("1", "rocksdb"), ("2", "hashmap")])
def test_by_reference_on_a_local_disk(
    checkpoint_format: str,
    backend: str,
    spark: Any,
    stream: Callable[[str], Any],
    settings: Callable[..., None],
    tmp_path: Path,
) -> None:
    """The files have two names, so either side can go on and be deleted, by any means."""
    settings(**{FORMAT_KEY: checkpoint_format, "spark.keystate.backend": backend})
    fed = stream("key long")
    rows = [(key,) for key in range(KEYS * 20)] * PER_KEY
    fed.feed(rows, rows)
    fed.run(build)
    original, saved, other = fed.checkpoint, tmp_path / "saved", tmp_path / "other"
    assert admin.savepoint(str(original), str(saved), by_reference=True) == 1
    assert inodes(saved) and inodes(saved).items() <= inodes(original).items()
    admin.savepoint(str(original), str(other), version=1, by_reference=True)
    (second, first) = admin.savepoints(str(original))
    assert (first["kind"], first["batch"], first["state"]) == ("links", 1, "ok")
    assert first["shared_bytes"] > 0 and second["batch"] == 0
    shutil.rmtree(original)
    assert admin.delete(str(other)) == 0 and not other.exists()
    assert admin.verify(str(saved)) == []
    fed.feed(rows)
    fed.checkpoint = saved
    fed.run(build)
    assert set(counts(spark, saved).values()) == {3 * PER_KEY}


def test_commands(spark: Any, stream: Callable[[str], Any], tmp_path: Path) -> None:
    """Savepoints at fixed times, of which the newest are kept; a list; one is restored."""
    fed = stream("key long")
    fed.feed([(1,)])
    fed.run(build)
    folder = tmp_path / "backups"
    given = argparse.Namespace(
        checkpoint=str(fed.checkpoint),
        path=f"{folder}/",
        of_version=None,
        by_reference=True,
        every=1,
        keep=2,
    )
    told: list[dict[str, Any]] = []

    def tell(found: dict[str, Any], _: str) -> None:
        told.append(found)
        if len(told) == 3:
            raise KeyboardInterrupt

    assert backups.savepoint(spark, given, tell) == 0
    assert [len(one["deleted"]) for one in told] == [0, 0, 1]
    listed = admin.savepoints(str(fed.checkpoint))
    assert [one["state"] for one in listed] == ["ok", "ok"]
    assert sorted(path.name for path in folder.iterdir()) == [
        Path(one["savepoint"]).name for one in told[1:]
    ]
    restored = tmp_path / "restored"
    assert admin.restore(listed[-1]["savepoint"], str(restored)) == 0
    assert counts(spark, restored) == {1: 1}
    with pytest.raises(CheckpointError, match="KEYSTATE_SAVEPOINT_EXISTS"):
        admin.restore(listed[-1]["savepoint"], str(restored))
    assert [backups.seconds(text) for text in ("90s", "15m", "1h", "1d")] == [90, 900, 3600, 86400]
    for text in ("", "1", "0h", "1 h", "-1h"):
        with pytest.raises(argparse.ArgumentTypeError, match="must be a time"):
            backups.seconds(text)
    with pytest.raises(CheckpointError, match="KEYSTATE_NO_CHECKPOINT"):
        admin.delete(str(tmp_path / "backups"))
    assert folder.exists()


def test_backups_of_another_folder_stay(
    spark: Any, stream: Callable[[str], Any], tmp_path: Path
) -> None:
    """Also where its name is the same up to a sign that has a meaning in a URL."""
    fed = stream("key long")
    fed.feed([(1,)])
    fed.run(build)
    checkpoint, hour = str(fed.checkpoint), 0
    for folder in ("backups#daily", "backups#hourly"):
        for _ in range(2):
            admin.savepoint(checkpoint, str(tmp_path / folder / f"20260101T0{hour}0000Z"))
            hour += 1
    admin.savepoint(checkpoint, str(tmp_path / "backups#hourly" / "by-hand"))
    newest = f"file:{tmp_path}/backups#hourly/20260101T030000Z"
    deleted, kept = backups.prune(spark, checkpoint, newest, 1)
    assert kept == {} and deleted == [f"file:{tmp_path}/backups#hourly/20260101T020000Z"]
    assert sorted(str(one.relative_to(tmp_path)) for one in tmp_path.glob("backups*/*")) == [
        "backups#daily/20260101T000000Z",
        "backups#daily/20260101T010000Z",
        "backups#hourly/20260101T030000Z",
        "backups#hourly/by-hand",
    ]


def test_a_version_is_no_negative_number(capsys: pytest.CaptureFixture[str]) -> None:
    """It would be taken for the last one."""
    with pytest.raises(SystemExit):
        main(["savepoint", "checkpoint", "path", "--of-version", "-1"])
    assert "must be a number from 0 on, got -1" in capsys.readouterr().err


def test_backups_by_a_clock_that_is_set_back(
    spark: Any, stream: Callable[[str], Any], tmp_path: Path
) -> None:
    """What they have says which is old; one that a query has gone on from is kept."""
    fed = stream("key long")
    checkpoint, folder = str(fed.checkpoint), tmp_path / "backups"

    def made(hour: int, feeds: bool = True) -> str:
        if feeds:
            fed.feed([(1,)])
            fed.run(build)
        place = folder / f"20260101T{hour:02}0000Z"
        admin.savepoint(checkpoint, str(place))
        for path in (fed.checkpoint / "_keystate/savepoints").iterdir():
            record = json.loads(path.read_text())
            if record["savepoint"].endswith(place.name):
                record["time"] = hour * 3600_000
                path.write_text(json.dumps(record))
        return f"file:{place}"

    def there() -> list[str]:
        return sorted(f"file:{path}" for path in folder.iterdir())

    first, second = made(20), made(21)
    third = made(3)
    assert backups.prune(spark, checkpoint, third, 2) == ([first], {})
    # Nothing was committed since the last one.
    fourth = made(2, feeds=False)
    assert backups.prune(spark, checkpoint, fourth, 2) == ([second], {})
    assert there() == sorted([third, fourth])
    # A query goes on from one of them, and has ended.
    fed.checkpoint, original = Path(third.removeprefix("file:")), fed.checkpoint
    fed.feed([(1,)])
    fed.run(build)
    fed.checkpoint = original
    used = [one for one in admin.savepoints(checkpoint) if one["state"] == "used"]
    assert [one["savepoint"] for one in used] == [third]
    fifth, sixth = made(4), made(5)
    assert backups.prune(spark, checkpoint, sixth, 1) == (
        [fourth, fifth],
        {third: "a query has gone on from it"},
    )
    assert there() == sorted([third, sixth])


def test_backups_that_were_cut_off(
    spark: Any, stream: Callable[[str], Any], tmp_path: Path
) -> None:
    fed = stream("key long")
    fed.feed([(1,)])
    fed.run(build)
    checkpoint, folder = str(fed.checkpoint), tmp_path / "backups"
    newest = str(folder / "20260101T050000Z")
    admin.savepoint(checkpoint, newest)
    for hours, name in ((0.5, "20260101T030000Z"), (2, "20260101T020000Z"), (2, "by-hand")):
        draft = folder / f".{name}.{uuid.uuid4()}"
        draft.mkdir()
        (draft / "metadata").write_text("")
        record = {
            "state": "begun",
            "savepoint": f"file:{draft}",
            "format": 1,
            "kind": "copy",
            "batch": -1,
            "time": int((time.time() - hours * 3600) * 1000),
            "shared_bytes": 0,
        }
        records = fed.checkpoint / "_keystate/savepoints"
        (records / str(uuid.uuid4())).write_text(json.dumps(record))
    states = [one["state"] for one in admin.savepoints(checkpoint)]
    assert sorted(states) == ["ok", "unfinished", "unfinished", "unfinished"]
    deleted, kept = backups.prune(spark, checkpoint, f"file:{newest}", 5)
    assert len(deleted) == 1 and ".20260101T020000Z." in deleted[0] and not kept
    assert not Path(deleted[0].removeprefix("file:")).exists()
    left = sorted(path.name.split(".")[1] for path in folder.iterdir() if path.name[0] == ".")
    assert left == ["20260101T030000Z", "by-hand"]


def test_a_killed_savepoint_is_listed(
    spark: Any, stream: Callable[[str], Any], tmp_path: Path
) -> None:
    """While it is made it is in the list, as what is left of it would be."""
    fed = stream("key long")
    fed.feed([(1,)])
    fed.run(build)
    file = next(fed.checkpoint.glob("sources/0/0"))
    content = file.read_bytes()
    file.unlink()
    os.mkfifo(file)  # whoever reads it waits
    maker = threading.Thread(
        target=admin.savepoint,
        args=(str(fed.checkpoint), str(tmp_path / "copy")),
        kwargs={"spark": spark},
    )
    maker.start()
    deadline = time.monotonic() + 60
    found: list[Any] = []
    while not found and time.monotonic() < deadline:
        found = admin.savepoints(str(fed.checkpoint))
    writer = -1
    while writer < 0:
        try:
            writer = os.open(file, os.O_WRONLY | os.O_NONBLOCK)  # fails as long as nobody waits
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    os.write(writer, content)
    os.close(writer)
    maker.join(60)
    assert not maker.is_alive()
    assert [one["state"] for one in found] == ["unfinished"]
    assert "/.copy." in found[0]["savepoint"] and found[0]["name"] == "copy"


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        (["serve", "ck", "--port", "70000"], "at most 65535"),
        (["savepoint", "ck", "to", "--every", "9999999d"], "at most 3650d"),
        (["read-state", "ck", "--operator", "1" * 23], "at most 2147483647"),
        (["read-state", "ck", "--of-version", "1" * 23], f"at most {2**63 - 1}"),
        (["read-state", "ck", "--limit", "2147483648"], "at most 2147483647"),
        (["get", "ck", "s", "1", "--operator", "1" * 23], "at most 2147483647"),
        (["forget", "ck", "1", "--operator", "1" * 23], "at most 2147483647"),
        (["history", "ck", "1", "--operator", "1" * 23], "at most 2147483647"),
        (["rescale", "ck", "1" * 23], "at most 2147483647"),
        (["rescale", "ck", "0"], "from 1 on"),
    ],
)
def test_numbers_that_nothing_can_have(
    arguments: list[str], match: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert match in capsys.readouterr().err


def test_interrupted_while_it_waits_for_a_rescale(
    spark: Any, stream: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request goes, so no driver carries it out later."""
    fed = stream("key long")
    fed.feed([(1,)])
    fed.run(build)
    folder = fed.checkpoint / "_keystate/rescale"
    bridge.call(spark, "listenForRescales", str(fed.checkpoint), True)
    owners = fed.checkpoint / "_keystate/owners"
    next(owners.glob("*.ended")).unlink()  # as if the query ran

    def interrupted(_: float) -> None:
        assert list(folder.glob("*.request"))
        raise KeyboardInterrupt

    monkeypatch.setattr(waiting.time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rescale_requests.ask(spark, str(fed.checkpoint), 3, 60)
    assert not list(folder.glob("*.request"))
