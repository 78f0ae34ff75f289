"""Streams: where a DataFrame meets a function with state."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Callable, Sequence
from typing import Any, Generic, overload

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql.streaming.readwriter import DataStreamWriter

from keystate._codec import Shape
from keystate._jvm import bridge
from keystate._operators.event_time import time_column
from keystate._operators.plans import (
    async_calls,
    broadcast_plan,
    initial_state_plan,
    make_plan,
    process_plan,
)
from keystate._operators.reduce import LastReduce, RollingReduce
from keystate._operators.task import BroadcastElements, Declared, check_late_output, task_function
from keystate._operators.typed import output_schema_of, typed_rows
from keystate._spec import check_distinct
from keystate._type_variables import ROW
from keystate._worker.plan import FunctionPlan, Style
from keystate.async_functions import AsyncKeyedProcessFunction, AsyncRetryStrategy
from keystate.connected import ConnectedStreams, KeyedRows, same_types
from keystate.errors import DeclarationError
from keystate.functions import (
    BroadcastProcessFunction,
    FilterFunction,
    FlatMapFunction,
    KeyedBatchFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ReduceFunction,
    SinkFunction,
)
from keystate.side_outputs import ResultDataFrame
from keystate.state import MapStateDescriptor, TypeLike
from keystate.ttl import Time
from keystate.windows._assigners import GlobalWindows, WindowAssigner
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
        cols: names of columns, or expressions.
        max_parallelism: the number of key groups, 1 to 32768: the most subtasks that the state can
            ever be spread over. Fixed for a checkpoint's life; by default 128, or with more than 85
            partitions the power of two from half as much again on.
        order_by: the columns by which the rows of a key come sorted within a micro-batch, and in a
            batch query: names, or expressions such as ``F.desc("ts")``. Nulls come first, unless
            the expression says otherwise. Rows that are equal in them come in any order.
        row_type: a dataclass with a field for each column that the function needs, of the same name
            and type. The function is given objects of it, and no other columns.
    """
    order = [order_by] if isinstance(order_by, (str, Column)) else list(order_by)
    return KeyedStream(df, cols, max_parallelism, order, row_type)


class _RowStream(Generic[ROW]):
    """A DataFrame whose rows a function takes, grouped by key or not."""

    _time_mode: str

    def __init__(
        self,
        df: DataFrame,
        keys: list[Column],
        max_parallelism: int | None = None,
        order: Sequence[Column] = (),
        shape: Shape | None = None,
    ) -> None:
        self._shape = shape
        self._df = df
        self._keys = keys
        self._order = order
        self._max_parallelism = max_parallelism

    def flat_map(
        self,
        fn: FlatMapFunction[ROW] | Callable[[ROW], Any],
        output_schema: TypeLike | None = None,
        *,
        name: str | None = None,
    ) -> ResultDataFrame:
        """Applies a function of each row with any number of results."""
        plan = make_plan(fn, FlatMapFunction, "flat_map", Style.FLAT_MAP)
        return self._apply(plan, output_schema_of(fn, output_schema), name, self._time_mode)

    def map(
        self,
        fn: MapFunction[ROW] | Callable[[ROW], Any],
        output_schema: TypeLike | None = None,
        *,
        name: str | None = None,
    ) -> DataFrame:
        """Applies a function of each row with one result."""
        plan = make_plan(fn, MapFunction, "map", Style.MAP)
        return self._apply(plan, output_schema_of(fn, output_schema), name, self._time_mode)

    def filter(
        self, fn: FilterFunction[ROW] | Callable[[ROW], bool], *, name: str | None = None
    ) -> DataFrame:
        """Keeps the rows for which a function says so."""
        plan = make_plan(fn, FilterFunction, "filter", Style.FILTER)
        return self._apply(plan, self._df.schema, name, self._time_mode)

    def add_sink(
        self, fn: SinkFunction[ROW] | Callable[..., None], *, name: str | None = None
    ) -> DataStreamWriter:
        """Ends in a function that takes the rows.

        Args:
            fn: a :class:`~keystate.functions.SinkFunction`, or a callable with the arguments of its
                ``invoke``.
            name: the operator's name.

        Returns:
            The query to be started: it needs a checkpoint location and, if wanted, a trigger.
        """
        plan = _sink_plan(fn, self._df)
        return _sink_writer(self._apply(plan, _NOTHING, name, self._time_mode))

    def _apply(
        self,
        plan: FunctionPlan,
        output_schema: TypeLike,
        name: str | None,
        time_mode: str,
        late_output: OutputTag | None = None,
        initial: KeyedRows | None = None,
    ) -> ResultDataFrame:
        if late_output is not None:
            check_late_output(late_output, self._df.schema)
        declared = Declared(
            self._df.schema,
            self._df.select(*self._keys).schema,
            output_schema,
            name,
            self._max_parallelism,
            time_mode,
            second_type=None if initial is None else initial.df.schema,
            late_outputs=(late_output,),
            row_shape=self._shape,
            second_shape=None if initial is None else initial.shape,
        )

        def run(tags: tuple[OutputTag, ...]) -> DataFrame:
            allowed = bridge.allowed_pickles(self._df.sparkSession)
            whole = dataclasses.replace(declared, side_outputs=tags, pickles=allowed)
            task = task_function(plan, whole)
            if initial is None:
                return bridge.process(self._df, self._keys, task, order=self._order)
            return bridge.process_with_initial_state(
                [self._df, initial.df],
                [self._keys, initial.keys],
                [self._order, initial.order],
                task,
            )

        return ResultDataFrame(run)


class KeyedStream(_RowStream[ROW]):
    """A DataFrame grouped by key; made by :func:`keyed`."""

    _time_mode = "auto"

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
            df = df if names == df.columns else df.select(*(df[name] for name in names))
        super().__init__(df, _columns(df, cols), max_parallelism, _columns(df, order), shape)

    def process(
        self,
        fn: KeyedProcessFunction[Any, ROW]
        | AsyncKeyedProcessFunction[Any, ROW]
        | Callable[..., Any],
        output_schema: TypeLike | None = None,
        *,
        name: str | None = None,
        time_mode: str = "auto",
        event_time: str | None = None,
        late_output: OutputTag | None = None,
        initial_state: DataFrame | KeyedStream | None = None,
        capacity: int | None = None,
        timeout: datetime.timedelta | Time | None = None,
        retry: AsyncRetryStrategy | None = None,
        ordered: bool | None = None,
    ) -> ResultDataFrame:
        """Applies a function of each row and its context.

        Args:
            fn: a :class:`~keystate.functions.KeyedProcessFunction`, or an
                :class:`~keystate.async_functions.AsyncKeyedProcessFunction`, or a callable with the
                arguments of its ``process_element``, which may be async.
            output_schema: the rows it emits: DDL, DataType or dataclass. May be left out if the
                function's class tells it, as ``KeyedProcessFunction[str, Trade, Alert]``.
            name: the operator's name, in messages and in savepoints.
            time_mode: ``"event_time"``, ``"processing_time"``, ``"none"``, or ``"auto"``: event
                time when the input has a watermark. In event time, rows behind the watermark are
                dropped, as by Spark's own stateful operators.
            event_time: the column with a row's event time, for ``ctx.timestamp()``. Of a stream it
                is the one that the watermark is defined on, and need not be told; a batch DataFrame
                has no watermark.
            late_output: a side output with the input's schema, ``OutputTag("late", df.schema)``,
                to which these rows go instead, if it is read.
            initial_state: a batch DataFrame with the key columns. Each of its rows is given to
                ``process_initial_state`` of the function, with the states and timers of its key,
                before any row of the query's first micro-batch; in a batch query, before all rows.
                Once that micro-batch is committed it is not read again, and may be left out. If its
                key columns have other names, or its rows need an order, pass
                ``keystate.keyed(df, "id", order_by="ts")``.
            capacity: of an async function, how many rows of a subtask may be in flight; by default
                100.
            timeout: of an async function, how long a row may take, with all its attempts. Then
                ``timeout`` of the function is called.
            retry: of an async function, when a row is processed again.
            ordered: of an async function, whether the results of a subtask come in the order of its
                rows, which is the default, or as calls end. Those of a key are always in order.

        Raises:
            DeclarationError: the function, one of its states or the schema is not well declared;
                or the initial state is a stream, or its keys do not have the types of the stream's.
        """
        schema = output_schema_of(fn, output_schema)
        calls = async_calls(capacity, timeout, retry, ordered)
        times = time_column(self._df, event_time), None
        if initial_state is None:
            plan = dataclasses.replace(process_plan(fn, calls), time_columns=times)
            return self._apply(plan, schema, name, time_mode, late_output)
        plan = dataclasses.replace(initial_state_plan(fn, calls), time_columns=times)
        initial = self._initial_rows(initial_state)
        return self._apply(plan, schema, name, time_mode, late_output, initial)

    def _initial_rows(self, state: DataFrame | KeyedStream) -> KeyedRows:
        keys = self._df.select(*self._keys).schema
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
            state = KeyedStream(state, tuple(state[f"`{name}`"] for name in keys.names))
        if state._df.isStreaming:
            raise DeclarationError(
                "initial_state is a batch DataFrame, not a stream: it is read once, with the first "
                "micro-batch"
            )
        rows = state._keyed_rows()
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
            event_time: the column with a row's event time. Of a stream it is the one that the
                watermark is defined on, and need not be told; a batch DataFrame has no watermark.

        Raises:
            DeclarationError: the event time column does not fit.
        """
        return WindowedStream(window_assigner, self._df, event_time, self._apply)

    def count_window(self, size: int, slide: int | None = None) -> WindowedStream:
        """Groups the rows of a key into windows of so many rows.

        Args:
            size: the number of rows in a window.
            slide: after how many rows a window ends; it has the last `size` of them then. If it is
                left out, windows do not overlap.

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
            other: another keyed stream, for a function of the rows of both, whose state and timers
                they share by key; or what :func:`keystate.broadcast` makes.

        Raises:
            DeclarationError: the key columns of both do not have the same types.
        """
        if isinstance(other, KeyedStream):
            return ConnectedStreams(self._keyed_rows(), other._keyed_rows())
        return BroadcastConnectedStream(self, other)

    def _keyed_rows(self) -> KeyedRows:
        return KeyedRows(self._df, self._keys, self._order, self._max_parallelism, self._shape)

    def process_batches(
        self,
        fn: KeyedBatchFunction | Callable[..., Any],
        output_schema: TypeLike,
        *,
        name: str | None = None,
        time_mode: str = "auto",
    ) -> DataFrame:
        """Applies a function of many rows at once, for code that computes on columns.

        Args:
            fn: a :class:`~keystate.functions.KeyedBatchFunction`, or a callable with the arguments
                of its ``process_batch``.
            output_schema: the rows it emits: DDL, DataType or dataclass.
            name: the operator's name.
            time_mode: as for :meth:`process`.

        Raises:
            DeclarationError: as for :meth:`process`, or a state is no value state.
        """
        plan = make_plan(fn, KeyedBatchFunction, "process_batch", Style.BATCHES)
        return self._apply(plan, output_schema, name, time_mode)

    def reduce(
        self, fn: ReduceFunction | Callable[[ROW, ROW], Any], *, name: str | None = None
    ) -> DataFrame:
        """Combines the rows of a key, two at a time.

        A stream emits the result so far for every row; a batch emits one row a key, the last.
        """
        plan = make_plan(fn, ReduceFunction, "reduce", Style.MAP)
        reducer = (RollingReduce if self._df.isStreaming else LastReduce)(plan, self._df.schema)
        return self.process(reducer, self._df.schema, name=name)


def _columns(df: DataFrame, columns: Sequence[ColumnLike]) -> list[Column]:
    return [df[column] if isinstance(column, str) else column for column in columns]


def stream(df: DataFrame) -> DataStream:
    """A streaming or batch DataFrame that is not grouped by key."""
    return DataStream(df)


class DataStream(_RowStream[Row]):
    """A DataFrame without keys; made by :func:`stream`.

    Its rows are spread over the subtasks by a hash of all their columns.
    """

    _time_mode = "none"

    def __init__(self, df: DataFrame) -> None:
        bridge.check_session(df)
        check_distinct(df.schema, "the input")
        super().__init__(df, [])

    def connect(self, broadcast: BroadcastStream) -> BroadcastConnectedStream:
        """Connects a broadcast stream; see :func:`keystate.broadcast`."""
        return BroadcastConnectedStream(self, broadcast)

    def process(
        self,
        fn: ProcessFunction[Row] | Callable[..., Any],
        output_schema: TypeLike | None = None,
        *,
        name: str | None = None,
    ) -> ResultDataFrame:
        """Applies a function of each row and its context.

        Args:
            fn: a :class:`~keystate.functions.ProcessFunction`, or a callable with the arguments of
                its ``process_element``. It has no keyed state; for operator state it is a
                :class:`~keystate.functions.CheckpointedFunction` too.
            output_schema: the rows it emits: DDL, DataType or dataclass.
            name: the operator's name.

        Raises:
            DeclarationError: the function, one of its states or the schema is not well declared.
        """
        plan = make_plan(fn, ProcessFunction, "process_element", Style.PROCESS)
        return self._apply(plan, output_schema_of(fn, output_schema), name, self._time_mode)


def broadcast(df: DataFrame, *state_descriptors: MapStateDescriptor[Any, Any]) -> BroadcastStream:
    """Broadcasts a DataFrame to all subtasks of an operator, which keep what they make of it.

    Connect it: ``keystate.keyed(df, "key").connect(keystate.broadcast(rules, RULES))``.

    Args:
        df: a stream; or a batch DataFrame, whose rows are then broadcast once, in the query's first
            micro-batch. The rows of a micro-batch must fit into the driver's memory.
        state_descriptors: the broadcast states that the function has.
    """
    return BroadcastStream(df, state_descriptors)


class BroadcastStream(BroadcastElements):
    """A DataFrame to be broadcast; made by :func:`broadcast`."""

    def __init__(
        self, df: DataFrame, state_descriptors: tuple[MapStateDescriptor[Any, Any], ...]
    ) -> None:
        bridge.check_session(df)
        super().__init__(df.schema, state_descriptors)
        self.df = df


class BroadcastConnectedStream:
    """A stream and a broadcast stream; made by ``connect``."""

    def __init__(self, rows: _RowStream[Any], broadcast: BroadcastStream) -> None:
        if not isinstance(broadcast, BroadcastStream):
            raise DeclarationError(
                "connect() takes what keystate.broadcast(df, ...) makes, and connects a keyed "
                f"stream to another keyed stream; got {broadcast!r}"
            )
        if broadcast.df.isStreaming and not rows._df.isStreaming:
            raise DeclarationError(
                "a stream can't be broadcast to a batch DataFrame: its rows would be processed "
                "once for ever; make both of them streams, or both batch DataFrames"
            )
        self._rows = rows
        self._broadcast = broadcast

    def process(
        self,
        fn: KeyedBroadcastProcessFunction | BroadcastProcessFunction,
        output_schema: TypeLike | None = None,
        *,
        name: str | None = None,
        time_mode: str = "auto",
        event_time: str | None = None,
        late_output: OutputTag | None = None,
    ) -> ResultDataFrame:
        """Applies a function of each row and of each broadcast element.

        Args:
            fn: a :class:`~keystate.functions.KeyedBroadcastProcessFunction` if the stream is keyed,
                else a :class:`~keystate.functions.BroadcastProcessFunction`.
            output_schema: the rows it emits: DDL, DataType or dataclass.
            name: the operator's name.
            time_mode: as for :meth:`KeyedStream.process`, by the watermark of the stream, not that
                of the broadcast one.
            event_time: as for :meth:`KeyedStream.process`, of the stream's rows.
            late_output: as for :meth:`KeyedStream.process`, of the stream's rows.

        Raises:
            DeclarationError: the function does not fit the stream, or one of its states or the
                schema is not well declared.
        """
        rows = self._rows
        if late_output is not None:
            check_late_output(late_output, rows._df.schema)
        plan = dataclasses.replace(
            broadcast_plan(fn, bool(rows._keys)),
            time_columns=(time_column(rows._df, event_time), None),
        )
        declared = Declared(
            rows._df.schema,
            rows._df.select(*rows._keys).schema,
            output_schema_of(fn, output_schema),
            name,
            rows._max_parallelism,
            time_mode,
            self._broadcast,
            late_outputs=(late_output,),
            row_shape=rows._shape,
        )

        def run(tags: tuple[OutputTag, ...]) -> DataFrame:
            task = task_function(plan, dataclasses.replace(declared, side_outputs=tags))
            return bridge.process(rows._df, rows._keys, task, self._broadcast.df, rows._order)

        return ResultDataFrame(run)


#: What a sink emits: a column that never has a row.
_NOTHING = "nothing boolean"


def _sink_plan(fn: Any, df: DataFrame) -> FunctionPlan:
    if not df.isStreaming:
        raise DeclarationError("add_sink() needs a stream; write a batch DataFrame with df.write")
    return make_plan(fn, SinkFunction, "invoke", Style.SINK)


def _sink_writer(df: DataFrame) -> DataStreamWriter:
    return df.writeStream.format("noop").outputMode("append")
