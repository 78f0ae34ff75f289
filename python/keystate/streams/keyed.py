"""Streams grouped by key."""

from __future__ import annotations

import copy
import datetime
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, overload

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Row

from keystate._jvm import bridge
from keystate._operators.aggregated import aggregate_spec
from keystate._operators.combined import combined_columns, combined_rows, key_names, why_not
from keystate._operators.definition import Input, InputRole, SecondInput, same_types
from keystate._operators.event_time import time_column
from keystate._operators.function_specs import (
    async_calls,
    initial_state_spec,
    make_function_spec,
    process_spec,
)
from keystate._operators.reduce import LastReduce, RollingReduce
from keystate._operators.schema_rows import SchemaRows
from keystate._operators.side_outputs import ResultDataFrame
from keystate._operators.typed import output_schema_of, typed_rows
from keystate._spec.specs import check_distinct
from keystate._types.ddl import column_of, quoted
from keystate._worker.aggregates.declared import ColumnAggregate, resolve
from keystate._worker.calls.function_spec import Style
from keystate.agg import Aggregate
from keystate.errors import DeclarationError
from keystate.functions import (
    AsyncKeyedProcessFunction,
    AsyncRetryStrategy,
    KeyedBatchFunction,
    KeyedProcessFunction,
    OutputTag,
    ReduceFunction,
)
from keystate.functions.dead_letters import OnError
from keystate.functions.type_variables import ROW
from keystate.state import Time, TypeLike
from keystate.streams.broadcast import BroadcastConnectedStream, BroadcastStream
from keystate.streams.connected import ConnectedStreams
from keystate.streams.partial_aggregates import (
    are_changed_by_repeats,
    can_begin,
    partial_aggregates,
    without_repeats,
)
from keystate.streams.rows import RowStream
from keystate.windows._assigners import GlobalWindows, WindowAssigner
from keystate.windows._columns import Panes
from keystate.windows._evictors import CountEvictor
from keystate.windows._stream import WindowedStream
from keystate.windows._triggers import CountTrigger, PurgingTrigger

#: A column by its name, or an expression over one row.
ColumnLike = str | Column


@overload
def keyed(
    df: DataFrame,
    *cols: ColumnLike,
    max_parallelism: int | None = None,
    order_by: ColumnLike | Sequence[ColumnLike] = (),
) -> KeyedStream[Row]: ...


@overload
def keyed(
    df: DataFrame,
    *cols: ColumnLike,
    max_parallelism: int | None = None,
    order_by: ColumnLike | Sequence[ColumnLike] = (),
    row_type: type[ROW],
) -> KeyedStream[ROW]: ...


def keyed(
    df: DataFrame,
    *cols: ColumnLike,
    max_parallelism: int | None = None,
    order_by: ColumnLike | Sequence[ColumnLike] = (),
    row_type: type | None = None,
) -> KeyedStream[Any]:
    """Groups a streaming or batch DataFrame by key.

    Rows with the same key, nulls included, are processed one after the other by the same subtask
    and share state. Micro-batches come in order; within one, rows of a key that were read by
    different tasks come in any order, as everywhere in Spark, unless `order_by` gives one.

    Args:
        df: streaming or batch.
        cols: names of columns, plain or in backticks, or deterministic expressions. A checkpoint
            records the key by the names and types of its columns, in their order. An expression has
            the name that Spark gives it, or that of its ``alias``.
        max_parallelism: the number of key groups, 1 to 32768: the most subtasks that the state can
            ever be spread over. Fixed for a checkpoint's life. By default 128; with more than 85
            partitions, the least power of two that is at least 1.5 times their number.
        order_by: the columns that sort the rows of a key within a micro-batch, and in a batch
            query: names, or expressions such as ``F.desc("ts")``. Nulls come first, unless the
            expression says otherwise. Rows that are equal in these columns come in any order.
        row_type: a dataclass with a field for each column that the function needs, of the same name
            and type. The function gets objects of this class, and no other columns.
    """
    order = [order_by] if isinstance(order_by, (str, Column)) else list(order_by)
    return KeyedStream(df, cols, max_parallelism, order, row_type)


class KeyedStream(RowStream[ROW]):
    """A DataFrame grouped by key; made by :func:`keyed`."""

    def __init__(
        self,
        df: DataFrame,
        cols: tuple[ColumnLike, ...],
        max_parallelism: int | None = None,
        order: Sequence[ColumnLike] = (),
        row_type: type | None = None,
    ) -> None:
        bridge.check_session(df)
        if not cols:
            raise DeclarationError("keyed() needs at least one key column")
        if max_parallelism is not None and not 1 <= max_parallelism <= 32768:
            raise DeclarationError(f"max_parallelism must be 1 to 32768, got {max_parallelism}")
        check_distinct(df.schema, "the input")  # or Spark calls a key ambiguous
        for column in (*cols, *order):
            if not isinstance(column, (str, Column)):
                raise DeclarationError(f"expected the name of a column or a Column, got {column!r}")
        shape = None
        if row_type is not None:
            names, shape = typed_rows(df.schema, row_type)
            df = df if names == df.columns else df.select(*(df[quoted(name)] for name in names))
        self._cols = cols
        columns = _columns(df, cols), _columns(df, order)
        plain = key_names(df.schema, cols)
        for key, count in Counter(plain or ()).items():
            if count > 1:  # of expressions the jar looks, once it knows their names
                raise DeclarationError(
                    f"{count} key columns are called '{key}': give all but one another name, by an "
                    "alias"
                )
        super().__init__(Input(df, *columns, shape, max_parallelism, key_names=plain))

    def process(
        self,
        fn: KeyedProcessFunction[Any, ROW]
        | AsyncKeyedProcessFunction[Any, ROW]
        | Callable[..., Any],
        output_schema: TypeLike | None = None,
        *,
        name: str | None = None,
        time_mode: str | None = None,
        event_time: str | None = None,
        late_output: OutputTag | None = None,
        initial_state: DataFrame | KeyedStream | None = None,
        capacity: int | None = None,
        timeout: datetime.timedelta | Time | None = None,
        retry: AsyncRetryStrategy | None = None,
        ordered: bool | None = None,
        on_error: OnError = "fail",
    ) -> ResultDataFrame:
        """Applies a function of each row and its context.

        Args:
            fn: a :class:`~keystate.functions.KeyedProcessFunction`, or an
                :class:`~keystate.functions.AsyncKeyedProcessFunction`, or a callable with the
                arguments of its ``process_element``, which may be async.
            output_schema: the rows it emits: DDL, DataType or dataclass. May be left out if the
                function's class declares it, as ``KeyedProcessFunction[str, Trade, Alert]``.
            name: the operator's name, in messages and in savepoints.
            time_mode: ``"event_time"``, ``"processing_time"``, ``"none"``, or, if it is left out,
                ``"auto"``: event time when the input has a watermark. In event time, rows behind
                the watermark are dropped, as by Spark's own stateful operators.
            event_time: the column with a row's event time, for ``ctx.timestamp()``. For a stream it
                is the watermark's column, and may be left out; a batch DataFrame has no watermark.
            late_output: a side output with the input's schema, ``OutputTag("late", df.schema)``,
                that takes the late rows, if it is read.
            initial_state: a batch DataFrame with the key columns. The function's
                ``process_initial_state`` gets each of its rows, with the states and timers of the
                row's key, before any row of the query's first micro-batch; in a batch query, before
                all rows. Once that micro-batch is committed, the DataFrame is not read again, and
                may be left out. If its key columns have other names, or its rows need an order,
                pass ``keystate.keyed(df, "id", order_by="ts")``.
            capacity: for an async function, how many rows of a subtask may be in flight; by default
                100.
            timeout: for an async function, how long a row may take, with all its attempts. After
                that the function's ``timeout`` is called.
            retry: for an async function, when a row is processed again.
            ordered: for an async function, whether the results of a subtask come in the order of
                its rows, which is the default, or as calls end. Results of one key are always in
                order.
            on_error: what happens to a row or timer that the function fails on. ``"fail"``: the
                query fails. :func:`keystate.dead_letters`: what the function did for the row or
                timer is undone, and the row or timer goes to a side output. Errors of
                ``process_initial_state`` always fail the query.

        Raises:
            DeclarationError: the function, one of its states or the schema is not well declared;
                or the initial state is a stream, or its key types differ from the stream's.
        """
        calls = async_calls(capacity, timeout, retry, ordered)
        if initial_state is None:
            function_spec, second = process_spec(fn, calls), None
        else:
            function_spec = initial_state_spec(fn, calls)
            second = SecondInput(self._initial_rows(initial_state), InputRole.INITIAL)
        schema = output_schema_of(fn, output_schema)
        told = (name, time_mode, on_error, late_output, event_time)
        return self._apply(function_spec, schema, *told, second)

    def _initial_rows(self, state: DataFrame | KeyedStream) -> Input:
        keys = self._input.key_type
        if not isinstance(state, KeyedStream):
            if not isinstance(state, DataFrame):
                raise DeclarationError(f"initial_state is a batch DataFrame, got {state!r}")
            missing = [name for name in keys.names if name not in state.columns]
            if missing:
                raise DeclarationError(
                    f"initial_state lacks the key column '{missing[0]}', its columns are "
                    f"{state.columns}: rename one, or pass keystate.keyed(df, ...) with its keys"
                )
            check_distinct(state.schema, "the initial state")
            state = KeyedStream(state, tuple(state[quoted(name)] for name in keys.names))
        rows = state._input
        if rows.df.isStreaming:
            raise DeclarationError(
                "initial_state is a batch DataFrame, not a stream: it is read once, with the first "
                "micro-batch"
            )
        if not same_types(keys, rows.key_type):
            ours, theirs = (key.simpleString()[len("struct") :] for key in (keys, rows.key_type))
            raise DeclarationError(
                "the key columns of initial_state must have the types of the stream's keys, in the "
                f"same order: those of the stream are {ours}, of initial_state {theirs}; cast them"
            )
        return rows

    def window(
        self, window_assigner: WindowAssigner, *, event_time: str | None = None
    ) -> WindowedStream:
        """Groups the rows of a key into windows; see :mod:`keystate.windows`.

        Args:
            window_assigner: says which windows a row is in.
            event_time: the column with a row's event time. For a stream it is the watermark's
                column, and may be left out; a batch DataFrame has no watermark.

        Raises:
            DeclarationError: the event time column does not fit.
        """
        return WindowedStream(
            window_assigner, self._input, event_time, self._apply, self._apply_begun
        )

    def count_window(self, size: int, slide: int | None = None) -> WindowedStream:
        """Groups the rows of a key into windows of a fixed number of rows.

        Args:
            size: the number of rows in a window.
            slide: a window ends after each `slide` rows, and has the last `size` rows. Without
                `slide`, windows do not overlap.

        Raises:
            DeclarationError: a number is less than 1.
        """
        windows = self.window(GlobalWindows.create())
        if slide is None:
            return windows.trigger(PurgingTrigger.of(CountTrigger.of(size)))
        return windows.evictor(CountEvictor.of(size)).trigger(CountTrigger.of(slide))

    @overload
    def connect(self, other: KeyedStream[Any]) -> ConnectedStreams: ...

    @overload
    def connect(self, other: BroadcastStream) -> BroadcastConnectedStream: ...

    def connect(
        self, other: KeyedStream[Any] | BroadcastStream
    ) -> ConnectedStreams | BroadcastConnectedStream:
        """Connects another stream.

        Args:
            other: another keyed stream, for a function of the rows of both, which share state and
                timers by key; or a stream of :func:`keystate.broadcast`.

        Raises:
            DeclarationError: the key columns of both do not have the same types.
        """
        if isinstance(other, KeyedStream):
            return ConnectedStreams(self._input, other._input)
        return BroadcastConnectedStream(self, other)

    def process_batches(
        self,
        fn: KeyedBatchFunction | Callable[..., Any],
        output_schema: TypeLike,
        *,
        name: str | None = None,
        time_mode: str | None = None,
        on_error: OnError = "fail",
    ) -> ResultDataFrame:
        """Applies a function of many rows at once, for code that computes on columns.

        Args:
            fn: a :class:`~keystate.functions.KeyedBatchFunction`, or a callable with the arguments
                of its ``process_batch``.
            output_schema: the rows it emits: DDL, DataType or dataclass.
            name: the operator's name, in messages and in savepoints.
            time_mode: as for :meth:`process`.
            on_error: as for :meth:`process`. After an error Keystate undoes what the call did, and
                calls the function for each half of its rows, and so on: rows that fail alone become
                dead letters.

        Raises:
            DeclarationError: as for :meth:`process`, or a state is no value state.
        """
        function_spec = make_function_spec(fn, KeyedBatchFunction, "process_batch", Style.BATCHES)
        return self._apply(function_spec, output_schema, name, time_mode, on_error)

    def reduce(
        self,
        fn: ReduceFunction | Callable[[ROW, ROW], Any],
        *,
        name: str | None = None,
        time_mode: str | None = None,
        late_output: OutputTag | None = None,
        on_error: OnError = "fail",
        combine: bool = False,
    ) -> ResultDataFrame:
        """Combines the rows of a key, two at a time.

        A stream emits the result so far for every row; a batch emits one row per key, the last.

        Args:
            fn: a :class:`~keystate.functions.ReduceFunction`, or a callable of the result so far
                and the next row.
            name: the operator's name, in messages and in savepoints.
            time_mode: as for :meth:`process`.
            late_output: as for :meth:`process`.
            on_error: as for :meth:`process`.
            combine: whether the function combines the rows of a key already before the shuffle, in
                each Arrow batch. Then a stream emits a result for each of these combined rows, and
                no longer for every row. The function must be associative, and take rows from
                different tasks in any order. The key columns, found by their names, keep the rows'
                values, whatever the function returns. The state is the same, so a query may change
                this at a restart. Needs NumPy in the workers.

        Raises:
            DeclarationError: `combine` is given with something that needs rows one by one: a
                watermark, unless `time_mode` is ``"none"`` or ``"processing_time"``, `late_output`,
                `on_error`, ``order_by``, keys that are expressions, or a function with ``open`` or
                ``close``.
        """
        function_spec = make_function_spec(fn, ReduceFunction, "reduce", Style.MAP)
        stream: KeyedStream[Any] = self
        if combine:
            keys = self._combining_keys(time_mode, late_output, on_error)
            stream = self._of(combined_rows(function_spec, self._input, keys))
        df, shape = stream._input.df, stream._input.shape
        reducer = (RollingReduce if df.isStreaming else LastReduce)(function_spec, df.schema, shape)
        function_spec = process_spec(reducer)
        return stream._apply(function_spec, df.schema, name, time_mode, on_error, late_output)

    def aggregate(
        self,
        *aggregates: Aggregate,
        name: str | None = None,
        time_mode: str | None = None,
        late_output: OutputTag | None = None,
        on_error: OnError = "fail",
        combine: bool | None = None,
    ) -> ResultDataFrame:
        """Aggregates columns of the rows of a key, without a Python call for each row.

        A stream emits one row for each key with rows in a micro-batch, with the aggregates of all
        the key's rows so far; a batch emits one row per key. The output has the key columns and a
        column for each aggregate. For an ``AggregateFunction`` use an aggregating state, or a
        window.

        Args:
            aggregates: such as ``agg.sum("amount")``; see :mod:`keystate.agg`.
            name: the operator's name, in messages and in savepoints.
            time_mode: as for :meth:`process`.
            late_output: as for :meth:`process`.
            on_error: only ``"fail"``: there is no function that could fail for one row.
            combine: whether each task aggregates the rows of a key already before the shuffle, and
                merges the partial results after it. The output stays the same, except for the order
                in which floats are summed. ``None``: only where Spark's hash aggregate can do it,
                that is for count, sum and mean of numbers, min and max of numbers, dates, times and
                booleans, with keys that are columns of plain types; or where all aggregates are
                ``approx_count_distinct`` of such types. With ``approx_count_distinct`` beside min
                and max, or of other types, tasks drop rows that repeat an earlier one. ``True``:
                for other aggregates and keys too, in Python for each Arrow batch; an error if it
                can't be done. The state is the same, so a query may change this at a restart.

        Raises:
            DeclarationError: there is no such column, an aggregate does not take its type, or
                `on_error` is not ``"fail"``; or `combine` is given with something that needs rows
                one by one: a watermark, unless `time_mode` is ``"none"`` or
                ``"processing_time"``, `late_output`, ``order_by``, or keys that are expressions.
        """
        if not aggregates:
            raise DeclarationError("aggregate() needs an aggregate, such as agg.sum('amount')")
        rows = self._input
        resolved = resolve(aggregates, rows.row_type)
        stream: KeyedStream[Any] | None = None
        plain: KeyedStream[Any] = self
        if combine:
            keys = self._combining_keys(time_mode, late_output, on_error)
            # The harness gives rows one by one.
            if not isinstance(rows.df, SchemaRows):
                stream = self._begun(resolved) or self._of(combined_columns(resolved, rows, keys))
        elif (
            combine is None
            # Without its column a watermark would not advance.
            and time_column(rows.df, None) is None
            and not self._why_not(time_mode, late_output, on_error)
        ):
            stream = self._begun(resolved)
            if stream is None:
                plain = self._without_repeats(resolved) or self
        combined = stream is not None
        function_spec, output = aggregate_spec(
            resolved, rows.key_type, rows.df.isStreaming, combined
        )
        return (stream or plain)._apply(
            function_spec, output, name, time_mode, on_error, late_output
        )

    def _begun(
        self, aggregates: Sequence[ColumnAggregate], panes: Panes | None = None
    ) -> KeyedStream[Any] | None:
        """The stream of partial aggregates before the shuffle; ``None`` if there can be none."""
        rows, keys = self._input, self._plain_keys()
        if keys is None or not can_begin(aggregates, rows.key_type):
            return None
        return self._of(partial_aggregates(aggregates, rows, keys, panes))

    def _without_repeats(self, aggregates: Sequence[ColumnAggregate]) -> KeyedStream[Any] | None:
        """The stream without rows that change nothing; ``None`` if any row may change something."""
        keys = self._plain_keys()
        if keys is None or are_changed_by_repeats(aggregates):
            return None
        return self._of(without_repeats(aggregates, self._input, keys))

    def _plain_keys(self) -> Sequence[str] | None:
        """The key columns' names; ``None`` if rows can't be combined before the shuffle."""
        rows = self._input
        if rows.order or isinstance(rows.df, SchemaRows):
            return None
        names = rows.row_type.names
        if len({name.lower() for name in names}) < len(names):
            return None  # columns are selected by name before the shuffle
        return rows.key_names

    def _apply_begun(
        self, aggregates: Sequence[ColumnAggregate], panes: Panes
    ) -> Callable[..., ResultDataFrame] | None:
        begun = self._begun(aggregates, panes)
        return None if begun is None else begun._apply

    def _why_not(
        self, time_mode: str | None, late_output: OutputTag | None, on_error: OnError
    ) -> DeclarationError | None:
        mode = time_mode or self._time_mode
        return why_not(self._input, self._cols, mode, late_output, on_error)

    def _combining_keys(
        self, time_mode: str | None, late_output: OutputTag | None, on_error: OnError
    ) -> Sequence[str]:
        error = self._why_not(time_mode, late_output, on_error)
        if error is not None:
            raise error
        return self._input.key_names or []

    def _of(self, rows: Input) -> KeyedStream[Any]:
        """This stream with other rows."""
        stream = copy.copy(self)
        stream._input = rows
        return stream


def _columns(df: DataFrame, columns: Sequence[ColumnLike]) -> list[Column]:
    return [_column(df, column) if isinstance(column, str) else column for column in columns]


def _column(df: DataFrame, text: str) -> Column:
    name = column_of(text, df.schema)
    try:
        return df[text if name is None else quoted(name)]
    except AnalysisException as e:
        # Spark looks for columns with names like it, and fails at one that has a backtick.
        if e.getCondition() != "INVALID_ATTRIBUTE_NAME_SYNTAX":
            raise
        raise DeclarationError(f"there is no column '{text}' in the input: {df.columns}") from None
