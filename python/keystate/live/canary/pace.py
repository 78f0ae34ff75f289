"""How quick a query is, and what its state takes, by its progress."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class Pace:
    """How a query fared over some micro-batches that had rows.

    Attributes:
        batches: how many.
        rows: how many rows they had.
        rows_per_second: in the time that they took; waiting for rows does not count.
        median_seconds: how long a micro-batch took, in the median.
        max_seconds: how long the longest took.
        state_rows: how many entries all states had after the last one.
        state_bytes: how much memory the state took then.
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
        """Of these micro-batches; None if none had rows."""
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
