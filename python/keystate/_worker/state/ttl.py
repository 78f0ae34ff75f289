"""States with a time to live: what the worker has to tell for them.

The JVM gives values their timestamps and keeps back those that have expired: the clock stands
still in a task, so a value that the worker has stays good. Only where reading a value makes it live
on, or where the clock is the watermark, does the worker note what was used, and when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pyarrow as pa

from keystate._codec import Misfit
from keystate._kinds import StateKind
from keystate._protocol import Part
from keystate._spec import StateSpec
from keystate._worker.messages.columns import empty_column, list_column
from keystate._worker.state.worker_state import WorkerState
from keystate.functions import TimeDomain
from keystate.ttl import StateTtlConfig, needs_notes

_VALUE_READS = ("value", "get")


def noting(cls: Any, spec: StateSpec) -> Any:
    """The class of states that also note their use, if this one's time to live needs that."""
    ttl = spec.ttl
    if ttl is None or not needs_notes(ttl):
        return cls
    on_read = ttl.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
    by_event_time = (
        ttl.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.EventTime
    )
    notes = {
        StateKind.LIST: _NotingList,
        StateKind.MAP: _NotingMap,
        StateKind.SORTED_MAP: _NotingSortedMap,
    }
    note = notes.get(spec.kind, _NotingValue)
    members = {"_on_read": on_read, "_by_event_time": by_event_time}
    if note is _NotingValue:
        writes = {name for name in ("update", "add", "clear") if hasattr(cls, name)}
        reads = {name for name in _VALUE_READS if on_read and hasattr(cls, name)}
        members |= {name: _with_note(getattr(cls, name)) for name in writes | reads}
    return type(cls.__name__, (note, cls), members)


def _with_note(method: Any) -> Any:
    def noted(self: Any, *args: Any, **named: Any) -> Any:
        result = method(self, *args, **named)
        slot = self._cursor.slot
        if self._cells[slot] is not None:
            self._note(slot)
        else:
            self._gone(slot)
        return result

    return noted


class Noting(WorkerState):
    """What was used since the last changes: (slot and what else tells the entry) to time.

    An entry that goes takes its times with it: one that comes later was not used before. The JVM
    has to be told, since of an entry that went and came it would only see a new value.
    """

    _on_read: bool
    _by_event_time: bool

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._used: dict[Any, int] = {}
        self._went: set[Any] = set()

    def forget(self) -> None:
        super().forget()
        self._used, self._went = {}, set()

    def _gone(self, entry: Any) -> None:
        self._used.pop(entry, None)
        self._went.add(entry)

    def _unnote(self, entry: Any) -> None:
        self._used.pop(entry, None)

    def _note(self, entry: Any) -> None:
        time = self._time() if self._by_event_time else 0
        if time >= self._used.get(entry, time):
            self._used[entry] = time

    def _time(self) -> int:
        """The event time of the row or timer; the JVM takes the watermark if it is later."""
        cursor = self._cursor
        if cursor.timer is not None and cursor.time_domain() is not TimeDomain.EVENT_TIME:
            return 0
        return cursor.timestamp() or 0

    def changes(self, start: int, stop: int) -> dict[str, pa.Array]:
        used = [entry for entry in self._used if start <= self._slot_of(entry) < stop]
        notes = self._encode_used(used, [self._used.pop(entry) for entry in used])
        encoded = {self._column(part): list_column(a) for part, a in notes.items()}
        columns = {**super().changes(start, stop), **encoded}
        if self._went:
            self._went = {e for e in self._went if not start <= self._slot_of(e) < stop}
        return columns

    def no_changes(self) -> dict[str, pa.Array]:
        types = {Part.USED_SLOT: pa.int32(), Part.USED_TIME: pa.int64(), **self._used_types()}
        empty = {self._column(part): empty_column(kind) for part, kind in types.items()}
        return {**super().no_changes(), **empty}

    def _slot_of(self, entry: Any) -> int:
        slot: int = entry[0]
        return slot

    def _encode_used(self, used: list[Any], times: list[int]) -> dict[str, pa.Array]:
        return {
            Part.USED_SLOT: pa.array([self._slot_of(entry) for entry in used], pa.int32()),
            Part.USED_TIME: pa.array(times, pa.int64()),
        }

    def _used_types(self) -> dict[str, pa.DataType]:
        return {}


class _NotingValue(Noting):
    """Notes slots; the methods are added by :func:`noting`."""

    def _slot_of(self, entry: Any) -> int:
        slot: int = entry
        return slot

    def _encode_changes(self, slots: list[int]) -> dict[str, pa.Array]:
        went = pa.array([slot in self._went for slot in slots], pa.bool_())
        return {**super()._encode_changes(slots), Part.RESET: went}

    def _change_types(self) -> dict[str, pa.DataType]:
        return {**super()._change_types(), Part.RESET: pa.bool_()}


class _NotingList(Noting):
    """Notes a slot, and whether all of the list was used or what was added last."""

    def get(self) -> list[Any]:
        elements: list[Any] = super().get()  # type: ignore[misc]
        if self._on_read and elements:
            self._note((self._cursor.slot, True))
        return elements

    def add(self, value: Any) -> None:
        super().add(value)  # type: ignore[misc]
        self._note((self._cursor.slot, False))

    def _extend(self, checked: list[Any]) -> None:
        super()._extend(checked)  # type: ignore[misc]
        if checked:
            self._note((self._cursor.slot, False))

    def _replace(self, checked: list[Any]) -> None:
        super()._replace(checked)  # type: ignore[misc]
        slot = self._cursor.slot
        self._unnote((slot, True))
        self._unnote((slot, False))
        if checked:
            self._note((slot, False))

    def _encode_used(self, used: list[Any], times: list[int]) -> dict[str, pa.Array]:
        whole = pa.array([entry[1] for entry in used], pa.bool_())
        return {**super()._encode_used(used, times), Part.USED_WHOLE: whole}

    def _used_types(self) -> dict[str, pa.DataType]:
        return {Part.USED_WHOLE: pa.bool_()}


class _NotingMap(Noting):
    """Notes slots and user keys, as they are in cells."""

    _key_codec: Any
    _key_class: type | None
    _cell: Callable[[], Any]
    _as_key: Callable[[Any], Any]

    def _note_key(self, key: Any) -> None:
        self._note(self._entry_of(key))

    def _entry_of(self, key: Any) -> tuple[int, Any]:
        """A user's key may look otherwise in a cell: a datetime with a time zone has none there."""
        return self._cursor.slot, key if type(key) is self._key_class else self._as_key(key)

    def _noted(self, entries: Iterable[tuple[Any, Any]]) -> Iterator[tuple[Any, Any]]:
        """Notes entries as an iterator comes to them; they are of the key that there is now."""
        check_key = self._same_key()

        def noted() -> Iterator[tuple[Any, Any]]:
            for entry in entries:
                check_key()
                cell, key = self._cell(), entry[0]
                # It may have gone since: an iterator has the map as it was.
                if key in cell or (cell.remote and key not in cell.absent):
                    self._note((self._cursor.slot, key))
                yield entry

        return noted()

    def get(self, key: Any) -> Any:
        value = super().get(key)  # type: ignore[misc]
        # An entry may have no value, and is read all the same.
        if self._on_read and (value is not None or super().contains(key)):  # type: ignore[misc]
            self._note_key(key)
        return value

    def contains(self, key: Any) -> bool:
        there: bool = super().contains(key)  # type: ignore[misc]
        if self._on_read and there:
            self._note_key(key)
        return there

    def put(self, key: Any, value: Any) -> None:
        super().put(key, value)  # type: ignore[misc]
        self._note_key(key)

    def remove(self, key: Any) -> None:
        super().remove(key)  # type: ignore[misc]
        self._gone(self._entry_of(key))

    def clear(self) -> None:
        slot, cell = self._cursor.slot, self._cell()
        # Of a map that stays with the JVM an iterator may have noted keys that are not known here.
        noted = [entry for entry in self._used if entry[0] == slot] if cell.remote else ()
        for entry in noted or [(slot, key) for key in cell]:
            self._unnote(entry)
        super().clear()  # type: ignore[safe-super]

    def items(self) -> Iterable[tuple[Any, Any]]:
        items: Iterable[tuple[Any, Any]] = super().items()  # type: ignore[misc]
        return self._noted(items) if self._on_read else items

    def keys(self) -> Iterable[Any]:
        if self._on_read:
            return [key for key, _ in self.items()]
        keys: Iterable[Any] = super().keys()  # type: ignore[misc]
        return keys

    def _removed_keys(self, slots: list[int], cells: list[Any]) -> list[list[Any]]:
        went = self._went
        if not went:
            return super()._removed_keys(slots, cells)  # type: ignore[misc,no-any-return]
        return [
            [key for key in cell.changed if key not in cell or (slot, key) in went]
            for slot, cell in zip(slots, cells)
        ]

    def _encode_used(self, used: list[Any], times: list[int]) -> dict[str, pa.Array]:
        keys = [key for _, key in used]
        try:
            encoded = self._key_codec.encode(keys)
        except Misfit:
            encoded = self._encode(self._key_codec, keys, [slot for slot, _ in used])
        return {**super()._encode_used(used, times), Part.USED_KEYS: encoded}

    def _used_types(self) -> dict[str, pa.DataType]:
        return {Part.USED_KEYS: self._key_codec.arrow}


class _NotingSortedMap(_NotingMap):
    def first_entry(self) -> tuple[Any, Any] | None:
        return self._noted_one(super().first_entry())  # type: ignore[misc]

    def last_entry(self) -> tuple[Any, Any] | None:
        return self._noted_one(super().last_entry())  # type: ignore[misc]

    def sub_iterator(
        self, start: Any, end: Any, *, reverse: bool = False
    ) -> Iterator[tuple[Any, Any]]:
        entries: Iterator[tuple[Any, Any]]
        entries = super().sub_iterator(start, end, reverse=reverse)  # type: ignore[misc]
        return self._noted(entries) if self._on_read else entries

    def _noted_one(self, entry: tuple[Any, Any] | None) -> tuple[Any, Any] | None:
        if self._on_read and entry is not None:
            self._note((self._cursor.slot, entry[0]))
        return entry
