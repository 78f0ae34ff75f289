"""Sessions that start with an archive of their JVM's classes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from keystate._jvm.class_cache import session_archive, session_options
from keystate.tools.command import main

from tests import jvm_archive

pytestmark = pytest.mark.spark  # they start programs in which it runs

# Starts a session as a user does, who has an option of the JVM too.
PROGRAM = """
import keystate
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.extraJavaOptions", "-Xlog:class+load:file={log} -Dmine=1")
spark = keystate.configure(builder).getOrCreate()
assert spark.range(9).count() == 9
print(spark._jvm.java.lang.System.getProperty("mine"))
"""
CONFIGURED = """
import keystate
from pyspark.sql import SparkSession

builder = SparkSession.builder.config("spark.driver.extraJavaOptions", "-Dmine=1")
print(keystate.configure(builder)._options["spark.driver.extraJavaOptions"])
"""
FROM_ARCHIVE = "org.apache.spark.SparkContext source: shared objects file (top)"


def test_the_users_options_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def configured() -> str:
        environment = {**os.environ, "SPARK_SUBMIT_OPTS": "", "XDG_CACHE_HOME": str(tmp_path)}
        command = [sys.executable, "-c", CONFIGURED]
        return subprocess.check_output(command, env=environment, text=True).strip()

    assert configured() == "-Dmine=1"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    archive = session_archive()
    assert archive is not None
    archive.parent.mkdir()
    archive.write_bytes(b"")
    first, *_, last = configured().split()
    assert (first, last) == (f"-XX:SharedArchiveFile={archive}", "-Dmine=1")


def test_java_is_not_asked_before_there_is_an_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that chooses a Java only tells which one it is when it is started."""
    asked, java = tmp_path / "asked", tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho version 17 > {asked}\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert session_options() == ""
    assert not asked.exists()
    (tmp_path / "keystate").mkdir()
    (tmp_path / "keystate" / "classes-of-another.jsa").write_bytes(b"")
    assert session_options() == ""
    assert asked.exists()


@pytest.mark.skipif("SLOW" not in os.environ, reason="makes an archive: set SLOW")
def test_a_session_loads_its_classes_from_the_archive(tmp_path: Path) -> None:
    options = jvm_archive.OPTIONS.partition(" -XX:SharedArchiveFile")[0]
    environment = {
        **os.environ,
        "XDG_CACHE_HOME": str(tmp_path),
        "SPARK_SUBMIT_OPTS": f"{options} -XX:TieredStopAtLevel=1",
    }

    def run(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout

    def session(name: str) -> str:
        log = tmp_path / name
        assert run("-c", PROGRAM.format(log=log)).split() == ["1"]
        return log.read_text()

    assert FROM_ARCHIVE not in session("before")
    made = json.loads(run("-m", "keystate", "warm-up", "--json"))
    archive = Path(made["path"])
    assert archive.parent.parent == tmp_path
    assert archive.stat().st_size == made["bytes"]
    assert FROM_ARCHIVE in session("after")
    # One that is not of this Java is not used.
    archive.chmod(0o600)
    archive.write_bytes(bytes(made["bytes"]))
    assert FROM_ARCHIVE not in session("other")


def test_a_folder_that_cant_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert main(["warm-up"]) == 2
    assert str(tmp_path / "file") in capsys.readouterr().err
