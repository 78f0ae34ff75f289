"""`configure` adds to what the user set."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import keystate
import pytest
from keystate import ConfigurationError
from keystate._jvm.session import (
    CATALOG,
    CATALOG_KEY,
    CONNECT_PLUGIN,
    CONNECT_PLUGIN_KEY,
    EXTENSION,
    FILE_MANAGER,
    FILE_MANAGER_KEY,
    PROGRESS_KEY,
    PROVIDER,
    PROVIDER_KEY,
)
from pyspark import SparkContext
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark  # the settings name the jar


@pytest.fixture(autouse=True)
def no_session_yet(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """As in a process that has started no JVM, with settings of its own."""
    monkeypatch.setattr(SparkContext, "_jvm", None)
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    for name in ("PYSPARK_GATEWAY_PORT", "SPARK_REMOTE", "SPARK_API_MODE"):
        monkeypatch.delenv(name, raising=False)


def configured(options: dict[str, Any] | None = None, **arguments: Any) -> dict[str, Any]:
    builder = SparkSession.Builder()
    builder._options = dict(options or {})
    options = keystate.configure(builder, **arguments)._options
    assert options is not None
    return options


def test_nothing_set() -> None:
    options = configured()
    assert options["spark.jars"] == keystate.jar_path()
    assert options["spark.sql.extensions"] == EXTENSION
    assert options[PROVIDER_KEY] == PROVIDER
    assert options[FILE_MANAGER_KEY] == FILE_MANAGER
    assert options[CATALOG_KEY] == CATALOG


def test_progress_bars_are_off_unless_they_are_asked_for(tmp_path: Path) -> None:
    assert configured()[PROGRESS_KEY] == "false"
    assert configured({PROGRESS_KEY: True})[PROGRESS_KEY] is True
    (tmp_path / "spark-defaults.conf").write_text(f"{PROGRESS_KEY} true\n")
    assert PROGRESS_KEY not in configured()


def test_spark_defaults_are_appended_to(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# spark.jars /commented.jar\n"
        "spark.sql.extensions   com.other.First,com.other.Second\n"
        "spark.jars=/a.jar\n"
        "  spark.driver.extraJavaOptions -Da=b -Dc=d  \n"
        "\n"
    )
    options = configured({"spark.jars": "/b.jar"})
    # The builder's setting takes the place of the file's, as for Spark itself.
    assert options["spark.jars"] == f"/b.jar,{keystate.jar_path()}"
    assert options["spark.sql.extensions"] == f"com.other.First,com.other.Second,{EXTENSION}"
    assert "spark.driver.extraJavaOptions" not in options


def test_lists_among_the_arguments() -> None:
    options = configured(**{"spark.jars": "/c.jar", "spark.sql.shuffle.partitions": 3})
    assert options["spark.jars"] == f"/c.jar,{keystate.jar_path()}"
    assert options["spark.sql.shuffle.partitions"] == "3"


def test_another_provider_is_left() -> None:
    assert configured({PROVIDER_KEY: "com.other.Provider"})[PROVIDER_KEY] == "com.other.Provider"


@pytest.mark.parametrize("wrong", [0, 32769])
def test_max_parallelism(wrong: int) -> None:
    with pytest.raises(ConfigurationError, match=f"1 to 32768, got {wrong}"):
        configured(max_parallelism=wrong)


def test_interpreter_of_the_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    configured()
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    configured({"spark.pyspark.python": "/other/python"})
    assert os.environ["PYSPARK_PYTHON"] == sys.executable, "what is set is left"
    monkeypatch.delenv("PYSPARK_PYTHON")
    configured({"spark.pyspark.python": "/other/python"})
    assert os.environ["PYSPARK_PYTHON"] == "/other/python"


def test_jar_not_built(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("keystate._jvm.session._PACKAGE", tmp_path)
    with pytest.raises(ConfigurationError, match=r"no jar for Spark .* make jar SPARK="):
        configured()


def test_a_session_of_a_spark_connect_server() -> None:
    """It gets what a session can set; the rest is for the server."""
    options = configured(
        {"spark.remote": "sc://somewhere"},
        state_backend=keystate.EmbeddedRocksDBStateBackend(),
        max_parallelism=7,
    )
    assert options[PROVIDER_KEY] == PROVIDER
    assert options["spark.keystate.backend"] == "rocksdb"
    assert options["spark.keystate.maxParallelism"] == "7"
    assert not {"spark.jars", "spark.sql.extensions", CONNECT_PLUGIN_KEY} & options.keys()
    other = {"spark.remote": "sc://somewhere", PROVIDER_KEY: "com.other.Provider"}
    assert configured(other)[PROVIDER_KEY] == "com.other.Provider"


@pytest.mark.parametrize("chosen", [{"spark.remote": "local[2]"}, {"spark.api.mode": "connect"}])
def test_a_spark_connect_server_in_this_process(chosen: dict[str, str]) -> None:
    options = configured({**chosen, CONNECT_PLUGIN_KEY: "com.other.Plugin"})
    assert options[CONNECT_PLUGIN_KEY] == f"com.other.Plugin,{CONNECT_PLUGIN}"
    rest = keystate.server_settings()
    del rest[CONNECT_PLUGIN_KEY]
    assert rest.items() <= options.items()


def test_what_can_not_be_configured() -> None:
    with pytest.raises(TypeError, match="expected a DataFrame, got list"):
        keystate.keyed([], "key")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"expected SparkSession\.builder"):
        keystate.configure(SparkSession)  # type: ignore[arg-type]
