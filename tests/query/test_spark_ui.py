"""The tab "Keystate" of Spark's web UI."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_tab(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.query.spark_ui_query", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout.splitlines()[-1])
    page = shown["running"]
    assert "&lt;counts&gt;" in page and "<counts>" not in page
    cells = [
        re.sub(r"<[^>]*>", "", cell).strip() for cell in re.findall(r"<td.*?</td>", page, re.S)
    ]
    state = cells.index("count")
    assert cells[state : state + 3] == ["count", "value", "40"]
    assert cells[cells.index("seen") + 2] == "40"
    assert "0 to 42" in cells and "86 to 127" in cells
    assert page.count("background: #00897b") == 3
    assert "keystateBytesWritten" in cells
    heads = [
        re.sub(r"<[^>]*>", "", head).strip() for head in re.findall(r"<th.*?</th>", page, re.S)
    ]
    of_operator = cells[next(i for i, cell in enumerate(cells) if cell.startswith("0: ")) :]
    told = dict(zip(heads, of_operator, strict=False))
    assert int(told["worker start ms"]) + int(told["worker ms"]) > 0
    assert told["worker ms"] == cells[cells.index("keystateWorkerMs") + 1]
    start, worker, updates, removals, commit = (
        int(told[f"{part} ms"])
        for part in ("worker start", "worker", "updates", "removals", "commit")
    )
    assert int(told["JVM ms"]) == max(0, updates - start - worker) + removals + commit
    assert "No running query has state" in shown["stopped"]
