"""README.md and docs/ say what is so: their snippets print what they show, their settings exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
# In this order: the snippets of a page go on from those of the pages before.
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]

SNIPPET = re.compile(
    r"^```python\n(.*?)^```$(?:\s*?(?:\n[^\n`]+\n)?\s*?^```text\n(.*?)^```$)?", re.M | re.S
)
# Not what several settings begin with, up to a dot.
SETTING = re.compile(r"\bspark\.keystate\.[a-zA-Z.]*[a-zA-Z](?![\w.]*\.[<{\"]|[\w])")
LINK = re.compile(r"\]\(([^)#]+)\)")
CODE = re.compile(r"`[^`]*`")


def test_snippets_print_what_they_show(tmp_path: Path) -> None:
    """One process runs them all: the complete example first, then what builds on it."""
    snippets = [found for page in PAGES for found in SNIPPET.findall(page.read_text())]
    assert "class CountWindowAverage" in snippets[0][0]
    assert snippets[0][1] == "(1, 4)\n(1, 5)\n"
    script = tmp_path / "snippets.py"
    script.write_text(
        "".join(f"print('# snippet {i}')\n{code}\n" for i, (code, _) in enumerate(snippets))
    )
    # Quick to start rather than quick to run.
    options = "--conf spark.ui.enabled=false --driver-java-options -XX:TieredStopAtLevel=1"
    run = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env={**os.environ, "PYSPARK_SUBMIT_ARGS": f"{options} pyspark-shell"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr[-5000:]
    printed = re.split(r"^# snippet \d+\n", run.stdout, flags=re.M)[1:]
    assert printed == [expected for _, expected in snippets]


def test_pytest_examples_pass(tmp_path: Path) -> None:
    examples = SNIPPET.findall((ROOT / "docs" / "testing.md").read_text())
    (tmp_path / "test_example.py").write_text("\n".join(code for code, _ in examples))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_example.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "3 passed" in run.stdout, run.stdout


def test_every_setting_is_documented() -> None:
    sources = [
        path
        for folder, name in (("jvm/src/main", "*.scala"), ("python/keystate", "*.py"))
        for path in (ROOT / folder).rglob(name)
    ]
    known = {key for path in sources for key in SETTING.findall(path.read_text())}
    assert "spark.keystate.maxParallelism" in known
    table = [line for line in README.read_text().splitlines() if line.startswith("| `spark.key")]
    assert {line.split("`")[1] for line in table} == known
    for page in PAGES:
        assert set(SETTING.findall(page.read_text())) <= known, page


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for link in LINK.findall(CODE.sub("", page.read_text())):
            assert "://" in link or (page.parent / link).exists(), f"{page.name}: {link}"


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    named = set(re.findall(r"`make ([a-z]+)`", README.read_text()))
    assert {"demo", "test"} <= named <= targets
