"""Setting up a Spark session for Keystate."""

from __future__ import annotations

import os
import re
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

import pyspark
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession
from pyspark.util import is_remote_only

from keystate._jvm.class_cache import session_options
from keystate.backends import StateBackend
from keystate.errors import ConfigurationError

EXTENSION = "org.apache.spark.sql.keystate.KeystateExtension"
RESCALER = "org.apache.spark.sql.keystate.RescaleOnRestart"
PROVIDER_KEY = "spark.sql.streaming.stateStore.providerClass"
PROVIDER = "org.apache.spark.sql.keystate.KeyGroupStateStoreProvider"
#: Where the jar keeps the provider of a session that may use Spark's real-time mode.
KEPT_PROVIDER_KEY = "spark.sql.keystate.providerClass"
FORMAT_KEY = "spark.sql.streaming.stateStore.checkpointFormatVersion"
FILE_MANAGER_KEY = "spark.sql.streaming.checkpointFileManagerClass"
FILE_MANAGER = "org.apache.spark.sql.keystate.KeystateCheckpointFileManager"
CATALOG_KEY = "spark.sql.catalog.keystate"
CATALOG = "org.apache.spark.sql.keystate.KeystateCatalog"
#: Whether Spark draws progress bars in the terminal; PySpark does, over a program's own lines.
PROGRESS_KEY = "spark.ui.showConsoleProgress"
JVM_OPTIONS_KEY = "spark.driver.extraJavaOptions"
CONNECT_PLUGIN_KEY = "spark.connect.extensions.relation.classes"
CONNECT_PLUGIN = "org.apache.spark.sql.keystate.KeystateConnectPlugin"

#: Lines of Spark that have no real-time mode for queries with state.
_WITHOUT_REAL_TIME = ("4.1", "4.2")
#: For real-time mode.
_REAL_TIME = {
    # Spark requires it. A query may also change to real-time mode later.
    FORMAT_KEY: "2",
    # How long a row may wait on its way to another task: by default 50 ms.
    "spark.shuffle.streaming.networkBufferMaxWaitTimeMs": "1",
}

_PACKAGE = Path(__file__).parents[1]


@lru_cache(maxsize=1)
def versions() -> dict[str, str]:
    """The versions that this package was built with, by name."""
    lines = (_PACKAGE / "versions.properties").read_text().splitlines()
    pairs = (line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    return {name.strip(): value.strip() for name, value in pairs}


def jar_path() -> str:
    """The path of the bundled jar for the installed PySpark, for ``--jars``.

    Raises:
        ConfigurationError: pyspark's version is not supported, or the package was installed without
            its jars.
    """
    line = check_spark_version()
    jars = sorted((_PACKAGE / "jars").glob(f"keystate-spark{line}_*.jar"))
    if not jars:
        raise ConfigurationError(
            f"no jar for Spark {line} in {_PACKAGE / 'jars'}: in a clone, run make jar "
            f"SPARK={line} and then pip install ./python once more; else install a wheel",
            code="KEYSTATE_JAR_MISSING",
        )
    return str(jars[-1])


def check_spark_version() -> str:
    """The minor line of the installed PySpark, as in ``4.2``.

    Raises:
        ConfigurationError: Keystate does not support it.
    """
    installed = pyspark.__version__
    line = _line(installed)
    releases = versions()["sparks"].split()
    supported = sorted(map(_line, releases), key=lambda line: list(map(int, line.split("."))))
    if line not in supported:
        *others, newest = (f"{line}.x" for line in supported)
        raise ConfigurationError(
            f"Keystate {versions()['keystate']} supports Spark "
            f"{', '.join(others)} and {newest}, but pyspark {installed} is "
            f"installed: pip install 'pyspark=={supported[-1]}.*', or install the Keystate release "
            "for your Spark version",
            code="KEYSTATE_SPARK_VERSION",
        )
    return line


def of_line(name: str) -> list[str]:
    """A list of :func:`versions`, for the installed PySpark's line."""
    known = versions()
    return known.get(f"{name}{_line(pyspark.__version__)}", known[name]).split()


def _line(release: str) -> str:
    return ".".join(release.split(".")[:2])


def state_store_provider(session: SparkSession) -> str | None:
    """The provider that the session's queries start with; ``None`` is Spark's default."""
    chosen = session.conf.get(PROVIDER_KEY, None)
    return session.conf.get(KEPT_PROVIDER_KEY, None) if chosen is None else chosen


def server_settings() -> dict[str, str]:
    """The settings that a Spark Connect server is started with, to have Keystate.

    ``spark.jars`` is the jar of the installed PySpark's version, on this machine. Where the server
    has settings of its own for a key that is a list, put these values behind them.

    Raises:
        ConfigurationError: pyspark's version is not supported, or the jar is missing.
    """
    return {"spark.jars": jar_path(), **_LISTS, CONNECT_PLUGIN_KEY: CONNECT_PLUGIN, **_single()}


#: Settings that are lists, with what is appended to them.
_LISTS = {
    "spark.sql.extensions": EXTENSION,
    "spark.sql.streaming.streamingQueryListeners": RESCALER,
}


def _single() -> dict[str, str]:
    """Settings that are left as they are if the user set them."""
    chosen = {PROVIDER_KEY: PROVIDER, FILE_MANAGER_KEY: FILE_MANAGER, CATALOG_KEY: CATALOG}
    return chosen if check_spark_version() in _WITHOUT_REAL_TIME else chosen | _REAL_TIME


def configure(
    builder: SparkSession.Builder,
    *,
    state_backend: StateBackend | None = None,
    max_parallelism: int | None = None,
    **conf: Any,
) -> SparkSession.Builder:
    """Adds Keystate to a session builder: jar, planner extension and state store provider.

    Also the catalog ``keystate``, which shows states as tables of SQL, and a manager of checkpoint
    files that is quicker than Spark's where the folder is a local one, and that renames nothing in
    object stores.
    Lists that the user set, on the builder, for spark-submit or in ``spark-defaults.conf``, are
    appended to, and another provider or manager is left as it is. Spark's progress bars are off in
    the terminal unless ``spark.ui.showConsoleProgress`` is set. Python workers use the running
    interpreter, unless ``PYSPARK_PYTHON`` or ``spark.pyspark.python`` is set.

    Of a Spark Connect session, ``SparkSession.builder.remote("sc://...")``, only what belongs to a
    session is set. Its server must have been started with :func:`server_settings`.

    Args:
        builder: as in ``keystate.configure(SparkSession.builder).getOrCreate()``.
        state_backend: where working state is kept; by default on the heap while there is room,
            else in RocksDB (``AutoStateBackend``).
        max_parallelism: default number of key groups for new checkpoints, 1 to 32768.
        conf: more settings; as names can't have dots here, use ``**{"spark.x.y": value}``.

    Raises:
        ConfigurationError: pyspark's version is not supported, the jar is missing, or a session
            without Keystate is already running in this process.
    """
    check_spark_version()
    # Spark Connect has a builder of its own, which is no subclass of the other.
    if type(builder).__qualname__ != SparkSession.Builder.__qualname__:
        raise TypeError(f"expected SparkSession.builder, got {builder!r}")
    for key, value in conf.items():
        builder.config(key, value)
    if max_parallelism is not None:
        if not 1 <= max_parallelism <= 32768:
            raise ConfigurationError(
                f"max_parallelism must be 1 to 32768, got {max_parallelism}",
                code="KEYSTATE_BAD_SETTING",
            )
        builder.config("spark.keystate.maxParallelism", str(max_parallelism))
    if state_backend is not None:
        for key, value in state_backend.conf().items():
            builder.config(key, value)
    if _is_elsewhere(builder._options):
        for key, value in _single().items():
            # The server's own settings can't be known yet. Others than Spark SQL's are fixed there.
            if key not in builder._options and key.startswith("spark.sql."):
                builder.config(key, value)
    else:
        _add_to_jvm(builder)
    return builder


def _is_elsewhere(options: dict[str, Any]) -> bool:
    """Whether the session is on a Spark Connect server that runs already.

    With the package pyspark-client it can be nowhere else: PySpark says so if no server is named.
    """
    if is_remote_only():
        return True
    remote = options.get("spark.remote") or os.environ.get("SPARK_REMOTE", "")
    return bool(remote) and not str(remote).startswith("local")


def _starts_server(options: dict[str, Any]) -> bool:
    """Whether PySpark starts a Spark Connect server in this process for the session."""
    remote = options.get("spark.remote") or os.environ.get("SPARK_REMOTE")
    mode = options.get("spark.api.mode") or os.environ.get("SPARK_API_MODE", "")
    return bool(remote) or str(mode).lower() == "connect"


def _add_to_jvm(builder: SparkSession.Builder) -> None:
    """Sets what the JVM needs that is or will be started in this process."""
    _check_not_running()
    options = builder._options
    lists = dict(_LISTS)
    try:
        lists["spark.jars"] = jar_path()
    except ConfigurationError as error:
        if error.code != "KEYSTATE_JAR_MISSING" or not _is_on_class_path():
            raise
    if _starts_server(options):
        lists[CONNECT_PLUGIN_KEY] = CONNECT_PLUGIN
    for key, entry in lists.items():
        builder.config(key, _appended(_setting(options, key), entry))
    for key, value in (_single() | {PROGRESS_KEY: "false"}).items():
        if _setting(options, key) is None:
            builder.config(key, value)
    _use_class_archive(builder)
    # Outside of spark-submit, PySpark itself heeds the environment only.
    if "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = _setting(options, "spark.pyspark.python") or sys.executable


def _use_class_archive(builder: SparkSession.Builder) -> None:
    """Lets a JVM that is started here use what ``keystate warm-up`` made."""
    if _jvm() is None and "-XX:SharedArchiveFile" not in os.environ.get("SPARK_SUBMIT_OPTS", ""):
        options = session_options()
        if options:
            given = _setting(builder._options, JVM_OPTIONS_KEY) or ""
            builder.config(JVM_OPTIONS_KEY, f"{options} {given}".strip())


def _setting(options: dict[str, Any], key: str) -> str | None:
    """The user's setting: on the builder, or for the JVM that is or will be started."""
    if key in options:
        return str(options[key])
    if _jvm() is not None:
        return pyspark.SparkConf(_jvm=_jvm()).get(key)
    return spark_defaults().get(key)


def _jvm() -> Any:
    """The JVM of this process, if it runs already, as under spark-submit."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        pyspark.SparkContext._ensure_initialized()
    return pyspark.SparkContext._jvm


def _is_on_class_path() -> bool:
    """Whether the JVM runs with Keystate's jar: by --packages, or in Spark's own folder of jars."""
    jvm = _jvm()
    if jvm is None:
        return False
    from py4j.protocol import Py4JJavaError  # a client of Spark Connect may be without it

    try:
        # With the whole name: for each part of one py4j looks through all of Spark's jars.
        thread = getattr(jvm, "java.lang.Thread").currentThread()
        thread.getContextClassLoader().loadClass(EXTENSION)
    except Py4JJavaError:
        return False
    return True


def spark_defaults() -> dict[str, str]:
    """The settings in ``spark-defaults.conf``."""
    folder = os.environ.get("SPARK_CONF_DIR") or os.path.join(_find_spark_home(), "conf")
    try:
        lines = Path(folder, "spark-defaults.conf").read_text().splitlines()
    except OSError:
        return {}
    pairs = (re.match(r"\s*([^\s=:#]+)\s*[=:\s]\s*(.*\S)", line) for line in lines)
    return {pair[1]: pair[2] for pair in pairs if pair}


def _appended(existing: str | None, entry: str) -> str:
    entries = [e.strip() for e in (existing or "").split(",") if e.strip()]
    return ",".join(entries if entry in entries else [*entries, entry])


def _check_not_running() -> None:
    session = SparkSession.getActiveSession()
    if session is None:
        return
    if EXTENSION not in (session.conf.get("spark.sql.extensions", "") or ""):
        raise ConfigurationError(
            "a Spark session without Keystate is already running in this process: call "
            "keystate.configure before the first getOrCreate(), or stop() that session",
            code="KEYSTATE_EXTENSION_MISSING",
        )
