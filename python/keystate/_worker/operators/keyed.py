"""A keyed function at work in a subtask: rows and states in, results and changes out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import types as T

from keystate._compiled import collect
from keystate._compiled.plain import Call
from keystate._spec.protocol import Answer, Control, Message
from keystate._types.codec import codec, shorten, struct_codec
from keystate._worker.calls.dead_letters import DeadLetterWriter
from keystate._worker.calls.function_errors import function_error
from keystate._worker.calls.function_spec import FunctionSpec, Style
from keystate._worker.calls.guarded import GuardedCalls
from keystate._worker.calls.row_loops import LOOPS
from keystate._worker.contexts.row_context import (
    PlainRowContext,
    RowContext,
    columns_without_zone,
)
from keystate._worker.contexts.runtime_context import WorkerRuntimeContext
from keystate._worker.messages.columns import INTEGERS, Columns, list_column, number
from keystate._worker.messages.input_decoder import InputDecoder
from keystate._worker.messages.packed import MOST_PACKED, packed_answer
from keystate._worker.messages.results import Results, make_results
from keystate._worker.operator_state.keeper import OperatorStateKeeper
from keystate._worker.operators.task_spec import TaskSpec
from keystate._worker.state.open_state import open_state, open_undoable_state
from keystate._worker.state.timer_turns import TimerTurns
from keystate._worker.state.timers import WorkerTimers
from keystate._worker.state.undo import UndoableTimers
from keystate._worker.state.worker_state import StateFactory, WorkerState
from keystate.errors import KeystateError

#: The metric that counts dead letters.
DEAD_LETTERS = "keystateDeadLetters"

_FIRST_SLOTS, _MOST_SLOTS, _ANSWER_BYTES = 16, 50_000, 64 << 20

_LAST = 2**63 - 1


class KeyedOperator:
    """An opened function with its states; serves task after task while its worker lives."""

    _open_state: StateFactory = staticmethod(open_state)
    _open_undoable_state: StateFactory = staticmethod(open_undoable_state)

    def __init__(
        self, function_spec: FunctionSpec, declared: TaskSpec, control: dict[str, Any]
    ) -> None:
        spec, key_type = declared.spec, declared.keys
        self._function_spec = function_spec
        self._keyed = bool(key_type.fields)
        self._context = self._make_context()
        self._context.time_columns = function_spec.time_columns
        shape = spec.inputs[0].shape
        self._row_type = declared.rows
        self._input = InputDecoder(self._row_type, shape, self._context)
        self._rows = self._input.codec
        self._context.columns_without_zone = columns_without_zone(self._row_type)
        if shape is not None:
            self._context.field_names = self._row_type.names
        self._keys = struct_codec(key_type)
        self._bare_key = len(key_type.fields) == 1
        if self._keys.mutable:
            of_one = self._keys.fields[0] if self._bare_key else self._keys
            self._context.key_copy = of_one.copy
        self._results = make_results(declared.output, spec.side_outputs, self._where)
        opening = self._open_state
        if function_spec.dead_letters is not None:
            opening = self._open_undoable_state
        runtime = WorkerRuntimeContext(spec, control, self._context, opening, key_type)
        self._context.hear(control)
        self._keeper: OperatorStateKeeper | None = None
        if spec.subtask_state is not None:
            self._keeper = OperatorStateKeeper(
                function_spec.function,
                spec.subtask_state,
                runtime,
                self._context.client,
                control,
                None if function_spec.dead_letters is None else lambda: self._context.journal,
            )
            self._guard(self._keeper.initialize)
        self._guard(lambda: self._open(runtime))
        missing = [s.name for s in spec.states if s.name not in runtime.states]
        if missing:
            raise KeystateError(
                f"state '{missing[0]}' was declared when the query was planned, but open() did not "
                "ask for it in the worker: get every state in open(), unconditionally",
                code="KEYSTATE_DECLARATION",
            )
        self._metrics = runtime.metrics
        self._states: list[WorkerState] = [runtime.states[s.name] for s in spec.states]
        self._timers = self._make_timers() if function_spec.on_timer else None
        self._context.timers = self._timers
        #: Whether timers that are due may be left of keys that are not here any more.
        self._left = False
        self._asks = False  # whether the JVM is asked for timers
        # In a batch, once its input has ended.
        self._fires_all = self._timers is not None and not control[Control.STREAMING]
        self._on_timer = (
            getattr(function_spec.function, function_spec.on_timer)
            if function_spec.on_timer
            else None
        )
        timers = [self._timers] if self._timers is not None else []
        self._stores: list[WorkerState | WorkerTimers] = [*self._states, *timers]
        self._no_changes = {k: v for s in self._stores for k, v in s.no_changes().items()}
        self._call = function_spec.call()
        self._generation = 0
        self._message: Columns | None = None  # the current one
        self._guarded: GuardedCalls | None = None
        if function_spec.dead_letters is not None:
            assert self._metrics is not None
            counter = self._metrics.counter(DEAD_LETTERS)
            letters = DeadLetterWriter(
                function_spec.dead_letters, key_type, self._row_types(), counter.inc
            )
            self._guarded = GuardedCalls(
                letters,
                self._context,
                self._states,
                self._results.take,
                self._keyed,
                spec.side_outputs,
            )

    def _make_timers(self) -> WorkerTimers:
        windows = self._function_spec.style is Style.WINDOWS
        if self._function_spec.dead_letters is None:
            return WorkerTimers(windows)
        return UndoableTimers(self._context, windows)

    def _row_types(self) -> list[T.StructType]:
        """The types of the rows whose errors are their own, for each input."""
        return [self._row_type]

    def _open(self, runtime: WorkerRuntimeContext) -> None:
        self._function_spec.open(runtime)

    # -- the conversation with the JVM ----------------------------------------------------------

    def goes_on(self, control: dict[str, Any]) -> bool:
        """Whether this function's instance can serve a task."""
        return self._keeper is None or self._keeper.goes_on(control)

    @property
    def is_of_one_task(self) -> bool:
        """Whether it can serve no other task after its first one."""
        return self._keeper is not None and self._keeper.is_of_one_task

    def begin_task(self, control: dict[str, Any]) -> None:
        """Starts without any key: what a task knows comes from the JVM."""
        self._generation = control[Control.CACHE_EPOCH]
        self._left = self._asks = False
        self._forget()
        self._context.keys = self._new_keys()
        if self._guarded is not None:
            self._guarded.dead_letters.begin_task(control)
        if self._keeper is not None:
            keeper = self._keeper
            self._guard(lambda: keeper.begin_task(control))

    def answer(self, message: Columns, control: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        """Processes a message's rows."""
        context = self._context
        context.hear(control)
        if self._timers is not None:
            self._timers.hear(control)
        if control[Control.CACHE_EPOCH] != self._generation:
            self._left = self._left or self._leaves_timers()
            yield from self._flush()
            self._generation = control[Control.CACHE_EPOCH]
            context.keys = self._new_keys()
            for store in self._stores:
                store.new_generation()
        self._load(message)
        slots = self._decode_slots(message)
        rows = self._decode_rows(message)
        self._message = message
        results: list[Any] = []
        self._guard(lambda: self._run(slots, rows, results))
        if self._timers is not None:
            self._timers.learn_gone(message.gone())
            self._guard(lambda: self._fire(message, results))
        self._message = None
        changed = None
        if self._timers is not None and control.get(Control.REAL_TIME):
            # Timers that are due in this batch fire in it.
            changed = self._timers.take_recent()
        packed = self._pack(results) if message.packs else None
        if packed is not None:
            yield packed_answer(packed, self._generation, changed or [])
        elif self._timers is not None and changed is not None:
            changes = {**self._no_changes, **self._timers.columns(changed)}
            yield self._batch(results, changes, self._generation)
        else:
            yield self._batch(results)

    def end_task(self) -> Iterator[pa.RecordBatch]:
        """Lets the timers fire that are left to be fired, and returns the changes that are left."""
        if self._timers is not None:
            yield from self._fire_left()
        yield from self._flush()
        if self._guarded is not None:
            self._guarded.dead_letters.end_task()
        last: dict[str, pa.Array] = {}
        if self._keeper is not None:
            keeper, control = self._keeper, self._context.control
            self._guard(lambda: last.update(keeper.snapshot(control)))
        if self._metrics is not None:
            self._guard(lambda: last.update(self._metrics_column(last=True)))
        if last:
            yield self._batch([], last=last)
        self._forget()

    def _fire_left(self) -> Iterator[pa.RecordBatch]:
        """Fires the timers that were set and are due, until there are none.

        If some belong to keys that are not here any more, the JVM gets all changes, and sends them.
        """
        if self._fires_all:
            # Its input has ended: all time has passed.
            self._context.hear({**self._context.control, Control.WATERMARK: _LAST})
        while True:
            if not self._left:
                yield from self._fire_here()
                return
            self._asks = True
            yield from self._flush()
            self._left = False
            batch = self._context.client.timers()
            if batch is None:
                return
            message = Columns(batch)
            control = {**self._context.control, **message.control()}
            yield from self.answer(message, control)
            # In a batch query the JVM may also have some that wait.
            self._left = self._left or self._fires_all or control[Control.TIMERS_LEFT]

    def _leaves_timers(self) -> bool:
        """Whether timers were set for the keys that are here, and are due."""
        return self._timers is not None and self._timers.has_due()

    def _fire_here(self) -> Iterator[pa.RecordBatch]:
        """Lets timers fire that were set for keys that are here, until none is due."""
        timers = self._timers
        assert timers is not None
        while timers.has_due():
            results: list[Any] = []
            turns = TimerTurns(timers, (), None)
            self._guard(partial(self._fire_each, turns, results))
            if results:
                yield self._batch(results)
            timers.next_round()

    def _metrics_column(self, last: bool) -> dict[str, pa.Array]:
        """The column with the report of the function's metrics, in a task's last answer."""
        if self._metrics is None:
            return {}
        report = json.dumps(self._metrics.report()).encode() if last else None
        return {Answer.METRICS: pa.array([report], pa.binary())}

    def close(self) -> None:
        """Closes the user's function."""
        self._forget()
        self._function_spec.close()

    def _forget(self) -> None:
        self._context.end_task()
        for store in self._stores:
            store.forget()

    def _load(self, message: Columns) -> None:
        keys = self._decode_keys(message)
        self._context.keys += keys
        carried = message.values(Message.CARRIED, INTEGERS)
        old = carried if max(carried, default=-1) >= 0 else None
        for state in self._states:
            state.load(message, old)
        if self._timers is not None:
            self._timers.load(len(carried), old)

    def _make_context(self) -> RowContext:
        return RowContext() if self._keyed else PlainRowContext()

    # What a function of batches takes as it comes.

    def _new_keys(self) -> Any:
        return []

    def _decode_keys(self, message: Columns) -> Any:
        decoded = message.values(Message.KEYS, self._keys)
        return [key[0] for key in decoded] if self._bare_key else decoded

    def _decode_slots(self, message: Columns) -> Any:
        return message.values(Message.KEY_INDEXES, INTEGERS)

    def _decode_rows(self, message: Columns) -> Any:
        return self._input.decode(message, Message.ROWS)

    def _flush(self) -> Iterator[pa.RecordBatch]:
        """Answers with all changes of this generation, some slots at a time.

        How large they are shows only then, so answers start small and grow. The JVM has them at
        once if it is to find timers in them, and in a batch query.
        """
        at_once = self._fires_all or self._left or self._asks
        if at_once and self._timers is not None:
            self._timers.forget_due()
        size, stop, step = len(self._context.keys), 0, _FIRST_SLOTS
        while stop < size:
            start, stop = stop, min(stop + step, size)
            changes = {k: v for s in self._stores for k, v in s.changes(start, stop).items()}
            answer = self._batch([], changes, self._generation, stop)
            fitting = step * _ANSWER_BYTES // max(answer.nbytes, 1)
            step = max(1, min(4 * step, fitting, _MOST_SLOTS))
            if at_once:
                self._context.client.changes(answer)
            else:
                yield answer

    def _batch(
        self,
        results: list[Any],
        changes: dict[str, pa.Array] | None = None,
        generation: int = -1,
        until: int = 0,
        last: dict[str, pa.Array] | None = None,
    ) -> pa.RecordBatch:
        if changes is None:
            changes = self._no_changes
        columns = {
            Answer.CACHE_EPOCH: number(generation),
            Answer.UNTIL: number(until),
            Answer.OUT: list_column(self._encode(results)),
            # In the same order in every answer: they are one Arrow stream.
            **{name: changes[name] for name in self._no_changes},
        }
        if last is None:
            last = self._keeper.no_snapshot() if self._keeper is not None else {}
            last.update(self._metrics_column(last=False))
        columns.update(last)
        return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))

    # -- calling the user's function ------------------------------------------------------------

    def _run(self, slots: Any, rows: Any, results: list[Any]) -> None:
        self._call_each(self._call, slots, rows, results)

    def _call_each(self, call: Call, slots: Any, rows: Any, results: list[Any]) -> None:
        """Calls a function for each row."""
        loop = LOOPS[self._function_spec.style]
        if self._guarded is None:
            loop(call, self._context, slots, rows, self._results.take, results)
        else:
            self._guarded.loop(loop, call, slots, rows, results, self._row_at)

    def _row_at(self, index: int) -> tuple[int, Any]:
        """A row of the message as it came, with the index of its input."""
        assert self._message is not None
        return 0, self._message.value(Message.ROWS, index, codec(self._row_type))

    def _fire(self, message: Columns, results: list[Any]) -> None:
        """Lets the timers of a message fire, and in between those that were set."""
        timers, sent = self._timers, list(message.due())
        assert timers is not None
        if self._left:
            # Timers of keys that are not here may come before them: the JVM sends all in order.
            for timer in sent:
                timers.give_back(*timer)
            return
        left = self._context.control.get(Control.TIMERS_LEFT)
        if left is False:
            self._fire_each(TimerTurns(timers, sent, None), results)
        elif sent:
            domain, time = sent[-1][1][:2]
            self._fire_each(TimerTurns(timers, sent, (time, domain + (left or 0))), results)

    def _fire_each(self, turns: TimerTurns, results: list[Any]) -> None:
        assert self._timers is not None and self._on_timer is not None
        context = self._context
        if self._guarded is not None:
            self._guarded.fire(self._timers, turns, self._on_timer, results)
            return
        for slot, timer in turns:
            if self._timers.take(slot, timer):
                context.slot, context.timer = slot, timer
                collect(self._on_timer(timer[1], context), self._results.take, results)

    def _guard(self, call: Callable[[], None]) -> None:
        """Runs the user's code; an error of it is reported with its own traceback first."""
        try:
            call()
        except KeystateError:
            raise
        except Exception as e:
            raise function_error(e, self._where()) from None
        finally:
            self._context.slot = None
            self._context.row = None
            self._context.timer = None

    def _where(self) -> str:
        """The row, key or timer that is being processed, for messages."""
        context = self._context
        where = ""
        if not self._keyed:
            where = "" if context.row is None else f"while processing row {shorten(context.row)}"
        elif context.slot is not None:
            where = f"while processing key {shorten(context.get_current_key())}"
            if context.timer is not None:
                where += f", timer {context.timer[1]}"
            elif context.row is not None:
                where += f", row {shorten(context.row)}"
        return where

    def _pack(self, results: list[Any]) -> list[bytes] | None:
        if len(results) > MOST_PACKED or not isinstance(self._results, Results):
            return None
        return self._results.pack(results)

    def _encode(self, results: list[Any]) -> pa.Array:
        return self._results.encode(results)
