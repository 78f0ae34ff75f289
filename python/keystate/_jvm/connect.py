"""Calls into the JVM of a Spark Connect server, by relations that the jar's plugin understands.

Imported only where there is a session of Spark Connect, and so the packages that it needs.
"""

from __future__ import annotations

import base64
import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import Any
from weakref import WeakSet

from pyspark.errors.exceptions.connect import SparkConnectGrpcException
from pyspark.serializers import CloudPickleSerializer
from pyspark.sql.connect import proto
from pyspark.sql.connect.client import SparkConnectClient
from pyspark.sql.connect.column import Column
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.observation import Observation
from pyspark.sql.connect.plan import LogicalPlan
from pyspark.sql.connect.session import SparkSession
from pyspark.sql.connect.udf import UserDefinedFunction
from pyspark.sql.datasource import DataSource
from pyspark.util import PythonEvalType

from keystate._jvm.base import Jvm, called
from keystate._jvm.session import CONNECT_PLUGIN, server_settings, versions
from keystate._worker.task import TaskFunction
from keystate.errors import ConfigurationError

#: What the jar's `BridgeCall` has too.
_TYPE_URL = "keystate/bridge/2"
_PYTHON = "{}.{}".format(*sys.version_info)


#: Exceptions of the disk or the object store, as the client puts their classes before a message.
_REFUSED = re.compile(
    r"\((?:java\.(?:io|nio\.file)|org\.apache\.hadoop\.[\w.]+)\.(\w+Exception)\) (.*)", re.DOTALL
)


class ConnectJvm(Jvm):
    """The JVM of the server that a session is connected to."""

    error = SparkConnectGrpcException

    def __init__(self) -> None:
        self._checked: WeakSet[SparkSession] = WeakSet()

    def check(self, session: SparkSession) -> None:
        """Raises ConfigurationError when the server has no Keystate, or does not fit the client."""
        if session in self._checked:
            return
        try:
            found = json.loads(self.value(session, "environment"))
        except SparkConnectGrpcException as e:
            message = self.message(e)
            # Before 4.2 Spark has no code for the first.
            missing = ("NO_HANDLER_FOR_EXTENSION", "No handler found for extension", CONNECT_PLUGIN)
            if not any(part in message for part in missing):
                raise
            needed = ", ".join(f"{key}={value}" for key, value in server_settings().items())
            raise ConfigurationError(
                "the Spark Connect server has no Keystate, or does not load its plugin: start it "
                f"with Keystate's jar and the settings {needed}",
                code="KEYSTATE_SPARK_CONNECT",
            ) from e
        own = versions()["keystate"]
        if found.get("keystate", own) != own:
            raise ConfigurationError(
                f"the Spark Connect server has Keystate {found['keystate']}, this client {own}: "
                "install the same release on both",
                code="KEYSTATE_SPARK_CONNECT",
            )
        if found.get("python", _PYTHON) != _PYTHON:
            raise ConfigurationError(
                f"the Spark Connect server's workers run Python {found['python']}, this client "
                f"{_PYTHON}: functions are pickled, and need the same version. Run the client with "
                f"Python {found['python']}, or set PYSPARK_PYTHON where the server is started",
                code="KEYSTATE_PYTHON_VERSION",
            )
        self._checked.add(session)

    def value(self, session: SparkSession, method: str, *arguments: Any) -> Any:
        """Calls a method that returns a string, a number or nothing."""
        (row,) = DataFrame(_BridgeCall(method, arguments), session).collect()
        return json.loads(row[0])

    def frame(self, session: SparkSession, method: str, *arguments: Any) -> DataFrame:
        """Calls a method that returns a DataFrame.

        The server makes the plan at once, so that an error is raised here.
        """
        made = DataFrame(_BridgeCall(method, arguments), session)
        made.schema  # noqa: B018
        return made

    def task(self, task: TaskFunction) -> Any:
        """The argument for a function that tasks run."""
        return called(UserDefinedFunction, task)

    def reader(self, session: SparkSession, source: DataSource) -> Any:
        """The argument for the reader of a source."""
        return _Reader(source)

    def message(self, error: Exception) -> str:
        """The message of a JVM's exception."""
        assert isinstance(error, SparkConnectGrpcException)
        # The client puts the class of an exception that it has none for before its message.
        return re.sub(r"^\(keystate\.[\w.]+\) ", "", error.getMessage())

    def refused(self, error: Exception) -> str | None:
        """The message of the disk or object store, if it caused a JVM's exception; else None."""
        assert isinstance(error, SparkConnectGrpcException)
        found = _REFUSED.match(error.getMessage())
        return f"{found[2]} ({found[1]})" if found else None


JVM = ConnectJvm()


class _Reader:
    """A source, pickled as the server takes it: within an expression of Spark Connect."""

    def __init__(self, source: DataSource) -> None:
        self._pickle = CloudPickleSerializer().dumps(source)  # type: ignore[no-untyped-call]

    def expression(self) -> proto.Expression:
        made = proto.Expression()
        function = made.common_inline_user_defined_function
        function.function_name = "source"
        function.python_udf.eval_type = PythonEvalType.SQL_MAP_ARROW_ITER_UDF
        function.python_udf.command = self._pickle
        function.python_udf.python_ver = _PYTHON
        function.python_udf.output_type.null.SetInParent()
        return made


class _BridgeCall(LogicalPlan):
    """A plan whose result is that of a method of the jar."""

    def __init__(self, method: str, arguments: Sequence[Any]) -> None:
        flat = list(_flat(arguments))
        self._frames = [one for one in flat if isinstance(one, DataFrame)]
        columns = [one for one in flat if isinstance(one, Column)]
        child = self._frames[0]._plan if self._frames else None
        super().__init__(child, self._collect_references(columns))
        self._method = method
        self._arguments = arguments

    def plan(self, session: SparkConnectClient) -> proto.Relation:
        arguments = [_message(one, session) for one in self._arguments]
        call = json.dumps({"method": self._method, "arguments": arguments})
        relation = self._create_proto_relation()
        relation.extension.type_url = _TYPE_URL
        relation.extension.value = call.encode()
        return self._with_relations(relation, session)

    @property
    def observations(self) -> dict[str, Observation]:
        several = [one._plan.observations for one in self._frames]
        return {name: one for found in several for name, one in found.items()}


def _flat(arguments: Sequence[Any]) -> Iterator[Any]:
    """The arguments, and the elements of those that are lists."""
    for one in arguments:
        if isinstance(one, (list, tuple)):
            yield from _flat(one)
        else:
            yield one


def _message(argument: Any, client: SparkConnectClient) -> Any:
    """An argument as JSON."""
    if isinstance(argument, DataFrame):
        return {"relation": _text(argument._plan.plan(client))}
    if isinstance(argument, Column):
        return {"expression": _text(argument.to_plan(client))}
    if isinstance(argument, _Reader):
        return {"function": _text(argument.expression())}
    if isinstance(argument, (list, tuple)):
        return [_message(one, client) for one in argument]
    return argument


def _text(message: Any) -> str:
    return base64.b64encode(message.SerializeToString()).decode()
