"""``KeyedStream.aggregate``: aggregates of columns, which a worker computes by columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import types as T

from keystate._spec import check_distinct
from keystate._worker.aggregates.declared import (
    ColumnAggregate,
    accumulator_type,
    resolve,
    result_fields,
)
from keystate._worker.calls.plan import FunctionPlan, Style
from keystate.agg import Aggregate
from keystate.functions import Function
from keystate.runtime import RuntimeContext
from keystate.state import ValueStateDescriptor


class ColumnAggregateFunction(Function):
    """Aggregates of the columns of a key, with an accumulator in a value state."""

    def __init__(self, aggregates: tuple[ColumnAggregate, ...]) -> None:
        self.aggregates = aggregates

    def open(self, runtime_context: RuntimeContext) -> None:
        accumulator = accumulator_type(self.aggregates)
        runtime_context.get_state(ValueStateDescriptor("_aggregate", accumulator))

    def on_timer(self, *_: Any) -> None:
        """A batch emits by timers; they fire many at a time, without a call for each."""


def aggregate_plan(
    aggregates: Sequence[Aggregate], rows: T.StructType, keys: T.StructType, streaming: bool
) -> tuple[FunctionPlan, T.StructType]:
    """How aggregates of the columns of a key are computed, and what they emit.

    Raises:
        DeclarationError: there is no such column, or an aggregate does not take its type.
    """
    resolved = resolve(aggregates, rows)
    on_timer = "" if streaming else "on_timer"
    plan = FunctionPlan(ColumnAggregateFunction(resolved), "", Style.COLUMNS, on_timer=on_timer)
    output = T.StructType([*keys.fields, *result_fields(resolved)])
    check_distinct(output, "the output of aggregate()")
    return plan, output
