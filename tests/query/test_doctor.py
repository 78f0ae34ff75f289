"""``keystate doctor``: what it finds where all is well, and where something is not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark
import pytest
from keystate._jvm.session import versions
from keystate.tools import command, doctor

PARTITIONS = "spark.sql.shuffle.partitions"
#: What versions.properties may have for this line of Spark alone.
JAVAS = f"javas{'.'.join(pyspark.__version__.split('.')[:2])}"


def problems(findings: Any) -> list[doctor.Finding]:
    return [finding for finding in findings if finding.advice]


def test_all_is_well(spark: Any, tmp_path: Path) -> None:
    before = spark.conf.get(PARTITIONS)
    said: list[str] = []
    found = [*doctor.python_side(), *doctor.session_side(spark, str(tmp_path), said.append)]
    assert problems(found) == []
    texts = [finding.text for finding in found]
    ours, executors = (text for text in texts if text.startswith("Java: "))
    assert executors.split()[1] == ours.split()[1]
    assert executors.endswith("(of an executor)")
    assert "stopped, rescaled from 2 to 3 partitions, right" in texts[-1]
    assert [what.split()[0] for what in said] == ["Starting", "Running"]  # before it takes seconds
    assert list(tmp_path.iterdir()) == []
    assert spark.conf.get(PARTITIONS) == before


@pytest.fixture
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], doctor.Finding]:
    """What is found of a Java with this version."""
    command = tmp_path / "bin" / "java"
    command.parent.mkdir()

    def found(version: str) -> doctor.Finding:
        command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2019-01-15' >&2\n")
        command.chmod(0o755)
        finding = doctor.java()
        assert finding.text == f"Java: {version} ({command})"
        return finding

    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setitem(versions(), JAVAS, "17 21 25")
    return found


def test_no_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    monkeypatch.setitem(versions(), JAVAS, "17 21 25")
    none = doctor.java()
    assert "did not start" in none.text
    assert none.advice == "install JDK 17, 21 or 25, and let JAVA_HOME be its folder"


@pytest.mark.parametrize("version", ["17", "17.0.15", "21.0.9", "25.0.3", "25.0.10", "25.1.0"])
def test_javas_that_spark_runs_on(version: str, java: Callable[[str], doctor.Finding]) -> None:
    assert java(version).advice == ""


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "18.0.2", "20", "24.0.1", "26-ea"])
def test_javas_that_spark_does_not_run_on(
    version: str, java: Callable[[str], doctor.Finding]
) -> None:
    assert java(version).advice.endswith("does not run on it: install JDK 17, 21 or 25")


@pytest.mark.parametrize("version", ["25", "25-ea", "25.0.1", "25.0.2"])
def test_javas_that_damage_data(version: str, java: Callable[[str], doctor.Finding]) -> None:
    assert "install 25.0.3 or newer" in java(version).advice


def test_a_line_of_spark_may_have_other_javas(
    java: Callable[[str], doctor.Finding], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(versions(), JAVAS, "17 21")
    assert java("25.0.3").advice.endswith("install JDK 17 or 21")


def test_a_python_without_its_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys._is_gil_enabled", lambda: False, raising=False)
    (found,) = (one for one in doctor.python_side() if one.text.startswith("Python runs"))
    assert "PYTHON_GIL=1" in found.advice


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
