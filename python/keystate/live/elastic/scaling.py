"""The policy by which :func:`keystate.elastic` changes the partitions of a running query."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from keystate.errors import ConfigurationError


def began_at(progress: Any) -> datetime.datetime:
    """When the micro-batch of a progress began."""
    # Python before 3.11 does not parse the Z.
    return datetime.datetime.fromisoformat(progress.timestamp.replace("Z", "+00:00"))


@dataclass(frozen=True)
class Load:
    """A query's load, measured in one micro-batch.

    Attributes:
        at: when the micro-batch ended, in seconds of any clock.
        seconds: how long it took.
        rows: the number of its rows.
        rows_behind: the number of rows that then waited in the source; None if the source does not
            report it.
        partitions: the number of the state's partitions.
    """

    at: float
    seconds: float
    rows: int
    rows_behind: int | None
    partitions: int

    @staticmethod
    def of(progress: Any) -> Load:
        """The load from a query's progress.

        Args:
            progress: the progress of a query with a stateful operator.
        """
        seconds = progress.batchDuration / 1000
        told = [_rows_between(one.endOffset, one.latestOffset) for one in progress.sources]
        known = [rows for rows in told if rows is not None]
        return Load(
            at=began_at(progress).timestamp() + seconds,
            seconds=seconds,
            rows=progress.numInputRows,
            rows_behind=sum(known) if known else None,
            partitions=progress.stateOperators[0].numShufflePartitions,
        )

    @property
    def began(self) -> float:
        """When the micro-batch began, in seconds of the same clock."""
        return self.at - self.seconds

    def seconds_to_catch_up(self) -> float:
        """The time for all rows at this speed: those of the micro-batch, and the waiting ones."""
        if not self.rows:
            return 0.0
        return self.seconds * (1 + (self.rows_behind or 0) / self.rows)


@dataclass(frozen=True)
class ScalingPolicy:
    """Chooses a query's number of partitions from the duration of its micro-batches.

    A query grows when several micro-batches in a row, with the rows that wait in the source, each
    take longer than the target. It grows in proportion to the lack, at most to twice the
    partitions. Fewer micro-batches are enough if together they took as long as all of them should.
    A query shrinks when each takes less than a share of the target, at most to half the partitions.
    This share is below a half, so that a query does not have to grow because it shrank, nor shrink
    because it grew. For some time after a change the policy decides nothing.

    Attributes:
        target_seconds: how long a micro-batch may take.
        min_partitions: the least number of partitions.
        max_partitions: the greatest number of partitions; None: the application's number of cores.
        shrink_below: the share of the target below which the query shrinks, between 0 and 0.5.
        micro_batches: how many micro-batches in a row must agree.
        cool_down_seconds: how long the policy decides nothing after a change.
    """

    target_seconds: float = 10.0
    min_partitions: int = 1
    max_partitions: int | None = None
    shrink_below: float = 0.3
    micro_batches: int = 3
    cool_down_seconds: float = 120.0

    def __post_init__(self) -> None:
        """Raises ConfigurationError for values out of bounds."""
        problem = None
        if not self.target_seconds > 0:
            problem = f"target_seconds must be above 0, got {self.target_seconds}"
        elif self.min_partitions < 1:
            problem = f"min_partitions must be at least 1, got {self.min_partitions}"
        elif self.max_partitions is not None and self.max_partitions < self.min_partitions:
            problem = (
                f"max_partitions must be at least min_partitions, {self.min_partitions}, "
                f"got {self.max_partitions}"
            )
        elif not 0 < self.shrink_below < 0.5:
            problem = f"shrink_below must be between 0 and 0.5, got {self.shrink_below}"
        elif self.micro_batches < 1:
            problem = f"micro_batches must be at least 1, got {self.micro_batches}"
        elif self.cool_down_seconds < 0:
            problem = f"cool_down_seconds must not be negative, got {self.cool_down_seconds}"
        if problem is not None:
            raise ConfigurationError(problem, code="KEYSTATE_BAD_SETTING")

    def wanted(self, loads: Sequence[Load], changed_at: float | None, cores: int) -> int:
        """The number of partitions that the query should have.

        Args:
            loads: the loads of its micro-batches, the newest last; at least one.
            changed_at: when the query last changed, by the same clock; None if it did not.
            cores: the application's number of cores.
        """
        now = loads[-1].partitions
        most = max(self.max_partitions or cores, self.min_partitions)
        bounded = min(max(now, self.min_partitions), most)
        if bounded != now:
            return bounded
        if changed_at is None:
            changed_at = -math.inf
        if loads[-1].at < changed_at + self.cool_down_seconds:
            return now
        # A micro-batch that began before the change says nothing about the time after it.
        counted = [one for one in loads if one.partitions == now and one.began >= changed_at]
        needed = [one.seconds_to_catch_up() / self.target_seconds for one in counted]
        short = self.shrink_below * self.target_seconds
        # More partitions don't help a short micro-batch: its source limits the rows it gives.
        lacks = [need > 1 and one.seconds > short for need, one in zip(needed, counted)]
        if least := self._steady(counted, lacks):
            return min(math.ceil(now * min(*needed[-least:], 2.0)), most)
        if least := self._steady(counted, [need < self.shrink_below for need in needed]):
            # With this number a micro-batch takes six tenths of the target.
            fewer = math.ceil(now * max(*needed[-least:], 0.0) / 0.6)
            return max(fewer, math.ceil(now / 2), self.min_partitions)
        return now

    def _steady(self, loads: Sequence[Load], holds: Sequence[bool]) -> int:
        """For how many of the newest micro-batches something holds; 0 if they are too few.

        Fewer are enough if together they took as long as all of them should.
        """
        count = 0
        while count < len(holds) and holds[-1 - count]:
            count += 1
        took = sum(one.seconds for one in loads[len(loads) - count :])
        enough = self.micro_batches
        return count if count >= enough or took > enough * self.target_seconds else 0


def _rows_between(end: str | None, latest: str | None) -> int | None:
    """The number of rows between two offsets; None if they are not in the form of Kafka's.

    Kafka's offsets are numbers by topic and partition.
    """
    try:
        taken, there = json.loads(end or ""), json.loads(latest or "")
        rows: int = sum(
            max(offset - taken.get(topic, {}).get(partition, 0), 0)
            for topic, partitions in there.items()
            for partition, offset in partitions.items()
        )
        return rows
    except (AttributeError, TypeError, ValueError):
        return None
