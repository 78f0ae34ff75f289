"""What `make test` runs: every part, whatever the one before found, then how each of them closed.

The parts that need no JVM come first, so that most mistakes show within two minutes. The Makefile
passes what to run. The last lines are those of the runners, the time of each part, and for each
test that failed the command that runs it again.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

SCALA_CLOSING = re.compile(r".*succeeded (\d+), failed (\d+), .*ignored (\d+),.*")
SCALA_FAULT = re.compile(r"\*\*\* (FAILED|ABORTED) \*\*\*|^\[error\]")
FAILED_SUITE = re.compile(r"^\[error\] \s*([a-z]\w*(?:\.\w+)*\.[A-Z]\w*Suite)$")
#: A test's name may have brackets with anything in them.
FAILED_TEST = re.compile(r"^(?:FAILED|ERROR) ([^\[ ]+(?:\[.*?\](?= - |$))?)(?: - .*)?$")
SKIPPED = re.compile(r"^SKIPPED \[(\d+)\] (?:[^ ]+?(?::\d+)?: )?(.*)$")


@dataclass
class Part:
    """What it is called, its command, and what to say of its log at the end.

    Without ``closing`` it is no runner of tests: then its last lines are shown if it fails.
    """

    name: str
    command: list[str]
    closing: Callable[[list[str]], Iterator[str]] | None = None
    environment: dict[str, str] = field(default_factory=dict)


def scala_closing(lines: list[str]) -> Iterator[str]:
    """What failed, with the lines below it, and one line of counts for each module."""
    shown = 0
    for number, line in enumerate(lines):
        if SCALA_FAULT.search(line) and shown < 200:
            below = [] if line.startswith("[error]") else lines[number + 1 : number + 5]
            yield from (line, *below)
            shown += 1 + len(below)
    for suite in dict.fromkeys(m[1] for line in lines if (m := FAILED_SUITE.match(line))):
        yield f'again: ./sbt "*/testOnly {suite}"'
    for line in lines:
        counts = SCALA_CLOSING.match(line)
        if counts:
            yield f"scalatest: {counts[1]} passed, {counts[2]} failed, {counts[3]} skipped"


def pytest_closing(lines: list[str]) -> Iterator[str]:
    """What failed, how to run it again, what was skipped and why, and pytest's last line."""
    for number, line in enumerate(lines):
        if "A JVM did not start" in line:
            yield from lines[number : number + 21]
    failed = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
    for line in failed[:60]:
        yield line[:300]
    for line in failed[:60]:
        test = FAILED_TEST.match(line)
        if test:
            yield f"again: {Path(sys.prefix).name}/bin/pytest {shlex.quote(test[1])}"
    reasons: Counter[str] = Counter()
    for line in lines:
        skipped = SKIPPED.match(line)
        if skipped:
            reasons[skipped[2]] += int(skipped[1])
    for reason, count in reasons.most_common():
        yield f"skipped {count}: {reason}"
    yield from lines[-1:]


def run(part: Part, log: Path) -> tuple[bool, list[str], float]:
    """Whether it passed, what it printed, and its seconds. All that it prints is shown and kept."""
    began = time.monotonic()
    print(f"== {part.name}: {shlex.join(part.command)[:150]}", flush=True)
    lines: list[str] = []
    with (
        log.open("w") as kept,
        subprocess.Popen(
            part.command,
            env={**os.environ, **part.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            kept.write(line)
            print(line, end="", flush=True)
            lines.append(line.rstrip("\n"))
    return process.returncode == 0, lines, time.monotonic() - began


def parts(given: argparse.Namespace) -> Iterator[Part]:
    """What there is to run, in order."""
    pytest = [sys.executable, "-m", "pytest"]
    java = {"JAVA_HOME": given.java} if given.java else {}
    tests = given.tests.split()
    if not given.only:
        # JAVA_HOME: a test that starts a JVM and lacks the mark fails.
        yield Part(
            "Tests without a JVM",
            [*pytest, "-n", "auto", "--dist", "worksteal", "-m", "not spark and not long", *tests],
            pytest_closing,
            {"JAVA_HOME": "/none"},
        )
    yield Part("Jar", ["make", "jar"])
    if given.suites:
        yield Part("Scala", ["./sbt", *shlex.split(given.suites)], scala_closing)
    Path(os.environ["KEYSTATE_TEST_CLASSES"]).unlink(missing_ok=True)
    archive = [sys.executable, "-m", "tests.jvm_archive"]
    yield Part("Archive of classes", archive, environment=java)
    # Files of tests are shared out to processes, each with a Spark session of its own, in the order
    # that conftest.py gives them.
    shared = ["-n", str(given.workers), "--dist", "loadfile", "--no-loadscope-reorder"]
    only = ["-m", given.only or "spark or long"]
    yield Part("Tests in Spark", [*pytest, *shared, *only, *tests], pytest_closing, java)


def main() -> int:
    """Runs them; the status is 1 if any failed."""
    parser = argparse.ArgumentParser(prog="make test")
    parser.add_argument("--title", required=True, help="which Spark and Java these are tests of")
    parser.add_argument("--logs", required=True, type=Path, help="the folder for the logs")
    parser.add_argument("--suites", default="", help="sbt's commands; none: no suites")
    parser.add_argument("--tests", default="", help="pytest's files and folders; none: all")
    parser.add_argument("--only", default="", help="pytest's -m in place of all tests")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--java", default="", help="the JAVA_HOME of tests")
    given = parser.parse_args()
    given.logs.mkdir(parents=True, exist_ok=True)

    closing, times, failed = [f"On {given.title}:"], [], []
    for part in parts(given):
        log = given.logs / f"{part.name.lower().replace(' ', '-')}.log"
        passed, lines, seconds = run(part, log)
        if not passed:
            failed.append(part.name)
        if part.closing is not None:
            closing += part.closing(lines)
        elif not passed:
            closing += lines[-20:]
        times.append(f"{part.name}: {seconds / 60:.1f} min")
        if not passed and part.name == "Jar":
            break
    closing.append("; ".join(times))
    if failed:
        closing.append(f"Ended with an error: {', '.join(failed)}")
    text = "".join(f"{line}\n" for line in closing)
    (given.logs / "closing.log").write_text(text)
    print(f"\n{text}", end="", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
