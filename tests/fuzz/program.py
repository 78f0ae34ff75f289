"""Random programs of keyed state: what a function does for each row, as data that can't change.

A program is a chain of segments with a restart between them. Each row says which step of its
segment it is. Results do not depend on micro-batches, except for timers and times to live.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

from tests.fuzz import values as v
from tests.fuzz.values import Type

#: How objects that were handed over are treated: left alone; changed at once; refilled for the
#: next time, as a scratch list is.
USES = ("fresh", "changed", "scratch")
STYLES = ("yield", "list", "async", "two inputs")
KINDS = ("value", "list", "map", "sorted_map", "reducing", "aggregating", "folding")
#: What folds do; in reducing state elements are lists or structs that are changed in place.
FOLDS = ("sum", "concat", "pair")


@dataclass(frozen=True)
class State:
    """A state that is declared."""

    name: str
    kind: str
    type: Type
    key: Type | None = None
    order: str = "natural"
    default: Any = None
    fold: str = ""
    ttl: tuple[str, int] | None = None

    @property
    def element(self) -> Type:
        """The type of what is added."""
        return self.type.parts[0] if self.kind in ("aggregating", "folding") else self.type

    @property
    def shown(self) -> Type:
        """The type of what is emitted of it."""
        return v.array(self.type) if self.kind == "list" else self.type


@dataclass(frozen=True)
class Op:
    """One call of a state's method, or of a timer's.

    Attributes:
        emit: whether the object that it returns is emitted as it is, not as text.
        form: how structs in `args` are built.
        use: one of `USES`, for `args` and for what is emitted.
    """

    state: int
    method: str
    args: tuple[Any, ...] = ()
    emit: bool = False
    form: str = "tuple"
    use: str = "fresh"


@dataclass(frozen=True)
class Fed:
    """A row."""

    key: int
    step: int
    time: int


@dataclass(frozen=True)
class Segment:
    """What runs from one start to the next stop.

    Attributes:
        timers: what is done when a timer fires, by its time modulo their number.
        cuts: where large micro-batches end.
    """

    states: tuple[State, ...]
    rows: tuple[Fed, ...]
    steps: dict[int, tuple[Op, ...]]
    timers: tuple[tuple[Op, ...], ...]
    partitions: int
    cuts: tuple[int, ...]

    def batches(self, by_row: bool) -> list[tuple[Fed, ...]]:
        ends = range(1, len(self.rows) + 1) if by_row else (*self.cuts, len(self.rows))
        return [self.rows[a:b] for a, b in zip((0, *ends), ends)]


@dataclass(frozen=True)
class Program:
    """Segments, and what does not change between them."""

    key: Type
    keys: tuple[Any, ...]
    style: str
    segments: tuple[Segment, ...]

    def describe(self) -> str:
        lines = [f"keys {self.key.ddl}, {self.style}"]
        for segment in self.segments:
            lines += [f"start with {segment.partitions} partitions", *map(str, segment.states)]
            lines += [f"{row} {list(segment.steps[row.step])}" for row in segment.rows]
            lines += [f"large micro-batches end before rows {segment.cuts}"]
            lines += [f"timer {i}: {ops}" for i, ops in enumerate(segment.timers)]
        return "\n  ".join(lines)


#: What a program is mostly about: how often each kind of state comes in it.
THEMES = {
    "all": (4, 3, 2, 4, 2, 2, 1),
    "order": (0, 0, 0, 1, 0, 0, 0),
    "evolution": (4, 1, 1, 1, 0, 0, 0),
    "time to live": (1, 1, 2, 3, 1, 1, 0),
}


class Generator:
    """Draws one program.

    Args:
        rows: the most in a segment.
        gentle: whether no object changes after it was handed over. By default in every other
            program, so that what is wrong there is not hidden by what such changes do.
    """

    def __init__(self, rng: random.Random, rows: int = 20, gentle: bool | None = None) -> None:
        self._rng = rng
        self._rows = rows
        self._theme = rng.choice(("all", *THEMES))
        self._gentle = rng.random() < 0.5 if gentle is None else gentle
        self._map_keys: dict[str, list[Any]] = {}
        self._time = 1000
        self._step = 0

    def program(self) -> Program:
        rng = self._rng
        key = v.random_key_type(rng) if rng.random() < 0.3 else v.LONG
        keys = v.spread(rng, key, rng.randint(1, 5))
        style = rng.choices(STYLES, (5, 2, 2, 2))[0]
        with_ttl = self._theme == "time to live" or rng.random() < 0.2
        states = tuple(self._state(i, with_ttl) for i in range(rng.randint(1, 4)))
        segments = []
        evolves = 0.9 if self._theme == "evolution" else 0.5
        for _ in range(rng.randint(2 if evolves > 0.5 else 1, 3)):
            segments.append(self._segment(states, len(keys)))
            states = tuple(self._evolved(s) if rng.random() < evolves else s for s in states)
        return Program(key, tuple(keys), style, tuple(segments))

    def _state(self, i: int, with_ttl: bool) -> State:
        rng = self._rng
        kind = rng.choices(KINDS, THEMES[self._theme])[0]
        ttl = (
            (rng.choice(("write", "read", "read")), rng.choice((30, 90, 200))) if with_ttl else None
        )
        made = State(f"{kind}{i}", kind, v.random_type(rng), ttl=ttl)
        if kind == "value":
            shapes = rng.random()
            # Structs that fields are added to, also deep inside.
            if shapes < 0.6:
                made = replace(made, type=v.struct(n=v.INT, s=v.random_struct(rng, 2)))
            if rng.random() < 0.5:
                made = replace(made, default=v.draw(made.type, rng))
        elif kind in ("map", "sorted_map"):
            order = rng.choices(("natural", "descending", "bytewise"), (1, 1, 2))[0]
            key = v.random_key_type(rng)
            made = replace(made, key=key, order=order if kind == "sorted_map" else "natural")
            self._map_keys[made.name] = v.spread(rng, key, rng.randint(2, 7))
        elif kind == "reducing":
            fold = rng.choice(FOLDS)
            lists = v.array(v.random_type(rng, 1))
            types = {"sum": v.LONG, "concat": lists, "pair": v.struct(n=v.LONG, xs=lists)}
            made = replace(made, type=types[fold], fold=fold)
        elif kind in ("aggregating", "folding"):
            made = replace(made, type=v.array(v.random_type(rng, 2)))
        return made

    def _evolved(self, state: State) -> State:
        if state.kind not in ("value", "list", "map", "sorted_map") or state.type.name != "struct":
            return state
        changed = self._evolved_struct(state.type)
        default = None if state.default is None else v.draw(changed, self._rng)
        return replace(state, type=changed, default=default)

    def _evolved_struct(self, kind: Type) -> Type:
        rng = self._rng
        fields = dict(zip(kind.fields, kind.parts))
        for name, part in list(fields.items()):
            if part.name == "struct" and rng.random() < 0.8:
                fields[name] = self._evolved_struct(part)
            elif part == v.INT and rng.random() < 0.4:
                fields[name] = v.LONG
            elif len(fields) > 1 and rng.random() < 0.15:
                del fields[name]
        if rng.random() < 0.6:
            fields[f"g{rng.randrange(10**6)}"] = v.random_type(rng, 1)
        names = list(fields)
        rng.shuffle(names)
        return v.struct(**{name: fields[name] for name in names})

    def _segment(self, states: tuple[State, ...], keys: int) -> Segment:
        rng = self._rng
        rows, steps = [], {}
        for _ in range(rng.randint(1, self._rows)):
            self._time += rng.choice((1, 1, 5, 40))
            rows.append(Fed(rng.randrange(keys), self._step, self._time))
            steps[self._step] = self._ops(states)
            self._step += 1
        timers = tuple(self._ops(states) for _ in range(rng.randint(1, 3)))
        cuts = sorted(i for i in range(1, len(rows)) if rng.random() < 0.1)
        return Segment(states, tuple(rows), steps, timers, rng.randint(1, 4), tuple(cuts))

    def _ops(self, states: tuple[State, ...]) -> tuple[Op, ...]:
        return tuple(self._op(states) for _ in range(self._rng.randint(1, 4)))

    def _op(self, states: tuple[State, ...]) -> Op:
        rng = self._rng
        if rng.random() < 0.12:
            return Op(-1, rng.choice(("register", "register", "delete")), (rng.randint(-30, 90),))
        index = rng.randrange(len(states))
        state = states[index]
        method, args = getattr(self, f"_{state.kind}")(state)
        form = rng.choice(v.FORMS)
        if self._gentle:
            return Op(index, "clear" if method == "cycle" else method, args, form=form)
        return Op(index, method, args, rng.random() < 0.5, form, rng.choice(USES))

    def _draw(self, state: State) -> Any:
        # A map's null is like no value for `get`.
        return v.draw(state.element, self._rng)

    def _pick(self, *weighted: tuple[str, int]) -> str:
        return self._rng.choices([m for m, _ in weighted], [w for _, w in weighted])[0]

    def _value(self, state: State) -> tuple[str, tuple[Any, ...]]:
        method = self._pick(("value", 4), ("update", 4), ("cycle", 4), ("clear", 1))
        return method, (self._draw(state),) if method in ("update", "cycle") else ()

    def _list(self, state: State) -> tuple[str, tuple[Any, ...]]:
        method = self._pick(
            ("get", 4), ("add", 4), ("add_all", 3), ("update", 1), ("cycle", 2), ("clear", 1)
        )
        if method == "add":
            return method, (self._draw(state),)
        if method in ("add_all", "update", "cycle"):
            return method, tuple(self._draw(state) for _ in range(self._rng.randint(0, 3)))
        return method, ()

    def _map(self, state: State) -> tuple[str, tuple[Any, ...]]:
        method = self._pick(
            ("get", 3), ("put", 6), ("put_all", 2), ("remove", 2), ("contains", 2), ("items", 2),
            ("keys", 1), ("values", 1), ("is_empty", 3), ("cycle", 3), ("clear", 1),
        )  # fmt: skip
        keys = self._map_keys[state.name]
        key = self._rng.choice(keys)
        if method in ("put", "cycle"):
            return method, (key, self._draw(state))
        if method == "put_all":
            some = self._rng.sample(keys, self._rng.randint(0, min(2, len(keys))))
            return method, tuple((each, self._draw(state)) for each in some)
        return method, (key,) if method in ("get", "remove", "contains") else ()

    def _sorted_map(self, state: State) -> tuple[str, tuple[Any, ...]]:
        rng = self._rng
        if rng.random() < 0.5:
            return self._map(state)
        method = self._pick(
            ("first_entry", 1), ("last_entry", 1), ("pop_first", 1), ("floor_entry", 1),
            ("ceiling_entry", 1), ("sub_iterator", 2), ("remove_range", 1),
        )  # fmt: skip
        keys = self._map_keys[state.name]
        if method in ("floor_entry", "ceiling_entry"):
            return method, (rng.choice(keys),)
        if method in ("sub_iterator", "remove_range"):
            bounds = [rng.choice([None, *keys]) for _ in range(2)]
            return method, (*bounds, rng.random() < 0.4) if method == "sub_iterator" else (*bounds,)
        return method, ()

    def _reducing(self, state: State) -> tuple[str, tuple[Any, ...]]:
        method = self._pick(("get", 4), ("add", 6), ("clear", 1))
        if method != "add":
            return method, ()
        value = self._rng.randint(-50, 50)
        if state.fold == "sum":
            return method, (value,)
        drawn = v.draw(state.type, self._rng, nulls=False)
        return method, ((value, drawn[1]) if state.fold == "pair" else drawn,)

    def _aggregating(self, state: State) -> tuple[str, tuple[Any, ...]]:
        method = self._pick(("get", 4), ("add", 6), ("clear", 1))
        return method, (self._draw(state),) if method == "add" else ()

    _folding = _aggregating
