"""The protocol of commits, the fence and rescales, checked by Spin in every order of its steps.

``engine/src/test/promela/commit.pml`` is the specification, with what has to hold.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

SPECIFICATION = Path(__file__).parents[2] / "engine/src/test/promela/commit.pml"
MUTATIONS = (
    "NEVER_LOOKS",
    "REPLACES_ENTRIES",
    "TRUSTS_OFFSET_LOG",
    "KEEPS_IDS",
    "SKIPS_PENDING",
    "TAKES_OTHER_INPUT",
)

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not (shutil.which("spin") and shutil.which("cc")), reason="needs Spin and a C compiler"
    ),
]


def check(folder: Path, *definitions: str) -> tuple[int, int, str]:
    """The errors, the states that were reached, and all that Spin says."""

    def run(*command: str) -> str:
        return subprocess.run(
            command, cwd=folder, check=True, capture_output=True, text=True, timeout=600
        ).stdout

    run("spin", "-a", *(f"-D{name}" for name in definitions), str(SPECIFICATION))
    run("cc", "-O2", "-DSAFETY", "-DCOLLAPSE", "-o", "pan", "pan.c")
    said = run("./pan", "-m10000", "-w24")
    numbers = re.search(r"errors: (\d+)\s+(\d+) states, stored", said)
    assert numbers, said
    assert "max search depth too small" not in said
    return int(numbers[1]), int(numbers[2]), said


def test_every_order(tmp_path: Path) -> None:
    errors, states, said = check(tmp_path)
    assert errors == 0, said
    assert states > 5_000_000


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_fault_put_in_on_purpose(mutation: str, tmp_path: Path) -> None:
    assert mutation in SPECIFICATION.read_text()
    errors, _, said = check(tmp_path, mutation)
    assert errors == 1 and "assertion violated" in said
