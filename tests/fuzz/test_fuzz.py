"""A few fixed seeds of the fuzzer; with SLOW=1 an hour of them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

SECONDS = ["--seconds", "1800"] if os.environ.get("SLOW") else ["--programs", "60"]


@pytest.mark.parametrize("compiled", ["1", "0"])
def test_programs_do_in_the_harness_what_their_models_do(compiled: str) -> None:
    command = [sys.executable, "-m", "tests.fuzz", "--seed", "0", "--stop", *SECONDS]
    environment = {**os.environ, "KEYSTATE_NATIVE": compiled}
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
