"""The harness: a keyed operator in memory, driven by hand."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row
from pyspark.sql import types as T

from keystate._codec import Misfit, StructCodec, struct_codec
from keystate._hash import KeyGroups
from keystate._operator_task import BroadcastElements, Declared, task_function
from keystate._plans import broadcast_plan, function_plan
from keystate._spec import resolve_schema
from keystate._worker.messages import Columns
from keystate._worker.protocol import VERSION, Answer, Control
from keystate._worker.results import row_test
from keystate._worker.state_client import OWN_CLIENT
from keystate.errors import DeclarationError
from keystate.functions import TimeDomain
from keystate.state import MapStateDescriptor, TypeLike
from keystate.testing._broadcast import BroadcastClient, BroadcastStates
from keystate.testing._expiring import ExpiringStore, make_store
from keystate.testing._operator_state import OperatorStates
from keystate.testing._snapshot import Snapshot, readable
from keystate.testing._stores import Store, Timer, Timers
from keystate.testing._subtask import Outcome, Subtask, Work


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
    ) -> None:
        row_type = resolve_schema(input_schema, "the input schema")
        names = [key_cols] if isinstance(key_cols, str) else list(key_cols)
        self._settings: dict[str, Any] = {
            "input_schema": row_type,
            "key_cols": names,
            "output_schema": resolve_schema(output_schema, "the output schema"),
            "max_parallelism": max_parallelism,
            "event_time": event_time,
            "time_mode": time_mode,
            "name": name,
            "broadcast_schema": broadcast_schema,
            "broadcast_states": tuple(broadcast_states),
            "pickle_allow": tuple(pickle_allow),
        }
        if not 1 <= parallelism <= max_parallelism <= 32768:
            raise DeclarationError(
                "parallelism must be 1 to max_parallelism, and that at most 32768, got "
                f"{parallelism} and {max_parallelism}"
            )
        self._key_columns = [_column(row_type, column, "key") for column in names]
        self._event_time = (
            None if event_time is None else _column(row_type, event_time, "event time")
        )
        by_event_time = time_mode in ("auto", "event_time") and event_time is not None
        if time_mode == "event_time" and not by_event_time:
            raise DeclarationError(
                "time_mode 'event_time' needs the event_time column", code="KEYSTATE_NO_WATERMARK"
            )
        key_type = T.StructType([row_type.fields[i] for i in self._key_columns])
        elements = None
        if broadcast_schema is not None:
            element_type = resolve_schema(broadcast_schema, "the broadcast schema")
            elements = BroadcastElements(element_type, broadcast_states)
            self._elements = struct_codec(element_type)
            self._is_element = row_test(element_type)
        plan = broadcast_plan(fn, bool(names)) if elements else function_plan(fn, row_type)
        declared = Declared(
            row_type,
            key_type,
            output_schema,
            name,
            max_parallelism,
            time_mode,
            elements,
            pickles=tuple(pickle_allow),
        )
        self._task = task_function(plan, declared)
        self._rows = struct_codec(row_type)
        self._is_row = row_test(row_type)
        self._keys = struct_codec(key_type)
        assert self._keys.as_key is not None
        self._as_key = self._keys.as_key
        self._results = struct_codec(self._task.output_type)
        self._key_groups = KeyGroups(key_type, max_parallelism)
        self._groups: dict[Any, int] = {}
        if not names:
            # Rows without keys are spread by a hash of all their columns.
            self._spreading = KeyGroups(row_type, parallelism)
        self._stores: list[Store] = [
            make_store(state, i) for i, state in enumerate(self._task.spec.states)
        ]
        for store in self._stores:
            if isinstance(store, ExpiringStore) and store.by_event_time and not by_event_time:
                raise DeclarationError(
                    f"state '{store.spec.name}' has a time to live by event time, but there is no "
                    "watermark: give the harness the event_time column",
                    code="KEYSTATE_NO_WATERMARK",
                )
        self._timers = Timers()
        self._operator_states = OperatorStates(self._task.spec, parallelism, max_parallelism)
        self._broadcast = [BroadcastStates(self._task.spec.broadcast) for _ in range(parallelism)]
        self._undeclared: dict[str, Any] = {}
        self._watermark = 0 if by_event_time else None
        self._processing_time = 0
        self._batch_id = -1
        self._dropped = 0
        self._output: list[Row] = []
        query_run = str(uuid.uuid4())
        self._subtasks = [
            Subtask(self._task, self._control(i, parallelism, query_run))
            for i in range(parallelism)
        ]

    def _control(self, index: int, parallelism: int, query_run: str) -> dict[str, Any]:
        return {
            Control.PROTOCOL: VERSION,
            Control.SUBTASK: index,
            Control.PARALLELISM: parallelism,
            Control.MAX_PARALLELISM: self._settings["max_parallelism"],
            Control.ATTEMPT: 0,
            Control.STREAMING: True,
            Control.QUERY_RUN: query_run,
            Control.EVENT_TIME_COLUMN: self._event_time,
        }

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
        self._watermark = snapshot.clock["watermark"]
        self._processing_time = snapshot.clock["processing_time"]
        self._batch_id = snapshot.clock["batch_id"]
        self._undeclared = dict(snapshot.states)
        for store in self._stores:
            kept = self._undeclared.pop(store.spec.name, None)
            if kept is not None:
                spec, encoded, columns, times = kept
                keys = self._decode_keys(encoded)
                store.restore(keys, readable(spec, store.spec, columns))
                store.restore_times(keys, times)
            store.begin(self._watermark, self._processing_time)
        self._operator_states.restore(snapshot.operator)
        for index, copy in enumerate(self._broadcast):
            copy.restore(snapshot.broadcast[index % len(snapshot.broadcast)], readable)
        timers, timer_keys = snapshot.timers
        for (domain, time), key in zip(timers, self._decode_keys(timer_keys)):
            self._timers.change(Timer(time, self._groups[key], domain, key), True)

    # -- life cycle ------------------------------------------------------------------------------

    def open(self) -> None:
        """Opens the function in every subtask; otherwise a subtask does when it has work."""
        for index, subtask in enumerate(self._subtasks):
            subtask.open(self._subtask_control(index))

    def close(self) -> None:
        """Closes the functions. What a snapshot, a peek or `output` gives remains."""
        for subtask in self._subtasks:
            subtask.close()

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
        rows = self._encode([row])
        if timestamp is not None:
            rows = self._with_event_time(rows, timestamp)
        return self._run(rows, self._watermark)

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
        if watermark is not None:
            watermark = self._new_watermark(watermark)
        if processing_time is not None:
            self._set_clock(processing_time)
        at = self._watermark if watermark is None else watermark
        return self._run(self._encode(list(rows)), at, self._encode_elements(list(broadcast)))

    def advance_watermark(self, watermark: int) -> list[Row]:
        """Runs a micro-batch without rows at a new watermark, in ms; returns what its timers emit.

        A watermark before the current one leaves that as it is.
        """
        return self._run(self._rows.encode([]), self._new_watermark(watermark))

    def set_processing_time(self, time: int) -> list[Row]:
        """Runs a micro-batch without rows at this time, in ms; returns what its timers emit.

        The time stays for the micro-batches that follow. It starts at 0.
        """
        self._set_clock(time)
        return self._run(self._rows.encode([]), self._watermark)

    def _new_watermark(self, watermark: int) -> int:
        if self._watermark is None:
            raise DeclarationError(
                "there is no watermark: give the harness the event_time column, with time_mode "
                "'auto' or 'event_time'",
                code="KEYSTATE_NO_WATERMARK",
            )
        return max(watermark, self._watermark)

    def _set_clock(self, time: int) -> None:
        if time < self._processing_time:
            raise ValueError(
                f"processing time can't go back from {self._processing_time} to {time}"
            )
        self._processing_time = time

    def _run(
        self, rows: pa.Array, watermark: int | None, elements: pa.Array | None = None
    ) -> list[Row]:
        rows, dropped = self._on_time(rows, self._watermark)
        for store in self._stores:
            store.begin(watermark, self._processing_time)
        clock = {
            Control.BATCH_ID: self._batch_id + 1,
            Control.WATERMARK: watermark,
            Control.PROCESSING_TIME: self._processing_time,
        }
        work = self._assign(rows, self._timers.due(watermark, self._processing_time))
        if self._task.spec.checkpointed:
            # Every subtask takes part in a checkpoint, one without rows too.
            for index in range(len(self._subtasks)):
                work.setdefault(index, Work())
        emitted: dict[int, list[Row]] = {i: [] for i in range(len(self._subtasks))}
        outcomes = {}
        before = self.snapshot() if elements is not None else None
        try:
            if elements is not None:
                for index in emitted:
                    emitted[index] += self._run_broadcast(index, elements, clock)
            for index, each in sorted(work.items()):
                mine = rows.take(pa.array(each.rows, pa.int64()))
                now = {**clock, **self._subtask_control(index)}
                outcomes[index] = self._subtasks[index].run(each, mine, self._stores, now)
        except BaseException:
            if before is not None:
                self._forget()
                self._restore(before)
            raise
        # All have done their part: as a query, which commits a micro-batch whole or not at all.
        for index, outcome in outcomes.items():
            emitted[index] += self._take_in(outcome)
            if self._task.spec.checkpointed:
                self._operator_states.apply(index, outcome.messages[-1])
        self._watermark = watermark
        self._batch_id += 1
        self._dropped += dropped
        results = [row for part in emitted.values() for row in part]
        self._output += results
        return results

    def _run_broadcast(self, index: int, elements: pa.Array, clock: dict[str, Any]) -> list[Row]:
        """A subtask's pass of the broadcast elements. The rows that follow see what it changes."""
        tag = str(uuid.uuid4())
        now = {**clock, **self._subtask_control(index), Control.NEW_TAG: tag}
        messages = self._subtasks[index].run_broadcast(elements, now)
        self._broadcast[index].apply(messages[-1], tag)
        return [row for m in messages for row in self._results.decode(m.elements(Answer.OUT))]

    def _subtask_control(self, index: int) -> dict[str, Any]:
        """What a subtask's task is told of its state."""
        if not self._task.spec.broadcast:
            return self._operator_states.control(index)
        states, subtask = self._broadcast[index], self._subtasks[index]

        def keys_with(state: int) -> list[Any]:
            store = self._stores[state]
            present = [key for key in store.cells if store.cell(key) is not None]
            return [key for key in present if self._subtask_of(self._groups[key]) == index]

        def message(keys: Sequence[Any]) -> dict[str, pa.Array]:
            return subtask.new_keys(keys, self._stores)

        client = BroadcastClient(states, keys_with, message, self._apply)
        return {Control.BROADCAST_TAG: states.tag, OWN_CLIENT: client}

    def _forget(self) -> None:
        """Leaves nothing in the stores."""
        specs = self._task.spec.states
        self._stores[:] = [make_store(state, i) for i, state in enumerate(specs)]
        self._timers = Timers()

    def _assign(self, rows: pa.Array, due: list[Timer]) -> dict[int, Work]:
        """By subtask its rows and timers."""
        work: dict[int, Work] = {}
        if not self._key_columns:
            for i, subtask in enumerate(self._spreading.of(rows)):
                mine = work.setdefault(subtask, Work())
                mine.rows.append(i)
                mine.keys.append(())
            return work
        columns = [rows.field(i) for i in self._key_columns]
        keys = pa.StructArray.from_arrays(columns, fields=list(self._keys.arrow))
        for i, key in enumerate(self._decode_keys(keys)):
            mine = work.setdefault(self._subtask_of(self._groups[key]), Work())
            mine.rows.append(i)
            mine.keys.append(key)
        for timer in due:
            work.setdefault(self._subtask_of(timer.group), Work()).timers.append(timer)
        return work

    def _decode_keys(self, array: pa.Array) -> list[Any]:
        """Keys as the stores have them; from now on their groups are known."""
        keys = list(map(self._as_key, self._keys.decode(array)))
        new = [key for key in dict.fromkeys(keys) if key not in self._groups]
        self._groups.update(zip(new, self._key_groups.of(self._keys.encode(new))))
        return keys

    def _subtask_of(self, group: int) -> int:
        subtask: int = group * len(self._subtasks) // self._settings["max_parallelism"]
        return subtask

    def _take_in(self, outcome: Outcome) -> list[Row]:
        """Applies a subtask's changes; returns its results."""
        results: list[Row] = []
        for message in outcome.messages:
            results += self._results.decode(message.elements(Answer.OUT))
            self._apply(outcome.keys, message)
        return results

    def _apply(self, keys: Sequence[Any], changes: Columns) -> None:
        """Takes in what was changed of these keys."""
        for store in self._stores:
            store.apply(keys, changes)
        if self._task.spec.timers:
            self._timers.apply(keys, [self._groups[key] for key in keys], changes)

    # -- rows ------------------------------------------------------------------------------------

    def _encode(self, rows: list[Any]) -> pa.Array:
        return _encoded(self._rows, self._is_row, rows, "a row does not fit the input schema")

    def _encode_elements(self, elements: list[Any]) -> pa.Array | None:
        if not elements:
            return None
        if not self._task.spec.broadcast:
            raise DeclarationError(
                "there are no broadcast elements: give the harness broadcast_schema and "
                "broadcast_states"
            )
        misfit = "an element does not fit the broadcast schema"
        return _encoded(self._elements, self._is_element, elements, misfit)

    def _with_event_time(self, rows: pa.Array, timestamp: int) -> pa.Array:
        at = self._event_time
        if at is None or not pa.types.is_timestamp(self._rows.arrow.field(at).type):
            raise DeclarationError("a row's timestamp needs an event_time column of that type")
        columns = rows.flatten()
        columns[at] = pa.array([timestamp * 1000], pa.int64()).cast(columns[at].type)
        return pa.StructArray.from_arrays(columns, fields=list(self._rows.arrow))

    def _on_time(self, rows: pa.Array, watermark: int | None) -> tuple[pa.Array, int]:
        """The rows that are not late, and how many are."""
        if watermark is None or self._event_time is None or len(rows) == 0:
            return rows, 0
        times = rows.field(self._event_time)
        if pa.types.is_struct(times.type):
            times = times.field(1)  # a window's end
        late = pc.less_equal(times.cast(pa.int64()), watermark * 1000).fill_null(False)
        on_time = rows.filter(pc.invert(late))
        return on_time, len(rows) - len(on_time)

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
        for store in self._stores:
            if store.spec.name == name:
                return store.peek(self._key(key))
        raise DeclarationError(f"the function has no state '{name}'")

    def broadcast_state(self, name: str, subtask: int = 0) -> dict[Any, Any]:
        """What a subtask has of a broadcast state; a copy."""
        entries = self._broadcast[subtask].peek(name)
        if entries is None:
            raise DeclarationError(f"the function has no broadcast state '{name}'")
        return entries

    def timers(self, key: Any) -> list[tuple[TimeDomain, int]]:
        """A key's timers that are set: domain and time in ms."""
        wanted = self._key(key)
        return sorted(
            ((TimeDomain(t.domain), t.time) for t in self._timers if t.key == wanted),
            key=lambda timer: (timer[1], timer[0].value),
        )

    def subtask_of(self, key: Any) -> int:
        """The index of the subtask that has a key."""
        return self._subtask_of(self._groups[self._key(key)])

    @property
    def num_keys(self) -> int:
        """How many keys have state or timers."""
        keys = {timer.key for timer in self._timers}
        for store in self._stores:
            keys.update(key for key in store.cells if store.cell(key) is not None)
        return len(keys)

    @property
    def num_late_rows(self) -> int:
        """How many rows were dropped for coming behind the watermark."""
        return self._dropped

    @property
    def watermark(self) -> int | None:
        """The watermark in ms; ``None`` without an event time column."""
        return self._watermark

    @property
    def processing_time(self) -> int:
        """The processing time in ms."""
        return self._processing_time

    def snapshot(self) -> Snapshot:
        """All state as it is now."""
        states = dict(self._undeclared)
        for store in self._stores:
            keys = [key for key in store.cells if store.cell(key) is not None]
            columns, times = store.columns(keys), store.times(keys)
            states[store.spec.name] = (store.spec, self._keys.encode(keys), columns, times)
        timers = list(self._timers)
        timer_keys = self._keys.encode([timer.key for timer in timers])
        clock = {
            "watermark": self._watermark,
            "processing_time": self._processing_time,
            "batch_id": self._batch_id,
        }
        set_timers = [(timer.domain, timer.time) for timer in timers]
        operator = self._operator_states.snapshot()
        broadcast = [copy.copy() for copy in self._broadcast]
        settings = dict(self._settings)
        return Snapshot(settings, clock, states, (set_timers, timer_keys), operator, broadcast)

    def _key(self, key: Any) -> Any:
        if len(self._keys.names) == 1:
            key = (key,)
        try:
            return self._decode_keys(self._keys.encode([key]))[0]
        except Misfit as e:
            raise TypeError(f"a key does not fit {self._keys.name}: {e}") from None


def _encoded(
    codec: StructCodec, is_row: Callable[[Any], bool], rows: list[Any], misfit: str
) -> pa.Array:
    if len(codec.names) == 1:
        rows = [row if is_row(row) else (row,) for row in rows]
    try:
        return codec.encode(rows)
    except Misfit as e:
        raise TypeError(f"{misfit} {codec.name}: {e}") from None


def _column(row_type: T.StructType, name: str, purpose: str) -> int:
    names = row_type.fieldNames()
    if name not in names:
        raise DeclarationError(f"the {purpose} column '{name}' is not in the input: {names}")
    return names.index(name)
