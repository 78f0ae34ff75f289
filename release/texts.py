"""What a person wrote: the version's number, the changelog, pages, the tag."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

from release.dist import Release

_NUMBER = re.compile(r"\d+\.\d+\.\d+(\.dev\d+)?")
_GROUP = re.compile(r"([\w.]+):keystate-spark")
_JAR = re.compile(r"keystate-spark[\d.]+_[\d.]+[-:](\d+\.\d+\.\d+)")


def problems(release: Release, tag: str | None) -> Iterator[str]:
    """What is missing or wrong; the tag is the one that is released, if it is known."""
    version = release.version
    if not _NUMBER.fullmatch(version):
        yield f"versions.properties: {version} is no number such as 1.2.3 or 1.2.3.dev0"
    number = version.partition(".dev")[0]
    for page in [release.root / "README.md", *sorted((release.root / "docs").rglob("*.md"))]:
        name, text = page.relative_to(release.root), page.read_text()
        for other in _JAR.findall(text):
            if other != number:
                yield f"{name} names a jar of {other}, not {number}"
        for other in _GROUP.findall(text):
            if other != release.group:
                yield f"{name} names a jar of the group {other}, not {release.group}"
    changelog = (release.root / "CHANGELOG.md").read_text()
    sections = dict(re.findall(r"^## (.+)\n((?:(?!## ).*\n?)*)", changelog, re.M))
    if tag is None:
        if not any(
            re.fullmatch(rf"Unreleased|{re.escape(number)} - .*", name) for name in sections
        ):
            yield f"CHANGELOG.md has neither Unreleased nor {number}"
        return
    if tag != f"v{version}" or ".dev" in version:
        yield f"the tag {tag} is not v{version}, or that is no release"
    dated = [
        name
        for name in sections
        if re.fullmatch(rf"{re.escape(version)} - \d{{4}}-\d\d-\d\d", name)
    ]
    if not dated or not sections[dated[0]].strip():
        yield f"CHANGELOG.md has no section ## {version} - YEAR-MONTH-DAY, or nothing in it"
    yield from _of_tag(release, tag)


def _of_tag(release: Release, tag: str) -> Iterator[str]:
    show = ["git", "cat-file", "tag", f"refs/tags/{tag}"]
    found = subprocess.run(show, cwd=release.root, capture_output=True, text=True, check=False)
    if found.returncode != 0:
        yield f"there is no annotated tag {tag}: git tag -s {tag}"
    elif "-----BEGIN " not in found.stdout:
        yield f"the tag {tag} is not signed: git tag -s {tag}"


def awaited(release: Release) -> Iterator[str]:
    """What a release needs, and a dry run need not have yet."""
    changelog = (release.root / "CHANGELOG.md").read_text()
    if not re.search(rf"^## {re.escape(release.version)} - ", changelog, re.M):
        yield f"CHANGELOG.md: Unreleased becomes ## {release.version} and the date"
    yield f"a signed tag: git tag -s v{release.version}"
