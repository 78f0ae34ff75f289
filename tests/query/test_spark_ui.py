"""The tab "Keystate" of Spark's web UI."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyspark
import pytest

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[2]


def shown_by(folder: Path, sample: int) -> dict[str, Any]:
    """The tab while the query runs, and after it; and a metric."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.query.spark_ui_query", str(folder), str(sample)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    shown: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return shown


def cells_of(page: str) -> list[str]:
    return [re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall(r"<td.*?</td>", page, re.S)]


@pytest.mark.turns
def test_the_tab(tmp_path: Path) -> None:
    shown = shown_by(tmp_path, sample=0)
    page = shown["running"]
    assert shown["hottest"] is None
    assert "most frequent keys" not in page
    assert "&lt;counts&gt;" in page and "<counts>" not in page
    cells = cells_of(page)
    state = cells.index("count")
    assert cells[state : state + 3] == ["count", "value", "40"]
    assert cells[cells.index("seen") + 2] == "40"
    assert "0 to 42" in cells and "86 to 127" in cells
    assert page.count("background: #00897b") == 3
    assert "keystateBytesWritten" in cells
    heads = [
        re.sub(r"<[^>]*>", "", head).strip() for head in re.findall(r"<th.*?</th>", page, re.S)
    ]
    assert "0: visits" in cells and "transformWithState" not in page
    of_operator = cells[next(i for i, cell in enumerate(cells) if cell.startswith("0: ")) :]
    told = dict(zip(heads, of_operator, strict=False))
    start, worker = told["worker start ms"], told["worker ms"]
    if pyspark.__version__.startswith("4.1."):  # it tells no times of its workers
        assert (start, worker) == ("-", "-")
        start = worker = "0"
    else:
        assert int(start) + int(worker) > 0
        assert worker == cells[cells.index("keystateWorkerMs") + 1]
    in_workers = int(start) + int(worker)
    updates, removals, commit = (
        int(told[f"{part} ms"]) for part in ("updates", "removals", "commit")
    )
    # A worker that is used again has waited for the batch, which is no time of the batch.
    assert in_workers <= updates + 10
    assert int(told["JVM ms"]) == max(0, updates - in_workers) + removals + commit
    assert "No running query has state" in shown["stopped"]
    if shown["in browser"] is not None:
        in_browser = cells_of(shown["in browser"])
        assert in_browser[state : state + 3] == ["count", "value", "40"]
        # Spark's own script puts the table's heads and cells in order; none is lost.
        assert sorted(in_browser) == sorted(cells)


@pytest.mark.turns
def test_the_most_frequent_keys(tmp_path: Path) -> None:
    shown = shown_by(tmp_path, sample=1)
    page = shown["running"]
    assert shown["hottest"] == 61
    assert "most frequent keys of operator 0, of 100 sampled rows" in page
    cells = cells_of(page)
    first = cells.index("[5]")
    assert cells[first : first + 3] == ["[5]", "61", "61.0"]
    assert cells[first + 4 : first + 6] == ["1", "1.0"]
