"""``keystate doctor``: what it finds where all is well, and where something is not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from keystate import __main__ as command
from keystate._command import doctor

PARTITIONS = "spark.sql.shuffle.partitions"


def problems(findings: Any) -> list[doctor.Finding]:
    return [finding for finding in findings if finding.advice]


def test_all_is_well(spark: Any, tmp_path: Path) -> None:
    before = spark.conf.get(PARTITIONS)
    said: list[str] = []
    found = [*doctor.python_side(), *doctor.session_side(spark, str(tmp_path), said.append)]
    assert problems(found) == []
    texts = [finding.text for finding in found]
    assert any(text.startswith("Java: ") for text in texts)
    assert "stopped, rescaled from 2 to 3 partitions, right" in texts[-1]
    assert [what.split()[0] for what in said] == ["Starting", "Running"]  # before it takes seconds
    assert list(tmp_path.iterdir()) == []
    assert spark.conf.get(PARTITIONS) == before


def test_no_java_and_an_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert "does not run" in doctor.java().text
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    java.chmod(0o755)
    old = doctor.java()
    assert old.text == f"Java: 11.0.2 ({java})"
    assert "install JDK 17 or newer" in old.advice


def test_the_command_does_not_start_spark_without_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setattr(command, "_session", lambda settings: pytest.fail("started Spark"))
    assert command.main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert out.startswith("ok       Keystate ")
    assert "problem  Java: " in out


def test_workers_with_another_release(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "versions", lambda: {"keystate": "9.9"})
    found = doctor.workers(spark)
    assert found.advice == "install keystate==9.9 on the executors"


def test_a_folder_that_cannot_be_written(spark: Any, tmp_path: Path) -> None:
    before = spark.conf.get(PARTITIONS)
    (tmp_path / "file").write_text("")
    found = doctor.query(spark, str(tmp_path / "file"))
    assert "create, rename, list and delete" in found.advice
    assert spark.conf.get(PARTITIONS) == before


def test_a_session_with_another_provider(spark: Any, settings: Any) -> None:
    name = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
    settings(**{doctor.PROVIDER_KEY: name})
    (found,) = problems(doctor.settings(spark))
    assert name in found.text
    assert "keystate.configure" in found.advice
