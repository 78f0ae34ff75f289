"""States in memory: the counterpart of a query's JVM, with the same messages.

A store holds one state of all keys, each cell as its codec decodes it. A worker gets and returns
Arrow columns, so a function never has a store's own objects.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import types as T

from keystate._spec.protocol import Answer, Part, state_column
from keystate._spec.specs import StateSpec
from keystate._types.codec import Codec, Shape, codec
from keystate._types.ordering import sort_key
from keystate._worker.messages.columns import INTEGERS, Columns
from keystate._worker.state.timers import DELETED, WAITS
from keystate.functions.timers import SetTimer, set_timer_of
from keystate.state.kinds import StateKind

BOOLEANS = codec(T.BooleanType())


class Store:
    """One state of all keys; this base a value a key."""

    def __init__(self, spec: StateSpec, index: int) -> None:
        self.spec = spec
        self.cells: dict[Any, Any] = {}
        self._index = index
        self._codec = spec.value_codec()

    def begin(self, watermark: int | None, processing_time: int) -> None:
        """Begins a micro-batch at these times."""

    def cell(self, key: Any) -> Any:
        """The part of a key's cell that a function may see; ``None`` if there is nothing."""
        return self.cells.get(key)

    def living(self, key: Any) -> Any:
        """The part of a key's cell that has not expired; ``None`` if there is nothing."""
        return self.cell(key)

    def columns(self, keys: Sequence[Any]) -> dict[str, pa.Array]:
        """The cells of these keys, in the columns that a worker gets."""
        return {self._column(): self._codec.encode([self.cell(key) for key in keys])}

    def times(self, keys: Sequence[Any]) -> list[Any] | None:
        """The last use of each value in `columns`, for a state with a time to live."""
        return None

    def restore_times(self, keys: Sequence[Any], times: Sequence[Any] | None) -> None:
        """Takes in what `times` gave, after `restore`."""

    def apply(self, keys: Sequence[Any], message: Columns) -> None:
        """Takes in what a worker changed; `keys` are those of its slots."""
        slots = INTEGERS.decode(message.elements(self._column(Part.KEY_INDEX)))
        if slots:
            self._change([keys[slot] for slot in slots], message.elements)

    def restore(self, keys: Sequence[Any], columns: dict[str, pa.Array]) -> None:
        """Takes in what `columns` gave for these keys, by any index."""
        values = list(columns.values())
        for key, value in zip(keys, self._codec.decode(values[0])):
            self._set(key, value)

    def put(self, key: Any, value: Any, used_at: Any) -> None:
        """Stores a value of a key as `peek` gives it.

        Args:
            key: the key.
            value: the value; without anything it is cleared.
            used_at: when it was last used, by `times`; ``None`` for now.
        """
        if value is None or (self.spec.kind != StateKind.VALUE and not value):
            self.cells.pop(key, None)
            return
        self.restore([key], self._encoded(value))
        self.restore_times([key], None if used_at is None else [used_at])

    def _encoded(self, value: Any) -> dict[str, pa.Array]:
        return {"": self._codec.encode([value])}

    def peek(self, key: Any) -> Any:
        """A copy of a key's stored value, in the form that a function reads."""
        return self._codec.decode(self._codec.encode([self.cell(key)]))[0]

    def _column(self, part: str = "") -> str:
        return state_column(self._index, part)

    def _change(self, keys: list[Any], column: Callable[[str], pa.Array]) -> None:
        for key, value in zip(keys, self._codec.decode(column(self._column()))):
            self._set(key, value)

    def _set(self, key: Any, value: Any) -> None:
        if value is None:
            self.cells.pop(key, None)
        else:
            self.cells[key] = value


class ListStore(Store):
    """A list a key."""

    def __init__(self, spec: StateSpec, index: int) -> None:
        super().__init__(spec, index)
        self._lists = _of_lists(spec.value_type, spec.value_shape)

    def columns(self, keys: Sequence[Any]) -> dict[str, pa.Array]:
        return {self._column(): self._lists.encode([self.cell(key) or [] for key in keys])}

    def _encoded(self, value: Any) -> dict[str, pa.Array]:
        return {"": self._lists.encode([value])}

    def restore(self, keys: Sequence[Any], columns: dict[str, pa.Array]) -> None:
        (lists,) = columns.values()
        self.cells.update(zip(keys, self._lists.decode(lists)))

    def peek(self, key: Any) -> Any:
        return self._codec.decode(self._codec.encode(self.cell(key) or []))

    def _change(self, keys: list[Any], column: Callable[[str], pa.Array]) -> None:
        added = self._lists.decode(column(self._column()))
        resets = BOOLEANS.decode(column(self._column(Part.RESET)))
        for key, elements, reset in zip(keys, added, resets):
            if not reset:
                elements = self.cells.get(key, []) + elements
            self._set(key, elements or None)


class MapStore(Store):
    """A map a key; a sorted one is sent in its order."""

    def __init__(self, spec: StateSpec, index: int) -> None:
        super().__init__(spec, index)
        assert spec.key_type is not None
        self._hashable = spec.key_codec().as_key
        self._keys = _of_lists(spec.key_type, spec.key_shape)
        self._values = _of_lists(spec.value_type, spec.value_shape)
        self._by = sort_key(spec.key_type, spec.order)

    def columns(self, keys: Sequence[Any]) -> dict[str, pa.Array]:
        maps = [self.cell(key) or {} for key in keys]
        user_keys = [self._ordered(each) for each in maps]
        values = [[each[key] for key in order] for each, order in zip(maps, user_keys)]
        return {
            self._column(Part.KEYS): self._keys.encode(user_keys),
            self._column(Part.VALUES): self._values.encode(values),
        }

    def _encoded(self, value: Any) -> dict[str, pa.Array]:
        keys, values = self._keys.encode([list(value)]), self._values.encode([list(value.values())])
        return {Part.KEYS: keys, Part.VALUES: values}

    def restore(self, keys: Sequence[Any], columns: dict[str, pa.Array]) -> None:
        user_keys, values = columns.values()
        decoded = zip(self._user_keys(user_keys), self._values.decode(values))
        for key, (mine, theirs) in zip(keys, decoded):
            self.cells[key] = dict(zip(mine, theirs))

    def peek(self, key: Any) -> Any:
        entries = self.cell(key) or {}
        order = self._ordered(entries)
        values = self._codec.decode(self._codec.encode([entries[k] for k in order]))
        return dict(zip(order, values))

    def _change(self, keys: list[Any], column: Callable[[str], pa.Array]) -> None:
        changes = zip(
            keys,
            BOOLEANS.decode(column(self._column(Part.RESET))),
            self._user_keys(column(self._column(Part.REMOVED))),
            self._user_keys(column(self._column(Part.KEYS))),
            self._values.decode(column(self._column(Part.VALUES))),
        )
        for key, reset, removed, put, values in changes:
            entries = {} if reset else self.cells.get(key, {})
            for user_key in removed:
                entries.pop(user_key, None)
            entries.update(zip(put, values))
            self._set(key, entries or None)

    def _ordered(self, entries: dict[Any, Any]) -> list[Any]:
        if self.spec.kind != StateKind.SORTED_MAP:
            return list(entries)
        return sorted(entries, key=self._by)

    def _user_keys(self, array: pa.Array) -> list[list[Any]]:
        lists = self._keys.decode(array)
        if self._hashable is None:
            return lists
        return [list(map(self._hashable, each)) for each in lists]


class Timer(NamedTuple):
    """A timer that is set."""

    time: int
    group: int
    domain: int
    key: Any
    #: The end and the start of the window that it belongs to; empty if there is none.
    window: tuple[int, ...] = ()

    @property
    def shown(self) -> SetTimer:
        """The timer as users see it."""
        return set_timer_of(self.domain, self.time, *self.window)


class Timers:
    """The timers of all keys, by time."""

    def __init__(self) -> None:
        self._set: set[tuple[Any, ...]] = set()
        self._ordered: dict[int, list[Timer]] = {0: [], 1: []}
        self._waiting: set[Timer] = set()  # for the next micro-batch

    def __iter__(self) -> Any:
        return (timer for timers in self._ordered.values() for timer in timers)

    def begin(self) -> None:
        """A micro-batch begins."""
        self._waiting = set()

    def due(self, event_time: int | None, processing_time: int) -> list[Timer]:
        """The timers up to these times, in order of time, without those that wait."""
        found: list[Timer] = []
        for domain, until in ((0, event_time), (1, processing_time)):
            if until is not None:
                timers = self._ordered[domain]
                found += timers[: bisect_left(timers, (until + 1, -1), key=_by_time)]
        due = (timer for timer in found if timer not in self._waiting)
        return sorted(due, key=lambda timer: timer.time)

    def change(self, timer: Timer, wanted: bool) -> None:
        """Sets a timer or deletes it."""
        identity = (timer.domain, timer.time, timer.key, timer.window)
        timers = self._ordered[timer.domain]
        if wanted and identity not in self._set:
            self._set.add(identity)
            insort(timers, timer, key=_by_time)
        elif not wanted and identity in self._set:
            self._set.remove(identity)
            at = bisect_left(timers, _by_time(timer), key=_by_time)
            while (timers[at].key, timers[at].window) != (timer.key, timer.window):
                at += 1
            del timers[at]

    def apply(self, keys: Sequence[Any], groups: Sequence[int], message: Columns) -> None:
        """Sets and deletes what a worker says; keys and groups are those of its slots."""
        names = [Answer.TIMER_DOMAIN, Answer.TIMER_TIME, Answer.TIMER_SET]
        if message.has(Answer.TIMER_WINDOW_END):
            names += [Answer.TIMER_WINDOW_END, Answer.TIMER_WINDOW_START]
        changes = zip(
            INTEGERS.decode(message.elements(Answer.TIMER_KEY_INDEX)),
            *(message.elements(name).to_pylist() for name in names),
        )
        for slot, domain, time, now, *window in changes:
            timer = Timer(time, groups[slot], domain, keys[slot], tuple(window))
            self.change(timer, now != DELETED)
            (self._waiting.add if now == WAITS else self._waiting.discard)(timer)


def _by_time(timer: Timer) -> tuple[int, int]:
    return timer.time, timer.group


def _of_lists(element: T.DataType, shape: Shape | None) -> Codec:
    return codec(T.ArrayType(element), Shape(None, (shape,)))
