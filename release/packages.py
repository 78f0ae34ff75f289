"""The files for Python: wheels and the source distribution."""

from __future__ import annotations

import re
import tarfile
import zipfile
from collections.abc import Iterator
from email.parser import HeaderParser

from release.dist import Release

_IN_BOTH = ("errors.json", "settings.json", "versions.properties", "py.typed", "tools/page/page.js")


def problems(release: Release) -> Iterator[str]:
    """What is missing or wrong."""
    wanted = [*_IN_BOTH, *(f"jars/{release.jar(line)}" for line in release.sparks)]
    if not release.sdist.exists():
        yield f"{release.sdist.name} is missing: make dist"
    else:
        with tarfile.open(release.sdist) as archive:
            names = archive.getnames()
        top = release.sdist.name.removesuffix(".tar.gz")
        yield from _missing(
            release.sdist.name,
            [
                *(f"{top}/{name}" for name in ("pyproject.toml", "setup.py", "README.md")),
                *(f"{top}/{name}" for name in ("PKG-INFO", "LICENSE", "NOTICE")),
                f"{top}/keystate/_compiled/native.c",
                *(f"{top}/keystate/{name}" for name in wanted),
            ],
            names,
        )
        yield from _other_jars(release, release.sdist.name, names)
    if not release.wheel.exists():
        yield f"{release.wheel.name} is missing: make dist"
    if not release.compiled_wheels():
        yield "there is no wheel with compiled code: make release-check makes one"
    for wheel in (release.wheel, *release.compiled_wheels()):
        if not wheel.exists():
            continue
        with zipfile.ZipFile(wheel) as archive:
            names = archive.namelist()
            info = f"keystate-{release.version}.dist-info"
            metadata = f"{info}/METADATA"
            yield from _missing(
                wheel.name,
                [
                    metadata,
                    f"{info}/entry_points.txt",
                    f"{info}/licenses/LICENSE",
                    f"{info}/licenses/NOTICE",
                    *(f"keystate/{name}" for name in wanted),
                ],
                names,
            )
            yield from _other_jars(release, wheel.name, names)
            if metadata in names:
                yield from _of_metadata(release, wheel.name, archive.read(metadata).decode())
        compiled = any(re.match(r"keystate/_compiled/native\..*(so|pyd)$", name) for name in names)
        if compiled != (wheel != release.wheel):
            yield f"{wheel.name} has {'' if compiled else 'no '}compiled code"


def _missing(file: str, wanted: list[str], names: list[str]) -> Iterator[str]:
    yield from (f"{file} lacks {name}" for name in wanted if name not in names)


def _other_jars(release: Release, file: str, names: list[str]) -> Iterator[str]:
    ours = {release.jar(line) for line in release.sparks}
    for name in names:
        if name.endswith(".jar") and name.rpartition("/")[2] not in ours:
            yield f"{file} has {name}, which is of another build: make clean"


def _of_metadata(release: Release, wheel: str, text: str) -> Iterator[str]:
    metadata = HeaderParser().parsestr(text)
    releases = sorted(release.sparks.values(), key=lambda name: list(map(int, name.split("."))))
    major, minor = map(int, releases[-1].split(".")[:2])
    required = [f"pyspark<{major}.{minor + 1},>={releases[0].rpartition('.')[0]}"]
    required += [f"{name}>={release.versions[name]}" for name in ("pyarrow", "numpy")]
    for wanted in required:
        if wanted not in (metadata.get_all("Requires-Dist") or []):
            yield f"{wheel} does not require {wanted}"
    oldest = release.versions["pythons"].split()[0]
    if metadata["Requires-Python"] != f">={oldest}":
        yield f"{wheel} does not require Python {oldest}"
    if metadata["Version"] != release.version:
        yield f"{wheel} says that it is {metadata['Version']}"
