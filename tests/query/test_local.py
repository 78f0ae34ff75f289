"""Commands that only read a checkpoint: in a JVM of their own, in which Spark does not run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import CheckpointError, admin
from keystate._jvm import bridge, local
from keystate._jvm.class_cache import class_cache
from keystate._jvm.java import identity
from keystate._jvm.session import FORMAT_KEY
from keystate.checkpoints.lookup import Target

from tests.drawn import drawn
from tests.query.test_lookup import KINDS, Kinds, expected

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where JVMs keep their classes."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("cache")
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder / "keystate"


@pytest.fixture(scope="module")
def reader(cache: Path) -> Iterator[local.LocalReader]:
    with local.local_reader(verbose=False) as reader:
        yield reader


def kinds(df: Any) -> Any:
    return keystate.keyed(df, "key").process(Kinds(), "x int")


@pytest.mark.turns
@pytest.mark.parametrize(
    ("backend", "checkpoint_format"),
    drawn("a local reader", [("hashmap", "1"), ("hashmap", "2"), ("rocksdb", "2")], 1),
)
def test_it_reads_what_a_session_reads(
    backend: str,
    checkpoint_format: str,
    spark: Any,
    stream: Callable[[str], Any],
    settings: Callable[..., None],
    reader: local.LocalReader,
    tmp_path: Path,
) -> None:
    settings(**{"spark.keystate.backend": backend, FORMAT_KEY: checkpoint_format})
    fed = stream(KINDS)
    fed.feed([(key, key) for key in range(3000)], [(7, 70)])
    # One of Spark's own operators too, whose metadata Spark reads.
    fed.run(lambda df: kinds(df.dropDuplicates(["key", "value"])))
    checkpoint = str(fed.checkpoint)
    session: Any = reader
    assert admin.inspect(checkpoint, spark=session) == admin.inspect(checkpoint)
    assert admin.verify(checkpoint, spark=session) == admin.verify(checkpoint) == []
    found = admin.inspect(checkpoint)
    assert bridge.statistics(session, found) == bridge.statistics(spark, found)
    for key, values in ((7, [7, 70]), (8, [8]), (-1, [])):
        for name, value in expected(values).items():
            number = next(op["id"] for op in found["operators"] if op["keystate"])
            assert Target(session, checkpoint, name, number).read(key, None, None, None) == value
    admin.savepoint(checkpoint, str(tmp_path / "copy"))
    both = (checkpoint, str(tmp_path / "copy"))
    assert admin.diff(*both, spark=session) == admin.diff(*both)
    with pytest.raises(CheckpointError, match="KEYSTATE_NO_CHECKPOINT"):
        admin.inspect(str(tmp_path / "none"), spark=session)


@pytest.mark.turns
def test_commands_start_no_spark(
    spark: Any, stream: Callable[[str], Any], tmp_path: Path, cache: Path
) -> None:
    fed = stream(KINDS)
    fed.feed([(key, key) for key in range(50)])
    fed.run(kinds)
    checkpoint = str(fed.checkpoint)
    report = tmp_path / "page.html"

    def run(*arguments: str) -> Any:
        done = subprocess.run(
            [sys.executable, "-m", "keystate", *arguments],
            capture_output=True,
            text=True,
            timeout=120,
            env={**os.environ, "SPARK_CONF_DIR": str(tmp_path)},
        )
        assert done.returncode == 0, done.stderr
        assert done.stderr == ""
        return json.loads(done.stdout)

    # With this no session starts.
    (tmp_path / "spark-defaults.conf").write_text("spark.plugins no.such.Plugin\n")
    assert run("inspect", checkpoint, "--json") == admin.inspect(checkpoint)
    assert run("get", checkpoint, "value", "7", "--json") == 7
    assert run("report", checkpoint, str(report), "--json") == {"path": str(report)}
    assert report.read_text() == report_of(spark, checkpoint, tmp_path)
    # The first of these commands left its classes for the others.
    assert len(list(cache.glob("classes-*.jsa"))) == 1


def test_classes_are_kept(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with class_cache("jar") as first:
        assert first[0].startswith("-XX:ArchiveClassesAtExit=")
        Path(first[0].partition("=")[2]).write_bytes(b"classes")
    (kept,) = [path for path in cache.glob("*.jsa") if path.read_bytes() == b"classes"]
    with class_cache("jar") as second:
        assert second[0] == f"-XX:SharedArchiveFile={kept}"
    kept.unlink()
    before = set(cache.iterdir())
    with pytest.raises(OSError, match="no checkpoint"), class_cache("other") as options:
        Path(options[0].partition("=")[2]).write_bytes(b"few classes")
        raise OSError("no checkpoint")
    assert set(cache.iterdir()) == before
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with class_cache("jar") as options:
        assert options == []


def test_each_java_has_classes_of_its_own(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where one of two comes into the other's folder, and where a program chooses one."""

    def archive() -> str:
        with class_cache("jar", *identity(str(java))) as options:
            return options[0].rpartition("/")[2]

    java = tmp_path / "jdk" / "bin" / "java"
    modules = tmp_path / "jdk" / "lib" / "modules"
    for file in (java, modules):
        file.parent.mkdir(parents=True)
        file.write_text("")
    java.chmod(0o755)
    first = archive()
    assert archive() == first
    os.utime(modules, (1e9, 1e9))
    assert archive() != first
    modules.unlink()
    java.write_text("#!/bin/sh\necho version $CHOSEN >&2\n")
    named = []
    for version in ("17", "25", "17"):
        monkeypatch.setenv("CHOSEN", version)
        named.append(archive())
    assert named[0] == named[2] != named[1]


def test_other_jars_in_the_same_folder(cache: Path, tmp_path: Path) -> None:
    """Another PySpark is installed over the one that was there."""
    with class_cache(str(tmp_path)) as options:
        first = options[0].rpartition("/")[2]
    os.utime(tmp_path, (1e9, 1e9))
    with class_cache(str(tmp_path)) as options:
        assert options[0].rpartition("/")[2] != first


@pytest.mark.turns
@pytest.mark.parametrize("collector", drawn("collector", ["G1", "Z"], 1))
def test_the_users_collector(
    collector: str, cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Java does not start with two. The second one finds what the first left."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", f"-Xmx512m -XX:+Use{collector}GC")
    before = len(list(cache.glob("classes-*.jsa")))
    for _ in range(2):
        with local.local_reader(verbose=False) as reader:
            session: Any = reader
            with pytest.raises(CheckpointError, match="KEYSTATE_NO_CHECKPOINT"):
                admin.inspect(str(tmp_path / "none"), spark=session)
    assert len(list(cache.glob("classes-*.jsa"))) == before + 1


@pytest.mark.turns
def test_java_prints_no_warnings(
    stream: Callable[[str], Any], settings: Callable[..., None], capfd: pytest.CaptureFixture[str]
) -> None:
    """Newer ones would: of RocksDB's library, and of memory that is not Java's."""
    settings(**{"spark.keystate.backend": "rocksdb"})
    fed = stream(KINDS)
    fed.feed([(key, key) for key in range(3000)])
    fed.run(kinds)
    capfd.readouterr()
    with local.local_reader(verbose=True) as reader:
        session: Any = reader
        assert admin.verify(str(fed.checkpoint), spark=session) == []
        assert Target(session, str(fed.checkpoint), "value", 0).read(7, None, None, None) == 7
    assert "WARNING" not in capfd.readouterr().err


def test_classes_that_nobody_uses_are_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))

    def make(jar: str) -> Path:
        with class_cache(jar) as options:
            made = Path(options[0].partition("=")[2])
            made.write_bytes(b"classes")
        return tmp_path / "keystate" / made.name

    def age(archive: Path, days: float) -> None:
        then = time.time() - days * 24 * 3600
        os.utime(archive, (then, then))

    unused, used, recent = make("unused"), make("used"), make("recent")
    other = tmp_path / "keystate" / "notes.txt"
    other.write_text("")
    for file in (unused, used, other):
        age(file, 31)
    age(recent, 29)
    with class_cache("used") as options:
        assert options[0] == f"-XX:SharedArchiveFile={used}"
    assert unused.exists()
    new = make("new")
    assert set((tmp_path / "keystate").iterdir()) == {used, recent, other, new}


def report_of(spark: Any, checkpoint: str, folder: Path) -> str:
    (folder / "other.html").write_text(admin.report(checkpoint, spark=spark).html())
    return (folder / "other.html").read_text()


def test_which_checkpoints_it_is_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    assert local.fits(["/data/checkpoint", "file:///data/copy"], [])
    assert not local.fits(["/data/checkpoint", "s3a://bucket/copy"], [])
    assert not local.fits(["/data/checkpoint"], ["spark.hadoop.fs.defaultFS=hdfs://host"])
    (tmp_path / "spark-defaults.conf").write_text("spark.hadoop.fs.defaultFS hdfs://host\n")
    assert not local.fits(["/data/checkpoint"], [])
    (tmp_path / "spark-defaults.conf").unlink()
    monkeypatch.setenv("HADOOP_CONF_DIR", "/etc/hadoop")
    assert not local.fits(["/data/checkpoint"], [])


@pytest.mark.turns
def test_java_that_does_not_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(keystate.ConfigurationError, match="Java did not start"):  # noqa: SIM117
        with local.local_reader(verbose=False):
            pass
