"""The base of all streams: functions of one row."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Generic

from pyspark.sql.streaming.readwriter import DataStreamWriter

from keystate._jvm import bridge
from keystate._operators.definition import Input, Operator, SecondInput
from keystate._operators.function_specs import make_function_spec
from keystate._operators.given import given
from keystate._operators.side_outputs import ResultDataFrame, Write
from keystate._operators.typed import output_schema_of
from keystate._worker.calls.function_spec import FunctionSpec, Style
from keystate._worker.calls.two_phase import CommittingFunction
from keystate.errors import DeclarationError
from keystate.functions import FilterFunction, FlatMapFunction, MapFunction, OutputTag, SinkFunction
from keystate.functions.dead_letters import OnError, policy_of
from keystate.functions.two_phase import TwoPhaseCommitSink
from keystate.functions.type_variables import ROW
from keystate.state import TypeLike

#: The schema of a sink's output, which never has a row.
_NOTHING = "nothing boolean"


def applied(operator: Operator) -> ResultDataFrame:
    """The output of an operator."""
    return ResultDataFrame(operator, bridge.process)


class RowStream(Generic[ROW]):
    """A DataFrame whose rows a function takes, grouped by key or not."""

    #: The default time mode of its operators.
    _time_mode = "auto"

    def __init__(self, rows: Input) -> None:
        self._input = rows

    def flat_map(
        self,
        fn: FlatMapFunction[ROW] | Callable[[ROW], Any],
        output_schema: TypeLike | None = None,
        *,
        name: str | None = None,
        time_mode: str | None = None,
        late_output: OutputTag | None = None,
        on_error: OnError = "fail",
    ) -> ResultDataFrame:
        """Applies a function of each row with any number of results.

        Args:
            fn: a :class:`~keystate.functions.FlatMapFunction`, or a callable of a row.
            output_schema: the rows it emits: DDL, DataType or dataclass.
            name: the operator's name, in messages and in savepoints.
            time_mode: as for :meth:`keystate.KeyedStream.process`; without keys it is ``"none"``
                unless another one is given.
            late_output: as for :meth:`keystate.KeyedStream.process`.
            on_error: as for :meth:`keystate.KeyedStream.process`.
        """
        function_spec = make_function_spec(fn, FlatMapFunction, "flat_map", Style.FLAT_MAP)
        schema = output_schema_of(fn, output_schema)
        return self._apply(function_spec, schema, name, time_mode, on_error, late_output)

    def map(
        self,
        fn: MapFunction[ROW] | Callable[[ROW], Any],
        output_schema: TypeLike | None = None,
        *,
        name: str | None = None,
        time_mode: str | None = None,
        late_output: OutputTag | None = None,
        on_error: OnError = "fail",
    ) -> ResultDataFrame:
        """Applies a function of each row with one result.

        Args:
            fn: a :class:`~keystate.functions.MapFunction`, or a callable of a row.
            output_schema: the rows it emits: DDL, DataType or dataclass.
            name: the operator's name, in messages and in savepoints.
            time_mode: as for :meth:`flat_map`.
            late_output: as for :meth:`flat_map`.
            on_error: as for :meth:`flat_map`.
        """
        function_spec = make_function_spec(fn, MapFunction, "map", Style.MAP)
        schema = output_schema_of(fn, output_schema)
        return self._apply(function_spec, schema, name, time_mode, on_error, late_output)

    def filter(
        self,
        fn: FilterFunction[ROW] | Callable[[ROW], bool],
        *,
        name: str | None = None,
        time_mode: str | None = None,
        late_output: OutputTag | None = None,
        on_error: OnError = "fail",
    ) -> ResultDataFrame:
        """Keeps the rows for which a function returns true.

        Args:
            fn: a :class:`~keystate.functions.FilterFunction`, or a callable of a row.
            name: the operator's name, in messages and in savepoints.
            time_mode: as for :meth:`flat_map`.
            late_output: as for :meth:`flat_map`.
            on_error: as for :meth:`flat_map`.
        """
        function_spec, schema = (
            make_function_spec(fn, FilterFunction, "filter", Style.FILTER),
            self._input.row_type,
        )
        return self._apply(function_spec, schema, name, time_mode, on_error, late_output)

    def add_sink(
        self,
        fn: SinkFunction[ROW] | TwoPhaseCommitSink[ROW, Any] | Callable[..., None],
        *,
        name: str | None = None,
        time_mode: str | None = None,
        on_error: OnError = "fail",
        write_dead_letters: Write | None = None,
    ) -> DataStreamWriter:
        """Ends in a function that takes the rows.

        Args:
            fn: a :class:`~keystate.functions.SinkFunction`, a callable with the arguments of its
                ``invoke``, or a :class:`~keystate.sinks.TwoPhaseCommitSink`.
            name: the operator's name, in messages and in savepoints.
            time_mode: as for :meth:`flat_map`.
            on_error: as for :meth:`flat_map`. Effects of the function outside Spark are not undone.
            write_dead_letters: writes the dead letters of each micro-batch, as ``write_outputs``
                writes a side output. ``None``: dead letters are only counted.

        Returns:
            A writer that starts the query: it needs a checkpoint location, and may have a trigger.

        Raises:
            DeclarationError: there is no stream, or `write_dead_letters` without dead letters.
        """
        if not self._input.df.isStreaming:
            raise DeclarationError(
                "add_sink() needs a stream; write a batch DataFrame with df.write"
            )
        if isinstance(fn, TwoPhaseCommitSink):
            if on_error != "fail":
                raise DeclarationError(
                    "a TwoPhaseCommitSink has no dead letters: what it wrote of a row that fails "
                    "would be committed"
                )
            fn = CommittingFunction(fn)
        function_spec = make_function_spec(fn, SinkFunction, "invoke", Style.SINK)
        written = self._apply(function_spec, _NOTHING, name, time_mode, on_error)
        if write_dead_letters is None:
            return written.writeStream.format("noop").outputMode("append")
        policy = policy_of(on_error)
        if policy is None:
            raise DeclarationError("write_dead_letters needs on_error=keystate.dead_letters(...)")
        return written.write_outputs(None, {policy.tag: write_dead_letters})

    def _apply(
        self,
        function_spec: FunctionSpec,
        output_schema: TypeLike,
        name: str | None,
        time_mode: str | None,
        on_error: OnError,
        late_output: OutputTag | None = None,
        event_time: str | None = None,
        second: SecondInput | None = None,
    ) -> ResultDataFrame:
        """The output of an operator whose first input is the stream."""
        return applied(
            Operator(
                function_spec=dataclasses.replace(function_spec, dead_letters=policy_of(on_error)),
                rows=given(self._input, function_spec.style).timed(event_time, late_output),
                output_schema=output_schema,
                second_input=second,
                name=name,
                time_mode=self._time_mode if time_mode is None else time_mode,
                max_parallelism=self._input.max_parallelism,
            )
        )
