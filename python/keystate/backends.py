"""State backends: where a query's working state is kept between checkpoints.

A backend is plain configuration, picklable and comparable.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from enum import Enum

from keystate.errors import ConfigurationError


@dataclass(frozen=True)
class StateBackend:
    """Base of the backends."""

    def conf(self) -> dict[str, str]:
        """The Spark settings that choose this backend."""
        raise NotImplementedError


@dataclass(frozen=True)
class HashMapStateBackend(StateBackend):
    """Working state on the executors' heap, in hash tables, whatever its size."""

    def conf(self) -> dict[str, str]:
        """The Spark settings that choose this backend."""
        return {"spark.keystate.backend": "hashmap"}


class PredefinedOptions(str, Enum):
    """Tuning of RocksDB for a kind of disk."""

    DEFAULT = "DEFAULT"
    SPINNING_DISK_OPTIMIZED = "SPINNING_DISK_OPTIMIZED"
    SPINNING_DISK_OPTIMIZED_HIGH_MEM = "SPINNING_DISK_OPTIMIZED_HIGH_MEM"
    FLASH_SSD_OPTIMIZED = "FLASH_SSD_OPTIMIZED"


@dataclass(frozen=True)
class EmbeddedRocksDBStateBackend(StateBackend):
    """Working state in RocksDB: on the executors' local disks and in bounded memory.

    Attributes:
        predefined_options: tuning for a kind of disk.
        memory_mb: memory that all stores of an executor share, for blocks, indexes, filters and
            write buffers, in MiB; 256 if None. At most a quarter of it is on the JVM's heap, for
            filters of new keys; the rest is native.
        write_buffer_ratio: the share of this memory for write buffers, between 0 and 1; 0.5 if
            None.
    """

    predefined_options: PredefinedOptions = PredefinedOptions.DEFAULT
    memory_mb: int | None = None
    write_buffer_ratio: float | None = None

    def __post_init__(self) -> None:
        """Raises ConfigurationError for values out of bounds."""
        try:
            PredefinedOptions(self.predefined_options)
        except ValueError:
            known = ", ".join(PredefinedOptions.__members__)
            raise ConfigurationError(
                f"predefined_options must be one of {known}, got {self.predefined_options!r}",
                code="KEYSTATE_BAD_SETTING",
            ) from None
        if self.memory_mb is not None and self.memory_mb <= 0:
            raise ConfigurationError(
                f"memory_mb must be positive, got {self.memory_mb}", code="KEYSTATE_BAD_SETTING"
            )
        if self.write_buffer_ratio is not None and not 0 < self.write_buffer_ratio < 1:
            raise ConfigurationError(
                f"write_buffer_ratio must be between 0 and 1, got {self.write_buffer_ratio}",
                code="KEYSTATE_BAD_SETTING",
            )

    def conf(self) -> dict[str, str]:
        """The Spark settings that choose this backend."""
        options = {
            "spark.keystate.rocksdb.predefinedOptions": PredefinedOptions(
                self.predefined_options
            ).value,
            "spark.keystate.rocksdb.memoryMB": self.memory_mb,
            "spark.keystate.rocksdb.writeBufferRatio": self.write_buffer_ratio,
        }
        return {"spark.keystate.backend": "rocksdb"} | {
            key: str(value) for key, value in options.items() if value is not None
        }


@dataclass(frozen=True)
class AutoStateBackend(StateBackend):
    """Working state on the executors' heap while there is room, else in RocksDB. The default.

    Attributes:
        heap_share: the share of an executor's heap that state may take before the largest stores
            move to RocksDB, between 0 and 1; 0.4 if None.
        rocksdb: the configuration for the stores in RocksDB.
    """

    heap_share: float | None = None
    rocksdb: EmbeddedRocksDBStateBackend = EmbeddedRocksDBStateBackend()

    def __post_init__(self) -> None:
        """Raises ConfigurationError for values out of bounds."""
        if self.heap_share is not None and not 0 < self.heap_share < 1:
            raise ConfigurationError(
                f"heap_share must be between 0 and 1, got {self.heap_share}",
                code="KEYSTATE_BAD_SETTING",
            )

    def conf(self) -> dict[str, str]:
        """The Spark settings that choose this backend."""
        conf = self.rocksdb.conf() | {"spark.keystate.backend": "auto"}
        if self.heap_share is not None:
            conf["spark.keystate.auto.heapShare"] = str(self.heap_share)
        return conf


class CustomStateBackend(StateBackend):
    """A backend of your own, by the name of a class in a jar of the session.

    The class implements ``keystate.backend.StateBackendFactory``, whose documentation says what it
    must do.

    Args:
        class_name: full name of the class.
        options: the argument of its ``configure``, as strings.
    """

    def __init__(self, class_name: str, **options: object) -> None:
        self.class_name = class_name
        self.options = {name: str(value) for name, value in options.items()}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CustomStateBackend) and self.conf() == other.conf()

    def __hash__(self) -> int:
        return hash((self.class_name, frozenset(self.options.items())))

    def __repr__(self) -> str:
        options = "".join(f", {name}={value!r}" for name, value in self.options.items())
        return f"CustomStateBackend({self.class_name!r}{options})"

    def conf(self) -> dict[str, str]:
        """The Spark settings that choose this backend."""
        return {"spark.keystate.backend": self.class_name} | {
            f"spark.keystate.backend.option.{name}": value for name, value in self.options.items()
        }


def _with_location(conf: dict[str, str], location: str | None) -> dict[str, str]:
    if location is None:
        return conf
    return conf | {"spark.sql.streaming.checkpointLocation": location}


@dataclass(frozen=True)
class _HeapWithLocation(HashMapStateBackend):
    location: str | None = None

    def conf(self) -> dict[str, str]:
        """The Spark settings that choose this backend, and the default checkpoint location."""
        return _with_location(super().conf(), self.location)


def _deprecated(name: str, replacement: str = "HashMapStateBackend") -> None:
    warnings.warn(
        f"{name} is deprecated; use {replacement} and a checkpoint location",
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


@dataclass(frozen=True)
class RocksDBStateBackend(StateBackend):
    """Deprecated: :class:`EmbeddedRocksDBStateBackend` with a default checkpoint location."""

    location: str | None = None

    def __post_init__(self) -> None:
        _deprecated("RocksDBStateBackend", "EmbeddedRocksDBStateBackend")

    def conf(self) -> dict[str, str]:
        """The Spark settings that choose this backend, and the default checkpoint location."""
        return _with_location(EmbeddedRocksDBStateBackend().conf(), self.location)
