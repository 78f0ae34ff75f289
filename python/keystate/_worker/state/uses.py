"""When entries of a state with a time to live were used, as the JVM needs to know it.

The JVM gives values their timestamps and keeps back those that have expired: the clock stands
still in a task, so a value that the worker has stays good. Only where reading a value makes it live
on, or where the clock is the watermark, does the worker note what was used, and when.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from keystate._spec.protocol import Part
from keystate.state import StateTtlConfig

#: Encodes one user key for each slot.
EncodeKeys = Callable[[list[Any], list[int]], pa.Array]


class Uses:
    """The slots of values that were used since the last changes, with the time.

    An entry that goes takes its times with it: one that comes later was not used before. The JVM
    must know that the entry went, for of one that went and came it only sees a new value.

    Args:
        ttl: the state's time to live.
        cursor: has the current row or timer.
        undoable: whether changes are noted in the cursor's journal.
    """

    def __init__(self, ttl: StateTtlConfig, cursor: Any, undoable: bool) -> None:
        times = StateTtlConfig.TtlTimeCharacteristic
        self.on_read = ttl.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
        self._by_event_time = ttl.get_ttl_time_characteristic() is times.EventTime
        self._cursor = cursor
        self._undoable = undoable
        self._used: dict[Any, int] = {}
        self.went: set[Any] = set()

    # -- noting --------------------------------------------------------------------------------

    def used(self, entry: Any) -> None:
        """Notes that an entry was used now."""
        if self._undoable:
            self._keep(entry)
        time = self._cursor.time_of_use() if self._by_event_time else 0
        if time >= self._used.get(entry, time):
            self._used[entry] = time

    def removed(self, entry: Any) -> None:
        """Notes that an entry went."""
        if self._undoable:
            self._keep(entry)
        self._used.pop(entry, None)
        self.went.add(entry)

    def unused(self, entry: Any) -> None:
        """Forgets that an entry was used: all that the state has goes."""
        if self._undoable:
            self._keep(entry)
        self._used.pop(entry, None)

    def _keep(self, entry: Any) -> None:
        noted = self._used.get(entry), entry in self.went
        self._cursor.journal.append((self._undo, entry, *noted))

    def _undo(self, entry: Any, used: int | None, went: bool) -> None:
        if used is None:
            self._used.pop(entry, None)
        else:
            self._used[entry] = used
        if not went:
            self.went.discard(entry)

    # -- between JVM and worker ----------------------------------------------------------------

    def forget(self) -> None:
        """Forgets all entries."""
        self._used, self.went = {}, set()

    def take(self, start: int, stop: int) -> dict[str, pa.Array]:
        """Takes out what was noted of these slots, as columns."""
        used = [entry for entry in self._used if start <= self._slot_of(entry) < stop]
        columns = self._encode(used, [self._used.pop(entry) for entry in used])
        if self.went:
            self.went = {e for e in self.went if not start <= self._slot_of(e) < stop}
        return columns

    def types(self) -> dict[str, pa.DataType]:
        """The types of the columns."""
        return {Part.USED_KEY_INDEX: pa.int32(), Part.USED_TIME: pa.int64()}

    def _encode(self, used: list[Any], times: list[int]) -> dict[str, pa.Array]:
        return {
            Part.USED_KEY_INDEX: pa.array([self._slot_of(entry) for entry in used], pa.int32()),
            Part.USED_TIME: pa.array(times, pa.int64()),
        }

    def _slot_of(self, entry: Any) -> int:
        slot: int = entry
        return slot


class _PartUses(Uses):
    """The base where an entry is a slot, and which part of its value."""

    def of_slot(self, slot: int) -> list[Any]:
        """The entries of a slot that were used."""
        return [entry for entry in self._used if entry[0] == slot]

    def _slot_of(self, entry: Any) -> int:
        slot: int = entry[0]
        return slot


class ListUses(_PartUses):
    """Slots, and whether all of the list was used or what was added last."""

    def types(self) -> dict[str, pa.DataType]:
        return {**super().types(), Part.USED_WHOLE: pa.bool_()}

    def _encode(self, used: list[Any], times: list[int]) -> dict[str, pa.Array]:
        whole = pa.array([entry[1] for entry in used], pa.bool_())
        return {**super()._encode(used, times), Part.USED_WHOLE: whole}


class MapUses(_PartUses):
    """Slots and user keys, as they are in cells.

    Args:
        ttl: the state's time to live.
        cursor: has the current row or timer.
        undoable: whether changes are noted in the cursor's journal.
        key_type: of the user keys.
        encode_keys: encodes them.
    """

    def __init__(
        self,
        ttl: StateTtlConfig,
        cursor: Any,
        undoable: bool,
        key_type: pa.DataType,
        encode_keys: EncodeKeys,
    ) -> None:
        super().__init__(ttl, cursor, undoable)
        self._key_type = key_type
        self._encode_keys = encode_keys

    def types(self) -> dict[str, pa.DataType]:
        return {**super().types(), Part.USED_KEYS: self._key_type}

    def _encode(self, used: list[Any], times: list[int]) -> dict[str, pa.Array]:
        keys = self._encode_keys([key for _, key in used], [slot for slot, _ in used])
        return {**super()._encode(used, times), Part.USED_KEYS: keys}
