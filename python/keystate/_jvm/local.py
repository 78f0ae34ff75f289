"""A JVM of its own that reads checkpoints of the local file system, in which Spark does not run.

It has Spark's classes and Keystate's, and is there in a fraction of the time that a session takes.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from py4j.java_collections import ListConverter
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError
from pyspark.find_spark_home import _find_spark_home

from keystate._jvm.base import Jvm, refusal
from keystate._jvm.class_cache import class_cache
from keystate._jvm.java import found_java, identity, no_java
from keystate._jvm.session import jar_path, spark_defaults

_BRIDGE = "org.apache.spark.sql.keystate.LocalBridge"

#: What Spark too opens for itself, as far as reading files, rows and Arrow needs it.
_OPENED = ("java.lang", "java.lang.invoke", "java.nio", "java.util", "sun.nio.ch")
_OPTIONS = [
    "-XX:TieredStopAtLevel=1",  # for a process of seconds
    "-XX:+IgnoreUnrecognizedVMOptions",
    "-Dio.netty.tryReflectionSetAccessible=true",
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
    # Newer Javas warn of what Arrow, Netty and RocksDB do, as long as nobody says that they may.
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
]
#: Options that every Java of the user takes, before those on its command line.
_ENVIRONMENT = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")


class LocalReader:
    """Stands for a session in calls that only read a checkpoint."""

    def __init__(self, gateway: JavaGateway) -> None:
        self.bridge: Any = gateway.jvm
        for name in _BRIDGE.split("."):
            self.bridge = getattr(self.bridge, name)


def fits(checkpoints: Sequence[str], conf: Sequence[str]) -> bool:
    """Whether such a JVM can read the checkpoints: they are local, whatever the settings say."""
    if conf or os.environ.get("HADOOP_CONF_DIR"):
        return False
    if any(key.startswith("spark.hadoop.") for key in spark_defaults()):
        return False
    return all(urlsplit(checkpoint).scheme in ("", "file") for checkpoint in checkpoints)


@contextmanager
def local_reader(verbose: bool) -> Iterator[LocalReader]:
    """Starts the JVM, and ends it.

    Args:
        verbose: whether what it prints is shown.

    Raises:
        ConfigurationError: Java does not start, or Keystate's jar is missing.
    """
    jar = jar_path()
    jars = Path(_find_spark_home(), "jars")
    java = found_java()
    given = " ".join(os.environ.get(name, "") for name in _ENVIRONMENT)
    # It is the quickest to start. With two collectors Java does not start at all.
    collector = [] if re.search(r"-XX:\+Use\w+GC\b", given) else ["-XX:+UseSerialGC"]
    with class_cache(jar, str(jars), *identity(java), given) as options:
        try:
            port, token, process = launch_gateway(
                jarpath=jar,
                classpath=str(jars / "*"),
                javaopts=[*collector, *_OPTIONS, *options],
                java_path=java,
                die_on_exit=True,
                redirect_stderr=sys.stderr if verbose else None,
                enable_auth=True,
                return_proc=True,
            )
        except (OSError, ValueError) as e:
            raise no_java(str(e)) from None
        parameters = GatewayParameters(port=port, auth_token=token, auto_convert=True)
        gateway = JavaGateway(gateway_parameters=parameters)
        # Not PySpark's, for dates and NumPy: they import much, and warn of a Pandas that is new.
        gateway._gateway_client.converters = [ListConverter()]
        try:
            yield LocalReader(gateway)
        finally:
            gateway.shutdown()
            process.stdin.close()
            process.wait()


class LocalJvm(Jvm):
    """Calls of methods that need no session."""

    error = Py4JJavaError

    def check(self, session: LocalReader) -> None:
        """Does nothing: the jar was chosen when the JVM started."""

    def value(self, session: LocalReader, method: str, *arguments: Any) -> Any:
        """Calls a method that returns a string or a number."""
        return getattr(session.bridge, method)(*arguments)

    def message(self, error: Exception) -> str:
        """The message of a JVM's exception."""
        assert isinstance(error, Py4JJavaError)
        return error.java_exception.getMessage() or ""

    def refused(self, error: Exception) -> str | None:
        """The message of the disk or object store, if it caused a JVM's exception; else None."""
        assert isinstance(error, Py4JJavaError)
        return refusal(error.java_exception)


JVM = LocalJvm()
