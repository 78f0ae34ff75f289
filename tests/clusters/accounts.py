"""What app.py reads, and what it should emit for it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa

from tests.fault import batch_files

FILES, ROWS, KEYS = 12, 30, 12


def make_input(folder: Path, seed: int) -> list[tuple[int, int, str]]:
    """Writes random rows; returns what an uninterrupted run emits for them."""
    rng = random.Random(seed)
    states: dict[int, tuple[list[int], dict[str, int]]] = {}
    counts: dict[int, int] = {}
    rows, expected = [], []
    for number in range(FILES * ROWS):
        key, x = rng.randrange(KEYS), rng.randrange(1, 1000)
        rows.append({"number": number, "key": key, "x": x})
        last, by_kind = states.setdefault(key, ([], {}))
        counts[key] = counts.get(key, 0) + 1
        if x % 7 == 0:
            last.clear()
        last.append(x)
        by_kind[f"k{x % 5}"] = by_kind.get(f"k{x % 5}", 0) + x
        expected.append((number, key, json.dumps([counts[key], last, sorted(by_kind.items())])))
    for i in range(FILES):
        batch_files.write(
            folder / "input", i, pa.Table.from_pylist(rows[i * ROWS : (i + 1) * ROWS])
        )
    (folder / "output").mkdir()
    return expected


def emitted(folder: Path) -> list[tuple[int, int, str]]:
    """What all micro-batches emitted, the last attempt at each."""
    return [(number, key, state) for number, key, state, _ in batch_files.emitted(folder)]


def places(folder: Path) -> set[tuple[str, ...]]:
    """The interpreters of the workers, and where each found Keystate."""
    return {tuple(place.split(" ")) for *_, place in batch_files.emitted(folder)}


def is_whole(checkpoint: str, **environment: str) -> bool:
    """Whether `keystate verify` finds nothing wrong with it; it is told this besides."""
    command = [sys.executable, "-m", "keystate", "verify", checkpoint]
    told = {**os.environ, **environment}
    return subprocess.run(command, timeout=100, env=told).returncode == 0
