"""Drivers of their own, with executors of their own, that tests kill."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pyspark
from keystate._types.waiting import wait_until

from tests.fault import batch_files

HERE = Path(__file__).parent
SPARK_HOME = Path(pyspark.__file__).parent
# Two executors that are processes.
CLUSTER = "local-cluster[2,1,1024]"


class Started:
    """A process with descendants, all of which write to its log; whatever is left dies at the exit.

    Args:
        command: the program and its arguments.
        log: where its output goes.
        environment: what else it is told, or told otherwise.
    """

    def __init__(self, command: list[str], log: Path, **environment: str) -> None:
        paths = [str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env={
                    **os.environ,
                    "PYTHONPATH": os.pathsep.join(filter(None, paths)),
                    # A cluster starts its executors from there.
                    "SPARK_HOME": str(SPARK_HOME),
                    **environment,
                },
            )

    def __enter__(self) -> Started:
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

        def is_met() -> bool:
            met = condition()
            assert met or self.exit_code is None, self.log
            return met

        try:
            wait_until(is_met, "a driver", seconds, interval=0.01)
        except TimeoutError as e:
            raise AssertionError(self.log) from e

    def wait(self, seconds: float = 180) -> int:
        """Waits for its end; returns the exit code."""
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(self.log) from None

    def text(self, pattern: str) -> str:
        """Waits until something is in the log, and returns its first group."""
        found: list[str] = []

        def is_there() -> bool:
            found.extend(re.findall(pattern, self._log.read_text(errors="replace")))
            return bool(found)

        self.wait_for(is_there, 60)
        return found[0]

    def executors(self) -> list[int]:
        return [pid for pid, command in self._processes() if b"ExecutorBackend" in command]

    def jvm(self) -> int:
        """The driver's JVM."""
        (pid,) = (pid for pid, command in self._processes() if b"SparkSubmit" in command)
        return pid

    def send(self, number: signal.Signals) -> None:
        """Sends a signal to the process itself, not to its descendants."""
        assert self.exit_code is None, self.log
        self._process.send_signal(number)

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


class Driver(Started):
    """A script of this folder as a process."""

    def __init__(self, script: str, log: Path, *arguments: Any, **environment: str) -> None:
        command = [sys.executable, str(HERE / script), *map(str, arguments)]
        super().__init__(command, log, **environment)


@dataclass(frozen=True)
class Standalone:
    """A standalone cluster: its address, and the processes of its workers."""

    url: str
    workers: list[Started]


@contextlib.contextmanager
def standalone(
    folder: Path, hosts: list[str], cores: int, **environment: str
) -> Iterator[Standalone]:
    """A standalone cluster with a worker on each of these names of this machine.

    Args:
        folder: has the logs, and the worker's folders in `work` and `local`, each by its host.
        hosts: the master is on the first one too.
        cores: of each worker.
        environment: what else master and workers are told.
    """

    def start(kind: str, host: str, *arguments: str) -> Started:
        command = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"]
        command += ["--host", host, "--port", "0", "--webui-port", "0", *arguments]
        log = folder / f"{kind}-{host}.log"
        told = {"SPARK_DAEMON_MEMORY": "256m", "SPARK_NO_DAEMONIZE": "1", "SPARK_LOCAL_IP": host}
        told["SPARK_LOCAL_DIRS"] = str(folder / "local" / host)
        told["SPARK_DAEMON_JAVA_OPTS"] = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
        return processes.enter_context(Started(command, log, **told, **environment))

    with contextlib.ExitStack() as processes:
        url = start("master.Master", hosts[0]).text(r"Starting Spark master at (spark://\S+)")
        size = ["--cores", str(cores), "--memory", "1g"]
        workers = [
            start("worker.Worker", host, *size, "--work-dir", str(folder / "work" / host), url)
            for host in hosts
        ]
        for worker in workers:
            worker.text("(Successfully registered with master)")
        yield Standalone(url, workers)


def kill_midway(rng: Random, most: int, script: str, folder: Path, *arguments: Any) -> None:
    """Runs a query's driver in the folder, for at least one micro-batch and up to `most` of them.

    What is left goes on with a file of each source a micro-batch.

    Args:
        rng: says when it is killed.
        most: how many micro-batches are in the commit log, at most, before it is.
        script: starts the query; its first argument is the folder.
    """
    until = committed(folder) + rng.randint(1, most)
    with Driver(script, folder / "driver.log", folder, *arguments) as driver:
        driver.wait_for(lambda: committed(folder) >= until)
        time.sleep(rng.uniform(0, 0.4))
        assert driver.exit_code is None, driver.log
    batch_files.keep_a_file_a_batch(folder)


def committed(folder: Path) -> int:
    """How many micro-batches are in the commit log."""
    return len(list((folder / "checkpoint" / "commits").glob("[0-9]*")))
