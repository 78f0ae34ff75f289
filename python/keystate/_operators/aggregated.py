"""``KeyedStream.aggregate``: aggregates of columns, which a worker computes by columns."""

from __future__ import annotations

from typing import Any

from pyspark.sql import types as T

from keystate._spec.specs import check_distinct
from keystate._worker.aggregates.declared import (
    ColumnAggregate,
    accumulator_type,
    result_fields,
)
from keystate._worker.calls.function_spec import FunctionSpec, Style
from keystate.functions import Function, RuntimeContext
from keystate.state import ValueStateDescriptor


class ColumnAggregateFunction(Function):
    """Aggregates of the columns of a key, with an accumulator in a value state.

    Attributes:
        aggregates: what they are.
        combined: whether the last columns of a row are their accumulators.
    """

    def __init__(self, aggregates: tuple[ColumnAggregate, ...], combined: bool) -> None:
        self.aggregates = aggregates
        self.combined = combined

    def open(self, runtime_context: RuntimeContext) -> None:
        accumulator = accumulator_type(self.aggregates)
        runtime_context.get_state(ValueStateDescriptor("_aggregate", accumulator))

    def on_timer(self, *_: Any) -> None:
        """A batch emits by timers; they fire many at a time, without a call for each."""


def aggregate_spec(
    aggregates: tuple[ColumnAggregate, ...], keys: T.StructType, streaming: bool, combined: bool
) -> tuple[FunctionSpec, T.StructType]:
    """How aggregates of the columns of a key are computed, and what they emit.

    Raises:
        DeclarationError: two columns of that have one name.
    """
    function = ColumnAggregateFunction(aggregates, combined)
    function_spec = FunctionSpec(
        function, "", Style.COLUMNS, on_timer="" if streaming else "on_timer"
    )
    output = T.StructType([*keys.fields, *result_fields(aggregates)])
    check_distinct(output, "the output of aggregate()")
    return function_spec, output
