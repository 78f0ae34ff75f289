"""Plans what goes wrong on the Scala tests' file system ``fault://``; see FaultPlan.scala."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

from keystate._jvm.session import check_spark_version
from pyspark.sql import SparkSession

ROOT = Path(__file__).parents[2]


class Plan:
    """The faults of a folder, each of which happens once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        classes_jar(folder)

    def add(self, name: str, step: str, nth: int, action: str, pattern: str) -> None:
        (self._folder / f"{name}.fault").write_text(f"{step} {nth} {action} {pattern}")

    def release(self, name: str) -> None:
        """Lets go of a process that is held."""
        (self._folder / f"{name}.release").touch()

    def happened(self) -> set[str]:
        return {path.stem for path in self._folder.glob("*.happened")}


def classes_jar(folder: Path) -> Path:
    """Makes a jar of the file systems that the Scala tests have for faults."""
    line = check_spark_version()
    classes = f"jvm/target/spark{line}/scala-*/test-classes/keystate/faults/*.class"
    compiled = sorted(ROOT.glob(classes))
    assert compiled, f"compile the Scala tests first: SPARK={line} ./sbt Test/compile"
    jar = folder / "faults.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for path in compiled:
            archive.write(path, f"keystate/faults/{path.name}")
    return jar


def configure(builder: SparkSession.Builder, folder: Path) -> SparkSession.Builder:
    """Adds the file system to the session of this process, with the faults of a folder."""
    os.environ.update(environment(folder))
    return builder.config(map=settings(folder))


def environment(folder: Path) -> dict[str, str]:
    """What a program that has the file system is told, and what its executors are told by it.

    Spark puts these classes after its own. Before them, as by ``extraClassPath``, no JVM could use
    the archive of classes that the tests make: it would take twice the time to start.
    """
    return {"SPARK_DIST_CLASSPATH": str(folder / "faults.jar")}


def settings(folder: Path) -> dict[str, str]:
    """The settings of a session that has the file system, with the faults of a folder."""
    return {
        # For executors that others start, as a cluster's workers do.
        **{f"spark.executorEnv.{name}": told for name, told in environment(folder).items()},
        "spark.hadoop.fs.fault.impl": "keystate.faults.FaultFileSystem",
        "spark.hadoop.fs.fault.impl.disable.cache": "true",
        "spark.hadoop.fs.fault.plan": str(folder),
    }
