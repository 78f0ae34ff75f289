"""What ``keystate doctor`` looks at: whether stateful queries can run here, and if not, what to do.

Each check runs the real thing: the Java that Spark would start, a Python worker, a streaming query
that is stopped and started again with more partitions.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pyarrow
import pyspark
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from keystate import admin
from keystate._compiled import NATIVE
from keystate._jvm.class_cache import session_archive
from keystate._jvm.java import found_java, told_version
from keystate._jvm.session import (
    FILE_MANAGER,
    FILE_MANAGER_KEY,
    PROVIDER,
    PROVIDER_KEY,
    check_spark_version,
    jar_path,
    of_line,
    state_store_provider,
    versions,
)
from keystate.errors import ConfigurationError, KeystateError
from keystate.functions import KeyedProcessFunction
from keystate.state import ValueStateDescriptor
from keystate.streams.keyed import keyed

#: Older ones of this Java have a G1 collector that damages data: SPARK-55852, JDK-8377811.
_SOUND_JAVA_25 = (25, 0, 3)
_ERRORS = (PySparkException, Py4JError, KeystateError)
_KEYS, _PARTITIONS = 20, (2, 3)


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    text: str
    advice: str = ""  # what to do; empty when all is well


def python_side() -> Iterator[Finding]:
    """Versions, the jar and Java: all that can be known before a session starts."""
    here = (
        f"Keystate {versions()['keystate']}, PySpark {pyspark.__version__}, "
        f"PyArrow {pyarrow.__version__}, Python {platform.python_version()}"
    )
    try:
        check_spark_version()
        yield Finding(here)
        yield Finding(f"jar: {jar_path()}")
    except KeystateError as e:
        yield Finding(here, str(e))
    yield compiled()
    yield numpy()
    yield from extras()
    if not _has_lock():
        yield Finding(
            "Python runs without its global lock (free-threaded)",
            "Keystate is not tested so: install the usual build of this Python, or set PYTHON_GIL=1"
            " for the driver and the executors",
        )
    yield java()
    archive = session_archive()
    if archive is not None:
        none = "no archive of a JVM's classes: after keystate warm-up sessions start sooner"
        yield Finding(f"classes of a JVM: {archive}" if archive.exists() else none)


def compiled() -> Finding:
    """Whether the code that runs for every row is compiled."""
    if NATIVE is not None:
        return Finding("what is done for every row is compiled")
    if os.environ.get("KEYSTATE_NATIVE") == "0" or not _has_lock():
        return Finding("what is done for every row is done in Python, as was chosen")
    return Finding(
        "what is done for every row is done in Python, which works, and is slower. With gcc and "
        "python3-dev (so Debian calls a C compiler and Python's headers) this compiles it: "
        "pip install --force-reinstall --no-deps ./python (or --no-binary keystate keystate)"
    )


def _has_lock() -> bool:
    has: bool = getattr(sys, "_is_gil_enabled", lambda: True)()
    return has


def numpy() -> Finding:
    """Functions of batches and of windows compute with it."""
    try:
        return Finding(f"NumPy {version('numpy')}")
    except PackageNotFoundError:
        return Finding("NumPy is not installed", f"pip install 'numpy>={versions()['numpy']}'")


#: Extras of the package: what they are for, and a distribution that each brings.
_EXTRAS = {
    "connect": ("sessions of Spark Connect", "grpcio"),
    "page": ("the charts of keystate report and keystate serve", "plotly"),
    "tracing": ("keystate.tracing", "opentelemetry-api"),
}


def extras() -> Iterator[Finding]:
    """Checks packages that only some features need. All of them are optional."""
    for extra, (what, distribution) in _EXTRAS.items():
        try:
            yield Finding(f"{what}: {distribution} {version(distribution)}")
        except PackageNotFoundError:
            yield Finding(f"{what} would need: pip install 'keystate[{extra}]'")


def java() -> Finding:
    """The Java that Spark would start: that of ``JAVA_HOME``, else the first one on the path."""
    try:
        command = found_java()
        found = re.search(r'version "([^"]*)"', told_version(command))
    except ConfigurationError as e:
        return Finding(f"Java: {e}", f"{_install()}, and let JAVA_HOME be its folder")
    return _judged(found[1] if found else "unknown", command)


def _judged(release: str, where: str) -> Finding:
    """Whether Spark runs on a Java of this version."""
    text = f"Java: {release} ({where})"
    number, *update = map(int, re.findall(r"\d+", f"{release.partition('-')[0]} 0 0 0")[:3])
    if str(number) not in of_line("javas"):
        return Finding(text, f"PySpark {pyspark.__version__} does not run on it: {_install()}")
    if number == _SOUND_JAVA_25[0] and (number, *update) < _SOUND_JAVA_25:
        sound = ".".join(map(str, _SOUND_JAVA_25))
        return Finding(
            text,
            f"its G1 collector can damage data (SPARK-55852): install {sound} or newer, or choose "
            "another collector, as with -XX:+UseZGC",
        )
    return Finding(text)


def _install() -> str:
    *most, last = of_line("javas")
    return f"install JDK {', '.join(most)} or {last}"


def session_side(
    spark: SparkSession, folder: str, say: Callable[[str], None] = lambda _: None
) -> Iterator[Finding]:
    """Settings, the Python of the executors, and a query with its checkpoint below the folder.

    Args:
        spark: the session.
        folder: where the checkpoint will be.
        say: gets a message before each step that takes seconds.
    """
    yield from settings(spark)
    yield executor(spark)
    say("Starting a Python worker ...")
    yield workers(spark)
    say("Running a query, stopping it, rescaling it, verifying its checkpoint ...")
    yield query(spark, folder)


def settings(spark: SparkSession) -> Iterator[Finding]:
    """Whether a session has Keystate's classes where Spark looks for them."""
    for key, name in {PROVIDER_KEY: PROVIDER, FILE_MANAGER_KEY: FILE_MANAGER}.items():
        ours = key == PROVIDER_KEY
        found = state_store_provider(spark) if ours else spark.conf.get(key, None)
        text = f"{key}: {found}"
        if found == name:
            yield Finding(text)
        elif ours:
            yield Finding(text, f"set it to {name}, or call keystate.configure on the builder")
        else:
            yield Finding(f"{text} (not {name}: nothing keeps a second driver from the logs)")


def executor(spark: SparkSession) -> Finding:
    """The Java of an executor, which may be another one than the driver's."""
    asked = "reflect('java.lang.System', 'getProperty', 'java.version') AS version"
    (found,) = spark.range(1).selectExpr(asked).collect()
    return _judged(found.version, "of an executor")


def workers(spark: SparkSession) -> Finding:
    """Whether an executor's Python can run functions, and which Python it is."""
    try:
        (found,) = _counted(spark.range(1).selectExpr("id AS key")).collect()
    except _ERRORS as e:
        return Finding(
            f"Python worker: {_first_line(e)}",
            "install the same keystate and pyarrow for the Python that executors use: "
            "spark.pyspark.python or PYSPARK_PYTHON names it",
        )
    text = f"Python worker: Keystate {found.keystate}, Python {found.python}"
    if found.keystate != versions()["keystate"]:
        return Finding(text, f"install keystate=={versions()['keystate']} on the executors")
    return Finding(text)


def query(spark: SparkSession, folder: str) -> Finding:
    """Runs a stateful query below the folder, twice, with more partitions the second time.

    All that it writes is deleted.
    """
    mine = f"{folder.rstrip('/')}/keystate-doctor-{uuid.uuid4().hex}"
    partitions = spark.conf.get("spark.sql.shuffle.partitions", "200") or "200"
    start = time.monotonic()
    try:
        for n in _PARTITIONS:
            spark.conf.set("spark.sql.shuffle.partitions", str(n))
            rows = spark.range(_KEYS).selectExpr("id AS key")
            rows.coalesce(1).write.mode("append").parquet(f"{mine}/input")
            _run(spark, mine)
        seconds = time.monotonic() - start
        counts = {
            tuple(row) for row in spark.read.parquet(f"{mine}/output").select("key", "n").collect()
        }
        expected = {(key, n) for key in range(_KEYS) for n in (1, 2)}
        problems = admin.verify(f"{mine}/checkpoint", spark=spark)
        if counts != expected:
            problems.append(f"keys were counted as {sorted(counts ^ expected)[:3]}")
    except _ERRORS as e:
        problems = [_first_line(e)]
    finally:
        spark.conf.set("spark.sql.shuffle.partitions", partitions)
        _delete(spark, mine)
    if problems:
        return Finding(
            f"query in {folder}: {problems[0]}",
            "see docs/debugging.md; the checkpoint's file system has to create, rename, list and "
            "delete files, for the driver and for every executor",
        )
    return Finding(
        f"query in {folder}: stopped, rescaled from {_PARTITIONS[0]} to {_PARTITIONS[1]} "
        f"partitions, right ({seconds:.1f} s)"
    )


class _Counts(KeyedProcessFunction):
    def open(self, ctx: Any) -> None:
        self.count = ctx.get_state(ValueStateDescriptor("count", "long", default=0))

    def process_element(self, row: Any, ctx: Any) -> Iterator[tuple[int, int, str, str]]:
        n = self.count.value() + 1
        self.count.update(n)
        yield row.key, n, versions()["keystate"], platform.python_version()


def _counted(rows: DataFrame) -> DataFrame:
    schema = "key long, n long, keystate string, python string"
    return keyed(rows, "key").process(_Counts(), schema)


def _run(spark: SparkSession, folder: str) -> None:
    rows = spark.readStream.schema("key long").parquet(f"{folder}/input")
    _counted(rows).writeStream.format("parquet").option("path", f"{folder}/output").option(
        "checkpointLocation", f"{folder}/checkpoint"
    ).trigger(availableNow=True).start().awaitTermination()


def _delete(spark: SparkSession, folder: str) -> None:
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(folder)
    path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).delete(path, True)


def _first_line(error: Exception) -> str:
    text = str(error.java_exception.toString()) if isinstance(error, Py4JJavaError) else str(error)
    return (text.strip() or type(error).__name__).splitlines()[0]


def show(findings: Iterator[Finding], out: Callable[[str], None], *, as_json: bool = False) -> bool:
    """Prints findings as they come; whether all is well."""
    well = True
    for finding in findings:
        well = well and not finding.advice
        if as_json:
            out(json.dumps({"ok": not finding.advice, **asdict(finding)}))
            continue
        out(f"{'problem' if finding.advice else 'ok':8} {finding.text}")
        if finding.advice:
            out(f"{'':8} -> {finding.advice}")
    return well
