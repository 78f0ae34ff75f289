"""How ``reduce`` makes one row of two, before the shuffle and after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import types as T

from keystate._worker.calls.plan import FunctionPlan
from keystate._worker.messages.results import row_test
from keystate.errors import OutputTypeError


def reduction(plan: FunctionPlan, row_type: T.StructType) -> Callable[[Any, Any], Any]:
    """What makes a row of two by the plan's function; whether it fits the type is not checked."""
    call, bare, is_row = plan.call(), len(row_type.fields) == 1, row_test(row_type)

    def reduced(one: Any, other: Any) -> Any:
        result = call(one, other)
        if result is None:
            raise OutputTypeError("reduce() returned None, where it must return a row")
        return (result,) if bare and not is_row(result) else result

    return reduced
