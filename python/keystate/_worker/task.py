"""The entry point in a worker: a map-in-arrow function that runs a keyed operator."""

from __future__ import annotations

import gc
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import pyarrow as pa

from keystate._spec.protocol import Control, check_version
from keystate._worker.calls.function_errors import as_sent
from keystate._worker.calls.function_spec import FunctionSpec, Style
from keystate._worker.calls.sent import SentFunction
from keystate._worker.messages.columns import Columns
from keystate._worker.messages.packed import in_bytes, read_message, send_answers_at_once
from keystate._worker.operators.task_spec import TaskSpec
from keystate.errors import KeystateError

# PySpark imports this when it reads the function, before it calls it.
send_answers_at_once()

_KEPT_OPERATORS = 64

# Rows are garbage soon, but not cyclic: Python's default looks through them every 700 objects, and
# takes half of a worker's time for it.
_GC_THRESHOLD = (50_000, 20, 50)


class TaskOperator(Protocol):
    """An opened function as a task uses it; each module of ``operators`` has one."""

    @property
    def is_of_one_task(self) -> bool:
        """Whether the next task needs an operator of its own."""

    def goes_on(self, control: dict[str, Any]) -> bool:
        """Whether it can serve the task that these fields begin."""

    def begin_task(self, control: dict[str, Any]) -> None:
        """Begins a task."""

    def answer(self, message: Columns, control: dict[str, Any]) -> Iterator[pa.RecordBatch]:
        """Processes a message of rows and states."""

    def end_task(self) -> Iterator[pa.RecordBatch]:
        """The last answers of a task, when all messages are answered."""

    def close(self) -> None:
        """Closes the function."""


# Opened operators of this process, the last used one last: (function, query run, subtask).
_operators: OrderedDict[tuple[str, str, int], TaskOperator] = OrderedDict()


@dataclass(frozen=True)
class TaskFunction:
    """The function that Spark calls with a task's messages.

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
        except BaseException as e:
            # Whatever the function holds now may be half done: the retry opens a new one.
            if operator is not None:
                operator.close()
            if isinstance(e, KeystateError):
                raise as_sent(e) from None
            raise
        if control[Control.STREAMING] and not operator.is_of_one_task:
            assert identity is not None
            _keep(identity, operator)
        else:
            operator.close()

    def open(self, control: dict[str, Any]) -> TaskOperator:
        """Opens a function of its own for a subtask."""
        function_spec: FunctionSpec = self.function.load()
        module, name = _OPERATORS.get(function_spec.style, ("keyed", "KeyedOperator"))
        if self.declared.broadcast is not None:
            module, name = "broadcast", "BroadcastOperator"
        elif function_spec.initial:
            module, name = "initial_state", "InitialStateOperator"
        elif self.declared.second is not None:
            module, name = "two_inputs", "TwoInputOperator"
        found = import_module(f"keystate._worker.operators.{module}")
        operator: TaskOperator = getattr(found, name)(function_spec, self.declared, control)
        return operator


#: Operators by module and class. Each is loaded when a function is opened: the driver needs none,
#: and some need what others don't, such as numpy or asyncio.
_OPERATORS = {
    Style.WINDOWS: ("window_operators", "windows_operator"),
    Style.BATCHES: ("batches", "BatchOperator"),
    Style.ASYNC: ("asynchronous", "AsyncOperator"),
}


def _spare_garbage_collections() -> None:
    """Once in a process, when its first function is opened and so its modules are loaded.

    What is there by then is never looked through again. PySpark's worker collects garbage after
    each task, and took 27 ms to look through some hundred thousand objects of modules; a task of
    few rows takes one.
    """
    if gc.get_threshold()[0] < _GC_THRESHOLD[0]:
        gc.set_threshold(*_GC_THRESHOLD)
        gc.freeze()


def _keep(identity: tuple[str, str, int], operator: TaskOperator) -> None:
    _operators[identity] = operator
    while len(_operators) > _KEPT_OPERATORS:
        _, oldest = _operators.popitem(last=False)
        oldest.close()
