"""State backends: where a query's working state is kept between checkpoints.

A backend is plain configuration, picklable and comparable.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass


@dataclass(frozen=True)
class StateBackend:
    """Base of the backends."""

    def conf(self) -> dict[str, str]:
        """The Spark settings that choose this backend."""
        raise NotImplementedError


@dataclass(frozen=True)
class HashMapStateBackend(StateBackend):
    """Working state on the executors' heap, in hash tables. The default."""

    def conf(self) -> dict[str, str]:
        """The Spark settings that choose this backend."""
        return {"spark.keystate.backend": "hashmap"}


@dataclass(frozen=True)
class _HeapWithLocation(HashMapStateBackend):
    location: str | None = None

    def conf(self) -> dict[str, str]:
        """The Spark settings that choose this backend, and the default checkpoint location."""
        conf = super().conf()
        if self.location is not None:
            conf["spark.sql.streaming.checkpointLocation"] = self.location
        return conf


def _deprecated(name: str) -> None:
    warnings.warn(
        f"{name} is deprecated; use HashMapStateBackend and a checkpoint location",
        DeprecationWarning,
        stacklevel=3,
    )


@dataclass(frozen=True)
class MemoryStateBackend(_HeapWithLocation):
    """Deprecated: :class:`HashMapStateBackend` with a default checkpoint location."""

    def __post_init__(self) -> None:
        _deprecated("MemoryStateBackend")


@dataclass(frozen=True)
class FsStateBackend(_HeapWithLocation):
    """Deprecated: :class:`HashMapStateBackend` with a default checkpoint location."""

    def __post_init__(self) -> None:
        _deprecated("FsStateBackend")
