"""Two keyed streams that are inputs of one function."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.sql import Column

from keystate._operators.definition import (
    Input,
    InputRole,
    Operator,
    SecondInput,
    shared_parallelism,
)
from keystate._operators.function_specs import co_plan
from keystate._operators.given import given
from keystate._operators.side_outputs import ResultDataFrame
from keystate._operators.typed import output_schema_of
from keystate._worker.calls.function_spec import FunctionSpec
from keystate.errors import DeclarationError
from keystate.functions import CoFlatMapFunction, CoMapFunction, KeyedCoProcessFunction, OutputTag
from keystate.functions.dead_letters import OnError, policy_of
from keystate.state import TypeLike
from keystate.streams.rows import applied

#: A column that both inputs have, or one column for each.
OrderedBy = str | Column | tuple[str | Column, str | Column]

#: A column that both inputs have, or one column for each.
EventTime = str | tuple[str | None, str | None] | None

#: Where late rows go: one side output for both inputs, or one for each.
LateOutput = OutputTag | tuple[OutputTag | None, OutputTag | None] | None


class ConnectedStreams:
    """Two keyed streams that share state and timers by key.

    Made by ``keystate.keyed(a, "k").connect(keystate.keyed(b, "k"))``.

    Both are streams, or both are batch DataFrames, or one is a stream and the other a batch
    DataFrame. In the last case the rows of the batch DataFrame come once, before the rows of the
    operator's first micro-batch with it.

    Within a micro-batch, rows of the first stream come before rows of the second, unless
    `ordered_by` is given: a column that both streams have, or a pair of the first stream's column
    and the second's, of one type. Then the rows of a key come sorted by this column, whichever
    stream they are from; among equal rows, those of the first stream come first. Rows of a batch
    DataFrame that is connected to a stream always come first.
    """

    def __init__(self, first: Input, second: Input) -> None:
        self._first = first
        self._second = second
        self._max_parallelism = shared_parallelism((first, second), ("first", "second"))

    def process(
        self,
        fn: KeyedCoProcessFunction,
        output_schema: TypeLike | None = None,
        *,
        ordered_by: OrderedBy | None = None,
        name: str | None = None,
        time_mode: str = "auto",
        event_time: EventTime = None,
        late_output: LateOutput = None,
        on_error: OnError = "fail",
    ) -> ResultDataFrame:
        """Applies a function of each row and its context.

        Args:
            fn: the function.
            output_schema: the rows it emits: DDL, DataType or dataclass.
            ordered_by: the column that sorts the rows of a key within a micro-batch, see above.
            name: the operator's name.
            time_mode: as for :meth:`KeyedStream.process`; with ``"auto"``, event time when either
                stream has a watermark. There is one watermark, Spark's: the least watermark of the
                query's inputs, unless ``spark.sql.streaming.multipleWatermarkPolicy`` is ``max``.
            event_time: the column with a row's event time, for ``ctx.timestamp()``: one name for
                both inputs, or a pair with the first's and the second's, each of which may be
                ``None``. For a stream it is the watermark's column, and may be left out; a batch
                DataFrame has no watermark.
            late_output: the side outputs for late rows of the first and of the second stream, each
                with that stream's schema or ``None``; or one for both, if they have one schema.
            on_error: as for :meth:`KeyedStream.process`.

        Raises:
            DeclarationError: the function, one of its states or the schema is not well declared.
        """
        function_spec = co_plan(fn, KeyedCoProcessFunction)
        told = (name, time_mode, on_error, late_output, event_time)
        return self._apply(function_spec, output_schema, ordered_by, *told)

    def map(
        self,
        fn: CoMapFunction,
        output_schema: TypeLike | None = None,
        *,
        ordered_by: OrderedBy | None = None,
        name: str | None = None,
        time_mode: str = "auto",
        late_output: LateOutput = None,
        on_error: OnError = "fail",
    ) -> ResultDataFrame:
        """Applies a function of each row with one result.

        Args:
            fn: the function.
            output_schema: the rows it emits: DDL, DataType or dataclass.
            ordered_by: as for :meth:`process`.
            name: the operator's name, in messages and in savepoints.
            time_mode: as for :meth:`process`.
            late_output: as for :meth:`process`.
            on_error: as for :meth:`process`.
        """
        function_spec = co_plan(fn, CoMapFunction)
        told = (name, time_mode, on_error, late_output)
        return self._apply(function_spec, output_schema, ordered_by, *told)

    def flat_map(
        self,
        fn: CoFlatMapFunction,
        output_schema: TypeLike | None = None,
        *,
        ordered_by: OrderedBy | None = None,
        name: str | None = None,
        time_mode: str = "auto",
        late_output: LateOutput = None,
        on_error: OnError = "fail",
    ) -> ResultDataFrame:
        """Applies a function of each row with any number of results.

        Args:
            fn: the function.
            output_schema: the rows it emits: DDL, DataType or dataclass.
            ordered_by: as for :meth:`process`.
            name: the operator's name, in messages and in savepoints.
            time_mode: as for :meth:`process`.
            late_output: as for :meth:`process`.
            on_error: as for :meth:`process`.
        """
        function_spec = co_plan(fn, CoFlatMapFunction)
        told = (name, time_mode, on_error, late_output)
        return self._apply(function_spec, output_schema, ordered_by, *told)

    def _apply(
        self,
        function_spec: FunctionSpec,
        output_schema: TypeLike | None,
        ordered_by: OrderedBy | None,
        name: str | None,
        time_mode: str,
        on_error: OnError,
        late_output: LateOutput,
        event_time: EventTime = None,
    ) -> ResultDataFrame:
        inputs = given(self._first, function_spec.style), given(self._second, function_spec.style)
        times = _both("event_time", "a column that both inputs have", event_time)
        late = _both("late_output", "an OutputTag for both inputs", late_output)
        merge = _merged_by(ordered_by, *inputs)
        first, second = (
            replace(rows.timed(time, tag), order=[*column, *rows.order])
            for rows, time, tag, column in zip(inputs, times, late, merge)
        )
        return applied(
            Operator(
                function_spec=replace(function_spec, dead_letters=policy_of(on_error)),
                rows=first,
                output_schema=output_schema_of(function_spec.function, output_schema),
                second_input=SecondInput(
                    second, InputRole.CONNECTED if ordered_by is None else InputRole.MERGED
                ),
                name=name,
                time_mode=time_mode,
                max_parallelism=self._max_parallelism,
            )
        )


def _merged_by(ordered_by: OrderedBy | None, *inputs: Input) -> list[list[Column]]:
    """For each input, the column that both are merged by; empty without `ordered_by`."""
    if ordered_by is None:
        return [[] for _ in inputs]
    columns = _both("ordered_by", "a column that both inputs have", ordered_by)
    if not all(isinstance(column, (str, Column)) for column in columns):
        raise _no_pair("ordered_by", "a column that both inputs have", ordered_by)
    return [
        [rows.df[column] if isinstance(column, str) else column]
        for rows, column in zip(inputs, columns)
    ]


def _both(argument: str, one: str, given: Any) -> tuple[Any, Any]:
    """An argument's value for each input: the same for both, or the two values of a pair."""
    pair = given if isinstance(given, tuple) else (given, given)
    if len(pair) != 2:
        raise _no_pair(argument, one, given)
    return pair


def _no_pair(argument: str, one: str, given: Any) -> DeclarationError:
    return DeclarationError(
        f"{argument} is {one}, or a pair of the first input's and the second's, got {given!r}"
    )
