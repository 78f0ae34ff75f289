"""The harness of functions of one input."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import Row

from keystate._operators.plans import async_calls
from keystate._operators.typed import output_schema_of
from keystate._spec import resolve_schema
from keystate.async_functions import AsyncRetryStrategy
from keystate.errors import DeclarationError
from keystate.functions import OutputTag
from keystate.state import MapStateDescriptor, TypeLike
from keystate.testing._base import OperatorHarness
from keystate.testing._job import Clock
from keystate.testing._rows import Encoder, InputRows, Rows
from keystate.testing._settings import Settings, names_of
from keystate.testing._snapshot import Snapshot
from keystate.ttl import Time


class KeyedProcessHarness(OperatorHarness):
    """Runs a keyed function without Spark: no JVM is started.

    The function meets the worker's own code, so values, types, errors and orders are those of a
    query. Each call of :meth:`process`, :meth:`process_batch`, :meth:`advance_watermark` and
    :meth:`set_processing_time` is one micro-batch of a stream: first its rows are processed, then
    the timers fire that earlier micro-batches had set and whose time has come, in order of time. A
    micro-batch in which the function fails changes no state; the function is closed, and opened
    anew for the next one.

    Each subtask unpickles a function of its own, as in a query.

    Args:
        fn: a :class:`~keystate.functions.KeyedProcessFunction`, a function of another class that
            streams take, or a callable with the arguments of ``process_element``. It may be a
            :class:`~keystate.functions.CheckpointedFunction` or the like as well. For windows it is
            what the methods of :func:`keystate.windows.window` return.
        input_schema: the rows that come in: DDL, DataType or dataclass.
        key_cols: the name of the key column, or the names of several; none for a function of a
            stream without keys.
        output_schema: the rows it emits: DDL, DataType or dataclass. May be left out as for
            :meth:`keystate.KeyedStream.process`.
        row_type: a dataclass whose objects the function is given, as for :func:`keystate.keyed`; it
            has all columns, in their order.
        parallelism: the number of subtasks.
        max_parallelism: the number of key groups.
        event_time: the input column that the watermark goes by, as in ``df.withWatermark``: a
            timestamp, or a window. Without one there is no watermark.
        time_mode: as for :meth:`keystate.KeyedStream.process`.
        name: the operator's name.
        broadcast_schema: the elements that are broadcast, if the function is a
            :class:`~keystate.functions.KeyedBroadcastProcessFunction` or, without key columns, a
            :class:`~keystate.functions.BroadcastProcessFunction`.
        broadcast_states: the descriptors of its broadcast states.
        pickle_allow: as the setting ``spark.keystate.pickle.allow``.
        order_by: the name of the column, or the names of several, by which the rows of a
            micro-batch are sorted, as for :func:`keystate.keyed`.
        side_outputs: the side outputs that :meth:`side_output` shows; results for others are
            dropped.
        late_output: the side output that late rows go to, as for
            :meth:`keystate.KeyedStream.process`, if it is one of `side_outputs`. Windows have
            ``side_output_late_data`` instead.
        initial_state: rows that ``process_initial_state`` of the function is given before those of
            the first micro-batch. A harness that is restored has had them. Not for windows.
        initial_state_schema: their columns, with those of the key.
        capacity: of an async function, as for :meth:`keystate.KeyedStream.process`.
        timeout: likewise.
        retry: likewise.
        ordered: likewise.

    Raises:
        DeclarationError: the function, one of its states or a schema is not well declared.
    """

    def __init__(
        self,
        fn: Any,
        input_schema: TypeLike,
        key_cols: str | Sequence[str],
        output_schema: TypeLike | None = None,
        *,
        row_type: type | None = None,
        parallelism: int = 1,
        max_parallelism: int = 128,
        event_time: str | None = None,
        time_mode: str = "auto",
        name: str | None = None,
        broadcast_schema: TypeLike | None = None,
        broadcast_states: Sequence[MapStateDescriptor[Any, Any]] = (),
        pickle_allow: Sequence[str] = (),
        order_by: str | Sequence[str] = (),
        side_outputs: Sequence[OutputTag] = (),
        late_output: OutputTag | None = None,
        initial_state: Iterable[Any] = (),
        initial_state_schema: TypeLike | None = None,
        capacity: int | None = None,
        timeout: timedelta | Time | None = None,
        retry: AsyncRetryStrategy | None = None,
        ordered: bool | None = None,
    ) -> None:
        settings = Settings(
            resolve_schema(input_schema, "the input schema"),
            names_of(key_cols),
            resolve_schema(output_schema_of(fn, output_schema), "the output schema"),
            max_parallelism,
            event_time,
            time_mode,
            name,
            broadcast_schema,
            tuple(broadcast_states),
            tuple(pickle_allow),
            names_of(order_by),
            tuple(side_outputs),
            initial_state_schema,
            row_type=row_type,
            late_output=late_output,
            calls=async_calls(capacity, timeout, retry, ordered),
        )
        self._rows = InputRows(
            settings.input_schema, settings.event_time_column, settings.order_columns
        )
        self._initial = _encoded(initial_state, settings)
        self._set_up(fn, settings, parallelism)

    def _no_rows(self) -> Rows:
        return self._with_initial_state(self._rows.encode([]))

    def _with_initial_state(self, rows: pa.Array) -> Rows:
        """A micro-batch's rows, and before those of the first one the initial state."""
        if self._initial is None:
            return Rows([rows])
        initial = self._initial if self._clock.batch_id < 0 else self._initial[:0]
        order = [(1, i) for i in range(len(initial))] + [(0, i) for i in range(len(rows))]
        return Rows([rows, initial], order)

    @classmethod
    def restore(
        cls,
        snapshot: Snapshot,
        fn: Any,
        *,
        parallelism: int = 1,
        output_schema: TypeLike | None = None,
        broadcast_states: Sequence[MapStateDescriptor[Any, Any]] | None = None,
        capacity: int | None = None,
        timeout: timedelta | Time | None = None,
        retry: AsyncRetryStrategy | None = None,
        ordered: bool | None = None,
    ) -> KeyedProcessHarness:
        """A harness that goes on from a snapshot, as a query that is started again.

        Args:
            snapshot: of another harness.
            fn: the function; it may differ from that harness's. A state that it does not declare is
                kept for a function that does.
            parallelism: the number of subtasks, the same or another.
            output_schema: if it differs.
            broadcast_states: if they differ.
            capacity: of an async function; a snapshot does not have it.
            timeout: likewise.
            retry: likewise.
            ordered: likewise.

        Raises:
            CheckpointError: a state of the function has another kind or type in the snapshot.
        """
        changed = {
            "output_schema": output_schema,
            "broadcast_states": broadcast_states,
            "capacity": capacity,
            "timeout": timeout,
            "retry": retry,
            "ordered": ordered,
        }
        return cls._restored(snapshot, fn, parallelism, **changed)

    # -- micro-batches ---------------------------------------------------------------------------

    def process(self, row: Any, timestamp: int | None = None) -> list[Row]:
        """Runs a micro-batch of one row; returns what it emits.

        Args:
            row: a Row, tuple, dict or dataclass of the input schema, or the bare value if that has
                one column.
            timestamp: the row's event time in ms since the epoch, put into the event time column.
        """
        rows = self._rows.encode([row])
        if timestamp is not None:
            rows = self._rows.with_event_time(rows, timestamp)
        return self._run_rows(rows, self._clock)

    def process_broadcast(self, element: Any) -> list[Row]:
        """Runs a micro-batch of one broadcast element; returns what the subtasks emit.

        Args:
            element: a Row, tuple, dict or dataclass of the broadcast schema, or the bare value if
                that has one column.
        """
        return self.process_batch([], broadcast=[element])

    def process_batch(
        self,
        rows: Iterable[Any],
        *,
        broadcast: Iterable[Any] = (),
        watermark: int | None = None,
        processing_time: int | None = None,
    ) -> list[Row]:
        """Runs a micro-batch of rows; returns what it emits, subtask by subtask.

        Rows whose event time is at or behind the watermark of the micro-batch before are dropped,
        as Spark does it, and counted in :attr:`num_late_rows`, unless there is a late output. At
        first the watermark is 0.

        Args:
            rows: as for :meth:`process`.
            broadcast: elements that every subtask has before its rows, as for
                :meth:`process_broadcast`.
            watermark: the watermark of this micro-batch, by which its timers fire, in ms.
            processing_time: this micro-batch's time, in ms.
        """
        clock = self._clock_at(watermark, processing_time)
        return self._run_rows(self._rows.encode(rows), clock, self._encode(broadcast))

    def _run_rows(
        self, rows: pa.Array, clock: Clock, elements: pa.Array | None = None
    ) -> list[Row]:
        late: list[Row] = []
        if not self._job.takes_late_rows:
            rows, late = self._rows.on_time(rows, self._clock.watermark)
        ordered = self._with_initial_state(self._rows.ordered(rows))
        return self._run(ordered, [late], clock, elements)

    def _encode(self, elements: Iterable[Any]) -> pa.Array | None:
        if self._settings.broadcast is None:
            if list(elements):
                raise DeclarationError(
                    "there are no broadcast elements: give the harness broadcast_schema and "
                    "broadcast_states"
                )
            return None
        row_type = self._settings.broadcast.row_type
        encoder = Encoder(row_type, "an element does not fit the broadcast schema")
        encoded = encoder.encode(elements)
        return encoded if len(encoded) else None


def _encoded(initial: Iterable[Any], settings: Settings) -> pa.Array | None:
    """The initial state, if there is one."""
    if settings.initial_type is None:
        if list(initial):
            raise DeclarationError("give the harness initial_state_schema too")
        return None
    misfit = "a row does not fit the initial state schema"
    return Encoder(settings.initial_type, misfit).encode(initial)
