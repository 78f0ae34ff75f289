"""How ``reduce`` makes one row of two, before the shuffle and after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import types as T

from keystate._types.codec import Shape, codec
from keystate._worker.calls.function_spec import FunctionSpec
from keystate._worker.messages.results import row_test
from keystate.errors import OutputTypeError


def reduction(
    function_spec: FunctionSpec, row_type: T.StructType, given: Callable[[Any], Any] | None = None
) -> Callable[[Any, Any], Any]:
    """Makes a row of two by the user's function; does not check that it fits the type.

    Args:
        function_spec: how the function is called.
        row_type: of the rows.
        given: makes of each row what the function is given; ``None`` if as they are.
    """
    call, bare, is_row = function_spec.call(), len(row_type.fields) == 1, row_test(row_type)

    def reduced(one: Any, other: Any) -> Any:
        result = call(one, other)
        if result is None:
            raise OutputTypeError("reduce() returned None, where it must return a row")
        return (result,) if bare and not is_row(result) else result

    if given is None:
        return reduced
    return lambda one, other: reduced(given(one), given(other))


def as_given(row_type: T.StructType, shape: Shape | None) -> Callable[[Any], Any] | None:
    """A function that makes an object of the class from a Row, in which results so far are stored.

    ``None`` if rows are Rows.
    """
    if shape is None:
        return None
    as_read, cls = codec(row_type, shape).as_read, shape.cls
    return lambda row: row if type(row) is cls else as_read(row)
