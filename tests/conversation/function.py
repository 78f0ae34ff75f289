"""A function whose rows say what it does: so a model of it is short."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from keystate import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    SortedMapStateDescriptor,
    TimeDomain,
    ValueStateDescriptor,
)

INPUT = "key string, row int, steps string"
OUTPUT = "key string, row int, result string"

#: By what is left of a timer's time when it is divided by 20: how much later it sets another one.
NEXT = {0: 5, 5: 3, 8: -2}


class Scripted(KeyedProcessFunction):
    """Does what is in the column `steps`: `name,a,b` with `;` between; emits what that gave.

    Attributes:
        left: after how many rows it throws; none by default.
    """

    left = -1

    def open(self, ctx: Any) -> None:
        self.value = ctx.get_state(ValueStateDescriptor("value", "long"))
        self.list = ctx.get_list_state(ListStateDescriptor("list", "long"))
        self.map = ctx.get_map_state(MapStateDescriptor("map", "string", "long"))
        self.sorted = ctx.get_sorted_map_state(SortedMapStateDescriptor("sorted", "long", "long"))

    def process_element(self, row: Any, ctx: Any) -> Iterator[Any]:
        if Scripted.left == 0:
            raise RuntimeError("the function throws")
        Scripted.left -= 1
        told = []
        for step in row.steps.split(";"):
            name, a, b = step.split(",")
            found = getattr(self, name)(int(a), int(b), ctx)
            if found is not None:
                told.append(str(found))
        yield row.key, row.row, "|".join(told)

    def on_timer(self, timestamp: int, ctx: Any) -> Iterator[Any]:
        domain = 0 if ctx.time_domain() is TimeDomain.EVENT_TIME else 1
        before = self.value.value()
        self.value.update(timestamp)
        self.list.add(timestamp)
        self.map.put(str(timestamp % 7), timestamp)
        if timestamp % 20 in NEXT:
            self.timer_set(timestamp + NEXT[timestamp % 20], domain, ctx)
        yield ctx.get_current_key(), -1, f"{domain}@{timestamp} {before}"

    def get(self, a: int, b: int, ctx: Any) -> Any:
        return self.value.value()

    def set(self, a: int, b: int, ctx: Any) -> None:
        self.value.update(a)

    def add(self, a: int, b: int, ctx: Any) -> None:
        self.value.update((self.value.value() or 0) + a)

    def unset(self, a: int, b: int, ctx: Any) -> None:
        self.value.clear()

    def list_get(self, a: int, b: int, ctx: Any) -> str:
        return " ".join(map(str, self.list.get()))

    def list_add(self, a: int, b: int, ctx: Any) -> None:
        self.list.add(a)

    def list_add_all(self, a: int, b: int, ctx: Any) -> None:
        self.list.add_all(range(a, a + b))

    def list_update(self, a: int, b: int, ctx: Any) -> None:
        self.list.update(list(range(a, a + b)))

    def list_clear(self, a: int, b: int, ctx: Any) -> None:
        self.list.clear()

    def map_get(self, a: int, b: int, ctx: Any) -> Any:
        return self.map.get(str(a))

    def map_has(self, a: int, b: int, ctx: Any) -> int:
        return int(self.map.contains(str(a)))

    def map_put(self, a: int, b: int, ctx: Any) -> None:
        self.map.put(str(a), b)

    def map_fill(self, a: int, b: int, ctx: Any) -> None:
        for key in range(a, a + b):
            self.map.put(str(key), key * 10 + b)

    def map_remove(self, a: int, b: int, ctx: Any) -> None:
        self.map.remove(str(a))

    def map_clear(self, a: int, b: int, ctx: Any) -> None:
        self.map.clear()

    def map_empty(self, a: int, b: int, ctx: Any) -> int:
        return int(self.map.is_empty())

    def map_all(self, a: int, b: int, ctx: Any) -> str:
        return _entries(sorted(self.map.items()))

    def map_some(self, a: int, b: int, ctx: Any) -> str:
        """Some entries, in no order, then no more is read."""
        return "some " + _entries(islice(iter(self.map.items()), b))

    def map_change(self, a: int, b: int, ctx: Any) -> str:
        """Changes the map while it is iterated: the iterator shows it as it was."""
        seen = []
        for key, value in self.map.items():
            seen.append((key, value))
            if value % 2:
                self.map.remove(key)
            else:
                self.map.put(key, value + a)
            self.map.put(f"new {b}", a)
        return _entries(sorted(seen))

    def sorted_get(self, a: int, b: int, ctx: Any) -> Any:
        return self.sorted.get(a)

    def sorted_put(self, a: int, b: int, ctx: Any) -> None:
        self.sorted.put(a, b)

    def sorted_fill(self, a: int, b: int, ctx: Any) -> None:
        for key in range(a, a + b):
            self.sorted.put(key, key * 10 + b)

    def sorted_remove(self, a: int, b: int, ctx: Any) -> None:
        self.sorted.remove(a)

    def sorted_clear(self, a: int, b: int, ctx: Any) -> None:
        self.sorted.clear()

    def sorted_first(self, a: int, b: int, ctx: Any) -> str:
        return _entries(filter(None, [self.sorted.first_entry()]))

    def sorted_last(self, a: int, b: int, ctx: Any) -> str:
        return _entries(filter(None, [self.sorted.last_entry()]))

    def sorted_floor(self, a: int, b: int, ctx: Any) -> str:
        return _entries(filter(None, [self.sorted.floor_entry(a)]))

    def sorted_range(self, a: int, b: int, ctx: Any) -> str:
        return _entries(self.sorted.sub_iterator(a, a + b))

    def sorted_from(self, a: int, b: int, ctx: Any) -> str:
        """The first entries from a key on, then no more is read."""
        return _entries(islice(self.sorted.sub_iterator(a, None), b))

    def sorted_back(self, a: int, b: int, ctx: Any) -> str:
        return _entries(islice(self.sorted.sub_iterator(None, a, reverse=True), b))

    def sorted_poll(self, a: int, b: int, ctx: Any) -> str:
        """As a queue: the first entry again and again."""
        taken: list[Any] = []
        while len(taken) < b and (first := self.sorted.first_entry()) is not None:
            self.sorted.remove(first[0])
            taken.append(first)
        return _entries(taken)

    def sorted_change(self, a: int, b: int, ctx: Any) -> str:
        """Changes the map while it is iterated: the iterator shows it as it was."""
        seen = []
        for key, value in self.sorted.items():
            seen.append((key, value))
            if value % 2:
                self.sorted.remove(key)
            else:
                self.sorted.put(key + b, value + a)
        return _entries(seen)

    def timer_set(self, a: int, b: int, ctx: Any) -> None:
        timers = ctx.timer_service()
        if b:
            timers.register_processing_time_timer(a)
        else:
            timers.register_event_time_timer(a)

    def timer_delete(self, a: int, b: int, ctx: Any) -> None:
        timers = ctx.timer_service()
        if b:
            timers.delete_processing_time_timer(a)
        else:
            timers.delete_event_time_timer(a)


def _entries(entries: Iterable[Any]) -> str:
    return " ".join(f"{key}={value}" for key, value in entries)
