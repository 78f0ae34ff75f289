"""The commands: see ``release``."""

from __future__ import annotations

import sys
from pathlib import Path

from release import maven, packages, sbom, texts
from release.dist import SIGNATURE, Release


def unsigned(release: Release) -> list[Path]:
    """The files without a signature beside them."""
    files = release.to_be_signed()
    return [path for path in files if not path.with_name(path.name + SIGNATURE).exists()]


def check(release: Release, tag: str | None = None) -> int:
    """Prints what is missing, and what a dry run need not have; 1 if anything is missing."""
    found = [
        *texts.problems(release, tag),
        *packages.problems(release),
        *maven.problems(release, tag),
        *sbom.problems(release),
    ]
    for problem in found:
        print(f"missing  {problem}")
    for what in (*(texts.awaited(release) if tag is None else ()), *maven.awaited(release, tag)):
        print(f"awaited  {what}")
    for path in unsigned(release):
        print(f"awaited  a signature: {path.relative_to(release.dist)}{SIGNATURE}")
    files = len(list(release.to_be_signed()))
    print(f"{files} files of {release.version}, {len(found)} missing or wrong")
    return 1 if found else 0


def main(command: str, *arguments: str) -> int:
    """Runs a command; gives its exit code."""
    release = Release(Path(__file__).resolve().parents[1])
    if command == "check":
        return check(release, *arguments)
    if command == "unsigned":
        print(*unsigned(release), sep="\n")
    else:
        {"bundle": maven.write_bundle, "sbom": sbom.write}[command](release)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
