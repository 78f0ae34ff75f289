"""What is shipped to a cluster: a Python environment as an archive, and the jar by its coordinates.

The environment has what the wheel has, but its jars. Nothing else on a cluster knows Keystate.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import keystate
import pyarrow
from keystate._jvm import session

# Not needed to run.
_LEFT_OUT = shutil.ignore_patterns("jars", "__pycache__", "tests", "include", "src", "*.pyi", "*.c")


#: What makes a session one with Keystate, but for the jar.
SETTINGS = {
    "spark.sql.extensions": session.EXTENSION,
    "spark.sql.streaming.streamingQueryListeners": session.RESCALER,
    session.PROVIDER_KEY: session.PROVIDER,
    session.FILE_MANAGER_KEY: session.FILE_MANAGER,
}


@dataclass(frozen=True)
class Shipped:
    """Made once for all tests of a process."""

    #: As it was before it was packed: for drivers outside of the cluster.
    environment: Path
    archive: Path
    repository: Path
    #: Of the jar in the repository.
    package: str

    def options(self, folder: Path) -> list[str]:
        """What spark-submit needs, with everything that Keystate's documentation names.

        Args:
            folder: for Ivy's files.
        """
        settings = {
            "spark.pyspark.python": "./env/bin/python",
            "spark.jars.ivy": str(folder / "ivy"),
            **SETTINGS,
        }
        options = ["--archives", f"{self.archive}#env", "--packages", self.package]
        options += ["--repositories", self.repository.as_uri()]
        return options + [part for pair in settings.items() for part in ("--conf", "=".join(pair))]


def make(folder: Path) -> Shipped:
    environment, archive = folder / "env", folder / "env.tar.gz"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    for module in (keystate, pyarrow):
        source = Path(str(module.__file__)).parent
        shutil.copytree(source, packages / source.name, ignore=_LEFT_OUT)
    pack = ["--prefix", environment, "--output", archive, "--compress-level", "0"]
    subprocess.run([sys.executable, "-m", "venv_pack", "--quiet", *pack], check=True)
    return Shipped(environment, archive, folder / "maven", _publish(folder / "maven"))


def _publish(repository: Path) -> str:
    """Puts the jar into a Maven repository of files; returns its coordinates."""
    jar = Path(session.jar_path())
    artifact, version = jar.stem.rsplit("-", 1)
    folder = repository / "keystate" / artifact / version
    folder.mkdir(parents=True)
    shutil.copy(jar, folder)
    (folder / f"{jar.stem}.pom").write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        f"<groupId>keystate</groupId><artifactId>{artifact}</artifactId>"
        f"<version>{version}</version></project>"
    )
    return f"keystate:{artifact}:{version}"
