"""When a query gets other partitions, in simulated time."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from keystate import ScalingPolicy
from keystate.errors import ConfigurationError
from keystate.live.elastic.scaling import Load


class Simulated:
    """A query of which a micro-batch begins every ten seconds, or when the one before has ended.

    Its source keeps what no micro-batch has taken; one takes at most `most` rows, which a partition
    processes at a speed of its own, as long as there is a core for it.
    """

    def __init__(self, policy: ScalingPolicy, cores: int = 64, most: int = 1_000_000) -> None:
        self.policy, self.cores, self.most = policy, cores, most
        self.now, self.waiting, self.partitions = 0.0, 0.0, 4
        self.speed = 100.0
        self.changed: float | None = None
        self.loads: list[Load] = []
        self.changes: list[tuple[float, int]] = []

    def run(self, seconds: float, rows_per_second: Callable[[float], float]) -> None:
        end = self.now + seconds
        while self.now < end:
            rows = min(self.waiting, self.most)
            took = 0.2 + rows / (self.speed * min(self.partitions, self.cores))
            step = max(took, 10.0)
            self.waiting += rows_per_second(self.now) * step - rows
            self.now += step
            at = self.now - step + took
            load = Load(at, took, int(rows), int(self.waiting), self.partitions)
            self.loads.append(load)
            wanted = self.policy.wanted(self.loads[-100:], self.changed, self.cores)
            if wanted != self.partitions:
                self.partitions, self.changed = wanted, self.now
                self.changes.append((self.now, wanted))


POLICY = ScalingPolicy(target_seconds=20, min_partitions=2, max_partitions=64)


@pytest.mark.parametrize("seed", range(5))
def test_nothing_changes_in_an_hour_of_noise(seed: int) -> None:
    rng = random.Random(seed)
    query = Simulated(POLICY)
    query.partitions = 16
    query.run(3600, lambda now: 1000 * rng.uniform(0.6, 1.4))
    assert query.changes == [], "it flaps"


@pytest.mark.parametrize("most", [50_000, 1_000_000])
def test_ten_times_the_load_and_back(most: int) -> None:
    """The lag returns to its target without a hand, be a micro-batch bounded or not."""
    query = Simulated(POLICY, most=most)
    query.run(1800, lambda now: 300.0)
    before = query.partitions
    query.run(3600, lambda now: 3000.0)
    assert query.partitions > 2 * before
    assert query.loads[-1].seconds_to_catch_up() <= POLICY.target_seconds
    grown = query.partitions
    query.run(2 * 3600, lambda now: 300.0)
    assert query.partitions < grown / 2
    # Each way it goes in few steps.
    assert len(query.changes) <= 14


def test_a_source_that_gives_little_does_not_make_it_grow() -> None:
    query = Simulated(POLICY, most=1_000)
    query.run(3600, lambda now: 3000.0)
    assert query.changes == [] and query.loads[-1].rows_behind


def test_a_change_is_bounded_and_followed_by_a_pause() -> None:
    query = Simulated(POLICY)
    query.run(3600, lambda now: 20_000.0)
    steps = [4, *(partitions for _, partitions in query.changes)]
    assert all(after <= 2 * before for before, after in itertools.pairwise(steps))
    times = [now for now, _ in query.changes]
    assert all(b - a >= POLICY.cool_down_seconds for a, b in itertools.pairwise(times))
    assert query.partitions == POLICY.max_partitions


def test_no_more_than_there_are_cores() -> None:
    """Where executors come or go, the query follows."""
    policy = ScalingPolicy(target_seconds=20)
    query = Simulated(policy, cores=8)
    query.run(1800, lambda now: 50_000.0)
    assert query.partitions == 8
    query.cores = 6
    query.run(10, lambda now: 50_000.0)
    assert query.partitions == 6


def test_idle_queries_shrink_to_the_least() -> None:
    query = Simulated(POLICY)
    query.run(3600, lambda now: 0.0)
    assert query.partitions == POLICY.min_partitions


def test_one_long_micro_batch_is_not_enough() -> None:
    loads = [Load(100.0 + i, seconds, 100, None, 4) for i, seconds in enumerate((1, 90, 8, 9))]
    assert POLICY.wanted(loads, None, 8) == 4
    loads = [Load(1000.0 * i, 25.0, 100, None, 4) for i in range(3)]
    assert POLICY.wanted(loads, None, 8) == 5
    assert POLICY.wanted(loads, 1500.0, 8) == 4, "two of them began before the change"


@pytest.mark.parametrize(
    "end, latest, rows",
    [
        ('{"t": {"0": 5, "1": 7}}', '{"t": {"0": 9, "1": 7, "2": 3}}', 7),
        ('{"t": {"0": 5}}', '{"t": {"0": 5}, "new": {"0": 4}}', 4),
        (None, '{"t": {"0": 4}}', None),
        ('{"t": {"0": 5}}', None, None),
        ('{"logOffset": 3}', '{"logOffset": 9}', None),  # files, not rows
        ("5", "9", None),
        ("x", "y", None),
    ],
)
def test_what_waits_in_the_source(end: str | None, latest: str | None, rows: int | None) -> None:
    progress = SimpleNamespace(
        timestamp="2024-01-02T03:04:05.500Z",
        batchDuration=2500,
        numInputRows=10,
        sources=[SimpleNamespace(endOffset=end, latestOffset=latest)],
        stateOperators=[SimpleNamespace(numShufflePartitions=3)],
    )
    load = Load.of(progress)
    assert load == Load(load.at, 2.5, 10, rows, 3) and load.at % 60 == 8
    assert load.seconds_to_catch_up() == 2.5 * (1 + (rows or 0) / 10)


@pytest.mark.parametrize(
    "options, problem",
    [
        ({"target_seconds": 0}, "target_seconds must be above 0"),
        ({"min_partitions": 0}, "min_partitions must be at least 1"),
        ({"min_partitions": 4, "max_partitions": 3}, "max_partitions must be at least"),
        ({"shrink_below": 0.5}, "between 0 and 0.5"),
        ({"micro_batches": 0}, "micro_batches must be at least 1"),
        ({"cool_down_seconds": -1}, "must not be negative"),
    ],
)
def test_policies_out_of_bounds(options: dict[str, float], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        ScalingPolicy(**options)  # type: ignore[arg-type]
