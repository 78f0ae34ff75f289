"""Which operator a function of windows has."""

from __future__ import annotations

from typing import Any

from keystate._spec.protocol import Control
from keystate._types.codec import Shape, struct_codec
from keystate._worker.calls.function_spec import FunctionSpec
from keystate._worker.operators.grouped_sessions import GroupedSessionsOperator
from keystate._worker.operators.grouped_windows import GroupedWindowsOperator
from keystate._worker.operators.keyed import KeyedOperator
from keystate._worker.operators.task_spec import TaskSpec
from keystate._worker.operators.windows import WindowsOperator


def windows_operator(
    function_spec: FunctionSpec, declared: TaskSpec, control: dict[str, Any]
) -> KeyedOperator:
    """The operator of a function of windows: of grouped rows, where that is the same."""
    rows = struct_codec(declared.rows, declared.spec.inputs[0].shape or Shape())
    # Dead letters are of single rows, in real-time mode rows are answered one by one, and what
    # makes rows of the user's class is called once for each.
    alone = function_spec.dead_letters is not None or control.get(Control.REAL_TIME)
    grouped = None if alone or rows.runs_code else function_spec.function.grouped_by
    operator: type[KeyedOperator] = WindowsOperator
    if grouped is not None:
        operator = GroupedSessionsOperator if grouped == "sessions" else GroupedWindowsOperator
    return operator(function_spec, declared, control)
