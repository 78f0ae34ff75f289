"""Setting up a session, as a user's own script does it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import keystate
import pyspark
import pytest
from keystate import ConfigurationError, session
from pyspark.sql import SparkSession

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


def run(folder: Path, made: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """Runs a script of a user's in a folder of its own, where `python3` is not this interpreter."""
    other = folder / "bin"
    other.mkdir(exist_ok=True)
    (other / "python3").write_text("#!/bin/sh\nexit 1\n")
    (other / "python3").chmod(0o755)
    script = folder / "script.py"
    script.write_text(SCRIPT.format(session=made, before=before))
    environment = {
        key: value
        for key, value in os.environ.items()
        if key not in ("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON")
        and not key.startswith(("SPARK", "_PYSPARK", "PYSPARK"))
    }
    environment["PATH"] = f"{other}{os.pathsep}{environment['PATH']}"
    return subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_workers_use_the_running_interpreter(tmp_path: Path) -> None:
    done = run(tmp_path, "keystate.configure(builder)")
    assert f"worker {sys.executable}" in done.stdout, done.stderr


def test_needs_no_pandas_and_no_numpy(tmp_path: Path) -> None:
    without = "import sys; sys.modules.update(pandas=None, numpy=None)"
    (tmp_path / "sitecustomize.py").write_text(without + "\n")  # for the workers
    before = f"{without}; import os; os.environ['PYTHONPATH'] = {str(tmp_path)!r}"
    done = run(tmp_path, "keystate.configure(builder)", before)
    assert f"worker {sys.executable}" in done.stdout, done.stderr


def test_extension_missing(tmp_path: Path) -> None:
    done = run(tmp_path, "builder.config('spark.jars', keystate.jar_path())")
    assert "ConfigurationError: spark.sql.extensions lacks" in done.stderr
    assert "keystate.configure(SparkSession.builder)" in done.stderr


def test_jar_missing(tmp_path: Path) -> None:
    done = run(tmp_path, "builder")
    assert "ConfigurationError: Keystate's jar is not on the session's class path" in done.stderr


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
    supports = r"supports Spark 4\.2\.x and 4\.3\.x, but pyspark 4\.4\.0 is installed: pip install"
    for refused in (
        lambda: keystate.configure(SparkSession.Builder()),
        lambda: keystate.keyed(spark.range(1), "id"),
        keystate.jar_path,
    ):
        with pytest.raises(ConfigurationError, match=supports) as error:
            refused()
        assert error.value.code == "KEYSTATE_SPARK_VERSION"


@pytest.mark.parametrize(("installed", "line"), [("4.2.7", "4.2"), ("4.3.0.dev0", "4.3")])
def test_the_jar_is_that_of_the_installed_spark(
    installed: str, line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pyspark, "__version__", installed)
    monkeypatch.setattr(session, "_PACKAGE", tmp_path)
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "keystate-spark4.1_2.13-0.1.0.jar").touch()
    with pytest.raises(ConfigurationError, match=f"make jar SPARK={line}") as error:
        keystate.jar_path()
    assert error.value.code == "KEYSTATE_JAR_MISSING"
    for other in ("4.2", "4.3"):
        (jars / f"keystate-spark{other}_2.13-0.1.0.jar").touch()
    assert keystate.jar_path() == str(jars / f"keystate-spark{line}_2.13-0.1.0.jar")


def test_a_jar_for_another_spark(tmp_path: Path) -> None:
    ours = keystate.jar_path()
    others = [path for path in Path(ours).parent.glob("keystate-*.jar") if str(path) != ours]
    if not others:
        pytest.skip("only one jar is built")
    jar = f".config('spark.jars', {str(others[0])!r})"
    done = run(tmp_path, f"builder{jar}.config('spark.sql.extensions', {session.EXTENSION!r})")
    assert "[KEYSTATE_SPARK_VERSION] This jar of Keystate is for Spark" in done.stderr


def test_deprecated_backends() -> None:
    for deprecated in (keystate.MemoryStateBackend, keystate.FsStateBackend):
        with pytest.warns(DeprecationWarning, match="HashMapStateBackend"):
            conf = deprecated("/checkpoints").conf()
        assert conf["spark.keystate.backend"] == "hashmap"
        assert conf["spark.sql.streaming.checkpointLocation"] == "/checkpoints"
