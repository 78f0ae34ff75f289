"""Broadcast state at work in a subtask.

A task whose micro-batch has broadcast elements begins with a pass of its own for these: they come
in, results go out, and with the last answer the changes of the broadcast states. The rows follow in
another pass, as for any keyed function. The states stay in the worker from one task to the next,
under a tag that shows whether they are still the stored states; if not, the worker asks for these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from keystate._compiled import collect
from keystate._spec.protocol import Answer, Control, Message
from keystate._types.codec import codec, shorten
from keystate._worker.calls.function_spec import FunctionSpec
from keystate._worker.contexts.row_context import RowContext
from keystate._worker.messages.columns import Columns, list_column
from keystate._worker.operators.broadcast_state import (
    BroadcastElementContext,
    BroadcastRowContext,
    PlainBroadcastRowContext,
    WorkerBroadcastState,
)
from keystate._worker.operators.keyed import KeyedOperator
from keystate._worker.operators.task_spec import TaskSpec
from keystate.errors import DeclarationError, OutputTypeError
from keystate.state import StateDescriptor

_ENTRIES_PER_PAGE = 10_000


class BroadcastOperator(KeyedOperator):
    """A function of rows and broadcast elements."""

    _context: BroadcastRowContext

    def __init__(
        self, function_spec: FunctionSpec, declared: TaskSpec, control: dict[str, Any]
    ) -> None:
        assert declared.broadcast is not None
        super().__init__(function_spec, declared, control)
        self._elements = BroadcastElementContext(self._context, declared.broadcast)
        self._broadcast_rows = codec(declared.broadcast)
        self._broadcast = [
            WorkerBroadcastState(state, i, self._elements)
            for i, state in enumerate(declared.spec.broadcast)
        ]
        self._elements.states = {state.spec.name: state for state in self._broadcast}
        self._context.views = {state.spec.name: state.view for state in self._broadcast}
        self._on_broadcast = getattr(function_spec.function, function_spec.on_broadcast)
        self._state_index = {state.name: i for i, state in enumerate(declared.spec.states)}
        self._tag = ""
        self._new_tag: str | None = None  # while broadcast elements are processed

    def _make_context(self) -> RowContext:
        return BroadcastRowContext() if self._keyed else PlainBroadcastRowContext()

    def begin_task(self, control: dict[str, Any]) -> None:
        super().begin_task(control)
        self._context.hear(control)
        if self._tag != control[Control.BROADCAST_TAG]:
            for i, state in enumerate(self._broadcast):
                state.load(self._context.client.broadcast(i, _ENTRIES_PER_PAGE))
            self._tag = control[Control.BROADCAST_TAG]
        self._new_tag = control.get(Control.NEW_TAG)

    def answer(self, message: Columns, control: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        if self._new_tag is None:
            yield from super().answer(message, control)
        else:
            self._context.hear(control)
            rows = self._broadcast_rows.decode(message.elements(Message.BROADCAST))
            results: list[Any] = []
            self._guard(lambda: self._run_broadcast(rows, results))
            yield self._broadcast_batch(results, last=False)

    def end_task(self) -> Iterator[pa.RecordBatch]:
        if self._new_tag is None:
            yield from super().end_task()
        else:
            yield self._broadcast_batch([], last=True)
            self._tag = self._new_tag
            self._forget()

    def _run_broadcast(self, rows: list[Any], results: list[Any]) -> None:
        context, call = self._elements, self._on_broadcast
        context.apply = self._apply_to_keyed_state if self._keyed else None
        for context.row in rows:
            collect(call(context.row, context), self._results.take, results)
        context.row = None

    def _broadcast_batch(self, results: list[Any], last: bool) -> pa.RecordBatch:
        columns = {Answer.LAST: pa.array([last]), Answer.OUT: list_column(self._encode(results))}
        for state in self._broadcast:
            columns.update(state.changes() if last else state.no_changes())
        columns.update(self._metrics_column(last))
        return pa.RecordBatch.from_arrays(list(columns.values()), list(columns))

    def _apply_to_keyed_state(
        self, descriptor: StateDescriptor, function: Callable[[Any, Any], Any]
    ) -> None:
        index = self._state_index.get(getattr(descriptor, "name", None) or "")
        if index is None:
            raise DeclarationError(f"{descriptor!r} is no keyed state: get every state in open()")
        context, apply = self._context, self._elements.apply
        self._elements.apply = None
        state = self._states[index]
        changes = None
        try:
            while True:
                page = Columns(context.client.keys(index, changes))
                context.keys = self._new_keys()
                self._load(page)
                if not context.keys:
                    break
                for slot, key in enumerate(context.keys):
                    context.slot = slot
                    if function(key, state) is not None:
                        raise OutputTypeError(
                            "the function of apply_to_keyed_state can't emit anything: it must "
                            "return None"
                        )
                context.slot = None
                columns = {
                    name: column
                    for store in self._stores
                    for name, column in store.changes(0, len(context.keys)).items()
                }
                changes = pa.RecordBatch.from_arrays(list(columns.values()), list(columns))
                for store in self._stores:
                    store.forget()
        finally:
            self._elements.apply = apply

    def _where(self) -> str:
        element = self._elements.row
        where = "" if element is None else f"while processing broadcast element {shorten(element)}"
        return ", ".join(filter(None, [where, super()._where()]))
