"""Copies of checkpoints: odd places, parts that are lost, and what the disk refuses."""

from __future__ import annotations

import os
import random
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import (
    CheckpointError,
    DeclarationError,
    KeyedProcessFunction,
    ListStateDescriptor,
    StorageError,
    ValueStateDescriptor,
    admin,
)
from keystate._jvm.session import FORMAT_KEY
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F


class Count(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Any:
        self.count.update(self.count.value() + 1)
        yield row.key, self.count.value()


def counts(df: Any) -> Any:
    return keystate.keyed(df, "key").process(Count(), "key long, count long")


def twice(df: Any) -> Any:
    return counts(counts(df.dropDuplicates(["key", "n"])))


def saved(by_reference: bool) -> Callable[[str, str], Any]:
    return lambda one, to: admin.savepoint(one, to, by_reference=by_reference)


def edited(one: str, to: str) -> Any:
    editor = admin.edit(one)
    editor.set_max_parallelism(64, operator=0)
    return editor.write(to)


COPIES = {"copy": saved(False), "reference": saved(True), "edit": edited, "restore": admin.restore}


@pytest.fixture
def counted(stream: Callable[..., Any]) -> Any:
    """Has the state after two micro-batches."""
    fed = stream("key long, n long")
    for n in range(2):
        fed.feed([(key, n) for key in range(4)])
        fed.run(counts)
    return fed


def goes_on(fed: Any, checkpoint: Path, build: Any = counts) -> None:
    fed.checkpoint = checkpoint
    fed.feed([(key, 9) for key in range(4)])
    assert sorted(row.key for row in fed.run(build)) == list(range(4))


@pytest.mark.parametrize("checkpoint_format", ["1", "2"])
@pytest.mark.parametrize("lost", ["state/2", "state/0", "state", "state/1/_keystate"])
def test_a_lost_operator_is_noticed(
    lost: str, checkpoint_format: str, stream: Any, settings: Any, tmp_path: Path
) -> None:
    settings(**{FORMAT_KEY: checkpoint_format})
    fed = stream("key long, n long")
    fed.feed([(key, 0) for key in range(4)])
    fed.run(twice)
    checkpoint = str(fed.checkpoint)
    admin.savepoint(checkpoint, str(tmp_path / "whole"))
    for damaged in (fed.checkpoint, tmp_path / "whole"):
        shutil.rmtree(damaged / lost)
        problems = admin.verify(str(damaged))
        assert problems and all("KEYSTATE_MISSING_FILE" in one for one in problems), problems
        assert any(str(damaged / lost) in one for one in problems)
        for name, copy in COPIES.items():
            target = tmp_path / name
            with pytest.raises(CheckpointError, match="KEYSTATE_MISSING_FILE"):
                copy(str(damaged), str(target))
            assert not target.exists(), name
    fed.feed([(1, 1)])
    with pytest.raises(StreamingQueryException, match=r"KEYSTATE_(MISSING|OPERATORS)"):
        fed.run(twice)


def test_a_lost_operator_of_sparks_is_noticed(stream: Any, tmp_path: Path) -> None:
    fed = stream("key long, n long")
    fed.feed([(1, 1)])
    fed.run(lambda df: df.dropDuplicates(["key"]))
    shutil.rmtree(fed.checkpoint / "state")
    assert "KEYSTATE_MISSING_FILE" in admin.verify(str(fed.checkpoint))[0]
    with pytest.raises(CheckpointError, match="KEYSTATE_MISSING_FILE"):
        admin.savepoint(str(fed.checkpoint), str(tmp_path / "copy"))


@pytest.mark.parametrize("lost", ["_stateSchema", "_metadata", "_metadata/v2"])
def test_lost_metadata_is_noticed(lost: str, counted: Any, tmp_path: Path) -> None:
    """Spark can't start without it, and nothing else has it."""
    folder = counted.checkpoint / "state" / "0" / lost
    assert folder.is_dir()
    shutil.rmtree(folder)
    (problem,) = admin.verify(str(counted.checkpoint))
    assert "KEYSTATE_MISSING_FILE" in problem and f"state/0/{lost}".removesuffix("/v2") in problem
    for number, make in enumerate(COPIES.values()):
        with pytest.raises(CheckpointError, match=lost.split("/")[0]) as error:
            make(str(counted.checkpoint), str(tmp_path / f"copy{number}"))
        assert error.value.code == "KEYSTATE_MISSING_FILE"
        assert not (tmp_path / f"copy{number}").exists()


@pytest.mark.parametrize("name", ["sources/0/1", "metadata", "commits/0"])
def test_what_can_not_be_opened_is_not_left_out(name: str, counted: Any, tmp_path: Path) -> None:
    """Java says of a socket, as of a file that this user may not read, that no file is found."""
    file = counted.checkpoint / name
    file.unlink()
    os.mknod(file, stat.S_IFSOCK | 0o600)
    with pytest.raises(StorageError, match=name):
        admin.savepoint(str(counted.checkpoint), str(tmp_path / "copy"))
    assert not (tmp_path / "copy").exists()


def test_metadata_that_is_lost(counted: Any, tmp_path: Path) -> None:
    (counted.checkpoint / "metadata").unlink()
    with pytest.raises(CheckpointError, match=r"KEYSTATE_MISSING_FILE.*metadata"):
        admin.savepoint(str(counted.checkpoint), str(tmp_path / "copy"))


def test_what_the_disk_refuses(spark: Any, counted: Any, tmp_path: Path) -> None:
    checkpoint = str(counted.checkpoint)
    (tmp_path / "file").write_text("")
    target = str(tmp_path / "file" / "copy")
    for copy in COPIES.values():
        with pytest.raises(OSError, match=r"KEYSTATE_STORAGE.*file") as found:
            copy(checkpoint, target)
        assert isinstance(found.value, StorageError)
        assert isinstance(found.value, CheckpointError)
    # A start says what is refused, and nothing of a rescale.
    owners = counted.checkpoint / "_keystate/owners"
    shutil.rmtree(owners)
    owners.write_text("")
    counted.feed([(1, 1)])
    with pytest.raises(StreamingQueryException, match=r"KEYSTATE_STORAGE.*_keystate/owners"):
        counted.run(counts)
    with pytest.raises(StorageError, match="_keystate/owners"):
        admin.rescale(checkpoint, 3)


def test_the_other_checkpoint_format(counted: Any, settings: Any, stream: Any) -> None:
    settings(**{FORMAT_KEY: "2"})
    fed = stream("key long, n long")
    fed.feed([(1, 1)])
    fed.run(counts)
    settings(**{FORMAT_KEY: "1"})
    fed.feed([(1, 2)])
    with pytest.raises(StreamingQueryException, match=f"KEYSTATE_MISSING_VERSION.*{FORMAT_KEY}=2"):
        fed.run(counts)
    settings(**{FORMAT_KEY: "2"})
    assert fed.run(counts) == [(1, 2)]


@pytest.mark.parametrize("name", list(COPIES))
def test_a_colon_in_a_place(name: str, counted: Any, tmp_path: Path) -> None:
    target = tmp_path / "2026-11-29T13:00"
    COPIES[name](str(counted.checkpoint), str(target))
    assert admin.verify(str(target)) == []
    goes_on(counted, target)


def test_a_colon_in_the_place_of_a_new_checkpoint(spark: Any, tmp_path: Path) -> None:
    target = str(tmp_path / "a:b")
    rows = spark.range(3).selectExpr("id AS key", "id AS value")
    admin.create(target, Count(), key="key long", states={"count": rows})
    assert admin.read_state(spark, target, state="count").count() == 3


def test_a_link_stays_one(counted: Any, tmp_path: Path) -> None:
    """Copies are made behind it; what is deleted by it is gone."""
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    admin.savepoint(str(counted.checkpoint), str(link))
    assert link.is_symlink() and (tmp_path / "real" / "commits").exists()
    assert admin.delete(str(link)) == 0
    assert not link.is_symlink() and not (tmp_path / "real").exists()
    admin.restore(str(counted.checkpoint), str(tmp_path / "real"))
    goes_on(counted, tmp_path / "real")


@pytest.mark.parametrize("by_reference", [False, True])
def test_not_inside_of_itself(by_reference: bool, counted: Any, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(counted.checkpoint)
    for place in (counted.checkpoint / "backups" / "1", tmp_path / "link" / "1"):
        with pytest.raises(CheckpointError, match="KEYSTATE_INSIDE_CHECKPOINT"):
            admin.savepoint(str(counted.checkpoint), str(place), by_reference=by_reference)
        assert not place.exists()


@pytest.mark.parametrize("name", ["x`y", "$time", "$time0", "a b", "key"])
def test_names_of_key_columns(name: str, spark: Any, tmp_path: Path) -> None:
    key = f"`{name.replace('`', '``')}` long"
    rows = spark.range(3).select(F.struct(F.col("id").alias(name)).alias("key"), F.col("id"))
    rows = rows.withColumnRenamed("id", "value")
    target = str(tmp_path / "made")
    admin.create(target, Count(), key=key, states={"count": rows})
    assert admin.read_state(spark, target, state="count").select("key").columns == ["key"]
    editor = admin.edit(target)
    editor.rekey(key, lambda df: df.select("key.*", "value").toDF(name, "value"))
    editor.write(str(tmp_path / "edited"))
    read = admin.read_state(spark, str(tmp_path / "edited"), state="count")
    assert sorted(row.value.value for row in read.collect()) == [0, 1, 2]


@pytest.mark.parametrize("name", [None, 5, "", "$x"])
def test_a_state_has_a_name(name: Any, counted: Any) -> None:
    editor = admin.edit(str(counted.checkpoint))
    with pytest.raises(DeclarationError, match="KEYSTATE_RESERVED_NAME"):
        editor.rename("count", name)


class Bulky(Count):
    """Has more state than a version file takes in."""

    def process_element(self, row: Any, ctx: Any) -> Any:
        for i in range(40):
            self.texts.add(random.Random(row.key * 100 + i).randbytes(6_000).hex())
        return super().process_element(row, ctx)

    def open(self, ctx: Any) -> None:
        super().open(ctx)
        self.texts = ctx.get_list_state(ListStateDescriptor("texts", "string"))


def test_references_go_with_what_fails(stream: Any, other_disk: Path) -> None:
    """Nothing can be written into the checkpoint, as where its disk is full."""
    fed = stream("key long, n long")
    fed.feed([(key, 0) for key in range(4)])
    fed.run(lambda df: keystate.keyed(df, "key").process(Bulky(), "key long, count long"))
    records = fed.checkpoint / "_keystate/savepoints"
    records.write_text("")
    with pytest.raises(StorageError):
        admin.savepoint(str(fed.checkpoint), str(other_disk / "copy"), by_reference=True)
    assert not list(fed.checkpoint.glob("state/**/*.ref"))
    records.unlink()
    assert admin.delete(str(fed.checkpoint)) == 0
    assert not fed.checkpoint.exists()


def test_state_that_nothing_was_committed_of(counted: Any) -> None:
    """As real-time mode leaves it that ends in its first batch."""
    fed = counted
    for version in list(fed.checkpoint.glob("state/*/*/2*.keystate")):
        version.unlink()
    for log in ("offsets", "commits"):
        shutil.rmtree(fed.checkpoint / log)
    assert sorted(set(map(tuple, fed.run(counts)))) == [
        (key, count) for key in range(4) for count in (1, 2)
    ]


def test_state_whose_logs_are_lost(counted: Any) -> None:
    """It has more than a first batch: it stays."""
    for log in ("offsets", "commits"):
        shutil.rmtree(counted.checkpoint / log)
    with pytest.raises(StreamingQueryException, match="CHECKPOINT_LOCATION_NOT_EMPTY"):
        counted.run(counts)
    assert list(counted.checkpoint.glob("state/0/0/2*.keystate"))


@pytest.fixture
def other_disk(tmp_path: Path) -> Any:
    """A folder in another file system than the checkpoint's, so that there are no hard links."""
    folder = Path("/dev/shm") / f"keystate-{tmp_path.name}"
    if not folder.parent.exists() or folder.parent.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no other file system")
    folder.mkdir()
    yield folder
    shutil.rmtree(folder, ignore_errors=True)
