"""Windows of a keyed stream."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, overload

from pyspark.sql import Column

from keystate._jvm import bridge
from keystate._operators.aggregates import AggregateOperator, aggregate_columns
from keystate._operators.definition import Input, check_late_output
from keystate._operators.event_time import time_column
from keystate._operators.side_outputs import ResultDataFrame
from keystate.errors import DeclarationError
from keystate.functions import OutputTag, ReduceFunction
from keystate.functions.dead_letters import OnError
from keystate.state import TypeLike
from keystate.state.aggregates import AggregateFunction
from keystate.windows._assigners import WindowAssigner
from keystate.windows._functions import ProcessWindowFunction, WindowFunction
from keystate.windows._windowing import WindowedRows, Windowing

#: Applies a function: with the output schema, and by name the operator's name and its time mode.
Apply = Callable[..., ResultDataFrame]


class WindowedStream(Windowing):
    """A keyed stream whose rows are grouped into windows; made by :meth:`KeyedStream.window`.

    Each of its methods that sets something returns a new one.
    """

    def __init__(
        self,
        assigner: WindowAssigner,
        rows: Input,
        event_time: str | None,
        apply: Apply,
    ) -> None:
        super().__init__(assigner)
        self._input = rows
        self._row_type = rows.row_type
        self._time_column = time_column(rows.df, event_time)
        self._event_time = event_time
        self._apply_plan = apply

    def side_output_late_data(self, output_tag: OutputTag) -> WindowedStream:
        changed = super().side_output_late_data(output_tag)
        check_late_output(output_tag, self._row_type)
        return changed

    def reduce(
        self,
        fn: ReduceFunction | Callable[[Any, Any], Any],
        window_function: ProcessWindowFunction | WindowFunction | None = None,
        output_schema: TypeLike | None = None,
        *,
        name: str | None = None,
        on_error: OnError = "fail",
    ) -> ResultDataFrame:
        """Reduces the rows of a window, two at a time, as they come.

        Args:
            fn: the function.
            window_function: takes the result; without one it is emitted as it is.
            output_schema: the rows it emits, if there is a window function.
            name: the operator's name.
            on_error: what becomes of a row that a function fails on, and of a window that it fails
                on when that fires: as for :meth:`keystate.KeyedStream.process`.

        Raises:
            DeclarationError: a function, one of its states or the schema is not well declared.
        """
        if output_schema is None:
            if window_function is not None:
                raise DeclarationError("reduce() with a window function needs an output schema")
            output_schema = self._row_type
        return self._run(self._reduce(fn, window_function), output_schema, name, on_error)

    @overload
    def aggregate(
        self, fn: Column, *aggregates: Column, name: str | None = None
    ) -> ResultDataFrame: ...

    @overload
    def aggregate(
        self,
        fn: AggregateFunction[Any, Any, Any],
        acc_type: TypeLike,
        output_schema: TypeLike,
        window_function: ProcessWindowFunction | WindowFunction | None = None,
        *,
        name: str | None = None,
        on_error: OnError = "fail",
    ) -> ResultDataFrame: ...

    def aggregate(
        self,
        fn: Any,
        acc_type: Any = None,
        output_schema: Any = None,
        window_function: Any = None,
        *more: Column,
        name: str | None = None,
        on_error: OnError = "fail",
    ) -> ResultDataFrame:
        """Aggregates the rows of a window as they come.

        With columns, as ``aggregate(F.sum("amount"), F.count("*"))``, Spark's own functions
        aggregate, in the JVM and without a Python worker. Then the output has the key columns,
        ``window_start`` and ``window_end``, which are timestamps, and a column for each aggregate.
        They go with tumbling and sliding windows, sessions of one gap, and the default trigger.
        ``F.first`` and ``F.last`` go by event time there.

        Args:
            fn: the function. For windows that are merged it defines ``merge``.
            acc_type: the type of its accumulator.
            output_schema: the rows that are emitted: DDL, DataType or dataclass.
            window_function: takes the result; without one it is emitted as it is.
            more: aggregates of columns, after four others.
            name: the operator's name.
            on_error: what becomes of a row that a function fails on, and of a window that it fails
                on when that fires: as for :meth:`keystate.KeyedStream.process`. Columns have none.

        Raises:
            DeclarationError: a function, one of its states or a type is not well declared.
        """
        if isinstance(fn, Column):
            rest = (acc_type, output_schema, window_function, *more)
            given = (fn, *(each for each in rest if each is not None))
            if on_error != "fail":
                raise DeclarationError(
                    "on_error is for functions of yours: aggregates of columns fail as Spark's do"
                )
            operator = AggregateOperator(
                rows=self._input,
                aggregates=aggregate_columns(given),
                windows=self._declared(self._time_column, self._event_time),
                name=name,
            )
            return ResultDataFrame(operator, bridge.aggregate)
        if acc_type is None or output_schema is None:
            raise DeclarationError(
                "aggregate() with an AggregateFunction needs the type of its accumulator and the "
                "output schema"
            )
        return self._run(
            self._aggregate(fn, acc_type, window_function), output_schema, name, on_error
        )

    def process(
        self,
        fn: ProcessWindowFunction,
        output_schema: TypeLike,
        *,
        name: str | None = None,
        on_error: OnError = "fail",
    ) -> ResultDataFrame:
        """Applies a function to the rows of a window, all of which are kept until then.

        Raises:
            DeclarationError: the function, one of its states or the schema is not well declared.
        """
        return self._run(self._process(fn), output_schema, name, on_error)

    def apply(
        self,
        fn: WindowFunction,
        output_schema: TypeLike,
        *,
        name: str | None = None,
        on_error: OnError = "fail",
    ) -> ResultDataFrame:
        """Applies a function without a context to the rows of a window, kept until then."""
        return self._run(self._apply(fn), output_schema, name, on_error)

    def _run(
        self,
        rows: WindowedRows,
        output_schema: TypeLike,
        name: str | None,
        on_error: OnError = "fail",
    ) -> ResultDataFrame:
        function_spec = rows.function_spec(self._row_type, self._input.shape, self._time_column)
        mode = "event_time" if self._assigner.is_event_time() else "auto"
        return self._apply_plan(
            function_spec, output_schema, name=name, time_mode=mode, on_error=on_error
        )
