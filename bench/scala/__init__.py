"""Programs in Scala to compare with."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import keystate
import pyspark

SPARK_HOME = Path(pyspark.__file__).parent


def compile_program(source: Path, folder: Path, keystate_jar: Path | None = None) -> Path:
    """A jar of a Scala file, made by the compiler that Spark brings.

    Args:
        keystate_jar: what it is compiled with; this tree's jar if it is not told.
    """
    jars = f"{SPARK_HOME}/jars/*"
    compiler = ["java", "-cp", jars, "scala.tools.nsc.Main", "-d", str(folder)]
    classpath = f"{jars}:{keystate_jar or keystate.jar_path()}"
    subprocess.run([*compiler, "-classpath", classpath, str(source)], check=True)
    jar = folder / f"{source.stem}.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for path in folder.glob("*.class"):
            archive.write(path, path.name)
    return jar
