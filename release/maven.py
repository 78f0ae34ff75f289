"""The files for Maven: what Maven Central asks of them, their checksums, and the bundle."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from xml.etree import ElementTree

from release.dist import CHECKSUMS, SIGNATURE, Release, checksum

_POM = "{http://maven.apache.org/POM/4.0.0}"
#: What Maven Central wants in a POM, besides the coordinates. The place is a maintainer's to say.
_WANTED = ("name", "description", "licenses", "developers")
_PLACE = ("url", "scm")
NO_URL = (
    "versions.properties: url is empty: Maven Central wants the address of the project, such as "
    "https://github.com/OWNER/keystate"
)
#: A jar has Keystate's classes, and no others.
_OURS = re.compile(
    r"(org/apache/spark/sql/)?keystate/|META-INF/|(org/(apache/(spark/(sql/)?)?)?)?$"
)


def write_checksums(release: Release) -> None:
    """Beside each file for Maven; those of signatures are not wanted."""
    for line in release.sparks:
        for path in release.maven_files(line):
            for kind in CHECKSUMS:
                path.with_name(f"{path.name}.{kind}").write_text(checksum(path, kind))


def write_bundle(release: Release) -> None:
    """A zip file with the folders of a Maven repository, and the signatures that are there."""
    write_checksums(release)
    root = release.dist / "maven"
    with zipfile.ZipFile(release.bundle, "w", zipfile.ZIP_DEFLATED) as bundle:
        for line in release.sparks:
            for path in release.maven_files(line):
                beside = [path.with_name(f"{path.name}.{kind}") for kind in CHECKSUMS]
                signature = path.with_name(path.name + SIGNATURE)
                for file in [path, *beside, *([signature] if signature.exists() else [])]:
                    bundle.write(file, file.relative_to(root).as_posix())


def problems(release: Release, tag: str | None) -> Iterator[str]:
    """What is missing or wrong."""
    in_bundle = set()
    if release.bundle.exists():
        with zipfile.ZipFile(release.bundle) as bundle:
            in_bundle = set(bundle.namelist())
    else:
        yield f"{release.bundle.name} is missing: make dist"
    for line in release.sparks:
        files = release.maven_files(line)
        for path in files:
            name = path.relative_to(release.dist / "maven").as_posix()
            if not path.exists():
                yield f"maven/{name} is missing: SPARK={line} ./sbt jvm/publish"
                continue
            for kind in CHECKSUMS:
                beside = path.with_name(f"{path.name}.{kind}")
                if not beside.exists() or beside.read_text().split()[:1] != [checksum(path, kind)]:
                    yield f"maven/{name}.{kind} is missing, or of another file"
            yield from (
                f"{release.bundle.name} lacks {wanted}"
                for wanted in (name, *(f"{name}.{kind}" for kind in CHECKSUMS))
                if in_bundle and wanted not in in_bundle
            )
        pom, jar, sources, javadoc = files
        if pom.exists():
            yield from _of_pom(release, line, pom.read_text(), tag)
        if jar.exists():
            yield from _of_jar(jar.name, zipfile.ZipFile(jar).namelist())
        for path, ending in ((sources, ".scala"), (javadoc, ".html")):
            if path.exists() and not any(
                name.endswith(ending) for name in zipfile.ZipFile(path).namelist()
            ):
                yield f"{path.name} has no {ending} in it"
    if tag and not release.versions.get("url"):
        yield NO_URL


def _of_pom(release: Release, line: str, text: str, tag: str | None) -> Iterator[str]:
    pom = ElementTree.fromstring(text)
    artifact = release.artifact(line)
    coordinates = {
        "groupId": release.group,
        "artifactId": artifact,
        "version": release.version,
    }
    for name, value in coordinates.items():
        if pom.findtext(f"{_POM}{name}") != value:
            yield f"the POM of {artifact} says {pom.findtext(f'{_POM}{name}')}, not {value}"
    for name in (*_WANTED, *(_PLACE if tag or release.versions.get("url") else ())):
        element = pom.find(f"{_POM}{name}")
        if element is None or not "".join(element.itertext()).strip():
            yield f"the POM of {artifact} has no {name}"
    for dependency in pom.iter(f"{_POM}dependency"):
        scope = dependency.findtext(f"{_POM}scope")
        if scope not in ("provided", "test") and "scala-library" not in "".join(
            dependency.itertext()
        ):
            name = dependency.findtext(f"{_POM}artifactId")
            yield f"the POM of {artifact} has the dependency {name}, which Spark has not brought"


def _of_jar(name: str, entries: list[str]) -> Iterator[str]:
    for wanted in ("META-INF/LICENSE", "META-INF/NOTICE", "keystate/errors.json"):
        if wanted not in entries:
            yield f"{name} lacks {wanted}"
    if not any(entry.startswith("keystate/backend/") for entry in entries):
        yield f"{name} lacks the classes of the engine"
    for entry in entries:
        if not _OURS.match(entry):
            yield f"{name} has {entry}, which is not of this project"


def awaited(release: Release, tag: str | None) -> Iterator[str]:
    """What Maven Central wants, and only a maintainer can say."""
    if not tag and not release.versions.get("url"):
        yield NO_URL
    if "." not in release.group:
        yield (
            "versions.properties: group: Maven Central takes a group id that you own, such as "
            f"io.github.OWNER; `{release.group}` is for repositories of your own"
        )
