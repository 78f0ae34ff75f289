"""The harness of functions of one input."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Row

from keystate._spec import resolve_schema
from keystate.errors import DeclarationError
from keystate.state import MapStateDescriptor, TypeLike
from keystate.testing._base import OperatorHarness
from keystate.testing._job import Clock
from keystate.testing._rows import Encoder, InputRows, Rows
from keystate.testing._settings import Settings
from keystate.testing._snapshot import Snapshot


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
            :class:`~keystate.functions.CheckpointedFunction` or the like as well.
        input_schema: the rows that come in: DDL, DataType or dataclass.
        key_cols: the name of the key column, or the names of several; none for a function of a
            stream without keys.
        output_schema: the rows it emits: DDL, DataType or dataclass.
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

    Raises:
        DeclarationError: the function, one of its states or a schema is not well declared.
    """

    def __init__(
        self,
        fn: Any,
        input_schema: TypeLike,
        key_cols: str | Sequence[str],
        output_schema: TypeLike,
        *,
        parallelism: int = 1,
        max_parallelism: int = 128,
        event_time: str | None = None,
        time_mode: str = "auto",
        name: str | None = None,
        broadcast_schema: TypeLike | None = None,
        broadcast_states: Sequence[MapStateDescriptor[Any, Any]] = (),
        pickle_allow: Sequence[str] = (),
        order_by: str | Sequence[str] = (),
    ) -> None:
        settings = Settings(
            resolve_schema(input_schema, "the input schema"),
            [key_cols] if isinstance(key_cols, str) else list(key_cols),
            resolve_schema(output_schema, "the output schema"),
            max_parallelism,
            event_time,
            time_mode,
            name,
            broadcast_schema,
            tuple(broadcast_states),
            tuple(pickle_allow),
            [order_by] if isinstance(order_by, str) else list(order_by),
        )
        self._rows = InputRows(
            settings.input_schema, settings.event_time_column, settings.order_columns
        )
        self._set_up(fn, settings, parallelism)

    def _no_rows(self) -> Rows:
        return Rows([self._rows.encode([])])

    @classmethod
    def restore(
        cls,
        snapshot: Snapshot,
        fn: Any,
        *,
        parallelism: int = 1,
        output_schema: TypeLike | None = None,
        broadcast_states: Sequence[MapStateDescriptor[Any, Any]] | None = None,
    ) -> KeyedProcessHarness:
        """A harness that goes on from a snapshot, as a query that is started again.

        Args:
            snapshot: of another harness.
            fn: the function; it may differ from that harness's. A state that it does not declare is
                kept for a function that does.
            parallelism: the number of subtasks, the same or another.
            output_schema: if it differs.
            broadcast_states: if they differ.

        Raises:
            CheckpointError: a state of the function has another kind or type in the snapshot.
        """
        settings = dict(snapshot.settings)
        if output_schema is not None:
            settings["output_schema"] = output_schema
        if broadcast_states is not None:
            settings["broadcast_states"] = broadcast_states
        harness = cls(fn, parallelism=parallelism, **settings)
        harness._restore(snapshot)
        return harness

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
        as Spark does it, and counted in :attr:`num_late_rows`. At first the watermark is 0.

        Args:
            rows: as for :meth:`process`.
            broadcast: elements that every subtask has before its rows, as for
                :meth:`process_broadcast`.
            watermark: the watermark of this micro-batch, by which its timers fire, in ms.
            processing_time: this micro-batch's time, in ms.
        """
        clock = self._clock_at(watermark, processing_time)
        return self._run_rows(self._rows.encode(list(rows)), clock, self._encode(list(broadcast)))

    def _run_rows(
        self, rows: pa.Array, clock: Clock, elements: pa.Array | None = None
    ) -> list[Row]:
        rows, dropped = self._rows.on_time(rows, self._clock.watermark)
        return self._run(Rows([self._rows.ordered(rows)]), dropped, clock, elements)

    def _encode(self, elements: list[Any]) -> pa.Array | None:
        if not elements:
            return None
        if self._settings.broadcast is None:
            raise DeclarationError(
                "there are no broadcast elements: give the harness broadcast_schema and "
                "broadcast_states"
            )
        row_type = self._settings.broadcast.row_type
        return Encoder(row_type, "an element does not fit the broadcast schema").encode(elements)
