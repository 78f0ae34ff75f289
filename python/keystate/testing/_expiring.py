"""Stores of states with a time to live: the times at which values were last used, beside them.

What the JVM's ``TtlEntries`` does with timestamps: the clock stands still in a micro-batch, and
what has expired goes when its key is looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa

from keystate._spec.protocol import Part
from keystate._spec.specs import StateSpec
from keystate._worker.messages.columns import INTEGERS, Columns
from keystate.state import StateTtlConfig
from keystate.state.kinds import StateKind
from keystate.state.ttl import needs_notes
from keystate.testing._stores import BOOLEANS, ListStore, MapStore, Store


class ExpiringStore(Store):
    """One value a key. A time of ``None`` is of a value from before the time to live.

    Or, by event time, of one that nothing used by event time while there was no watermark.
    """

    def __init__(self, spec: StateSpec, index: int) -> None:
        super().__init__(spec, index)
        assert spec.ttl is not None
        times, visibilities = StateTtlConfig.TtlTimeCharacteristic, StateTtlConfig.StateVisibility
        self.by_event_time = spec.ttl.get_ttl_time_characteristic() is times.EventTime
        self._returned = spec.ttl.get_state_visibility() is visibilities.ReturnExpiredIfNotCleanedUp
        self._noted = needs_notes(spec.ttl)
        self._millis = spec.ttl.to_milliseconds()
        self._now = 0
        self._times: dict[Any, Any] = {}

    def begin(self, watermark: int | None, processing_time: int) -> None:
        now = watermark if self.by_event_time else processing_time
        self._now = max(self._now, now or 0)

    def cell(self, key: Any) -> Any:
        return self.cells.get(key) if self._returned else self.living(key)

    def living(self, key: Any) -> Any:
        return self._fresh(key)[0]

    def times(self, keys: Sequence[Any]) -> list[Any]:
        return [self._times_of(key) for key in keys]

    def restore_times(self, keys: Sequence[Any], times: Sequence[Any] | None) -> None:
        for i, key in enumerate(keys):
            self._set_times(key, None if times is None else times[i])

    def apply(self, keys: Sequence[Any], message: Columns) -> None:
        self._expire(keys)
        super().apply(keys, message)
        if self._noted:

            def column(part: str) -> pa.Array:
                return message.elements(self._column(part))

            slots = INTEGERS.decode(column(Part.USED_KEY_INDEX))
            times = column(Part.USED_TIME).to_pylist()
            used = [keys[slot] for slot in slots]
            for key, time, part in zip(used, times, self._parts(len(slots), column)):
                latest = self._latest(time)
                if key in self.cells and latest is not None:
                    self._touch(key, part, latest)

    def _expire(self, keys: Iterable[Any]) -> None:
        for key in keys:
            if key in self.cells:
                cell, times = self._fresh(key)
                if cell is None:
                    self.cells.pop(key)
                    self._times.pop(key)
                else:
                    self.cells[key] = cell
                    self._times[key] = times

    def _expired(self, time: int | None) -> bool:
        return time is not None and time <= self._now - self._millis

    def _latest(self, time: int | None = None) -> int | None:
        """This time, or the clock's if that is later."""
        latest = self._now if time is None else max(time, self._now)
        return None if self.by_event_time and latest == 0 else latest

    def _written(self, time: int | None) -> int | None:
        """The time of what is written now, where there was something with this one."""
        return self._latest(time) if self.by_event_time else self._now

    def _fresh(self, key: Any) -> tuple[Any, Any]:
        """A key's content that has not expired, and the times of its last use; or two ``None``."""
        time = self._times.get(key)
        if key not in self.cells or self._expired(time):
            return None, None
        return self.cells[key], self._latest() if time is None else time

    def _times_of(self, key: Any) -> Any:
        return self._times[key] if self._returned else self._fresh(key)[1]

    def _set_times(self, key: Any, times: Any) -> None:
        self._times[key] = times

    def _change(self, keys: list[Any], column: Callable[[str], pa.Array]) -> None:
        if self._noted:
            for key, reset in zip(keys, BOOLEANS.decode(column(self._column(Part.RESET)))):
                if reset:
                    self._set(key, None)
        super()._change(keys, column)

    def _set(self, key: Any, value: Any) -> None:
        super()._set(key, value)
        if value is None:
            self._times.pop(key, None)
        else:
            self._times[key] = self._written(self._times.get(key))

    def _parts(self, count: int, column: Callable[[str], pa.Array]) -> Sequence[Any]:
        """Which part of the state each note is about."""
        return [None] * count

    def _touch(self, key: Any, part: Any, time: int) -> None:
        self._times[key] = _later(self._times[key], time)


class ExpiringListStore(ExpiringStore, ListStore):
    """A list a key; times of its elements."""

    def __init__(self, spec: StateSpec, index: int) -> None:
        super().__init__(spec, index)
        # How many elements the last message has added, by key.
        self._added: dict[Any, int] = {}

    def _fresh(self, key: Any) -> tuple[Any, Any]:
        times = self._times.get(key, [])
        kept = [pair for pair in zip(self.cells.get(key, []), times) if not self._expired(pair[1])]
        if not kept:
            return None, None
        return [value for value, _ in kept], [self._latest() if t is None else t for _, t in kept]

    def _set_times(self, key: Any, times: Any) -> None:
        self._times[key] = times or [None] * len(self.cells[key])

    def _set(self, key: Any, value: Any) -> None:
        Store._set(self, key, value)

    def _change(self, keys: list[Any], column: Callable[[str], pa.Array]) -> None:
        resets = BOOLEANS.decode(column(self._column(Part.RESET)))
        before = {k: [] if reset else self._times.get(k, []) for k, reset in zip(keys, resets)}
        ListStore._change(self, keys, column)
        self._added = {k: len(self.cells.get(k, [])) - len(times) for k, times in before.items()}
        for key, times in before.items():
            self._times[key] = times + [self._latest()] * self._added[key]
            if key not in self.cells:
                del self._times[key]

    def _parts(self, count: int, column: Callable[[str], pa.Array]) -> Sequence[Any]:
        return BOOLEANS.decode(column(Part.USED_WHOLE))

    def _touch(self, key: Any, part: Any, time: int) -> None:
        times = self._times[key]
        first = 0 if part else len(times) - self._added[key]
        self._times[key] = times[:first] + [_later(t, time) for t in times[first:]]


class ExpiringMapStore(ExpiringStore, MapStore):
    """A map a key; times by its own keys."""

    def _fresh(self, key: Any) -> tuple[Any, Any]:
        times = self._times.get(key, {})
        kept = {
            k: self._latest() if t is None else t for k, t in times.items() if not self._expired(t)
        }
        if not kept:
            return None, None
        return {k: self.cells[key][k] for k in kept}, kept

    def _times_of(self, key: Any) -> Any:
        times = super()._times_of(key)
        return [times[k] for k in self._ordered(times)]

    def _set_times(self, key: Any, times: Any) -> None:
        entries = self.cells[key]
        self._times[key] = dict(zip(entries, times or [None] * len(entries)))

    def _set(self, key: Any, value: Any) -> None:
        Store._set(self, key, value)

    def _change(self, keys: list[Any], column: Callable[[str], pa.Array]) -> None:
        resets = BOOLEANS.decode(column(self._column(Part.RESET)))
        removed = self._user_keys(column(self._column(Part.REMOVED)))
        put = self._user_keys(column(self._column(Part.KEYS)))
        MapStore._change(self, keys, column)
        for key, reset, went, written in zip(keys, resets, removed, put):
            old = {} if reset else dict(self._times.get(key, {}))
            for user_key in went:
                old.pop(user_key, None)
            new = {k: self._written(old.get(k)) for k in written}
            self._times[key] = {k: new[k] if k in new else old[k] for k in self.cells.get(key, ())}
            if key not in self.cells:
                del self._times[key]

    def _parts(self, count: int, column: Callable[[str], pa.Array]) -> Sequence[Any]:
        return self.spec.key_codec().decode_keys(column(Part.USED_KEYS))

    def _touch(self, key: Any, part: Any, time: int) -> None:
        if part in self._times[key]:
            self._times[key][part] = _later(self._times[key][part], time)


def _later(before: int | None, time: int) -> int:
    return time if before is None else max(before, time)


def make_store(spec: StateSpec, index: int) -> Store:
    """The store of a state."""
    kinds: dict[StateKind, tuple[type[Store], type[Store]]] = {
        StateKind.VALUE: (Store, ExpiringStore),
        StateKind.LIST: (ListStore, ExpiringListStore),
    }
    maps = (MapStore, ExpiringMapStore)
    return kinds.get(spec.kind, maps)[spec.ttl is not None](spec, index)
