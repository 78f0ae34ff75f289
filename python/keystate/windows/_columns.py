"""Windows of column aggregates, as they are declared; a worker computes them by columns."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

from pyspark.sql import types as T

from keystate._spec.specs import EndedWindows
from keystate._worker.aggregates.declared import (
    ColumnAggregate,
    accumulator_type,
    result_fields,
)
from keystate._worker.state.window_maps import WindowMapDescriptor
from keystate.errors import DeclarationError
from keystate.functions import Counter, Function, OutputTag, RuntimeContext
from keystate.windows._assigners import FixedWindows, WindowAssigner
from keystate.windows._contents import CONTENTS, DROPPED, SESSIONS
from keystate.windows._timers import WindowTimers


@dataclass(frozen=True)
class Panes:
    """Spans of time of which each window has all or nothing.

    Attributes:
        length: of each, in ms.
        offset: where one of them begins, in ms.
        column: the index of the column with a row's event time; ``None`` if windows go by a clock
            that is the same for all rows at hand.
    """

    length: int
    offset: int
    column: int | None


class ColumnsOfWindows(Function):
    """Windows with their default trigger, of aggregates of columns.

    Its state has an accumulator of a field for each aggregate.

    Attributes:
        combined: whether a row stands for several: its last columns are their number and their
            accumulators.

    Args:
        assigner: says which windows a row is in.
        aggregates: what is computed.
        lateness: how long, in ms, a window is kept for late rows.
        late_output: where rows go that are too late for all of their windows.
        time_column: the index of the column that has the event time; ``None`` if there is none.
    """

    dropped: Counter
    combined = False
    #: The name of the state.
    contents: str

    def __init__(
        self,
        assigner: WindowAssigner,
        aggregates: tuple[ColumnAggregate, ...],
        lateness: int,
        late_output: OutputTag | None,
        time_column: int | None,
    ) -> None:
        self.by_event_time = assigner.is_event_time()
        self.aggregates = aggregates
        self.lateness = lateness if self.by_event_time else 0
        self.late_output = late_output
        self.time_column = time_column

    def open(self, runtime_context: RuntimeContext) -> None:
        names = ("open", "end", "start")
        accumulator = accumulator_type(self.aggregates)
        runtime_context.get_sorted_map_state(WindowMapDescriptor(self.contents, names, accumulator))
        self.dropped = runtime_context.get_metrics_group().counter(DROPPED)

    def panes(self) -> Panes | None:
        """By what rows may be combined before they come; ``None`` if they may not be."""
        return None

    def of_combined(self, time_column: int | None) -> ColumnsOfWindows:
        """The same windows of rows that are combined.

        Args:
            time_column: the index of the column with their event time.
        """
        changed = copy.copy(self)
        changed.combined, changed.time_column = True, time_column
        return changed

    def on_timer(self, *_: Any) -> None:
        """Windows always have timers; they fire many at a time, without a call for each."""


class ColumnWindowsFunction(ColumnsOfWindows):
    """Tumbling and sliding windows; their state is that of the same windows of functions of rows.

    Args:
        assigner: says which windows a row is in.
        ends: the other arguments of windows.
    """

    contents = CONTENTS

    def __init__(self, assigner: FixedWindows, *ends: Any) -> None:
        super().__init__(assigner, *ends)
        self.size, self.slide, self.offset = assigner.size, assigner.slide, assigner.offset

    def open(self, runtime_context: RuntimeContext) -> None:
        super().open(runtime_context)
        if self.lateness:
            # Declares their state, which a worker empties: a timer that rows one by one have left
            # would have a window that is kept for late rows fire again, where they go on.
            WindowTimers(runtime_context)

    def panes(self) -> Panes | None:
        # Each late row has its windows fire, or goes to an output.
        late_rows = self.lateness > 0 or self.late_output is not None
        # Without its column a watermark would not go on.
        ignored = not self.by_event_time and self.time_column is not None
        if late_rows or ignored or self.slide > self.size:
            return None
        return Panes(math.gcd(self.size, self.slide), self.offset, self.time_column)

    def ended(self) -> EndedWindows | None:
        """What the JVM fires when it ends; ``None`` if a worker has to do it."""
        results = tuple((a.declared.name, a.made) for a in self.aggregates if a.made)
        # Those of late rows are kept, and fire again.
        if self.lateness > 0 or len(results) < len(self.aggregates):
            return None
        return EndedWindows(self.contents, self.by_event_time, DROPPED, results)


class ColumnSessionsFunction(ColumnsOfWindows):
    """Sessions; their state is that of the same sessions of functions of rows.

    Args:
        assigner: tells whether they are by event time.
        gap: the time without rows, in ms, that ends a session.
        ends: the other arguments of windows.
    """

    contents = SESSIONS

    def __init__(self, assigner: WindowAssigner, gap: int, *ends: Any) -> None:
        super().__init__(assigner, *ends)
        self.gap = gap

    def open(self, runtime_context: RuntimeContext) -> None:
        super().open(runtime_context)
        # Declares their state, which a worker empties: rows one by one set the timers of all
        # sessions anew where there are none.
        WindowTimers(runtime_context, merging=True)


def output_of(key_type: T.StructType, aggregates: tuple[ColumnAggregate, ...]) -> T.StructType:
    """What windows emit: key, start and end, and results.

    Raises:
        DeclarationError: two columns have one name.
    """
    bounds = [T.StructField(name, T.TimestampType()) for name in ("window_start", "window_end")]
    output = T.StructType([*key_type.fields, *bounds, *result_fields(aggregates)])
    names = [name.lower() for name in output.names]
    for name in names:
        if names.count(name) > 1:
            raise DeclarationError(
                f"two columns of the output are named '{name}': give the aggregate another name "
                "with alias, or the key one with withColumnRenamed"
            )
    return output
