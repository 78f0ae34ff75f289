"""The harness: a keyed operator in memory, driven by hand."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Any

import pyarrow as pa
from pyspark.sql import Row

from keystate._spec import resolve_schema
from keystate.errors import DeclarationError
from keystate.functions import TimeDomain
from keystate.state import MapStateDescriptor, TypeLike
from keystate.testing._job import Clock, Held, Job
from keystate.testing._rows import Encoder, InputRows
from keystate.testing._settings import Settings
from keystate.testing._snapshot import Snapshot


class KeyedProcessHarness:
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
        self._settings = Settings(
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
        settings = self._settings
        settings.check(parallelism)
        self._rows = InputRows(
            settings.input_schema, settings.event_time_column, settings.order_columns
        )
        self._job = Job(settings.task(fn), settings, parallelism)
        self._clock = Clock(-1, 0 if settings.by_event_time else None, 0)
        self._dropped = 0
        self._output: list[Row] = []

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

    def _restore(self, snapshot: Snapshot) -> None:
        self._clock = Clock(**snapshot.clock)
        held = Held(snapshot.states, snapshot.timers, snapshot.operator, snapshot.broadcast)
        self._job.restore(held, self._clock)

    # -- life cycle ------------------------------------------------------------------------------

    def open(self) -> None:
        """Opens the function in every subtask; otherwise a subtask does when it has work."""
        self._job.open()

    def close(self) -> None:
        """Closes the functions. What a snapshot, a peek or `output` gives remains."""
        self._job.close()

    def __enter__(self) -> KeyedProcessHarness:
        self.open()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

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
        return self._run(rows, self._clock)

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
        clock = self._clock
        if watermark is not None:
            clock = clock._replace(watermark=self._new_watermark(watermark))
        if processing_time is not None:
            self._set_clock(processing_time)
            clock = clock._replace(processing_time=processing_time)
        return self._run(self._rows.encode(list(rows)), clock, self._encode(list(broadcast)))

    def advance_watermark(self, watermark: int) -> list[Row]:
        """Runs a micro-batch without rows at a new watermark, in ms; returns what its timers emit.

        A watermark before the current one leaves that as it is.
        """
        clock = self._clock._replace(watermark=self._new_watermark(watermark))
        return self._run(self._rows.encode([]), clock)

    def set_processing_time(self, time: int) -> list[Row]:
        """Runs a micro-batch without rows at this time, in ms; returns what its timers emit.

        The time stays for the micro-batches that follow. It starts at 0.
        """
        self._set_clock(time)
        return self._run(self._rows.encode([]), self._clock)

    def _new_watermark(self, watermark: int) -> int:
        now = self._clock.watermark
        if now is None:
            raise DeclarationError(
                "there is no watermark: give the harness the event_time column, with time_mode "
                "'auto' or 'event_time'",
                code="KEYSTATE_NO_WATERMARK",
            )
        return max(watermark, now)

    def _set_clock(self, time: int) -> None:
        now = self._clock.processing_time
        if time < now:
            raise ValueError(f"processing time can't go back from {now} to {time}")
        self._clock = self._clock._replace(processing_time=time)

    def _run(self, rows: pa.Array, clock: Clock, elements: pa.Array | None = None) -> list[Row]:
        """Runs a micro-batch at these times."""
        rows, dropped = self._rows.on_time(rows, self._clock.watermark)
        clock = clock._replace(batch_id=self._clock.batch_id + 1)
        results = self._job.run(self._rows.ordered(rows), elements, clock, self._clock)
        self._clock = clock
        self._dropped += dropped
        self._output += results
        return results

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

    # -- looking at it ---------------------------------------------------------------------------

    def output(self) -> list[Row]:
        """What was emitted since the beginning, or since :meth:`take_output`."""
        return list(self._output)

    def take_output(self) -> list[Row]:
        """The same, and begins anew."""
        taken, self._output = self._output, []
        return taken

    def state(self, key: Any, name: str) -> Any:
        """What is stored of a key's state; a copy.

        Args:
            key: the bare value for one key column, a tuple for several.
            name: the descriptor's.

        Returns:
            The value, or the accumulator; ``None`` if there is none. Of a list state a list, of a
            map state a dict, of a sorted one in its order.
        """
        for store in self._job.stores:
            if store.spec.name == name:
                return store.peek(self._job.keys.of_user(key))
        raise DeclarationError(f"the function has no state '{name}'")

    def broadcast_state(self, name: str, subtask: int = 0) -> dict[Any, Any]:
        """What a subtask has of a broadcast state; a copy."""
        entries = self._job.broadcast[subtask].peek(name)
        if entries is None:
            raise DeclarationError(f"the function has no broadcast state '{name}'")
        return entries

    def timers(self, key: Any) -> list[tuple[TimeDomain, int]]:
        """A key's timers that are set: domain and time in ms."""
        wanted = self._job.keys.of_user(key)
        return sorted(
            ((TimeDomain(t.domain), t.time) for t in self._job.timers if t.key == wanted),
            key=lambda timer: (timer[1], timer[0].value),
        )

    def subtask_of(self, key: Any) -> int:
        """The index of the subtask that has a key."""
        keys = self._job.keys
        return keys.subtask_of(keys.of_user(key))

    @property
    def num_keys(self) -> int:
        """How many keys have state or timers."""
        keys = {timer.key for timer in self._job.timers}
        for store in self._job.stores:
            keys.update(key for key in store.cells if store.cell(key) is not None)
        return len(keys)

    @property
    def num_late_rows(self) -> int:
        """How many rows were dropped for coming behind the watermark."""
        return self._dropped

    @property
    def watermark(self) -> int | None:
        """The watermark in ms; ``None`` without an event time column."""
        return self._clock.watermark

    @property
    def processing_time(self) -> int:
        """The processing time in ms."""
        return self._clock.processing_time

    def snapshot(self) -> Snapshot:
        """All state as it is now."""
        clock = self._clock._asdict()
        return Snapshot(self._settings.as_arguments(), clock, *self._job.snapshot())
