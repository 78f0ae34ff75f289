"""What is released, by versions.properties, and where its files are."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

#: What Maven Central asks for beside each file, and what it also takes.
CHECKSUMS = ("md5", "sha1", "sha256", "sha512")
SIGNATURE = ".asc"
#: The files of an artifact, by what follows its name and version.
MAVEN_FILES = (".pom", ".jar", "-sources.jar", "-javadoc.jar")


@dataclass(frozen=True)
class Release:
    """A clone and the files that `make dist` left in it."""

    root: Path

    @cached_property
    def versions(self) -> dict[str, str]:
        """What versions.properties says."""
        lines = (self.root / "python/keystate/versions.properties").read_text().splitlines()
        pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
        return {name.strip(): value.strip() for name, value in pairs}

    @property
    def version(self) -> str:
        """Keystate's version."""
        return self.versions["keystate"]

    @property
    def group(self) -> str:
        """The group id of the jars in Maven."""
        return self.versions["group"]

    @property
    def sparks(self) -> dict[str, str]:
        """The supported lines of Spark, each with the release that its jar is compiled against."""
        return {name.rpartition(".")[0]: name for name in self.versions["sparks"].split()}

    @property
    def dist(self) -> Path:
        """Where everything is."""
        return self.root / "dist"

    def artifact(self, line: str) -> str:
        """The name of a line's jar in Maven, without its version."""
        return f"keystate-spark{line}_{self.versions['scala'].rpartition('.')[0]}"

    def jar(self, line: str) -> str:
        """The name of a line's jar."""
        return f"{self.artifact(line)}-{self.version}.jar"

    def maven_files(self, line: str) -> list[Path]:
        """The files that a line has in Maven, without checksums and signatures."""
        artifact = self.artifact(line)
        folder = self.dist.joinpath("maven", *self.group.split("."), artifact, self.version)
        return [folder / f"{artifact}-{self.version}{ending}" for ending in MAVEN_FILES]

    @property
    def sdist(self) -> Path:
        """The source distribution."""
        return self.dist / f"keystate-{self.version}.tar.gz"

    @property
    def wheel(self) -> Path:
        """The wheel for every machine."""
        return self.dist / f"keystate-{self.version}-py3-none-any.whl"

    @property
    def sbom(self) -> Path:
        """The software bill of materials."""
        return self.dist / f"keystate-{self.version}.cdx.json"

    @property
    def bundle(self) -> Path:
        """What is uploaded to Maven Central."""
        return self.dist / f"keystate-{self.version}-maven.zip"

    def compiled_wheels(self) -> list[Path]:
        """Wheels with compiled code, of one Python and kind of machine each."""
        found = self.dist.glob(f"**/keystate-{self.version}-*.whl")
        return sorted(path for path in found if path.name != self.wheel.name)

    def to_be_signed(self) -> Iterator[Path]:
        """Each file that needs a signature of its own."""
        yield from (self.sdist, self.wheel, self.sbom, *self.compiled_wheels())
        for line in self.sparks:
            yield from self.maven_files(line)


def checksum(path: Path, kind: str) -> str:
    """A file's checksum, in hexadecimal."""
    return hashlib.new(kind, path.read_bytes()).hexdigest()
