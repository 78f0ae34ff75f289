"""Time to live: state expires when it was not used for some time."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass


class Time:
    """A duration, with PyFlink's name; a :class:`datetime.timedelta` works too."""

    def __init__(self, milliseconds: int) -> None:
        if type(milliseconds) is not int:
            raise TypeError(f"a duration in ms must be an int, got {milliseconds!r}")
        self._milliseconds = milliseconds

    @staticmethod
    def milliseconds(milliseconds: int) -> Time:
        """A duration in ms."""
        return Time(milliseconds)

    @staticmethod
    def seconds(seconds: int) -> Time:
        """A duration in seconds."""
        return Time(seconds * 1000)

    @staticmethod
    def minutes(minutes: int) -> Time:
        """A duration in minutes."""
        return Time(minutes * 60_000)

    @staticmethod
    def hours(hours: int) -> Time:
        """A duration in hours."""
        return Time(hours * 3_600_000)

    @staticmethod
    def days(days: int) -> Time:
        """A duration in days."""
        return Time(days * 86_400_000)

    def to_milliseconds(self) -> int:
        """The duration in ms."""
        return self._milliseconds

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Time) and other._milliseconds == self._milliseconds

    def __hash__(self) -> int:
        return hash(self._milliseconds)

    def __repr__(self) -> str:
        return f"Time({self._milliseconds} ms)"


class StateTtlConfig:
    """How long a state's values live: build one with :meth:`new_builder`.

    A value, each element of a list, and each entry of a map expires when its time to live has
    passed since its last write, or its last read. The clock is the micro-batch's time (or the
    watermark), which stays the same within a micro-batch.
    """

    class UpdateType(enum.Enum):
        """Which use of a value starts its time to live again."""

        #: Nothing expires.
        Disabled = 0
        #: A write.
        OnCreateAndWrite = 1
        #: A write or a read.
        OnReadAndWrite = 2

    class StateVisibility(enum.Enum):
        """Whether a read may return an expired value."""

        #: A read may return an expired value once, if it was not cleaned up before.
        ReturnExpiredIfNotCleanedUp = 0
        #: A read never returns an expired value.
        NeverReturnExpired = 1

    class TtlTimeCharacteristic(enum.Enum):
        """The clock by which values expire."""

        #: The micro-batch's recorded time.
        ProcessingTime = 0
        #: The watermark; a value's time to live starts at its row's event time. Not in Flink.
        EventTime = 1

    @dataclass(frozen=True)
    class CleanupStrategies:
        """How Keystate removes expired values that the query never reads again.

        Attributes:
            cleanup_size: how many entries a task checks for each written entry; 0 for none.
            run_cleanup_for_every_record: whether a task checks them for each record, rather than
                for each written entry.
            in_full_snapshot: whether merges of files leave out expired values.
        """

        cleanup_size: int
        run_cleanup_for_every_record: bool
        in_full_snapshot: bool

    class Builder:
        """Builds a :class:`StateTtlConfig`; each method returns the builder."""

        def __init__(self, ttl: datetime.timedelta | Time) -> None:
            self._ttl = ttl
            self._update_type = StateTtlConfig.UpdateType.OnCreateAndWrite
            self._visibility = StateTtlConfig.StateVisibility.NeverReturnExpired
            self._time = StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
            self._in_background = True
            self._incremental: tuple[int, bool] | None = None
            self._on_merge = False

        def set_update_type(self, update_type: StateTtlConfig.UpdateType) -> StateTtlConfig.Builder:
            """Sets which use of a value starts its time to live again."""
            self._update_type = StateTtlConfig.UpdateType(update_type)
            return self

        def update_ttl_on_create_and_write(self) -> StateTtlConfig.Builder:
            """A write starts a value's time to live again; the default."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnCreateAndWrite)

        def update_ttl_on_read_and_write(self) -> StateTtlConfig.Builder:
            """A write or a read starts a value's time to live again."""
            return self.set_update_type(StateTtlConfig.UpdateType.OnReadAndWrite)

        def set_state_visibility(
            self, state_visibility: StateTtlConfig.StateVisibility
        ) -> StateTtlConfig.Builder:
            """Sets whether a read may return an expired value."""
            self._visibility = StateTtlConfig.StateVisibility(state_visibility)
            return self

        def return_expired_if_not_cleaned_up(self) -> StateTtlConfig.Builder:
            """A read may return an expired value once, if it was not cleaned up before."""
            return self.set_state_visibility(
                StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
            )

        def never_return_expired(self) -> StateTtlConfig.Builder:
            """A read never returns an expired value; the default."""
            return self.set_state_visibility(StateTtlConfig.StateVisibility.NeverReturnExpired)

        def set_ttl_time_characteristic(
            self, ttl_time_characteristic: StateTtlConfig.TtlTimeCharacteristic
        ) -> StateTtlConfig.Builder:
            """Sets the clock."""
            self._time = StateTtlConfig.TtlTimeCharacteristic(ttl_time_characteristic)
            return self

        def use_processing_time(self) -> StateTtlConfig.Builder:
            """Values expire by the micro-batch's recorded time; the default."""
            return self.set_ttl_time_characteristic(
                StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
            )

        def use_event_time(self) -> StateTtlConfig.Builder:
            """Values expire by the watermark. Not in Flink."""
            return self.set_ttl_time_characteristic(StateTtlConfig.TtlTimeCharacteristic.EventTime)

        def set_ttl(self, ttl: datetime.timedelta | Time) -> StateTtlConfig.Builder:
            """Sets how long a value lives."""
            self._ttl = ttl
            return self

        def cleanup_full_snapshot(self) -> StateTtlConfig.Builder:
            """Merges of files, in the background, leave out expired values."""
            self._on_merge = True
            return self

        def cleanup_incrementally(
            self, cleanup_size: int, run_cleanup_for_every_record: bool
        ) -> StateTtlConfig.Builder:
            """Each task checks some entries and removes the expired ones.

            Args:
                cleanup_size: how many entries, for each entry that the function wrote or removed.
                run_cleanup_for_every_record: whether for each record instead.
            """
            if type(cleanup_size) is not int or cleanup_size <= 0:
                raise ValueError(f"cleanup_size must be a positive int, got {cleanup_size!r}")
            self._incremental = cleanup_size, bool(run_cleanup_for_every_record)
            return self

        def cleanup_in_rocksdb_compact_filter(
            self,
            query_time_after_num_entries: int,
            periodic_compaction_time: datetime.timedelta | Time | None = None,
        ) -> StateTtlConfig.Builder:
            """Merges of files leave out expired values, like :meth:`cleanup_full_snapshot`.

            The arguments exist for compatibility with Flink, and have no effect.
            """
            return self.cleanup_full_snapshot()

        def disable_cleanup_in_background(self) -> StateTtlConfig.Builder:
            """Only the chosen strategies remove expired values of keys that never return."""
            self._in_background = False
            return self

        def build(self) -> StateTtlConfig:
            """The configuration.

            Raises:
                TypeError: the time to live is no duration.
                ValueError: the time to live is less than a millisecond.
            """
            by_default = (5, False) if self._in_background else (0, False)
            cleanup = StateTtlConfig.CleanupStrategies(
                *(self._incremental or by_default), self._on_merge or self._in_background
            )
            return StateTtlConfig(
                self._update_type, self._visibility, self._time, self._ttl, cleanup
            )

    @staticmethod
    def new_builder(ttl: datetime.timedelta | Time) -> StateTtlConfig.Builder:
        """A builder for this time to live."""
        return StateTtlConfig.Builder(ttl)

    def __init__(
        self,
        update_type: UpdateType,
        state_visibility: StateVisibility,
        ttl_time_characteristic: TtlTimeCharacteristic,
        ttl: datetime.timedelta | Time,
        cleanup_strategies: CleanupStrategies,
    ) -> None:
        if not isinstance(ttl, (datetime.timedelta, Time)):
            raise TypeError(f"a time to live must be a timedelta or a Time, got {ttl!r}")
        self._update_type = update_type
        self._state_visibility = state_visibility
        self._ttl_time_characteristic = ttl_time_characteristic
        self._ttl = ttl
        self._cleanup_strategies = cleanup_strategies
        if self.to_milliseconds() <= 0:
            raise ValueError(f"a time to live must be at least a millisecond, got {ttl!r}")

    def get_update_type(self) -> UpdateType:
        """Which use of a value starts its time to live again."""
        return self._update_type

    def get_state_visibility(self) -> StateVisibility:
        """Whether a read may return an expired value."""
        return self._state_visibility

    def get_ttl(self) -> datetime.timedelta | Time:
        """How long a value lives."""
        return self._ttl

    def to_milliseconds(self) -> int:
        """How long a value lives, in ms."""
        if isinstance(self._ttl, Time):
            return self._ttl.to_milliseconds()
        return self._ttl // datetime.timedelta(milliseconds=1)

    def get_ttl_time_characteristic(self) -> TtlTimeCharacteristic:
        """The clock by which values expire."""
        return self._ttl_time_characteristic

    def is_enabled(self) -> bool:
        """Whether anything expires."""
        return self._update_type is not StateTtlConfig.UpdateType.Disabled

    def get_cleanup_strategies(self) -> CleanupStrategies:
        """How expired values are removed."""
        return self._cleanup_strategies


def needs_notes(ttl: StateTtlConfig | None) -> bool:
    """Whether only the worker knows when a value was used."""
    return ttl is not None and (
        ttl.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
        or ttl.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.EventTime
    )
