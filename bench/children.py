"""Processes that do what they are asked, so that several can take turns.

A line of their standard input is a question, in JSON. The answer is a line of their output,
`answer {"seconds": 1.2, ...}`. Each has its own memory, and can have a Python of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

from bench.processes import cpu_seconds, memory

Answer = dict[str, Any]


class Child:
    """A process, and what it uses.

    Args:
        name: what errors call it.
        command: runs it.
        settings: environment variables that it has besides.
    """

    def __init__(
        self, name: str, command: Sequence[str], settings: dict[str, str] | None = None
    ) -> None:
        self._name = name
        self._process = subprocess.Popen(
            command,
            # Loopback, else Spark looks for an address of the machine.
            env={"SPARK_LOCAL_IP": "127.0.0.1", **os.environ, **(settings or {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, question: dict[str, str]) -> Answer:
        """Its answer, with `cpu` in seconds and the most `memory` in MB that it had meanwhile."""
        pid, done = self._process.pid, threading.Event()
        peak = [0.0]

        def watch() -> None:
            while not done.wait(0.5):
                peak[0] = max(peak[0], memory(pid))

        watching = threading.Thread(target=watch)
        watching.start()
        before = cpu_seconds(pid)
        try:
            answer = self._answer(question)
        finally:
            done.set()
            watching.join()
        return {**answer, "cpu": cpu_seconds(pid) - before, "memory": peak[0]}

    def _answer(self, question: dict[str, str]) -> Answer:
        assert self._process.stdin is not None and self._process.stdout is not None
        # One that has ended reads no question; then there is no answer either.
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(question) + "\n")
            self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("answer "):
                answer: Answer = json.loads(line.removeprefix("answer "))
                return answer
        raise RuntimeError(f"{self._name} ended at {question}: its error is above")

    def close(self) -> None:
        """Ends it."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(60)


def serve(answer: Callable[[dict[str, str]], Answer]) -> None:
    """What such a process does: answers until there are no more questions."""
    for line in sys.stdin:
        print("answer", json.dumps(answer(json.loads(line))), flush=True)
