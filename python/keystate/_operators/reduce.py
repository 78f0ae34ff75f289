"""``KeyedStream.reduce`` as functions of rows with a value state."""

from __future__ import annotations

from typing import Any

from pyspark.sql import types as T

from keystate._types.codec import Shape
from keystate._worker.calls.function_spec import FunctionSpec
from keystate._worker.reduction import as_given, reduction
from keystate.functions import KeyedProcessFunction, RuntimeContext
from keystate.state import ValueStateDescriptor


class RollingReduce(KeyedProcessFunction):
    """Reduces with the result so far in a value state, and emits it for every row."""

    def __init__(
        self, function_spec: FunctionSpec, row_type: T.StructType, shape: Shape | None
    ) -> None:
        self._function_spec = function_spec
        self._row_type = row_type
        self._shape = shape

    def open(self, runtime_context: RuntimeContext) -> None:
        self._function_spec.open(runtime_context)
        self._reduce = reduction(
            self._function_spec, self._row_type, as_given(self._row_type, self._shape)
        )
        descriptor: ValueStateDescriptor[Any] = ValueStateDescriptor("_reduce", self._row_type)
        self._result = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: Any) -> Any:
        result = self._result.value()
        self._result.update(value if result is None else self._reduce(result, value))
        return [self._result.value()]

    def close(self) -> None:
        self._function_spec.close()


class LastReduce(RollingReduce):
    """Emits the result when a batch's input has ended, which is when its timers fire."""

    def process_element(self, value: Any, ctx: Any) -> Any:
        super().process_element(value, ctx)
        ctx.timer_service().register_event_time_timer(0)

    def on_timer(self, timestamp: int, ctx: Any) -> Any:
        return [self._result.value()]
