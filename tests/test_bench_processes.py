"""bench/processes.py: what processes take of the machine."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from bench.processes import busy

# As Spark's daemon of Python workers: nobody waits for the child, which works for two seconds.
PARENT = """
import os, signal, sys, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
if os.fork() == 0:
    end = time.process_time() + 2
    while time.process_time() < end:
        pass
    os._exit(0)
print("started", flush=True)
sys.stdin.read()
"""


@pytest.mark.long
def test_a_process_that_ends_meanwhile_counts() -> None:
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None and parent.stdin is not None
        parent.stdout.readline()
        begin = time.perf_counter()
        share = busy(6, parent.pid)
        took = time.perf_counter() - begin
        parent.stdin.close()
    # At most all of it. How much of it is done by the end depends on what else the machine does.
    assert 0 < share * took <= 2.2
