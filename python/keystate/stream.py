"""Streams: where a DataFrame meets a function with state."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import types as T
from pyspark.sql.streaming.readwriter import DataStreamWriter

from keystate import _bridge
from keystate._discovery import discover_states
from keystate._pickling import pickled
from keystate._spec import (
    OperatorSpec,
    check_columns,
    check_distinct,
    check_names,
    resolve_lasting_state,
    resolve_schema,
)
from keystate._worker.plan import FunctionPlan
from keystate._worker.results import MAIN, row_test
from keystate._worker.task import TaskFunction
from keystate.errors import DeclarationError, OutputTypeError
from keystate.functions import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    CheckpointListener,
    FilterFunction,
    FlatMapFunction,
    Function,
    KeyedBatchFunction,
    KeyedBroadcastProcessFunction,
    KeyedProcessFunction,
    ListCheckpointed,
    MapFunction,
    OutputTag,
    ProcessFunction,
    ReduceFunction,
    SinkFunction,
)
from keystate.runtime import RuntimeContext
from keystate.side_outputs import ResultDataFrame
from keystate.state import MapStateDescriptor, TypeLike, ValueStateDescriptor
from keystate.ttl import needs_notes

_TIME_MODES = ("auto", "event_time", "processing_time", "none")


def keyed(df: DataFrame, *cols: str | Column, max_parallelism: int | None = None) -> KeyedStream:
    """Groups a streaming or batch DataFrame by key.

    Rows with the same key, nulls included, are processed one after the other by the same subtask
    and share state. Micro-batches come in order; within one, rows of a key that were read by
    different tasks come in any order, as everywhere in Spark.

    Args:
        df: streaming or batch.
        cols: names of columns, or expressions.
        max_parallelism: the number of key groups, 1 to 32768: the most subtasks that the state can
            ever be spread over. Fixed for a checkpoint's life; by default 128, or with more than 85
            partitions the power of two from half as much again on.
    """
    return KeyedStream(df, cols, max_parallelism)


class _RowStream:
    """A DataFrame whose rows a function takes, grouped by key or not."""

    _time_mode: str

    def __init__(
        self, df: DataFrame, keys: list[Column], max_parallelism: int | None = None
    ) -> None:
        self._df = df
        self._keys = keys
        self._max_parallelism = max_parallelism

    def connect(self, broadcast: BroadcastStream) -> BroadcastConnectedStream:
        """Connects a broadcast stream; see :func:`keystate.broadcast`."""
        return BroadcastConnectedStream(self._df, self._keys, self._max_parallelism, broadcast)

    def flat_map(
        self,
        fn: FlatMapFunction | Callable[[Any], Any],
        output_schema: TypeLike,
        *,
        name: str | None = None,
    ) -> ResultDataFrame:
        """Applies a function of each row with any number of results."""
        plan = _plan(fn, FlatMapFunction, "flat_map", "flat_map")
        return self._apply(plan, output_schema, name, self._time_mode)

    def map(
        self,
        fn: MapFunction | Callable[[Any], Any],
        output_schema: TypeLike,
        *,
        name: str | None = None,
    ) -> DataFrame:
        """Applies a function of each row with one result."""
        plan = _plan(fn, MapFunction, "map", "map")
        return self._apply(plan, output_schema, name, self._time_mode)

    def filter(
        self, fn: FilterFunction | Callable[[Any], bool], *, name: str | None = None
    ) -> DataFrame:
        """Keeps the rows for which a function says so."""
        plan = _plan(fn, FilterFunction, "filter", "filter")
        return self._apply(plan, self._df.schema, name, self._time_mode)

    def add_sink(
        self, fn: SinkFunction | Callable[..., None], *, name: str | None = None
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
    ) -> ResultDataFrame:
        key_type = self._df.select(*self._keys).schema
        settings = (name, self._max_parallelism, time_mode)

        def run(tags: tuple[OutputTag, ...]) -> DataFrame:
            types = (self._df.schema, key_type, output_schema)
            allowed = _bridge.allowed_pickles(self._df.sparkSession)
            task = keyed_task(plan, *types, *settings, side_outputs=tags, pickles=allowed)
            return _bridge.process(self._df, self._keys, task, task.output_type, task.spec)

        return ResultDataFrame(run)


class KeyedStream(_RowStream):
    """A DataFrame grouped by key; made by :func:`keyed`."""

    _time_mode = "auto"

    def __init__(
        self, df: DataFrame, cols: tuple[str | Column, ...], max_parallelism: int | None = None
    ) -> None:
        _bridge.check_session(df)
        if not cols:
            raise DeclarationError("keyed() needs at least one key column")
        if max_parallelism is not None and not 1 <= max_parallelism <= 32768:
            raise DeclarationError(f"max_parallelism must be 1 to 32768, got {max_parallelism}")
        check_distinct(df.schema, "the input")  # or Spark calls a key ambiguous
        keys = [df[col] if isinstance(col, str) else col for col in cols]
        super().__init__(df, keys, max_parallelism)

    def process(
        self,
        fn: KeyedProcessFunction | Callable[..., Any],
        output_schema: TypeLike,
        *,
        name: str | None = None,
        time_mode: str = "auto",
    ) -> ResultDataFrame:
        """Applies a function of each row and its context.

        Args:
            fn: a :class:`~keystate.functions.KeyedProcessFunction`, or a callable with the
                arguments of its ``process_element``.
            output_schema: the rows it emits: DDL, DataType or dataclass.
            name: the operator's name, in messages and in savepoints.
            time_mode: ``"event_time"``, ``"processing_time"``, ``"none"``, or ``"auto"``: event
                time when the input has a watermark. In event time, rows behind the watermark are
                dropped, as by Spark's own stateful operators.

        Raises:
            DeclarationError: the function, one of its states or the schema is not well declared.
        """
        return self._apply(process_plan(fn), output_schema, name, time_mode)

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
        plan = _plan(fn, KeyedBatchFunction, "process_batch", "batches")
        return self._apply(plan, output_schema, name, time_mode)

    def reduce(
        self, fn: ReduceFunction | Callable[[Any, Any], Any], *, name: str | None = None
    ) -> DataFrame:
        """Combines the rows of a key, two at a time.

        A stream emits the result so far for every row; a batch emits one row a key, the last.
        """
        plan = _plan(fn, ReduceFunction, "reduce", "map")
        reducer = (_RollingReduce if self._df.isStreaming else _LastReduce)(plan, self._df.schema)
        return self.process(reducer, self._df.schema, name=name)


def keyed_task(
    plan: FunctionPlan,
    row_type: T.StructType,
    key_type: T.StructType,
    output_schema: TypeLike,
    name: str | None,
    max_parallelism: int | None,
    time_mode: str,
    broadcast: BroadcastElements | None = None,
    side_outputs: tuple[OutputTag, ...] = (),
    pickles: tuple[str, ...] = (),
) -> TaskFunction:
    """What an operator runs in its tasks: its function with all that was declared, checked.

    Raises:
        DeclarationError: the function, one of its states or the schema is not well declared.
    """
    if time_mode not in _TIME_MODES:
        raise DeclarationError(f"time_mode must be one of {_TIME_MODES}, got {time_mode!r}")
    output_type = resolve_schema(output_schema, "the output schema")
    check_columns(output_type, "the output schema")
    if side_outputs:
        output_type = _tagged_type(output_type, side_outputs)
    check_columns(row_type, "the input")
    check_columns(key_type, "the key")
    function = pickled(plan, plan.function)
    states, operator_states, metrics = discover_states(function)
    checkpointed = isinstance(
        plan.function, (CheckpointedFunction, ListCheckpointed, CheckpointListener)
    )
    if checkpointed and broadcast is not None:
        raise DeclarationError(
            "a function of broadcast elements can't have operator state: keep it in broadcast state"
        )
    broadcast_states = broadcast.states if broadcast is not None else ()
    broadcast_type = broadcast.row_type if broadcast is not None else None
    spec = OperatorSpec(
        name,
        max_parallelism,
        time_mode,
        bool(plan.on_timer),
        states,
        broadcast_states,
        checkpointed,
        operator_states,
        isinstance(plan.function, CheckpointedFunction) and bool(key_type.fields),
        bool(side_outputs),
        metrics,
        pickles,
    )
    if plan.style == "batches":
        if side_outputs:
            raise DeclarationError("process_batches has no side outputs")
        _check_value_states(spec)
    if not key_type.fields and states:
        raise DeclarationError(f"state '{states[0].name}' needs a key: use keystate.keyed(df, ...)")
    check_names(spec)
    types = (key_type, row_type, output_type, broadcast_type)
    return TaskFunction(uuid.uuid4().hex, function, spec, *types)


def _tagged_type(main: T.StructType, tags: tuple[OutputTag, ...]) -> T.StructType:
    """A struct column for the main output and one for each side output."""
    fields = [T.StructField(MAIN, main)]
    names = {MAIN}
    for tag in tags:
        place = f"side output '{tag.tag_id}'"
        if tag.tag_id.lower() in names:
            raise DeclarationError(
                f"two outputs are named '{tag.tag_id}': names differ in more than upper and lower "
                f"case, and '{MAIN}' is the main output"
            )
        names.add(tag.tag_id.lower())
        row_type = resolve_schema(tag.type, place)
        check_columns(row_type, place)
        fields.append(T.StructField(tag.tag_id, row_type))
    return T.StructType(fields)


def stream(df: DataFrame) -> DataStream:
    """A streaming or batch DataFrame that is not grouped by key."""
    return DataStream(df)


class DataStream(_RowStream):
    """A DataFrame without keys; made by :func:`stream`.

    Its rows are spread over the subtasks by a hash of all their columns.
    """

    _time_mode = "none"

    def __init__(self, df: DataFrame) -> None:
        _bridge.check_session(df)
        check_distinct(df.schema, "the input")
        super().__init__(df, [])

    def process(
        self,
        fn: ProcessFunction | Callable[..., Any],
        output_schema: TypeLike,
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
        plan = _plan(fn, ProcessFunction, "process_element", "process")
        return self._apply(plan, output_schema, name, self._time_mode)


def broadcast(df: DataFrame, *state_descriptors: MapStateDescriptor[Any, Any]) -> BroadcastStream:
    """Broadcasts a DataFrame to all subtasks of an operator, which keep what they make of it.

    Connect it: ``keystate.keyed(df, "key").connect(keystate.broadcast(rules, RULES))``.

    Args:
        df: a stream; or a batch DataFrame, whose rows are then broadcast once, in the query's first
            micro-batch. The rows of a micro-batch must fit into the driver's memory.
        state_descriptors: the broadcast states that the function has.
    """
    return BroadcastStream(df, state_descriptors)


class BroadcastElements:
    """What a broadcast stream has: its rows' type, and the states that are made of them."""

    def __init__(
        self, row_type: T.StructType, state_descriptors: Sequence[MapStateDescriptor[Any, Any]]
    ) -> None:
        if not state_descriptors:
            raise DeclarationError("broadcast() needs at least one MapStateDescriptor")
        for descriptor in state_descriptors:
            if not isinstance(descriptor, MapStateDescriptor):
                raise DeclarationError(
                    f"broadcast state is described by a MapStateDescriptor, got {descriptor!r}"
                )
        check_columns(row_type, "the broadcast input")
        check_distinct(row_type, "the broadcast input")
        self.row_type = row_type
        self.states = tuple(
            dataclasses.replace(
                resolve_lasting_state(d, "broadcast"), kind="broadcast", descriptor="broadcast"
            )
            for d in state_descriptors
        )


class BroadcastStream(BroadcastElements):
    """A DataFrame to be broadcast; made by :func:`broadcast`."""

    def __init__(
        self, df: DataFrame, state_descriptors: tuple[MapStateDescriptor[Any, Any], ...]
    ) -> None:
        _bridge.check_session(df)
        super().__init__(df.schema, state_descriptors)
        self.df = df


class BroadcastConnectedStream:
    """A stream and a broadcast stream; made by ``connect``."""

    def __init__(
        self,
        df: DataFrame,
        keys: list[Column],
        max_parallelism: int | None,
        broadcast: BroadcastStream,
    ) -> None:
        if not isinstance(broadcast, BroadcastStream):
            raise DeclarationError(
                f"connect() takes what keystate.broadcast(df, ...) makes, got {broadcast!r}"
            )
        if broadcast.df.isStreaming and not df.isStreaming:
            raise DeclarationError(
                "a stream can't be broadcast to a batch DataFrame: its rows would be processed "
                "once for ever; make both of them streams, or both batch DataFrames"
            )
        self._df = df
        self._keys = keys
        self._max_parallelism = max_parallelism
        self._broadcast = broadcast

    def process(
        self,
        fn: KeyedBroadcastProcessFunction | BroadcastProcessFunction,
        output_schema: TypeLike,
        *,
        name: str | None = None,
        time_mode: str = "auto",
    ) -> ResultDataFrame:
        """Applies a function of each row and of each broadcast element.

        Args:
            fn: a :class:`~keystate.functions.KeyedBroadcastProcessFunction` if the stream is keyed,
                else a :class:`~keystate.functions.BroadcastProcessFunction`.
            output_schema: the rows it emits: DDL, DataType or dataclass.
            name: the operator's name.
            time_mode: as for :meth:`KeyedStream.process`, by the watermark of the stream, not that
                of the broadcast one.

        Raises:
            DeclarationError: the function does not fit the stream, or one of its states or the
                schema is not well declared.
        """
        plan = broadcast_plan(fn, bool(self._keys))
        key_type = self._df.select(*self._keys).schema
        settings = (name, self._max_parallelism, time_mode, self._broadcast)

        def run(tags: tuple[OutputTag, ...]) -> DataFrame:
            row_type = self._df.schema
            task = keyed_task(plan, row_type, key_type, output_schema, *settings, tags)
            inputs = (self._df, self._keys, task, task.output_type, task.spec)
            return _bridge.process(*inputs, self._broadcast.df)

        return ResultDataFrame(run)


#: What a sink emits: a column that never has a row.
_NOTHING = "nothing boolean"


def _sink_plan(fn: Any, df: DataFrame) -> FunctionPlan:
    if not df.isStreaming:
        raise DeclarationError("add_sink() needs a stream; write a batch DataFrame with df.write")
    return _plan(fn, SinkFunction, "invoke", "sink")


def _sink_writer(df: DataFrame) -> DataStreamWriter:
    return df.writeStream.format("noop").outputMode("append")


class _RollingReduce(KeyedProcessFunction):
    """Reduces with the result so far in a value state, and emits it for every row."""

    def __init__(self, plan: FunctionPlan, row_type: T.StructType) -> None:
        self._plan = plan
        self._row_type = row_type
        self._bare = len(row_type.fields) == 1

    def open(self, runtime_context: RuntimeContext) -> None:
        self._plan.open(runtime_context)
        self._reduce = self._plan.call()
        descriptor: ValueStateDescriptor[Any] = ValueStateDescriptor("_reduce", self._row_type)
        self._result = runtime_context.get_state(descriptor)
        self._is_row = row_test(self._row_type)

    def process_element(self, value: Any, ctx: Any) -> Any:
        result = self._result.value()
        if result is None:
            result = value
        else:
            result = self._reduce(result, value)
            if result is None:
                raise OutputTypeError("reduce() returned None, where it must return a row")
            if self._bare and not self._is_row(result):
                result = (result,)
        self._result.update(result)
        return [self._result.value()]

    def close(self) -> None:
        self._plan.close()


class _LastReduce(_RollingReduce):
    """Emits the result when a batch's input has ended, which is when its timers fire."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        super().process_element(value, ctx)
        ctx.timer_service().register_event_time_timer(0)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return [self._result.value()]


def _has_timers(fn: Any) -> bool:
    return any(
        isinstance(fn, base) and type(fn).on_timer is not base.on_timer
        for base in (KeyedProcessFunction, KeyedBroadcastProcessFunction)
    )


def process_plan(fn: Any) -> FunctionPlan:
    """How a function of a row and its context is called."""
    plan = _plan(fn, KeyedProcessFunction, "process_element", "process")
    return dataclasses.replace(plan, on_timer="on_timer") if _has_timers(fn) else plan


def broadcast_plan(fn: Any, keyed: bool) -> FunctionPlan:
    """How a function of rows and broadcast elements is called."""
    base = KeyedBroadcastProcessFunction if keyed else BroadcastProcessFunction
    if not isinstance(fn, base):
        kind = "keyed" if keyed else "not keyed"
        raise DeclarationError(f"the stream is {kind}: expected a {base.__name__}, got {fn!r}")
    on_timer = "on_timer" if _has_timers(fn) else ""
    return FunctionPlan(fn, "process_element", "process", on_timer, "process_broadcast_element")


def function_plan(fn: Any, row_type: T.StructType) -> FunctionPlan:
    """How a function of any class is called; a plain callable as ``process_element`` is."""
    for base, method, style in (
        (KeyedBatchFunction, "process_batch", "batches"),
        (FlatMapFunction, "flat_map", "flat_map"),
        (MapFunction, "map", "map"),
        (FilterFunction, "filter", "filter"),
        (ProcessFunction, "process_element", "process"),
        (SinkFunction, "invoke", "sink"),
    ):
        if isinstance(fn, base):
            return _plan(fn, base, method, style)
    if isinstance(fn, ReduceFunction):
        fn = _RollingReduce(_plan(fn, ReduceFunction, "reduce", "map"), row_type)
    return process_plan(fn)


def _check_value_states(spec: OperatorSpec) -> None:
    for state in spec.states:
        if state.descriptor != "value":
            raise DeclarationError(
                f"state '{state.name}' is a {state.descriptor} state: process_batches has value "
                "states only"
            )
        if needs_notes(state.ttl):
            raise DeclarationError(
                f"state '{state.name}': process_batches has a time to live by processing time "
                "only, updated when values are written"
            )


def _plan(fn: Any, base: type, method: str, style: str) -> FunctionPlan:
    if isinstance(fn, type):
        raise DeclarationError(f"expected an object, got the class {fn.__name__}: add ()")
    if isinstance(fn, base):
        return FunctionPlan(fn, method, style)
    if isinstance(fn, Function) or not callable(fn):
        raise DeclarationError(f"expected a {base.__name__} or a callable, got {fn!r}")
    return FunctionPlan(fn, "", style)
