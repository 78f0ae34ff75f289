"""A function's own metrics, with PyFlink's names.

Counts are reported once for each micro-batch and shown in the query's progress.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from keystate._spec.protocol import Metrics
from keystate.errors import DeclarationError, StateTypeError

M = TypeVar("M")


class Counter:
    """Counts up and down."""

    def __init__(self) -> None:
        self._count = 0
        self._reported = 0

    def inc(self, n: int = 1) -> None:
        """Adds to the count."""
        self._count += n

    def dec(self, n: int = 1) -> None:
        """Subtracts from the count."""
        self._count -= n

    def get_count(self) -> int:
        """The count since this function was opened."""
        return self._count

    def report(self) -> dict[str, dict[str, int]]:
        """The count since the last report."""
        counted = self._count - self._reported
        self._reported = self._count
        return {Metrics.SUM: {"": counted}}


class Meter(Counter):
    """Counts events; the progress shows the count, from which a rate follows."""

    def mark_event(self, value: int = 1) -> None:
        """Counts some events."""
        self.inc(value)


class Distribution:
    """Number, sum, least and greatest of some values."""

    def __init__(self) -> None:
        self._values: list[int] | None = None

    def update(self, value: int) -> None:
        """Adds a value."""
        old = self._values
        if old is None:
            self._values = [1, value, value, value]
        else:
            self._values = [
                old[0] + 1,
                old[1] + value,
                value if value < old[2] else old[2],
                value if value > old[3] else old[3],
            ]

    def report(self) -> dict[str, dict[str, int]]:
        """Number, sum, least and greatest of the values since the last report; clears them."""
        values, self._values = self._values, None
        if values is None:
            return {Metrics.SUM: {".count": 0, ".sum": 0}}
        count, total, least, greatest = values
        return {
            Metrics.SUM: {".count": count, ".sum": total},
            Metrics.MIN: {".min": least},
            Metrics.MAX: {".max": greatest},
        }


class Gauge:
    """A value that is read at the end of each micro-batch."""

    def __init__(self, value: Callable[[], int]) -> None:
        self._value = value

    def report(self) -> dict[str, dict[str, int]]:
        """The value as it is now."""
        value = self._value()
        return {
            Metrics.SUM: {".sum": value},
            Metrics.MIN: {".min": value},
            Metrics.MAX: {".max": value},
        }


class MetricGroup:
    """Gives a function its metrics, in ``open``. A name that is asked for twice is one metric."""

    def __init__(self, metrics: dict[str, Any] | None = None, scope: str = "") -> None:
        self._metrics = {} if metrics is None else metrics
        self._scope = scope

    def counter(self, name: str) -> Counter:
        """A counter: the progress shows the sum of all subtasks' counts in a micro-batch."""
        return self._metric(name, Counter)

    def meter(self, name: str, time_span_in_seconds: int = 60) -> Meter:
        """A meter, shown like a counter. The time span is not used: tasks read no clock."""
        return self._metric(name, Meter)

    def distribution(self, name: str) -> Distribution:
        """A distribution: the progress shows ``name.count``, ``.sum``, ``.min`` and ``.max``."""
        return self._metric(name, Distribution)

    def gauge(self, name: str, obj: Callable[[], int]) -> None:
        """A gauge: the progress shows ``name.sum``, ``.min`` and ``.max`` over the subtasks.

        Args:
            name: the gauge's name.
            obj: returns the gauge's value, an int.
        """
        self._metrics[self._scope + name] = Gauge(obj)

    def add_group(self, name: str, extra: str | None = None) -> MetricGroup:
        """A group within this one: ``add_group("a").counter("b")`` is named ``a.b``."""
        scope = f"{self._scope}{name}." + ("" if extra is None else f"{extra}.")
        return MetricGroup(self._metrics, scope)

    def _metric(self, name: str, kind: type[M]) -> M:
        metric: M = self._metrics.setdefault(self._scope + name, kind())
        if type(metric) is not kind:
            raise DeclarationError(
                f"metric '{self._scope + name}' is a {type(metric).__name__.lower()} already"
            )
        return metric

    def report(self) -> dict[str, dict[str, int]]:
        """The report of all metrics of the function at the end of a micro-batch."""
        values: dict[str, dict[str, int]] = {Metrics.SUM: {}, Metrics.MIN: {}, Metrics.MAX: {}}
        for name, metric in self._metrics.items():
            for fold, parts in metric.report().items():
                for part, value in parts.items():
                    if not isinstance(value, int) or not -(2**63) <= value < 2**63:
                        raise StateTypeError(f"metric '{name}' must be a long, got {value!r}")
                    values[fold][name + part] = int(value)
        return values
