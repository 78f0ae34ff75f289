"""Streams without keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, Row

from keystate._jvm import bridge
from keystate._operators.definition import Input
from keystate._operators.function_specs import make_function_spec
from keystate._operators.side_outputs import ResultDataFrame
from keystate._operators.typed import output_schema_of
from keystate._spec.specs import check_distinct
from keystate._worker.calls.function_spec import Style
from keystate.functions import OutputTag, ProcessFunction
from keystate.functions.dead_letters import OnError
from keystate.state import TypeLike
from keystate.streams.broadcast import BroadcastConnectedStream, BroadcastStream
from keystate.streams.rows import RowStream


def stream(df: DataFrame) -> DataStream:
    """A streaming or batch DataFrame that is not grouped by key."""
    return DataStream(df)


class DataStream(RowStream[Row]):
    """A DataFrame without keys; made by :func:`stream`.

    Its rows are spread over the subtasks by a hash of all their columns.
    """

    _time_mode = "none"

    def __init__(self, df: DataFrame) -> None:
        bridge.check_session(df)
        check_distinct(df.schema, "the input")
        super().__init__(Input(df))

    def connect(self, broadcast: BroadcastStream) -> BroadcastConnectedStream:
        """Connects a broadcast stream; see :func:`keystate.broadcast`."""
        return BroadcastConnectedStream(self, broadcast)

    def process(
        self,
        fn: ProcessFunction[Row] | Callable[..., Any],
        output_schema: TypeLike | None = None,
        *,
        name: str | None = None,
        time_mode: str | None = None,
        late_output: OutputTag | None = None,
        on_error: OnError = "fail",
    ) -> ResultDataFrame:
        """Applies a function of each row and its context.

        Args:
            fn: a :class:`~keystate.functions.ProcessFunction`, or a callable with the arguments of
                its ``process_element``. It has no keyed state; for operator state it is a
                :class:`~keystate.functions.CheckpointedFunction` too.
            output_schema: the rows it emits: DDL, DataType or dataclass.
            name: the operator's name, in messages and in savepoints.
            time_mode: as for :meth:`flat_map`.
            late_output: as for :meth:`flat_map`.
            on_error: as for :meth:`flat_map`.

        Raises:
            DeclarationError: the function, one of its states or the schema is not well declared.
        """
        function_spec = make_function_spec(fn, ProcessFunction, "process_element", Style.PROCESS)
        schema = output_schema_of(fn, output_schema)
        return self._apply(function_spec, schema, name, time_mode, on_error, late_output)
