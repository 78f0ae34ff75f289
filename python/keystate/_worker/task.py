"""The entry point in a worker: a map-in-arrow function that runs a keyed operator."""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import pyarrow as pa

from keystate._spec.protocol import Control, check_version
from keystate._worker.calls.function_spec import FunctionSpec, Style
from keystate._worker.calls.sent import SentFunction
from keystate._worker.messages.packed import in_bytes, read_message, send_answers_at_once
from keystate._worker.operators.broadcast import BroadcastOperator
from keystate._worker.operators.initial_state import InitialStateOperator
from keystate._worker.operators.keyed import KeyedOperator
from keystate._worker.operators.task_spec import TaskSpec
from keystate._worker.operators.two_inputs import TwoInputOperator

# PySpark imports this when it reads the function, before it calls it.
send_answers_at_once()

_KEPT_OPERATORS = 64

# Rows are garbage soon, but not cyclic: Python's default looks through them every 700 objects, and
# takes half of a worker's time for it.
_GC_THRESHOLD = (50_000, 20, 50)

# Opened operators of this process, the last used one last: (function, query run, subtask).
_operators: OrderedDict[tuple[str, str, int], KeyedOperator] = OrderedDict()


@dataclass(frozen=True)
class TaskFunction:
    """What Spark calls with a task's messages.

    The user's function travels as bytes and is unpickled once for a subtask in a worker process: a
    worker that serves the next micro-batch finds it opened.
    """

    token: str
    function: SentFunction
    declared: TaskSpec

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        operator = None
        identity = None
        control: dict[str, Any] = {}
        try:
            for batch in batches:
                message = read_message(batch)
                control = {**control, **message.control()}
                if operator is None:
                    check_version(control)
                    identity = (self.token, control[Control.QUERY_RUN], control[Control.SUBTASK])
                    operator = _operators.pop(identity, None)
                    if operator is not None and not operator.goes_on(control):
                        operator.close()
                        operator = None
                    operator = operator or self.open(control)
                    _spare_garbage_collections()
                    operator.begin_task(control)
                answers = operator.answer(message, control)
                yield from map(in_bytes, answers) if message.packs else answers
            if operator is None:
                return
            last = operator.end_task()
            yield from map(in_bytes, last) if message.packs else last
        except BaseException:
            # Whatever the function holds now may be half done: the retry opens a new one.
            if operator is not None:
                operator.close()
            raise
        if control[Control.STREAMING] and not operator.is_of_one_task:
            assert identity is not None
            _keep(identity, operator)
        else:
            operator.close()

    def open(self, control: dict[str, Any]) -> KeyedOperator:
        """Opens a function of its own for a subtask."""
        function_spec: FunctionSpec = self.function.load()
        operator: Callable[..., KeyedOperator] = KeyedOperator
        if self.declared.broadcast is not None:
            operator = BroadcastOperator
        elif self.declared.second is not None:
            operator = InitialStateOperator if function_spec.initial else TwoInputOperator
        elif function_spec.style in _LATE:
            operator = _operator(*_LATE[function_spec.style])
        return operator(function_spec, self.declared, control)


#: Operators that are loaded late: they need what others don't, such as numpy or asyncio.
_LATE = {
    Style.WINDOWS: ("keystate._worker.operators.windows", "windows_operator"),
    Style.BATCHES: ("keystate._worker.operators.batches", "BatchOperator"),
    Style.COLUMNS: ("keystate._worker.operators.column_aggregates", "ColumnAggregateOperator"),
    Style.COLUMN_WINDOWS: ("keystate._worker.operators.column_windows", "ColumnWindowsOperator"),
    Style.COLUMN_SESSIONS: ("keystate._worker.operators.column_sessions", "ColumnSessionsOperator"),
    Style.ASYNC: ("keystate._worker.operators.asynchronous", "AsyncOperator"),
}


def _operator(module: str, name: str) -> Callable[..., KeyedOperator]:
    operator: Callable[..., KeyedOperator] = getattr(import_module(module), name)
    return operator


def _spare_garbage_collections() -> None:
    """Once in a process, when its first function is opened and so its modules are loaded.

    What is there by then is never looked through again. PySpark's worker collects garbage after
    each task, and took 27 ms to look through some hundred thousand objects of modules; a task of
    few rows takes one.
    """
    if gc.get_threshold()[0] < _GC_THRESHOLD[0]:
        gc.set_threshold(*_GC_THRESHOLD)
        gc.freeze()


def _keep(identity: tuple[str, str, int], operator: KeyedOperator) -> None:
    _operators[identity] = operator
    while len(_operators) > _KEPT_OPERATORS:
        _, oldest = _operators.popitem(last=False)
        oldest.close()
