"""Checks the commits that a branch brings: python3 project/commits.py BASE [HEAD].

Prints what is wrong with each, and then exits with 1. CI runs it on pull requests; history before
BASE is not looked at.
"""

from __future__ import annotations

import re
import subprocess
import sys

LONGEST_SUBJECT = 72
UNFINISHED = re.compile(r"(wip\b|fixup!|squash!|amend!)", re.I)
TRAILER = re.compile(r"[A-Z][\w-]+-[Bb]y: ")


def problems(base: str, head: str) -> list[str]:
    """What is wrong with the commits of `head` that `base` does not have, oldest first."""
    # Fields end with NUL, for a message may have anything else.
    shown = _git("log", "--reverse", "-z", "--format=%h%x00%p%x00%s%x00%b", f"{base}..{head}")
    fields = shown.split("\0")
    commits = [fields[i : i + 4] for i in range(0, len(fields) - 3, 4)]
    return [
        f"{name} ({subject[:40]}): {problem}"
        for name, parents, subject, body in commits
        for problem in _of_commit(parents.split(), subject, body)
    ]


def _of_commit(parents: list[str], subject: str, body: str) -> list[str]:
    if len(parents) > 1:
        return ["it is a merge: rebase the branch instead"]
    found = []
    if len(subject) > LONGEST_SUBJECT:
        found.append(f"the subject has {len(subject)} characters, more than {LONGEST_SUBJECT}")
    if UNFINISHED.match(subject):
        found.append("it is unfinished: put it into the commit that it belongs to")
    if not [line for line in body.splitlines() if line.strip() and not TRAILER.match(line)]:
        found.append("it has no body that says why")
    return found


def _git(*arguments: str) -> str:
    run = subprocess.run(["git", *arguments], check=True, capture_output=True, encoding="utf-8")
    return run.stdout


if __name__ == "__main__":
    found = problems(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "HEAD")
    print("\n".join(found))
    sys.exit(1 if found else 0)
