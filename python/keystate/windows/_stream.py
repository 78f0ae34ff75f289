"""Windows of a keyed stream."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, overload

from keystate._operators.definition import Input, check_late_output
from keystate._operators.event_time import time_column
from keystate._operators.side_outputs import ResultDataFrame
from keystate._worker.aggregates.declared import ColumnAggregate
from keystate._worker.calls.function_spec import FunctionSpec
from keystate.agg import Aggregate
from keystate.errors import DeclarationError
from keystate.functions import OutputTag, ReduceFunction
from keystate.functions.dead_letters import OnError
from keystate.state import TypeLike
from keystate.state.aggregates import AggregateFunction
from keystate.windows._assigners import WindowAssigner
from keystate.windows._columns import Panes
from keystate.windows._functions import ProcessWindowFunction, WindowFunction
from keystate.windows._windowing import WindowedRows, Windowing

#: Applies a function: with the output schema, and by name the operator's name and its time mode.
Apply = Callable[..., ResultDataFrame]
#: Applies a function to the rows of such panes, as accumulators that are begun before the shuffle;
#: ``None`` if they can't be.
Begin = Callable[[tuple[ColumnAggregate, ...], Panes], Apply | None]


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
        begin: Begin,
    ) -> None:
        super().__init__(assigner)
        self._input = rows
        self._row_type = rows.row_type
        self._time_column = time_column(rows.df, event_time)
        self._apply_plan = apply
        self._begin = begin

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
        self,
        fn: Aggregate,
        *aggregates: Aggregate,
        name: str | None = None,
        on_error: OnError = "fail",
        combine: bool | None = None,
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
        *more: Aggregate,
        name: str | None = None,
        on_error: OnError = "fail",
        combine: bool | None = None,
    ) -> ResultDataFrame:
        """Aggregates the rows of a window as they come.

        With aggregates of :mod:`keystate.agg`, as ``aggregate(agg.sum("amount"), agg.count())``, no
        Python function is called for a row. Then the output has the key columns, ``window_start``
        and ``window_end``, which are timestamps, and a column for each aggregate. They go with
        tumbling and sliding windows, sessions of one gap, and the default trigger.

        Args:
            fn: the function. For windows that are merged it defines ``merge``.
            acc_type: the type of its accumulator.
            output_schema: the rows that are emitted: DDL, DataType or dataclass.
            window_function: takes the result; without one it is emitted as it is.
            more: aggregates of columns, after four others.
            name: the operator's name.
            on_error: what becomes of a row that a function fails on, and of a window that it fails
                on when that fires: as for :meth:`keystate.KeyedStream.process`.
            combine: of aggregates of columns, whether the rows of a key and window become one
                already before the shuffle, in each task, and are put together after it. What is
                emitted stays the same, but for the order in which floats are summed. ``None``:
                where Spark's hash aggregate does it, which is for tumbling and sliding windows
                without lateness and late output, and for the aggregates and keys of
                :meth:`keystate.KeyedStream.aggregate`. With ``True`` it is an error if it can't be.

        Raises:
            DeclarationError: a function, one of its states or a type is not well declared.
        """
        if isinstance(fn, Aggregate):
            rest = (acc_type, output_schema, window_function, *more)
            function_spec, output = self._aggregate_columns(
                (fn, *(each for each in rest if each is not None)),
                self._row_type,
                self._input.key_type,
                self._time_column,
            )
            return self._applied(*self._combined(function_spec, combine), output, name, on_error)
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
        return self._applied(function_spec, self._apply_plan, output_schema, name, on_error)

    def _combined(
        self, function_spec: FunctionSpec, combine: bool | None
    ) -> tuple[FunctionSpec, Apply]:
        """Column aggregates of rows that are combined before the shuffle, where they can be."""
        windows = function_spec.function
        panes = windows.panes() if combine is not False else None
        apply = None if panes is None else self._begin(windows.aggregates, panes)
        if apply is not None:
            column = None if self._time_column is None else len(self._input.key_type.fields)
            return replace(function_spec, function=windows.of_combined(column)), apply
        if combine:
            raise DeclarationError(
                "combine=True of windows is for tumbling and sliding ones without lateness, late "
                "output and order_by, for count, sum and mean of numbers, min and max of numbers, "
                "dates, times and booleans, and for keys that are columns of plain types, by their "
                "names: leave it out"
            )
        return function_spec, self._apply_plan

    def _applied(
        self,
        function_spec: FunctionSpec,
        apply: Apply,
        output_schema: TypeLike,
        name: str | None,
        on_error: OnError,
    ) -> ResultDataFrame:
        mode = "event_time" if self._assigner.is_event_time() else "auto"
        return apply(function_spec, output_schema, name=name, time_mode=mode, on_error=on_error)
