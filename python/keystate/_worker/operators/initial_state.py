"""A function that begins with initial state, at work in a subtask.

Initial state is the function's second input. All of its rows come before the first row of the
stream, and emit nothing.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import types as T

from keystate._types.codec import shorten
from keystate._worker.operators.keyed import KeyedOperator
from keystate._worker.operators.two_inputs import TwoInputOperator, TwoInputRows
from keystate.errors import DeclarationError


class InitialStateOperator(TwoInputOperator):
    """A function of rows, and of initial state before them."""

    def _run(self, slots: list[int], rows: TwoInputRows, results: list[Any]) -> None:
        context, call = self._context, self._call_second
        context.input = 1
        following, count = iter(rows.second).__next__, rows.counts[1]
        for context.slot in slots[:count]:
            context.row = row = following()
            result = call(row, context)
            if result is not None:
                raise _emitted(result)
        context.input = 0
        self._call_each(self._call, slots[count:], rows.first, results)

    def _row_types(self) -> list[T.StructType]:
        return [self._row_type]

    def _row_at(self, index: int) -> tuple[int, Any]:
        return KeyedOperator._row_at(self, index)

    def _of_input(self) -> str:
        return " of the initial state" if self._context.input else ""


def _emitted(result: Any) -> DeclarationError:
    return DeclarationError(
        f"process_initial_state emits nothing, but returned {shorten(result)}: emit from "
        "process_element, or from on_timer of a timer that process_initial_state sets"
    )
