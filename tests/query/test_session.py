"""Setting up a session, as a user's own script does it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import keystate
import pyspark
import pytest
from keystate import ConfigurationError
from keystate._jvm import session
from pyspark.sql import SparkSession

from tests import jvm_archive

pytestmark = pytest.mark.spark

SCRIPT = """
import sys
{before}
import keystate
from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = {session}.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")

def where(row, ctx):
    return sys.executable

df = spark.createDataFrame([(1,)], "key long")
print("worker", keystate.keyed(df, "key").process(where, "string").collect()[0][0])
"""


WITHOUT = "import sys; sys.modules.update(pandas=None, numpy=None)"


def start(folder: Path, made: str, before: str = "") -> subprocess.Popen[str]:
    """Starts a script of a user's in a folder of its own, where `python3` is not this one."""
    other = folder / "bin"
    other.mkdir(parents=True)
    (other / "python3").write_text("#!/bin/sh\nexit 1\n")
    (other / "python3").chmod(0o755)
    (folder / "sitecustomize.py").write_text(WITHOUT + "\n")  # for the workers
    script = folder / "script.py"
    script.write_text(SCRIPT.format(session=made, before=before))
    environment = {
        key: value
        for key, value in os.environ.items()
        if key not in ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
        and not key.startswith(("SPARK", "_PYSPARK", "PYSPARK"))
    }
    environment |= jvm_archive.ENVIRONMENT
    environment["PATH"] = f"{other}{os.pathsep}{environment['PATH']}"
    return subprocess.Popen(
        [sys.executable, str(script)],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """Scripts that set their sessions up in different ways, which run at the same time."""
    folder = tmp_path_factory.mktemp("scripts")
    ways = {
        "configured": (
            "keystate.configure(builder)",
            f"{WITHOUT}; import os; os.environ['PYTHONPATH'] = {str(folder / 'configured')!r}",
        ),
        "no extension": ("builder.config('spark.jars', keystate.jar_path())",),
        "no jar": ("builder",),
    }
    ours = Path(keystate.jar_path())
    others = [path for path in ours.parent.glob("keystate-*.jar") if path != ours]
    if others:
        jar, extension = str(others[0]), session.EXTENSION
        ways["another jar"] = (
            f"builder.config('spark.jars', {jar!r}).config('spark.sql.extensions', {extension!r})",
        )
    with ExitStack() as running:
        yield {
            name: running.enter_context(start(folder / name, *way)) for name, way in ways.items()
        }


def test_workers_use_the_running_interpreter_and_no_pandas_nor_numpy(scripts: Any) -> None:
    out, error = scripts["configured"].communicate(timeout=300)
    assert f"worker {sys.executable}" in out, error


def test_extension_missing(scripts: Any) -> None:
    _, error = scripts["no extension"].communicate(timeout=300)
    assert "ConfigurationError: [KEYSTATE_EXTENSION_MISSING] spark.sql.extensions lacks" in error
    assert "keystate.configure(SparkSession.builder)" in error


def test_jar_missing(scripts: Any) -> None:
    _, error = scripts["no jar"].communicate(timeout=300)
    assert "[KEYSTATE_JAR_MISSING] Keystate's jar is not on the session's class path" in error


def test_a_jar_for_another_spark(scripts: Any) -> None:
    if "another jar" not in scripts:
        pytest.skip("only one jar is built")
    _, error = scripts["another jar"].communicate(timeout=300)
    assert "[KEYSTATE_SPARK_VERSION] This jar of Keystate is for Spark" in error


def test_lists_are_appended_to(spark: SparkSession) -> None:
    builder = SparkSession.Builder()
    builder._options = {"spark.jars": "/a.jar,/b.jar", "spark.sql.extensions": "org.other.Ext"}
    options = keystate.configure(
        builder,
        state_backend=keystate.HashMapStateBackend(),
        max_parallelism=64,
        **{"spark.keystate.rescale.onRestart": "off"},
    )._options
    assert options["spark.jars"] == f"/a.jar,/b.jar,{keystate.jar_path()}"
    assert options["spark.sql.extensions"].startswith("org.other.Ext,org.apache.spark")
    assert options["spark.keystate.maxParallelism"] == "64"
    assert options["spark.keystate.backend"] == "hashmap"
    assert options["spark.keystate.rescale.onRestart"] == "off"
    # Again: nothing is doubled.
    assert keystate.configure(builder)._options["spark.jars"] == options["spark.jars"]


def test_unsupported_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pyspark, "__version__", "4.4.0")
    supports = (
        r"supports Spark 4\.1\.x, 4\.2\.x and 4\.3\.x, "
        r"but pyspark 4\.4\.0 is installed: pip install"
    )
    for refused in (
        lambda: keystate.configure(SparkSession.Builder()),
        lambda: keystate.keyed(spark.range(1), "id"),
        keystate.jar_path,
    ):
        with pytest.raises(ConfigurationError, match=supports) as error:
            refused()
        assert error.value.code == "KEYSTATE_SPARK_VERSION"


@pytest.mark.parametrize(
    ("installed", "line"), [("4.1.1", "4.1"), ("4.2.7", "4.2"), ("4.3.0.dev0", "4.3")]
)
def test_the_jar_is_that_of_the_installed_spark(
    installed: str, line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pyspark, "__version__", installed)
    monkeypatch.setattr(session, "_PACKAGE", tmp_path)
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "keystate-spark4.4_2.13-0.1.0.jar").touch()
    with pytest.raises(
        ConfigurationError, match=f"make jar SPARK={line} and then pip install"
    ) as error:
        keystate.jar_path()
    assert error.value.code == "KEYSTATE_JAR_MISSING"
    for other in ("4.1", "4.2", "4.3"):
        (jars / f"keystate-spark{other}_2.13-0.1.0.jar").touch()
    assert keystate.jar_path() == str(jars / f"keystate-spark{line}_2.13-0.1.0.jar")


def test_deprecated_backends() -> None:
    for deprecated in (keystate.MemoryStateBackend, keystate.FsStateBackend):
        with pytest.warns(DeprecationWarning, match="HashMapStateBackend"):
            conf = deprecated("/checkpoints").conf()
        assert conf["spark.keystate.backend"] == "hashmap"
        assert conf["spark.sql.streaming.checkpointLocation"] == "/checkpoints"
