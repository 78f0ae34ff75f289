"""What a program of keyed state should emit, told from the docs: plain Python, values only.

Nothing here is Keystate's. Values can't change, so whatever is handed over is taken as it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from tests.fuzz import values as v
from tests.fuzz.program import Fed, Op, Program, Segment, State
from tests.fuzz.values import Type

KEPT = 5
SHOWN = ("value", "get", "cycle")


class Cell:
    """What one key has in one state: entries by the text of their keys, with their times.

    A value is the one entry of None. In a list each element is an entry, by its number.
    """

    def __init__(self, state: State) -> None:
        self.state = state
        self.entries: dict[Any, Any] = {}
        self.times: dict[Any, int] = {}
        self.used: dict[Any, int] = {}
        self.added: set[int] = set()
        self.added_at = 0
        self.read_at = 0
        self.next = 0

    # -- a time to live by event time ----------------------------------------------------------

    def begin(self, watermark: int) -> None:
        """A micro-batch begins: what has expired by its watermark goes."""
        if self.state.ttl is not None:
            lived = self.state.ttl[1]
            for entry, time in list(self.times.items()):
                if time + lived <= watermark:
                    self._drop(entry)

    def end(self, watermark: int) -> None:
        """A micro-batch ends: what was used in it lives on from the latest time that used it."""
        for number in self.added:
            self.used[number] = max(self.used.get(number, 0), self.added_at)
        if self.read_at:  # a list, with what was added to it afterwards
            for number in self.entries:
                self.used[number] = max(self.used.get(number, 0), self.read_at)
        for entry, time in self.used.items():
            self.times[entry] = max(self.times.get(entry, 0), time, watermark)
        self.times = {entry: self.times[entry] for entry in self.entries if entry in self.times}
        self.used, self.added, self.added_at, self.read_at = {}, set(), 0, 0

    def _use(self, entry: Any, time: int) -> None:
        self.used[entry] = max(self.used.get(entry, time), time)

    def _lives_on_when_read(self) -> bool:
        return self.state.ttl is not None and self.state.ttl[0] == "read"

    def _read(self, entries: Any, time: int) -> None:
        if self._lives_on_when_read():
            for entry in entries:
                self._use(entry, time)

    def _drop(self, entry: Any) -> Any:
        """An entry goes, and with it when it was used."""
        self.times.pop(entry, None)
        self.used.pop(entry, None)
        return self.entries.pop(entry, None)

    def _clear(self) -> None:
        self.entries, self.times, self.used = {}, {}, {}
        self.added, self.added_at, self.read_at = set(), 0, 0

    # -- methods -------------------------------------------------------------------------------

    def call(self, op: Op, time: int) -> Iterator[Any]:
        kind = self.state.kind
        if op.method == "clear":
            self._clear()
            return
        if op.method == "cycle":
            # For reads and the write between them.
            args = op.args
            reads = Op(op.state, "get", args[:1] if "map" in kind else ())
            names = {"value": "update", "list": "update", "map": "put", "sorted_map": "put"}
            yield from self.call(reads, time)
            yield from self.call(Op(op.state, names[kind], args), time)
            yield from self.call(reads, time)
        elif kind == "list":
            yield from self._list(op, time)
        elif kind in ("map", "sorted_map"):
            yield from self._map(op, time)
        elif op.method in ("value", "get"):
            self._read(self.entries, time)
            yield self.entries.get(None, self.state.default)
        else:
            self.entries[None] = self._folded(op.args[0]) if op.method == "add" else op.args[0]
            self._use(None, time)

    def _folded(self, new: Any) -> Any:
        fold, old = self.state.fold, self.entries.get(None)
        if self.state.kind != "reducing":
            return ((old or ()) + (new,))[-KEPT:]
        if old is None:
            return new
        if fold == "sum":
            return old + new
        if fold == "concat":
            return (old + new)[-KEPT:]
        return (old[0] + new[0]) % 1000, (old[1] + new[1])[-KEPT:]

    def _list(self, op: Op, time: int) -> Iterator[Any]:
        if op.method == "get":
            if self.entries and self._lives_on_when_read():
                self.read_at = max(self.read_at, time)
            yield tuple(self.entries.values())
            return
        if op.method == "update":
            self._clear()
        for each in op.args:
            self.entries[self.next] = each
            self.added.add(self.next)
            self.next += 1
            self.added_at = max(self.added_at, time)

    def _sorted(self) -> list[Any]:
        """The entries' keys in their order."""
        state = self.state
        assert state.key is not None
        if state.kind == "map":
            return sorted(self.entries)
        by = v.sort_key(state.key, state.order)
        reverse = state.order == "descending"
        return sorted(self.entries, key=lambda e: by(self.entries[e][0]), reverse=reverse)

    def _range(self, start: Any, end: Any) -> list[Any]:
        assert self.state.key is not None
        by = v.sort_key(self.state.key, self.state.order)
        down = self.state.order == "descending"

        def before(a: Any, b: Any) -> bool:
            return by(b) < by(a) if down else by(a) < by(b)

        return [
            entry
            for entry in self._sorted()
            if not (start is not None and before(self.entries[entry][0], start))
            and (end is None or before(self.entries[entry][0], end))
        ]

    def _map(self, op: Op, time: int) -> Iterator[Any]:
        method, args = op.method, op.args
        if method in ("put", "put_all"):
            for key, value in (args,) if method == "put" else args:
                self.entries[repr(key)] = key, value
                self._use(repr(key), time)
        elif method in ("remove", "contains", "get"):
            entry = repr(args[0])
            found = self.entries.get(entry)
            if method == "remove":
                self._drop(entry)
            elif found is not None and (method == "contains" or found[1] is not None):
                self._read([entry], time)
            if method == "get":
                yield None if found is None else found[1]
            else:
                yield found is not None if method == "contains" else None
        elif method == "is_empty":
            yield not self.entries
        elif method in ("items", "keys", "values"):
            order = self._sorted()
            self._read(order, time)
            shown = [self.entries[entry] for entry in order]
            shown = shown if method == "items" else [e[method == "values"] for e in shown]
            yield tuple(sorted(shown, key=repr) if self.state.kind == "map" else shown)
        else:
            yield self._ranges(method, args, time)

    def _ranges(self, method: str, args: tuple[Any, ...], time: int) -> Any:
        if method == "remove_range":
            for entry in self._range(*args):
                self._drop(entry)
            return None
        if method == "sub_iterator":
            order = self._range(*args[:2])
            self._read(order, time)
            return tuple(self.entries[e] for e in (order[::-1] if args[2] else order))
        if method == "floor_entry":
            above = set(self._range(args[0], None)) - {repr(args[0])}
            order = [entry for entry in self._sorted() if entry not in above][-1:]
        elif method == "ceiling_entry":
            order = self._range(args[0], None)[:1]
        else:
            order = self._sorted()
            order = order[-1:] if method == "last_entry" else order[:1]
        self._read(order, time)
        if not order:
            return None
        return self._drop(order[0]) if method == "pop_first" else self.entries[order[0]]

    # -- evolution -----------------------------------------------------------------------------

    def evolve(self, to: State) -> None:
        """A restart with another type: what is stored is read as that."""
        of, self.state = self.state, to
        if of.type == to.type:
            return
        keyed = to.kind in ("map", "sorted_map")
        for entry, stored in self.entries.items():
            value = stored[1] if keyed else stored
            value = evolved(of.type, to.type, value, to.default)
            self.entries[entry] = (stored[0], value) if keyed else value


def evolved(of: Type, to: Type, value: Any, default: Any) -> Any:
    """A value of an older type; added fields are those of `default`."""
    if value is None or of == to or to.name != "struct":
        return value
    old = dict(zip(of.fields, zip(of.parts, value)))
    made = []
    for i, (name, kind) in enumerate(zip(to.fields, to.parts)):
        whole = None if default is None else default[i]
        made.append(evolved(old[name][0], kind, old[name][1], whole) if name in old else whole)
    return tuple(made)


#: By key: what it emits, in order. A result is its step, and a text or what it shows of a state.
Emitted = dict[int, list[tuple[Any, ...]]]


class Model:
    """All keys of a program."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.emitted: Emitted = defaultdict(list)
        self.cells: dict[int, list[Cell]] = {}
        self.timers: dict[int, set[int]] = defaultdict(set)

    def start(self, segment: Segment) -> None:
        self.segment = segment
        for cells in self.cells.values():
            for cell, state in zip(cells, segment.states):
                cell.evolve(state)

    def batch(self, rows: tuple[Fed, ...], watermark: int) -> None:
        """A micro-batch: its rows, then the timers up to the watermark, in order of time.

        One that a timer sets at or before its own time waits for the next micro-batch.
        """
        due = (k for k, times in self.timers.items() if any(t <= watermark for t in times))
        keys = {row.key for row in rows}.union(due)
        for key in keys:
            if key not in self.cells:
                self.cells[key] = [Cell(state) for state in self.segment.states]
            for cell in self.cells[key]:
                cell.begin(watermark)
        for row in rows:
            self._do(row.key, row.step, self.segment.steps[row.step], row.time)
        timers = self.segment.timers
        for key in keys:
            waiting: set[int] = set()
            while left := {t for t in self.timers[key] - waiting if t <= watermark}:
                time = min(left)
                self.timers[key].remove(time)
                before = set(self.timers[key])
                self._show(key, -time, None, f"fired {time}")
                self._do(key, -time, timers[time % len(timers)], time)
                waiting |= {t for t in self.timers[key] - before if t <= time}
            for cell in self.cells[key]:
                cell.end(watermark)

    def _do(self, key: int, step: int, ops: tuple[Op, ...], time: int) -> None:
        for op in ops:
            if op.method == "register":
                self.timers[key].add(time + op.args[0])
            elif op.method == "delete":
                self.timers[key].discard(time + op.args[0])
            else:
                for shown in self.cells[key][op.state].call(op, time):
                    self._show(key, step, op, shown)

    def _show(self, key: int, step: int, op: Op | None, shown: Any) -> None:
        if op is not None and op.emit and op.method in SHOWN and shown is not None:
            self.emitted[key].append((step, op.state, shown))
        else:
            self.emitted[key].append((step, None, repr(shown)))
