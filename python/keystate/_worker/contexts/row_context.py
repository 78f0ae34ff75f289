"""The contexts that a function gets with each row and timer."""

from __future__ import annotations

import datetime
import operator
from collections.abc import Callable
from typing import Any

from pyspark.sql import types as T

from keystate._compiled import Cursor
from keystate._spec.protocol import EVENT_TIME, PROCESSING_TIME, Control
from keystate._types.codec import BeyondPython
from keystate._worker.contexts.asked_in_open import AskedInOpen
from keystate._worker.messages.columns import Timer
from keystate._worker.messages.state_client import StateClient, open_client
from keystate._worker.state.timers import WorkerTimers
from keystate.errors import DeclarationError, StateAccessError
from keystate.functions import TimeDomain
from keystate.functions.runtime import NOT_KEYED


class RowContext(Cursor, AskedInOpen):
    """The context of the row being processed. States look up the current slot here."""

    def __init__(self) -> None:
        super().__init__()
        self.slots: Any = None  # of the keys of the batch, for a function of batches
        self.timer: Timer | None = None  # the one that fires
        self.timers: WorkerTimers | None = None
        self.journal: Any = []  # of the current row, where errors are its own
        self.keys: list[Any] = []
        self.key_copy: Callable[[Any], Any] | None = None  # where keys can change in place
        self.control: dict[str, Any] = {}
        self.field_names: list[str] | None = None  # of rows that are no tuples
        self.time_columns: tuple[int | None, int | None] = (None, None)  # as declared
        self.columns_without_zone: frozenset[int] = frozenset()
        self._streaming = True
        self._event_time_column: int | None = None
        self._watermark: int | None = None
        self._processing_time = 0
        self._client: StateClient | None = None

    def hear(self, control: dict[str, Any]) -> None:
        """Takes what a message says besides data; rows ask for it often."""
        self.control = control
        self._streaming = control[Control.STREAMING]
        self._event_time_column = (
            control.get(Control.EVENT_TIME_COLUMN) if self._streaming else self.time_columns[0]
        )
        self._watermark = control.get(Control.WATERMARK)
        self._processing_time = control.get(Control.PROCESSING_TIME, 0)

    def get_current_key(self) -> Any:
        """The key: the bare value for one key column, a Row for several."""
        try:
            key = self.keys[self.slot]  # type: ignore[index]
        except TypeError:
            raise StateAccessError(
                "there is no current key outside of a call, nor in a function of batches, which "
                "has batch.keys"
            ) from None
        return key if self.key_copy is None else self.key_copy(key)

    def timestamp(self) -> int | None:
        """The row's event time in ms since the epoch; a timer's time while it fires.

        ``None`` if the column is null in this row, if a stream has no watermark, or if a batch
        DataFrame was given no ``event_time``.
        """
        if self.timer is not None:
            return self.timer[1]
        column = self._event_time_column
        if column is None or self.row is None:
            return None
        time = field_of(self.row, column, self.field_names)
        return event_time(time, column not in self.columns_without_zone)

    def time_domain(self) -> TimeDomain:
        """Which clock the timer that fires goes by."""
        if self.timer is None:
            raise StateAccessError("no timer is firing", code="KEYSTATE_NOT_IN_CALL")
        return TimeDomain(self.timer[0])

    def time_of_use(self) -> int:
        """The event time at which a state is used; the JVM takes the watermark if it is later."""
        if self.timer is not None and self.time_domain() is not TimeDomain.EVENT_TIME:
            return 0
        return self.timestamp() or 0

    def timer_service(self) -> RowContext:
        """The operator's clocks, and the current key's timers."""
        return self

    def register_event_time_timer(self, timestamp: int) -> None:
        """Sets a timer by event time, in ms since the epoch."""
        self._set_timer(EVENT_TIME, timestamp, True)

    def register_processing_time_timer(self, timestamp: int) -> None:
        """Sets a timer by processing time, in ms since the epoch."""
        self._set_timer(PROCESSING_TIME, timestamp, True)

    def delete_event_time_timer(self, timestamp: int) -> None:
        """Deletes a timer by event time."""
        self._set_timer(EVENT_TIME, timestamp, False)

    def delete_processing_time_timer(self, timestamp: int) -> None:
        """Deletes a timer by processing time."""
        self._set_timer(PROCESSING_TIME, timestamp, False)

    def _set_timer(
        self, domain: int, timestamp: int, wanted: bool, window: tuple[int, ...] = ()
    ) -> None:
        if self.timers is None:
            raise DeclarationError("timers need an on_timer method in the KeyedProcessFunction")
        if wanted and domain == EVENT_TIME and self._streaming and self._watermark is None:
            raise DeclarationError(
                "event-time timers need a watermark: call df.withWatermark(column, delay) before "
                "keystate.keyed(df, ...), with time_mode 'auto' or 'event_time'",
                code="KEYSTATE_NO_WATERMARK",
            )
        if type(timestamp) is not int:
            timestamp = _whole(timestamp)
        if not -(2**63) <= timestamp < 2**63:
            raise ValueError(f"a timer's time must fit into 64 bits, got {timestamp}")
        if self.slot is None:
            raise StateAccessError("a timer was set or deleted where no key is being processed")
        self.timers.set(self.slot, (domain, timestamp, *window), wanted, self.timer)

    def current_watermark(self) -> int | None:
        """The watermark in ms since the epoch; ``None`` when the input has none."""
        return self._watermark

    def current_processing_time(self) -> int:
        """The time of the micro-batch in ms since the epoch."""
        return self._processing_time

    def key_of(self, slot: int) -> Any:
        """A key, for messages."""
        return self.keys[slot]

    @property
    def client(self) -> StateClient:
        """Asks on the task's side channel."""
        if self._client is None:
            self._client = open_client(self.control)
        self._client.generation = self.control[Control.CACHE_EPOCH]
        return self._client

    def end_task(self) -> None:
        """Lets go of what belongs to a task."""
        self.slot = None
        self.row = None
        self.timer = None
        self.keys = []
        if self._client is not None:
            self._client.close()
            self._client = None


def _whole(timestamp: Any) -> int:
    """A timer's time that is a whole number of another class, such as NumPy's, as an int."""
    if not isinstance(timestamp, bool):
        try:
            return operator.index(timestamp)
        except TypeError:
            pass
    raise TypeError(f"a timer's time must be an int, ms since the epoch, got {timestamp!r}")


def field_of(row: Any, column: int, names: list[str] | None) -> Any:
    """The value of a row's column.

    Args:
        row: a Row, or an object of a dataclass.
        column: its index.
        names: those of all columns, if it is an object.
    """
    return row[column] if names is None else getattr(row, names[column])


def columns_without_zone(row_type: T.StructType) -> frozenset[int]:
    """The indexes of the columns whose times have no zone, and of the windows of such times."""
    return frozenset(i for i, field in enumerate(row_type) if _is_without_zone(field.dataType))


def _is_without_zone(data_type: T.DataType) -> bool:
    if isinstance(data_type, T.StructType) and len(data_type) > 1:
        data_type = data_type.fields[1].dataType
    return isinstance(data_type, T.TimestampNTZType)


def event_time(time: Any, zoned: bool) -> int | None:
    """The value of an event time column in ms since the epoch.

    Args:
        time: a timestamp, or a window.
        zoned: whether the column is an instant, which Python has as this process's local time. A
            time without a zone counts as UTC, as for the watermark.
    """
    return None if time is None else _millis(time, zoned)


def _millis(time: Any, zoned: bool) -> int:
    if type(time) is BeyondPython:
        return int(time.number) // 1000
    if not isinstance(time, datetime.datetime):
        # A window is a struct of start and end; its event time is its end.
        return _millis(time[1], zoned)
    if not zoned:
        return (time - _EPOCH) // _MILLISECOND
    seconds = int(time.replace(microsecond=0).timestamp())
    return seconds * 1000 + time.microsecond // 1000


_EPOCH = datetime.datetime(1970, 1, 1)
_MILLISECOND = datetime.timedelta(milliseconds=1)


class PlainRowContext(RowContext):
    """The context of a row of a stream without keys."""

    def get_current_key(self) -> Any:
        """There is none."""
        raise StateAccessError(NOT_KEYED, code="KEYSTATE_DECLARATION")
