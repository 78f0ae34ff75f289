"""What project/commits.py says of the commits that a branch brings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[1] / "project" / "commits.py"
BODY = "It says why."


class Repository:
    """A temporary repository with one commit on main, and a branch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.git("init", "-q", "-b", "main")
        self.commit("wip", body="")  # history is not looked at
        self.git("switch", "-q", "-c", "branch")

    def git(self, *arguments: str) -> None:
        name = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *name, *arguments], cwd=self.folder, check=True, capture_output=True)

    def commit(self, subject: str, body: str = BODY) -> None:
        self.git("commit", "-q", "--allow-empty", "-m", f"{subject}\n\n{body}")

    def check(self) -> tuple[int, list[str]]:
        command = [sys.executable, str(SCRIPT), "main"]
        run = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        assert not run.stderr
        return run.returncode, run.stdout.strip().splitlines()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_good_commits_pass(repository: Repository) -> None:
    assert repository.check() == (0, [])
    repository.commit("Say “what” changes: " + "ä" * 52)
    repository.commit("Wipe the table", body=f"{BODY}\n\nSigned-off-by: a <a@example.org>")
    assert repository.check() == (0, [])


@pytest.mark.parametrize(
    ("subject", "body", "problem"),
    [
        ("a" * 73, BODY, "73 characters"),
        (
            "A first line\nand a second without a blank line, which git joins with the first one",
            BODY,
            "more",
        ),
        ("WIP", BODY, "unfinished"),
        ("wip: a thing", BODY, "unfinished"),
        ("fixup! Say it", BODY, "unfinished"),
        ("squash! Say it", BODY, "unfinished"),
        ("Say it", "", "no body"),
        ("Say it", "Signed-off-by: a <a@example.org>", "no body"),
    ],
)
def test_a_bad_commit_is_named(
    repository: Repository, subject: str, body: str, problem: str
) -> None:
    repository.commit("Say it")
    repository.commit(subject, body)
    status, found = repository.check()
    assert status == 1
    assert len(found) == 1
    assert problem in found[0]


def test_a_merge_is_named(repository: Repository) -> None:
    repository.commit("Say it")
    repository.git("switch", "-q", "main")
    repository.commit("Say another thing")
    repository.git("switch", "-q", "branch")
    repository.git("merge", "-q", "--no-ff", "-m", f"Merge main\n\n{BODY}", "main")
    status, found = repository.check()
    assert status == 1
    assert [line for line in found if "merge" in line] == found
