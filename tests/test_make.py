"""What make says before it begins, and at the end of the tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.__main__ import Part, pytest_closing, run, scala_closing

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """A folder of programs that is all that a machine has; what a shell script takes is there."""
    for name in ("sh", "sed", "head", "cat", "readlink", "basename"):
        program = shutil.which(name)
        assert program is not None
        (tmp_path / name).symlink_to(program)
    return tmp_path


def program(machine: Path, name: str, says: str) -> None:
    (machine / name).write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    (machine / name).chmod(0o755)


def java(machine: Path, version: str) -> None:
    program(machine, "java", f'openjdk version "{version}" 2024-01-01')


def needs(machine: Path, what: str, **environment: str) -> str:
    """What is said to be missing: one line, or nothing."""
    done = subprocess.run(
        [str(ROOT / "project" / "needs.sh"), what],
        env={
            "PATH": str(machine),
            "PYTHON": sys.executable,
            "SPARK": "4.2",
            "javas": "17 21 25",
            "pythons": "{}.{}".format(*sys.version_info),
            "goals": "test",
            **environment,
        },
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "" and done.stderr.count("\n") == (done.returncode != 0), done.stderr
    return done.stderr


def test_a_machine_that_has_all(machine: Path) -> None:
    java(machine, "17.0.15")
    program(machine, "javac", "")
    program(machine, "mvn", "")
    assert needs(machine, "jdk") == ""
    assert needs(machine, "python") == ""


def test_no_java(machine: Path) -> None:
    assert needs(machine, "jdk") == (
        "There is no Java: install JDK 17, 21 or 25 "
        "(Debian, Ubuntu: apt install openjdk-17-jdk-headless)\n"
    )
    assert "JAVA_HOME is /none, which has no bin/java" in needs(machine, "jdk", JAVA_HOME="/none")


@pytest.mark.parametrize(("version", "number"), [("11.0.13", "11"), ("1.8.0_402", "8")])
def test_a_java_that_spark_does_not_run_on(machine: Path, version: str, number: str) -> None:
    java(machine, version)
    program(machine, "mvn", "")
    said = needs(machine, "jdk")
    assert f"is Java {number}: install JDK 17, 21 or 25" in said and "JAVA_HOME" in said


def test_a_java_without_a_compiler(machine: Path) -> None:
    java(machine, "21.0.1")
    program(machine, "mvn", "")
    assert "a Java without a compiler (javac)" in needs(machine, "jdk")


def test_neither_sbt_nor_maven(machine: Path) -> None:
    java(machine, "25.0.3")
    program(machine, "javac", "")
    assert "neither sbt nor Maven: install one of them" in needs(machine, "jdk")
    program(machine, "sbt", "")
    assert needs(machine, "jdk") == ""


def test_a_python_that_will_not_do(machine: Path) -> None:
    said = needs(machine, "python", pythons="3.1 3.2")
    assert "Spark 4.2 needs 3.1 or 3.2. Name one: make test PYTHON=" in said
    assert "There is no nopython: install Python" in needs(machine, "python", PYTHON="nopython")


def test_a_python_without_its_venv_module(machine: Path) -> None:
    """As Debian's own is without python3-venv."""
    (machine / "python3").write_text(
        f'#!/bin/sh\ncase "$*" in *ensurepip*) exit 1;; esac\nexec "{sys.executable}" "$@"\n'
    )
    (machine / "python3").chmod(0o755)
    said = needs(machine, "python", PYTHON="python3")
    assert said == (
        "python3 has no venv module: install it (Debian, Ubuntu: apt install python3-venv)\n"
    )


def test_nothing_is_made_before_it_is_known_what_is_missing() -> None:
    """The order in which make would do it, on a clone that has nothing."""
    for goal in ("jar", "test", "demo", "install"):
        done = subprocess.run(
            ["make", "--dry-run", "--always-make", goal],
            cwd=ROOT,
            env={"PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            timeout=60,
        )
        lines = done.stdout.splitlines()
        first = next(i for i, line in enumerate(lines) if "project/needs.sh jdk" in line)
        begun = [i for i, line in enumerate(lines) if " -m venv " in line or "./sbt" in line]
        assert begun and first < min(begun), goal


PYTEST = """
tests/contract/test_a.py F.
=========================== short test summary info ============================
SKIPPED [12] tests/conftest.py:84: not drawn for this run; set SLOW=1
SKIPPED [1] tests/query/test_b.py:3: SLOW: takes a minute
SKIPPED [2] tests/query/test_c.py:9: SLOW: takes a minute
FAILED tests/contract/test_a.py::test_one[a b - c] - AssertionError: no - way
ERROR tests/contract/test_a.py::test_two
2 failed, 1 passed, 15 skipped in 3.21s
""".strip().splitlines()


def test_pytest_closes_with_what_to_run_again() -> None:
    said = list(pytest_closing(PYTEST))
    again = f"again: {Path(sys.prefix).name}/bin/pytest "
    assert f"{again}tests/contract/test_a.py::test_two" in said
    assert f"{again}'tests/contract/test_a.py::test_one[a b - c]'" in said
    assert "skipped 12: not drawn for this run; set SLOW=1" in said
    assert "skipped 3: SLOW: takes a minute" in said
    assert said[-1] == "2 failed, 1 passed, 15 skipped in 3.21s"


SCALA = """
[info] TimersSuite:
[info] - a timer fires once *** FAILED *** (3 milliseconds)
[info]   1 did not equal 2 (TimersSuite.scala:3)
[info] Tests: succeeded 513, failed 1, canceled 0, ignored 4, pending 0
[error] Failed tests:
[error] \tkeystate.TimersSuite
""".strip().splitlines()


def test_scala_closes_with_what_to_run_again() -> None:
    said = list(scala_closing(SCALA))
    assert "[info]   1 did not equal 2 (TimersSuite.scala:3)" in said
    assert 'again: ./sbt "*/testOnly keystate.TimersSuite"' in said
    assert said[-1] == "scalatest: 513 passed, 1 failed, 4 skipped"


def test_a_part_that_fails_is_told(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    part = Part("A part", ["sh", "-c", "echo one; exit 3"], pytest_closing)
    passed, lines, _ = run(part, tmp_path / "log")
    assert not passed and lines == ["one"] and (tmp_path / "log").read_text() == "one\n"
    assert "== A part: sh -c" in capfd.readouterr().out
