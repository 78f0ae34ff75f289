"""How state is spread over key groups and partitions, now and with other numbers of partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def sizes_of_groups(states: Sequence[dict[str, Any]]) -> tuple[list[int], list[float]] | None:
    """Entries and bytes of each key group; bytes by the mean size of the entries looked at.

    Returns:
        ``None`` if the version files do not record entries by key group.
    """
    counted = [state for state in states if state["groups"] is not None]
    if not counted or len(counted) < len(states):
        return None
    entries = [sum(of) for of in zip(*(state["groups"] for state in counted))]
    mean = [state["sample"]["bytes"] / max(1, state["sample"]["entries"]) for state in counted]
    size = [sum(n * one for n, one in zip(of, mean)) for of in zip(*(s["groups"] for s in counted))]
    return entries, size


def partition_of(group: int, partitions: int, groups: int) -> int:
    """The partition that has a key group, like ``KeyGroups.subtaskOf`` in the jar."""
    return group * partitions // groups


def by_partition(sizes: Sequence[float], partitions: int) -> list[float]:
    """The total of each partition."""
    found = [0.0] * partitions
    for group, of in enumerate(sizes):
        found[partition_of(group, partitions, len(sizes))] += of
    return found


def skew(sizes: Sequence[float]) -> float:
    """The largest as a multiple of the mean; 1 where there is nothing."""
    total = sum(sizes)
    return max(sizes) * len(sizes) / total if total else 1.0


def moved(sizes: Sequence[float], before: int, after: int) -> float:
    """Which share of the state is in a partition of another number afterwards."""
    groups = len(sizes)
    total = sum(sizes)
    changed = sum(
        of
        for group, of in enumerate(sizes)
        if partition_of(group, before, groups) != partition_of(group, after, groups)
    )
    return changed / total if total else 0.0


def choices(partitions: int, groups: int) -> list[int]:
    """Numbers of partitions worth a look, ascending; the present one is among them."""
    powers = [2**i for i in range(16)]
    near = [partitions // 2, partitions, partitions * 2, partitions * 4]
    return sorted({n for n in [*powers, *near, groups] if 1 <= n <= min(groups, 4096)})
