"""Functions in Scala, compiled by Spark's own compiler and loaded into the session's JVM."""

from __future__ import annotations

import subprocess
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keystate
import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests import jvm_archive
from tests.interop.pages import PAGES, ROOT, program_of

Query = Callable[..., Callable[[DataFrame], DataFrame]]


@pytest.fixture(scope="session")
def scala_jar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A jar of the programs of this folder and of the pages."""
    folder = tmp_path_factory.mktemp("scala")
    pages = folder / "Pages.scala"
    pages.write_text("".join(program_of(page, f"Page{i}") for i, page in enumerate(PAGES)))
    interpreter = ROOT / "jvm/src/test/scala/keystate/Interpreter.scala"
    functions = sorted(Path(__file__).parent.glob("*.scala"))
    sources = map(str, [pages, *functions, interpreter])
    jars = f"{Path(pyspark.__file__).parent}/jars/*"
    java = ["java", *jvm_archive.COMPILER.split(), "-XX:+UseSerialGC", "-cp", jars]
    compiler = [*java, "scala.tools.nsc.Main", "-nowarn", "-d", str(folder)]
    done = subprocess.run(
        [*compiler, "-classpath", f"{jars}:{keystate.jar_path()}", *sources],
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    jar = folder / "interop.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for path in folder.rglob("*.class"):
            archive.write(path, path.relative_to(folder))
    return jar


@pytest.fixture(scope="session")
def jvm(spark: SparkSession, scala_jar: Path) -> Any:
    """The session's JVM with the classes of that jar."""
    # For the tasks; the driver loads the classes itself.
    context: Any = spark.sparkContext
    context._jsc.addJar(str(scala_jar))
    java = context._jvm.java
    urls = context._gateway.new_array(java.net.URL, 1)
    urls[0] = java.io.File(str(scala_jar)).toURI().toURL()
    thread = java.lang.Thread.currentThread()
    thread.setContextClassLoader(java.net.URLClassLoader(urls, thread.getContextClassLoader()))
    return context._jvm


@pytest.fixture
def scala(spark: SparkSession, jvm: Any) -> Query:
    """Makes queries of the functions in Interop.scala: `scala("silence")(df)` is a DataFrame."""

    def query(name: str, *arguments: str) -> Callable[[DataFrame], DataFrame]:
        gateway: Any = spark.sparkContext._gateway
        strings = gateway.new_array(jvm.java.lang.String, len(arguments))
        for i, argument in enumerate(arguments):
            strings[i] = argument
        extra = [strings] if arguments else []
        return lambda df: DataFrame(getattr(jvm.Interop, name)(df._jdf, *extra), spark)

    return query
