"""README.md and docs/ say what is so: their snippets print what they show, their settings exist."""

from __future__ import annotations

import fnmatch
import json
import os
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import jvm_archive

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
DOCS = ROOT / "docs"
# Each of these is a program of its own.
PROGRAMS = [
    README,
    ROOT / "python" / "README.md",
    DOCS / "index.md",
    DOCS / "start.md",
    *sorted(DOCS.glob("*/**/*.md")),
]
# Needs a server: tests/connect/test_page.py runs it.
CONNECT = DOCS / "connect.md"
# In this order: the snippets of a page go on from those of the pages before, the first from none.
STATE, AGGREGATES = DOCS / "state.md", DOCS / "aggregates.md"
_ELSEWHERE = [*PROGRAMS, CONNECT, STATE, AGGREGATES]
CHAPTERS = [
    STATE,
    *(page for page in sorted(DOCS.glob("*.md")) if page not in _ELSEWHERE),
    AGGREGATES,
]
PAGES = [*CHAPTERS, *PROGRAMS, CONNECT]

SNIPPET = re.compile(
    r"^```python\n(.*?)^```$(?:\s*?(?:\n[^\n`]+\n)?\s*?^```text\n(.*?)^```$)?", re.M | re.S
)
# Not what several settings begin with, up to a dot.
SETTING = re.compile(r"\bspark\.keystate\.[a-zA-Z.]*[a-zA-Z](?![\w.]*\.[<{\"]|[\w])")
LINK = re.compile(r"\]\(([^)#\s]*)(#[^)\s]+)?\)")
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.M | re.S)

RUN = """
import json, sys

for page, snippets in json.load(open(sys.argv[1])):
    names = {"__name__": "__main__"}
    for i, code in enumerate(snippets):
        print(f"# {page} {i}", flush=True)
        exec(compile(code, f"snippet {i} of {page}", "exec"), names)
"""


@pytest.mark.spark
def test_snippets_print_what_they_show(tmp_path: Path) -> None:
    """One process and session run them all: the complete example first, then what builds on it.

    A page that is a program runs twice, in one folder: whoever pastes it again finds the same.
    """
    chapters = [found for page in CHAPTERS for found in SNIPPET.findall(page.read_text())]
    assert "class CountWindowAverage" in chapters[0][0]
    assert chapters[0][1] == "(1, 4)\n(1, 5)\n"
    programs = [("state.md and after it", chapters)]
    for page in PROGRAMS:
        program = str(page.relative_to(ROOT)), SNIPPET.findall(page.read_text())
        programs += [program, program]
    (tmp_path / "run.py").write_text(RUN)
    pages = [(page, [code for code, _ in snippets]) for page, snippets in programs]
    (tmp_path / "pages.json").write_text(json.dumps(pages))
    run = subprocess.run(
        [sys.executable, "run.py", "pages.json"],
        cwd=tmp_path,
        env={**os.environ, **jvm_archive.session_environment()},
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert run.returncode == 0, run.stderr[-5000:]
    shown = "".join(
        f"# {page} {i}\n{expected}"
        for page, snippets in programs
        for i, (_, expected) in enumerate(snippets)
    )
    assert run.stdout == shown


@pytest.mark.parametrize("page", PROGRAMS, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_first_snippet_imports_what_the_page_uses(page: Path) -> None:
    """It is what a reader pastes first."""
    snippets = [code for code, _ in SNIPPET.findall(page.read_text())]
    if any(re.search(r"\bkeystate\.", code) for code in snippets):
        assert re.search(r"^import keystate$", snippets[0], re.M), page


def test_pytest_examples_pass(tmp_path: Path) -> None:
    examples = SNIPPET.findall((ROOT / "docs" / "testing.md").read_text())
    (tmp_path / "test_example.py").write_text("\n".join(code for code, _ in examples))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_example.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "5 passed" in run.stdout, run.stdout


def test_every_setting_is_documented() -> None:
    sources = [
        path
        for folder, name in (
            ("engine/src/main", "*.scala"),
            ("jvm/src/main", "*.scala"),
            ("python/keystate", "*.py"),
        )
        for path in (ROOT / folder).rglob(name)
    ]
    known = {key for path in sources for key in SETTING.findall(path.read_text())}
    assert "spark.keystate.maxParallelism" in known
    settings = json.loads((ROOT / "python/keystate/settings.json").read_text())
    assert set(settings) == known
    for page in PAGES:
        assert set(SETTING.findall(page.read_text())) <= known, page


def test_the_first_pages_are_short() -> None:
    """Whoever comes for the first time reads these; what is long has a page of its own."""
    for name, most in (("README.md", 900), ("CONTRIBUTING.md", 900), ("docs/guarantees.md", 550)):
        assert len((ROOT / name).read_text().split()) <= most, name
    for decision in (DOCS / "dev" / "decisions").glob("*.md"):
        if decision.name != "index.md":
            assert len(decision.read_text().split()) <= 200, decision


def test_links_lead_somewhere() -> None:
    others = [ROOT / "bench" / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    for page in [*PAGES, *others]:
        for link, anchor in LINK.findall(CODE.sub("", page.read_text())):
            if "://" in link:
                continue
            target = (page.parent / link) if link else page
            assert target.exists(), f"{page.name}: {link}"
            assert not anchor or anchor[1:] in _anchors(target), f"{page.name}: {link}{anchor}"


def _anchors(page: Path) -> set[str]:
    """Where a link into a page can lead, as both a git host and the site name it."""
    heads = re.findall(r"^(?:> )?#+ (.*)$", FENCE.sub("", page.read_text()), re.M)
    return {re.sub(r"[^\w -]", "", head.lower()).strip().replace(" ", "-") for head in heads}


def test_the_nav_names_all_pages() -> None:
    """And none that does not exist. Nothing else leads to a page that it does not name."""
    nav = (ROOT / "mkdocs.yml").read_text().split("\nnav:\n")[1]
    named = re.findall(r"[\w/-]+\.md", nav)
    assert len(named) == len(set(named))
    hooks = (DOCS / "site" / "hooks.py").read_text()
    for name in named:
        outside = f'"{name}":' in hooks or name.startswith(("python/", "examples/"))
        assert outside or (DOCS / name).exists(), name
    assert {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")} <= set(named)
    assert set(re.findall(r'^    "([\w-]+\.md)":', hooks, re.M)) <= set(named)
    reference = hooks.split("\nREFERENCE = {\n")[1].split("\n}\n")[0]
    assert {f"python/{page}.md" for page in re.findall(r'"(\w+)": \(', reference)} <= set(named)


def test_every_public_module_is_in_the_reference() -> None:
    hooks = (DOCS / "site" / "hooks.py").read_text()
    pages = hooks.split("\nREFERENCE = {\n")[1].split("\n}\n")[0]
    modules = (ROOT / "python" / "keystate").glob("[a-z]*")
    public = {path.stem for path in modules if path.suffix in ("", ".py")} - {
        "jars",
        "build",
        "tools",
    }
    assert "windows" in public
    assert public <= {name.split(".")[0] for name in re.findall(r'"([\w.]+)"', pages)}


def test_the_reference_names_what_exists() -> None:
    """The site can't be built otherwise."""
    hooks = (DOCS / "site" / "hooks.py").read_text()
    pages = hooks.split("\nREFERENCE = {\n")[1].split("\n}\n")[0]
    named = re.findall(r'"([\w.]+)"', "".join(re.findall(r"\[.*?\]", pages, re.S)))
    assert "_jvm.session" in named
    for name in named:
        assert pydoc.locate(f"keystate.{name}") is not None, name


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.M))
    pages = README.read_text() + (ROOT / "CONTRIBUTING.md").read_text()
    named = set(re.findall(r"`make ([a-z]+)`|^make ([a-z]+)", pages, re.M))
    assert {"quick", "test"} <= {name for names in named for name in names if name} <= targets


def test_workflows_run_every_target() -> None:
    """So that none breaks unseen."""
    declared = re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text(), re.M)[0]
    workflows = (ROOT / ".github" / "workflows").glob("*.yml")
    commands = re.findall(r"\bmake ([a-z -]+)", "\n".join(w.read_text() for w in workflows))
    assert set(declared.split()) - set(" ".join(commands).split()) <= {
        "jar",  # install makes it
        "needs-jdk",  # so does it first
        "needs-python",
        "docs-tables",  # tests/contract/test_facts.py runs it
        "counts",  # so does tests/test_counts.py
        "golden",  # only when a format changes
    }


def test_workflows_name_actions_by_their_commits() -> None:
    """A tag of an action may move."""
    for workflow in (ROOT / ".github" / "workflows").glob("*.yml"):
        used = re.findall(r"\buses: (.*)", workflow.read_text())
        assert used
        for action in used:
            assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", action), workflow


#: What a page may name in backticks as a file or module of this repository.
PLACE = re.compile(r"[\w.*-]+(?:/[\w.*-]+)*\.(?:py|scala|md|json|properties|c|toml|yml)")
MODULE = re.compile(r"(?:keystate|tests|bench|examples|docs)(?:\.[a-z_]\w*)+")
#: What looks like one and is not: what a command writes, and what types say of their fields.
ELSEWHERE = {
    "out/bench/results.json",
    "keystate-0.1.0.cdx.json",
    "keystate.default",
}


def test_pages_name_files_and_modules_that_exist() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    files = [file for file in listed if (ROOT / file).exists()]
    wrong = []
    for page in [*PAGES, ROOT / "bench" / "README.md", ROOT / "CONTRIBUTING.md"]:
        for name in re.findall(r"`([^`\n]+)`", FENCE.sub("", page.read_text())):
            if name in ELSEWHERE:
                continue
            if PLACE.fullmatch(name):
                found = any(fnmatch.fnmatch(f"/{file}", f"*/{name}") for file in files)
            elif MODULE.fullmatch(name):
                found = _is_module(name)
            else:
                continue
            if not found:
                wrong.append(f"{page.relative_to(ROOT)}: {name}")
    assert not wrong, "\n".join(wrong)


def _is_module(name: str) -> bool:
    """Whether it is a module of Python or Scala, or something in one of Python."""
    folder = name.replace(".", "/")
    scala = ROOT.glob(f"*/src/*/scala/{folder}")
    return any(scala) or pydoc.locate(name) is not None
