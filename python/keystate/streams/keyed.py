"""Streams grouped by key."""

from __future__ import annotations

import dataclasses
import datetime
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, overload

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import types as T

from keystate._jvm import bridge
from keystate._operators.aggregates import AggregateOperator, aggregate_columns
from keystate._operators.definition import Input, InputRole, SecondInput, same_types
from keystate._operators.function_specs import (
    async_calls,
    initial_state_spec,
    make_function_spec,
    process_spec,
)
from keystate._operators.joins import AsOfMatching, AsOfOperator, Direction, How, Wait
from keystate._operators.patterns import OnLimit, PatternOperator, loops_for_ever
from keystate._operators.reduce import LastReduce, RollingReduce
from keystate._operators.side_outputs import ResultDataFrame
from keystate._operators.typed import output_schema_of, typed_rows
from keystate._spec.specs import check_distinct
from keystate._types.ddl import column_of, quoted
from keystate._worker.calls.function_spec import Style
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
from keystate.patterns import Pattern
from keystate.state import Time, TypeLike
from keystate.streams.broadcast import BroadcastConnectedStream, BroadcastStream
from keystate.streams.connected import ConnectedStreams
from keystate.streams.interval_join import IntervalJoin
from keystate.streams.patterns import PatternStream
from keystate.streams.rows import RowStream
from keystate.windows._assigners import GlobalWindows, WindowAssigner
from keystate.windows._evictors import CountEvictor
from keystate.windows._stream import WindowedStream
from keystate.windows._triggers import CountTrigger, PurgingTrigger
from keystate.windows._window import millis

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
        columns = _columns(df, cols), _columns(df, order)
        plain = _key_names(df.schema, cols)
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
        return WindowedStream(window_assigner, self._input, event_time, self._apply)

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

    def join_asof(
        self,
        other: KeyedStream[Any],
        *,
        left_on: str,
        right_on: str,
        direction: Direction = "backward",
        tolerance: datetime.timedelta | Time | None = None,
        allow_exact_matches: bool = True,
        suffix: str = "_right",
        how: How = "left",
        wait: Wait = "complete",
        deleted: str | None = None,
        late_output: OutputTag | None = None,
        name: str | None = None,
    ) -> ResultDataFrame:
        """Joins each row with the row of the other stream that its key had at its time.

        The names and their meaning are those of pandas' ``merge_asof`` and Polars' ``join_asof``.
        The JVM joins, without a Python worker. The output has this stream's columns, then the other
        one's, except for its key and a time column of the same name.

        Args:
            other: the stream that is looked up, or a batch DataFrame's, which is read once. Of its
                rows of one key and time the last by its ``order_by`` counts.
            left_on: this stream's column with the time: a timestamp, on a stream that of the
                watermark.
            right_on: the other stream's column with the time.
            direction: ``"backward"`` for the last row at or before the time, ``"forward"`` for the
                first at or after it, ``"nearest"`` for the nearer one, of two the earlier. Two
                streams need a `tolerance` for the last two.
            tolerance: how far the times may be apart.
            allow_exact_matches: whether the times may be equal.
            suffix: is added to the name of a column of the other stream that this one has too.
            how: ``"left"``: rows without a match have nulls; ``"inner"``: they are left out.
            wait: ``"complete"``: a row goes out when the query's watermark has passed all that it
                could be joined with. ``"none"``: at once, with what is there, after the other
                stream's rows of the same micro-batch; it is never corrected. A table is complete.
            deleted: a boolean column of the other stream: a row in which it is true says that its
                key has nothing from then on.
            late_output: a side output with this stream's schema for rows behind the watermark.
            name: the operator's name, in messages and in savepoints.

        Raises:
            DeclarationError: a column or a setting does not fit.
        """
        operator = AsOfOperator(
            left=self._input,
            right=other._input,
            matching=AsOfMatching(
                left_on=left_on,
                right_on=right_on,
                direction=direction,
                tolerance=None if tolerance is None else 1000 * millis(tolerance, "the tolerance"),
                allow_exact_matches=allow_exact_matches,
            ),
            suffix=suffix,
            how=how,
            wait=wait,
            deleted=deleted,
            late_output=late_output,
            name=name,
        )
        return ResultDataFrame(operator, bridge.join_asof)

    def interval_join(self, other: KeyedStream[Any]) -> IntervalJoin:
        """Joins rows by how far their times are apart, with Flink's names.

        ``keyed(a, "id").interval_join(keyed(b, "id")).between(lower, upper)`` joins a row of the
        first with those of the other that are `lower` to `upper` after it. The JVM joins, without a
        Python worker. Both are streams, or both are batch DataFrames.
        """
        return IntervalJoin(self._input, other._input)

    def pattern(
        self,
        pattern: Pattern,
        *,
        order_by: ColumnLike | Sequence[ColumnLike],
        late_output: OutputTag | None = None,
        timeout_output: OutputTag | None = None,
        max_partial_matches: int | None = None,
        on_limit: OnLimit = "fail",
        name: str | None = None,
    ) -> PatternStream:
        """Finds the matches of a pattern among the rows of each key.

        Rows are matched in event time: once the watermark has passed them. The JVM matches, without
        a Python worker. Rows without a time are ignored.

        Args:
            pattern: the pattern.
            order_by: the column of the time, on a stream that of the watermark, and then what
                orders the rows of a time. Rows that are equal in all of it come as they came.
            late_output: a side output for rows behind the watermark, which are dropped otherwise.
            timeout_output: a side output for partial matches that ``within`` has ended, in the
                columns of the result.
            max_partial_matches: how many partial matches a key may have, by default 10,000.
            on_limit: ``"fail"``, or ``"drop"`` for those that began first, which the metric
                ``numPartialMatchesDropped`` counts.
            name: the operator's name, in messages and in savepoints.

        Raises:
            DeclarationError: a setting does not fit.
        """
        if not isinstance(pattern, Pattern):
            raise DeclarationError(f"expected a keystate.Pattern, got {pattern!r}")
        order = [order_by] if isinstance(order_by, (str, Column)) else list(order_by)
        rows = self._input
        loop = loops_for_ever(pattern.parts)
        if rows.df.isStreaming and pattern.longest is None and loop is not None:
            warnings.warn(
                f"{loop} of the pattern is repeated without an end, and the pattern has no within: "
                "its partial matches stay for ever",
                stacklevel=2,
            )
        operator = PatternOperator(
            rows=dataclasses.replace(rows, order=_columns(rows.df, order)),
            pattern=pattern,
            results=(),
            late_output=late_output,
            timeout_output=timeout_output,
            max_partial_matches=max_partial_matches,
            on_limit=on_limit,
            name=name,
        )
        return PatternStream(operator)

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
        """
        function_spec = make_function_spec(fn, ReduceFunction, "reduce", Style.MAP)
        df, shape = self._input.df, self._input.shape
        reducer = (RollingReduce if df.isStreaming else LastReduce)(function_spec, df.schema, shape)
        function_spec = process_spec(reducer)
        return self._apply(function_spec, df.schema, name, time_mode, on_error, late_output)

    def aggregate(self, *aggregates: Column, name: str | None = None) -> ResultDataFrame:
        """Aggregates the rows of a key by Spark's aggregate functions.

        The functions run in the JVM, without a Python worker, with the names, types, nulls and
        overflow that they have in Spark SQL. A stream emits one row for each key with rows in a
        micro-batch, with the aggregates of all the key's rows so far; a batch emits one row per
        key. The output has the key columns and a column for each aggregate. Rows are never late.

        Args:
            aggregates: columns with aggregate functions, as ``F.sum("amount").alias("total")``.
                The state keeps each under the name of its column.
            name: the operator's name, in messages and in savepoints.

        Raises:
            DeclarationError: an aggregate is no column, or one that needs all values of a key, such
                as a count of distinct ones.
        """
        operator = AggregateOperator(
            rows=self._input, aggregates=aggregate_columns(aggregates), name=name
        )
        return ResultDataFrame(operator, bridge.aggregate)


def _key_names(rows: T.StructType, cols: Sequence[ColumnLike]) -> list[str] | None:
    """The names of the key columns; ``None`` if one of them is no column by its name."""
    told = [column_of(col, rows) if isinstance(col, str) else None for col in cols]
    found = [name for name in told if name is not None]
    return found if len(found) == len(cols) else None


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
