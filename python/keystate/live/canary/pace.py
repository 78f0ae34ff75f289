"""The speed of a query and the size of its state, from its progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Pace:
    """The speed of a query over some micro-batches with rows, and the size of its state.

    Attributes:
        batches: the number of micro-batches.
        rows: the number of their rows.
        rows_per_second: rows per second of the micro-batches; waiting for rows does not count.
        median_seconds: the median duration of a micro-batch.
        max_seconds: the longest duration of a micro-batch.
        state_rows: the entries of all states after the last micro-batch.
        state_bytes: the memory of the state then.
    """

    batches: int
    rows: int
    rows_per_second: float
    median_seconds: float
    max_seconds: float
    state_rows: int
    state_bytes: int

    @classmethod
    def of(cls, progress: Sequence[Any]) -> Pace | None:
        """The pace of these micro-batches; None if none had rows."""
        with_rows = [one for one in progress if one.numInputRows]
        if not with_rows:
            return None
        seconds = [one.durationMs.get("triggerExecution", 0) / 1000 for one in with_rows]
        rows = sum(one.numInputRows for one in with_rows)
        operators = with_rows[-1].stateOperators
        return cls(
            len(with_rows),
            rows,
            rows / max(sum(seconds), 0.001),
            median(seconds),
            max(seconds),
            sum(one.numRowsTotal for one in operators),
            sum(one.memoryUsedBytes for one in operators),
        )
