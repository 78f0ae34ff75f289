"""Drivers of their own, with executors of their own, that tests kill."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyspark

HERE = Path(__file__).parent
# Two executors that are processes.
CLUSTER = "local-cluster[2,1,1024]"


class Driver:
    """A script of this folder as a process with descendants; whatever is left dies at the exit."""

    def __init__(self, script: str, log: Path, *arguments: Any) -> None:
        paths = [str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / script), *map(str, arguments)],
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                    # A cluster starts its executors from there.
                    "SPARK_HOME": str(Path(pyspark.__file__).parent),
                },
            )

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *error: Any) -> None:
        self.kill_all()

    @property
    def exit_code(self) -> int | None:
        return self._process.poll()

    @property
    def log(self) -> str:
        return self._log.read_text(errors="replace")[-20_000:]

    def wait_for(self, condition: Callable[[], bool], seconds: float = 300) -> None:
        """Fails if the driver ends before the condition is met."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert self.exit_code is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.01)

    def wait(self, seconds: float = 180) -> int:
        """Waits for its end; returns the exit code."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(self.log) from None

    def executors(self) -> list[int]:
        return [pid for pid, command in self._processes() if b"ExecutorBackend" in command]

    def kill(self, pid: int) -> None:
        assert self.exit_code is None, self.log
        os.kill(pid, signal.SIGKILL)

    def kill_driver(self) -> None:
        """Kills Python and its JVM; executors are left to find out."""
        assert self.exit_code is None, self.log
        for pid, command in self._processes():
            if pid == self._process.pid or b"SparkSubmit" in command:
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def kill_all(self) -> None:
        """Kills all of its processes at once, and sees them gone."""
        deadline = time.monotonic() + 30
        while left := list(self._processes()):
            for pid, _ in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self._process.poll()
            assert time.monotonic() < deadline, f"they don't die: {left}"
            time.sleep(0.02)
        self._process.wait()

    def _processes(self) -> Iterator[tuple[int, bytes]]:
        """Its processes, wherever they are in the tree: they are of one session."""
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                state, _, _, session = (folder / "stat").read_text().rsplit(")", 1)[1].split()[:4]
                command = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if int(session) == self._process.pid and state != "Z":
                yield int(folder.name), command


def committed(folder: Path) -> int:
    """How many micro-batches are in the commit log."""
    return len(list((folder / "checkpoint" / "commits").glob("[0-9]*")))
