"""Broadcast streams, which all subtasks get, and streams connected to them."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame

from keystate._jvm import bridge
from keystate._operators.definition import Input, InputRole, SecondInput
from keystate._operators.function_specs import broadcast_spec
from keystate._operators.side_outputs import ResultDataFrame
from keystate._operators.task import broadcast_states
from keystate._operators.typed import output_schema_of
from keystate.errors import DeclarationError
from keystate.functions import BroadcastProcessFunction, KeyedBroadcastProcessFunction, OutputTag
from keystate.functions.dead_letters import OnError
from keystate.state import MapStateDescriptor, TypeLike
from keystate.streams.rows import RowStream


def broadcast(df: DataFrame, *state_descriptors: MapStateDescriptor[Any, Any]) -> BroadcastStream:
    """Broadcasts a DataFrame to all subtasks of an operator, which keep broadcast state from it.

    Connect it: ``keystate.keyed(df, "key").connect(keystate.broadcast(rules, RULES))``.

    Args:
        df: a stream or a batch DataFrame. Rows of a batch DataFrame are broadcast once, in the
            operator's first micro-batch with it. The rows of a micro-batch must fit into the
            driver's memory.
        state_descriptors: the broadcast states of the function.
    """
    return BroadcastStream(df, state_descriptors)


class BroadcastStream:
    """A DataFrame for broadcast; made by :func:`broadcast`."""

    def __init__(
        self, df: DataFrame, state_descriptors: tuple[MapStateDescriptor[Any, Any], ...]
    ) -> None:
        bridge.check_session(df)
        self.df = df
        self.states = broadcast_states(df.schema, state_descriptors)


class BroadcastConnectedStream:
    """A stream and a broadcast stream; made by ``connect``."""

    def __init__(self, rows: RowStream[Any], broadcast: BroadcastStream) -> None:
        if not isinstance(broadcast, BroadcastStream):
            raise DeclarationError(
                "connect() takes what keystate.broadcast(df, ...) makes, and connects a keyed "
                f"stream to another keyed stream; got {broadcast!r}"
            )
        if broadcast.df.isStreaming and not rows._input.df.isStreaming:
            raise DeclarationError(
                "a stream can't be broadcast to a batch DataFrame: its rows would be processed "
                "once for ever; make both of them streams, or both batch DataFrames"
            )
        self._rows = rows
        self._second = SecondInput(Input(broadcast.df), InputRole.BROADCAST, broadcast.states)

    def process(
        self,
        fn: KeyedBroadcastProcessFunction | BroadcastProcessFunction,
        output_schema: TypeLike | None = None,
        *,
        name: str | None = None,
        time_mode: str = "auto",
        event_time: str | None = None,
        late_output: OutputTag | None = None,
        on_error: OnError = "fail",
    ) -> ResultDataFrame:
        """Applies a function of each row and of each broadcast element.

        Args:
            fn: a :class:`~keystate.functions.KeyedBroadcastProcessFunction` if the stream is keyed,
                else a :class:`~keystate.functions.BroadcastProcessFunction`.
            output_schema: the rows it emits: DDL, DataType or dataclass.
            name: the operator's name, in messages and in savepoints.
            time_mode: as for :meth:`KeyedStream.process`, by the watermark of the stream, not of
                the broadcast stream.
            event_time: as for :meth:`KeyedStream.process`, for the stream's rows.
            late_output: as for :meth:`KeyedStream.process`, for the stream's rows.
            on_error: as for :meth:`KeyedStream.process`, for the stream's rows and for timers. An
                error of a broadcast element always fails the query, since all subtasks must keep
                the same broadcast state.

        Raises:
            DeclarationError: the function does not fit the stream, or one of its states or the
                schema is not well declared.
        """
        function_spec = broadcast_spec(fn, bool(self._rows._input.keys))
        schema = output_schema_of(fn, output_schema)
        told = (name, time_mode, on_error, late_output, event_time)
        return self._rows._apply(function_spec, schema, *told, self._second)
