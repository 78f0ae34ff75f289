"""The calls of a session's JVM that Keystate needs, for all kinds of sessions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.datasource import DataSource
from pyspark.util import PythonEvalType

from keystate._worker.task import TaskFunction


class Jvm(ABC):
    """Calls to the methods of the jar's ``PythonBridge``.

    An argument is a string, a number, a boolean, a DataFrame, a Column, what :meth:`task` or
    :meth:`reader` makes, or a list of arguments.
    """

    #: What a call raises when the JVM threw an exception.
    error: type[Exception]

    @abstractmethod
    def check(self, session: Any) -> None:
        """Raises ConfigurationError when the JVM lacks Keystate's jar, or has another release."""

    @abstractmethod
    def value(self, session: Any, method: str, *arguments: Any) -> Any:
        """Calls a method that returns a string, a number or nothing."""

    def frame(self, session: Any, method: str, *arguments: Any) -> DataFrame:
        """Calls a method that returns a DataFrame."""
        raise TypeError(f"{method} needs a Spark session")

    def task(self, task: TaskFunction) -> Any:
        """The argument for a function that tasks run."""
        raise TypeError("a task needs a Spark session")

    def reader(self, session: Any, source: DataSource) -> Any:
        """The argument for the reader of a source."""
        raise TypeError("a source needs a Spark session")

    @abstractmethod
    def message(self, error: Exception) -> str:
        """The message of a JVM's exception."""

    @abstractmethod
    def refused(self, error: Exception) -> str | None:
        """The message of the disk or object store, if it caused a JVM's exception; else None."""


def called(kind: Callable[..., Callable[[], Any]], task: TaskFunction) -> Any:
    """A column with a call of a task's function, by a session's kind of user-defined function."""
    function = kind(
        task,
        returnType=task.declared.output,
        name=task.declared.spec.name or "keystate",
        evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF,
    )
    return function()


def refusal(exception: Any) -> str | None:
    """The message of the first `IOException` among a py4j exception and its causes; or None."""
    while exception is not None:
        kind = exception.getClass()
        name = kind.getSimpleName()
        while kind is not None:
            if kind.getName() == "java.io.IOException":
                return f"{exception.getMessage()} ({name})"
            kind = kind.getSuperclass()
        exception = exception.getCause()
    return None
