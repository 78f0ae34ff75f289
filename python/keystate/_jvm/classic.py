"""Calls into the JVM of a classic session, by py4j."""

from __future__ import annotations

from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.udf import UserDefinedFunction, _wrap_function

from keystate._jvm.base import Jvm, called, refusal
from keystate._worker.task import TaskFunction
from keystate.errors import ConfigurationError

_BRIDGE = "org.apache.spark.sql.keystate.PythonBridge"


class ClassicJvm(Jvm):
    """The JVM that this process has started."""

    error = Py4JJavaError

    def check(self, session: SparkSession) -> None:
        """Raises ConfigurationError when the jar is not on the session's class path."""
        # With the whole name: for each part of one py4j looks through all of Spark's jars.
        thread = getattr(_jvm(session), "java.lang.Thread").currentThread()
        try:
            thread.getContextClassLoader().loadClass(_BRIDGE)
        except Exception:
            raise ConfigurationError(
                "Keystate's jar is not on the session's class path: build the session with "
                "keystate.configure(SparkSession.builder).getOrCreate(), or pass the path that "
                "keystate.jar_path() gives to --jars",
                code="KEYSTATE_JAR_MISSING",
            ) from None

    def value(self, session: SparkSession, method: str, *arguments: Any) -> Any:
        """Calls a method that returns a string, a number or nothing."""
        bridge = getattr(_jvm(session), _BRIDGE).of(session._jsparkSession)
        return getattr(bridge, method)(*map(_java, arguments))

    def frame(self, session: SparkSession, method: str, *arguments: Any) -> DataFrame:
        """Calls a method that returns a DataFrame."""
        return DataFrame(self.value(session, method, *arguments), session)

    def task(self, task: TaskFunction) -> Any:
        """The argument for a function that tasks run."""
        return called(UserDefinedFunction, task)

    def reader(self, session: SparkSession, source: DataSource) -> Any:
        """The argument for the reader of a source."""
        return _wrap_function(session.sparkContext, source)  # type: ignore[arg-type]

    def message(self, error: Exception) -> str:
        """The message of a JVM's exception."""
        assert isinstance(error, Py4JJavaError)
        return error.java_exception.getMessage() or ""

    def refused(self, error: Exception) -> str | None:
        """The message of the disk or object store, if it caused a JVM's exception; else None."""
        assert isinstance(error, Py4JJavaError)
        return refusal(error.java_exception)


#: Has no state: one for all sessions.
JVM = ClassicJvm()


def _jvm(session: SparkSession) -> Any:
    return session.sparkContext._jvm


def _java(argument: Any) -> Any:
    """An argument as py4j takes it."""
    if isinstance(argument, DataFrame):
        return argument._jdf
    if isinstance(argument, Column):
        return argument._jc
    if isinstance(argument, (list, tuple)):
        return [_java(one) for one in argument]
    return argument
